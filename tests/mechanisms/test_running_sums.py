"""Histograms read off noisy running sums: exact without noise, even where it pays, left alone where it would hurt."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.mechanisms.data_aware import running_sums
from blowfishdb.mechanisms.data_aware.running_sums import PENALTY, even_runs
from blowfishdb.model.arrays import Floats, Ints


def noisy_sums(counts: Ints, scale: float, seed: int) -> tuple[Floats, float]:
    sums = np.cumsum(counts).astype(np.float64)
    noise = np.random.default_rng(seed).laplace(0, scale, counts.size - 1)
    return sums[:-1] + noise, float(sums[-1])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40))
def test_without_noise_the_cells_come_back(counts: list[int]) -> None:
    sums = np.cumsum(counts).astype(np.float64)
    found = even_runs(sums[:-1], float(sums[-1]), 1e-9)
    assert found.cells == pytest.approx(np.array(counts, dtype=np.float64), abs=1e-3)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=70), st.integers(0, 100))
def test_cells_are_counts_of_the_total_and_even_inside_their_buckets(counts: list[int], seed: int) -> None:
    sums, total = noisy_sums(np.array(counts), 5.0, seed)
    found = even_runs(sums, total, 50.0)
    assert found.cells.sum() == pytest.approx(total)
    assert found.cells.min() >= -1e-9
    assert found.starts[0] == 0
    assert np.all(np.diff(found.starts) > 0)
    for bucket in np.split(found.cells, found.starts[1:]):
        assert np.ptp(bucket) == pytest.approx(0, abs=1e-9)


def cheapest(path: Floats, penalty: float, start: int, length: int) -> float:
    """The least cost of the block from `start` on, by trying both whole and halved."""
    end = min(start + length, path.size - 1)
    step = np.arange(end - start + 1)
    _, residual, *_ = np.polyfit(step, path[start : end + 1], 1, full=True)
    whole = penalty + (float(residual[0]) if end - start > 1 and residual.size else 0.0)
    if length == 1:
        return whole
    half = length // 2
    apart = cheapest(path, penalty, start, half)
    return min(whole, apart + cheapest(path, penalty, start + half, half)) if start + half < end else min(whole, apart)


@pytest.mark.parametrize(("cells", "seed"), list(itertools.product((1, 2, 3, 7, 8, 13, 16), range(3))))
def test_the_blocks_are_the_cheapest_ones(cells: int, seed: int) -> None:
    path = np.concatenate([[0.0], np.cumsum(np.random.default_rng(seed).integers(0, 9, cells))])
    penalty = 3.0
    starts = running_sums._best_blocks(path, penalty)
    cost = 0.0
    for low, high in itertools.pairwise([*starts.tolist(), cells]):
        cost += penalty + float(running_sums._squared_residuals(path[None, low : high + 1])[0])
    length = 1
    while length < cells:
        length *= 2
    assert cost == pytest.approx(cheapest(path, penalty, 0, length))


def test_the_broken_line_is_the_nearest_one() -> None:
    rng = np.random.default_rng(2)
    sums, total, knots = rng.normal(0, 4, 19).cumsum(), 30.0, np.array([0, 3, 4, 11, 20])
    heights = running_sums._spline(sums, total, knots)
    place = np.arange(1, 20)

    def distance(inner: Floats) -> float:
        return float(np.sum((np.interp(place, knots, [0.0, *inner, total]) - sums) ** 2))

    for nudge in np.eye(3):
        assert distance(heights) < min(distance(heights + 0.01 * nudge), distance(heights - 0.01 * nudge))


def test_even_stretches_cost_far_less_than_raw_differences() -> None:
    counts = np.repeat([0, 90, 4, 0], 512)
    errors = []
    for seed in range(5):
        sums, total = noisy_sums(counts, 100.0, seed)
        found = even_runs(sums, total, 2 * 100.0**2)
        errors.append(float(np.mean((found.cells - counts) ** 2)))
        assert found.starts.size < 40
    assert np.mean(errors) < 0.01 * 4 * 100.0**2


def test_rough_counts_are_left_as_they_are() -> None:
    counts = np.random.default_rng(1).integers(0, 2000, 2048)
    sums, total = noisy_sums(counts, 100.0, 3)
    found = even_runs(sums, total, 2 * 100.0**2)
    assert found.starts.size == counts.size
    assert float(np.mean((found.cells - counts) ** 2)) < 4 * 100.0**2


def test_a_lower_penalty_would_follow_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.full(2048, 300)
    sums, total = noisy_sums(counts, 100.0, 4)
    calm = even_runs(sums, total, 2 * 100.0**2)
    monkeypatch.setattr(running_sums, "PENALTY", PENALTY / 10)
    nervous = even_runs(sums, total, 2 * 100.0**2)
    assert nervous.starts.size > 20 * calm.starts.size
