"""The published mechanisms behave: right without noise, unbiased where they should be, and as noisy as stated."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Identity, Intervals
from blowfishdb.reproduce.baselines.ahp import ahp
from blowfishdb.reproduce.baselines.drawing import least
from blowfishdb.reproduce.baselines.efpa import efpa
from blowfishdb.reproduce.baselines.hb import best_fan_out, consistent, hb
from blowfishdb.reproduce.baselines.mwem import mwem
from blowfishdb.reproduce.baselines.php import php
from blowfishdb.reproduce.baselines.privelet import privelet

Baseline = Callable[[Ints, Fraction, Intervals], Floats]
COUNTS = np.repeat([400, 0, 90, 1500], 16)


def random_ranges(cells: int, count: int, seed: int = 0) -> Intervals:
    ends = np.sort(np.random.default_rng(seed).integers(0, cells, (count, 2)), axis=1)
    return Intervals(cells, ends[:, 0], ends[:, 1] + 1)


@pytest.mark.parametrize("baseline", [privelet, hb, php, efpa, ahp], ids=lambda each: each.__name__)
def test_with_hardly_any_noise_the_answers_are_right(baseline: Baseline) -> None:
    workload = random_ranges(64, 200)
    found = baseline(COUNTS, Fraction(500), workload)
    assert np.abs(found - workload.dot(COUNTS)).mean() < 2


def test_mwem_learns_the_ranges_it_measures() -> None:
    workload = random_ranges(64, 100)
    exact = workload.dot(COUNTS)
    start = workload.dot(np.full(64, COUNTS.mean()))
    found = mwem(COUNTS, Fraction(200), workload, rounds=30)
    assert np.abs(found - exact).mean() < 0.15 * np.abs(start - exact).mean()


@pytest.mark.parametrize("baseline", [privelet, hb], ids=["privelet", "hb"])
def test_linear_ones_are_unbiased(baseline: Callable[[Ints, Fraction, Identity], Floats]) -> None:
    errors = np.array([baseline(COUNTS, Fraction(1), Identity(64)) - COUNTS for _ in range(150)])
    deviation = errors.std(axis=0) / np.sqrt(150)
    assert np.all(np.abs(errors.mean(axis=0)) < 5 * deviation)


@pytest.mark.parametrize(("baseline", "stated"), [(privelet, 195.0), (hb, 149.0)], ids=["privelet", "hb"])
def test_data_independent_ones_are_as_noisy_as_stated(baseline: Baseline, stated: float) -> None:
    counts, workload = np.zeros(4096, dtype=np.int64), random_ranges(4096, 2000)
    error = np.mean([np.abs(baseline(counts, Fraction(1, 10), workload)).mean() for _ in range(25)])
    assert error == pytest.approx(stated, rel=0.12)


def test_a_tree_without_its_root_is_better_for_ranges() -> None:
    counts, workload = np.zeros(4096, dtype=np.int64), random_ranges(4096, 500)
    with_root, without = (
        np.mean([np.abs(hb(counts, Fraction(1, 10), workload, root)).mean() for _ in range(15)])
        for root in (True, False)
    )
    assert without < with_root


def test_the_tree_is_fitted_by_least_squares() -> None:
    rng = np.random.default_rng(4)
    measured = [rng.normal(size=size) for size in (9, 3, 1)]
    rows = np.concatenate([np.kron(np.eye(3**k), np.ones(3 ** (2 - k))) for k in (2, 1, 0)])
    expected = np.linalg.lstsq(rows, np.concatenate(measured), rcond=None)[0]
    assert consistent(measured, 3) == pytest.approx(expected)


def test_the_fan_out_for_4096_cells_is_the_published_one() -> None:
    assert best_fan_out(4096) == 16


@pytest.mark.parametrize("cells", [7, 8, 100])
@pytest.mark.parametrize("baseline", [privelet, hb, php, efpa, ahp, mwem], ids=lambda each: each.__name__)
def test_any_number_of_cells_is_served(baseline: Baseline, cells: int) -> None:
    workload = random_ranges(cells, 20)
    assert baseline(np.arange(cells), Fraction(1), workload).shape == (20,)


def test_the_private_choice_is_the_least_cost_up_to_its_noise() -> None:
    costs = np.array([50.0, 0.0, 3.0, 80.0])
    picks = np.array([least(costs, 1, Fraction(1)) for _ in range(600)])
    assert np.mean(picks == 1) > 0.6
    assert 0.02 < np.mean(picks == 2) < 0.35
    assert np.mean((picks == 0) | (picks == 3)) < 0.01


def test_one_record_moves_the_kept_fourier_parts_by_what_their_noise_assumes() -> None:
    from blowfishdb.reproduce.baselines.efpa import _parts

    for cells in (9, 16):
        for place in range(cells):
            one = (np.arange(cells) == place).astype(np.float64)
            parts = _parts(np.fft.rfft(one) / np.sqrt(cells), cells)
            moved = np.cumsum(np.abs(parts))[::2]
            kept = np.arange(1, parts.size + 1, 2)
            assert np.all(moved <= kept / np.sqrt(cells) + 1e-12)
