"""The published mechanisms behave: right without noise, unbiased where they should be, and as noisy as stated."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Intervals, Rectangles
from blowfishdb.plan.plan import Problem
from papers.baselines.histograms import (
    BOX_UPDATES,
    UPDATES,
    _fit,
    _starts,
    ahp,
    best_fan_out,
    consistent,
    efpa,
    hb,
    mwem,
    php,
    privelet,
    structure_first,
)
from papers.baselines.kernels import best_heads, reweigh
from papers.baselines.noise import least, one_record, release
from papers.baselines.printed_dawa import (
    First,
    PrintedDawa,
    PrintedPartition,
    Weights,
    l1_partition,
    level_weights,
    published_starts,
)

pytestmark = pytest.mark.nightly

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


def random_boxes(grid: tuple[int, int], count: int) -> Rectangles:
    ends = np.sort(np.random.default_rng(1).integers(0, 12, (count, 2, 2)), axis=2)
    return Rectangles(grid, ends[:, :, 0], ends[:, :, 1] + 1)


@pytest.mark.parametrize(
    ("workload", "times"),
    [(random_ranges(144, 9), UPDATES), (random_boxes((12, 12), 9), BOX_UPDATES)],
    ids=["intervals", "boxes"],
)
def test_mwem_fits_blocks_as_it_would_fit_every_cell(workload: Intervals | Rectangles, times: int) -> None:
    total, measured = 900.0, [float(value) for value in np.random.default_rng(2).integers(0, 900, 9)]
    rows, cells = workload.dense(), np.full(144, total / 144)
    for _ in range(times):
        for row, value in zip(rows, measured, strict=True):
            cells *= np.exp(row * (value - row @ cells) / (2 * total))
            cells *= total / cells.sum()
    found = np.full(144, total / 144)
    _fit(found, workload, list(range(9)), measured, total)
    assert found == pytest.approx(cells, rel=1e-6, abs=1e-9)
    assert not np.allclose(found, total / 144)


@pytest.mark.parametrize("workload", [random_ranges(144, 9), random_boxes((12, 12), 9)], ids=["intervals", "boxes"])
def test_mwem_survives_measurements_far_above_the_total(workload: Intervals | Rectangles) -> None:
    cells = np.full(144, 1 / 144)
    for _ in range(3):
        _fit(cells, workload, list(range(9)), [1e9 if place % 2 else -1e9 for place in range(9)], 1.0)
    assert np.all(np.isfinite(cells))
    assert cells.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("baseline", [privelet, hb], ids=["privelet", "hb"])
def test_linear_ones_are_unbiased(baseline: Callable[[Ints, Fraction, Identity], Floats]) -> None:
    errors = np.array([baseline(COUNTS, Fraction(1), Identity(64)) - COUNTS for _ in range(200)])
    deviation = errors.std(axis=0) / np.sqrt(200)
    # Student's t of 199 degrees: one of 64 means lies this far out with chance 1e-9.
    assert np.all(np.abs(errors.mean(axis=0)) < 7.5 * deviation)
    assert not np.all(np.abs((1.02 * COUNTS + errors).mean(axis=0) - COUNTS) < 7.5 * deviation)


@pytest.mark.parametrize(("baseline", "stated"), [(privelet, 195.0), (hb, 149.0)], ids=["privelet", "hb"])
def test_data_independent_ones_are_as_noisy_as_stated(baseline: Baseline, stated: float) -> None:
    counts, workload = np.zeros(4096, dtype=np.int64), random_ranges(4096, 2000)
    # Ours come out 5 % higher, with standard deviations of 12 and 10 % a release: the bound is 8 and more away.
    error = np.mean([np.abs(baseline(counts, Fraction(1, 10), workload)).mean() for _ in range(60)])
    assert error == pytest.approx(stated, rel=0.2)


def test_a_tree_without_its_root_is_better_for_ranges() -> None:
    counts, workload = np.zeros(4096, dtype=np.int64), random_ranges(4096, 500)
    with_root, without = (
        np.mean([np.abs(hb(counts, Fraction(1, 10), workload, root)).mean() for _ in range(120)])
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
    from papers.baselines.histograms import _parts

    for cells in (9, 16):
        for place in range(cells):
            one = (np.arange(cells) == place).astype(np.float64)
            parts = _parts(np.fft.rfft(one) / np.sqrt(cells), cells)
            moved = np.cumsum(np.abs(parts))[::2]
            kept = np.arange(1, parts.size + 1, 2)
            assert np.all(moved <= kept / np.sqrt(cells) + 1e-12)


def test_structure_first_serves_any_number_of_cells_and_is_right_without_noise() -> None:
    for cells in (7, 8, 100):
        assert structure_first(np.arange(cells), Fraction(1), random_ranges(cells, 20)).shape == (20,)
    workload = random_ranges(64, 200)
    assert np.abs(structure_first(COUNTS, Fraction(500), workload) - workload.dot(COUNTS)).mean() < 2


def test_one_record_moves_each_score_of_structure_first_by_what_its_noise_assumes() -> None:
    rng = np.random.default_rng(2)
    cap = 5
    worst = 0
    for _ in range(60):
        before = rng.integers(0, cap + 1, 9)
        after = before.copy()
        place = rng.integers(9)
        after[place] = min(cap, after[place] + 1)
        heads = []
        for counts in (before, after):
            sums, squares = (np.concatenate([[0], np.cumsum(values)]) for values in (counts, counts**2))
            heads.append(best_heads(sums, squares, 3))
        reached = np.abs(heads[0][:, 1:] - heads[1][:, 1:])
        worst = max(worst, int(reached.max()))
    assert cap < worst <= 2 * cap + 1


def test_structure_first_finds_the_best_heads() -> None:
    counts = np.array([4, 4, 9, 9, 9, 0, 0])
    sums, squares = (np.concatenate([[0], np.cumsum(values)]) for values in (counts, counts**2))
    heads = best_heads(sums, squares, 3)
    assert heads[2, 7] == 0
    assert heads[1, 5] == 0
    assert heads[0, 3] == 113 - 17**2 // 3


def test_its_buckets_are_good_when_its_noise_is_small() -> None:
    starts = _starts(COUNTS, 1500, Fraction(5000))
    assert {16, 32, 48} <= set(starts.tolist())


@pytest.mark.parametrize("measured", [1e6, -1e6])
def test_many_updates_far_from_a_small_total_stay_finite(measured: float) -> None:
    first, cells = np.zeros(40, dtype=np.int64), np.ones(4) / 4
    reweigh(cells, first, first + (1 if measured > 0 else 4), np.full(40, measured), 1.0, 3)
    assert np.all(np.isfinite(cells)) and cells.sum() == pytest.approx(1)


def test_mwem_learns_boxes() -> None:
    grid = np.zeros((8, 8), dtype=np.int64)
    grid[2:4, 5:7] = 1000
    rng = np.random.default_rng(1)
    ends = np.sort(rng.integers(0, 8, (60, 2, 2)), axis=2)
    boxes = Rectangles((8, 8), ends[:, :, 0], ends[:, :, 1] + 1)
    exact = boxes.dot(grid.reshape(-1))
    start = boxes.dot(np.full(64, grid.mean()))
    found = mwem(grid.reshape(-1), Fraction(200), boxes, rounds=20)
    assert np.abs(found - exact).mean() < 0.4 * np.abs(start - exact).mean()


@pytest.mark.nightly
def test_the_printed_partition_pays_for_buckets_and_costs_what_it_says() -> None:
    graph = one_record(64)
    inner = l1_partition(64, graph, Fraction(1), candidates="powers", penalty=Fraction(0), one_sided=False)
    draws = np.zeros(int(inner.offsets[-1]), dtype=np.int64)
    cheap, expensive = (PrintedPartition(inner, Fraction(cost)).choose(COUNTS, draws).size for cost in (1, 10**6))
    assert (cheap, expensive) == (4, 1)
    assert PrintedPartition(inner, Fraction(1)).epsilon(graph) == 1
    assert PrintedPartition(inner, Fraction(1)).digest() != PrintedPartition(inner, Fraction(2)).digest()


@pytest.mark.parametrize("second", ["greedy", "uniform", "geometric", "laplace", "ours"])
@pytest.mark.parametrize("first", ["powers", "all", "ours", "cells"])
def test_every_form_of_dawa_is_right_without_noise(first: First, second: Weights) -> None:
    workload = random_ranges(64, 100)
    problem = Problem(one_record(64), workload)
    found = release(PrintedDawa(first, second), problem, Fraction(200), COUNTS)
    assert np.abs(found.answers - workload.dot(COUNTS)).mean() < 1


def test_weights_of_levels() -> None:
    assert level_weights("laplace", 3).tolist() == [1, 0, 0]
    assert level_weights("uniform", 4).tolist() == [0.25] * 4
    falling = level_weights("geometric", 4)
    assert falling[:-1] / falling[1:] == pytest.approx(2 ** (1 / 3))
    assert falling.sum() == pytest.approx(1)


def test_the_published_noise_is_half_of_what_the_proof_needs() -> None:
    """On counts that are all alike the published code finds few buckets where sound noise overfits."""
    counts = np.full(256, 20)
    graph = one_record(256)
    inner = l1_partition(256, graph, Fraction(1, 10), candidates="powers", penalty=Fraction(0), one_sided=False)
    published = np.mean([published_starts(counts, Fraction(1, 10), Fraction(1, 10)).size for _ in range(20)])
    problem = Problem(graph, Identity(256))
    sound = np.mean([release(PrintedDawa(), problem, Fraction(2, 5), counts).buckets[-1] + 1 for _ in range(20)])
    assert inner.epsilon(graph) == Fraction(1, 10)
    assert 2 * published < sound
