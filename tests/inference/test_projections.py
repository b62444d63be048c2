"""Isotonic and total-keeping projections against oracles that search everything."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from blowfishdb.errors import InvalidInput
from blowfishdb.inference import consistency as module
from blowfishdb.inference.consistency import Parts, fill_parts, isotonic_in_band, nonnegative, unreachable
from tests.effort import effort

Vector = np.ndarray[Any, np.dtype[np.float64]]
numbers = st.integers(-8, 8).map(float)


def best_by_blocks(values: Vector, low: Vector, high: Vector) -> float:
    """The least cost over all ways to cut the sequence into constant blocks."""
    size, best = len(values), np.inf
    for cuts in range(2 ** (size - 1)):
        edges = [0, *(i + 1 for i in range(size - 1) if cuts >> i & 1), size]
        levels, cost = [-np.inf], 0.0
        for a, b in itertools.pairwise(edges):
            floor, ceiling = low[a:b].max(), high[a:b].min()
            if floor > ceiling:
                break
            level = min(max(float(np.average(values[a:b])), floor), ceiling)
            cost += float(((level - values[a:b]) ** 2).sum())
            levels.append(level)
        else:
            if np.all(np.diff(levels[1:]) >= 0):
                best = min(best, cost)
    return best


@st.composite
def bands(draw: Any) -> tuple[Vector, Vector, Vector]:
    size = draw(st.integers(1, 7))
    values = np.array(draw(st.lists(numbers, min_size=size, max_size=size)))
    low = np.sort(draw(st.lists(numbers, min_size=size, max_size=size)))
    rise = np.array(draw(st.lists(st.integers(0, 4).map(float), min_size=size, max_size=size)))
    return values, low, np.maximum.accumulate(low + rise)


@effort(200)
@given(bands())
def test_regression_in_a_band_has_the_least_cost(band: tuple[Vector, Vector, Vector]) -> None:
    values, low, high = band
    found = isotonic_in_band(values, low, high)
    assert np.all(np.diff(found) >= 0)
    assert np.all(found >= low)
    assert np.all(found <= high)
    cost = float(((found - values) ** 2).sum())
    assert cost == pytest.approx(best_by_blocks(values, low, high), abs=1e-9)


@given(bands(), numbers, st.integers(0, 6))
def test_one_bound_for_all_is_a_special_band(band: Any, low: float, width: int) -> None:
    values, _, _ = band
    free = np.clip(isotonic_regression(values).x, low, low + width)
    assert np.allclose(free, isotonic_in_band(values, low, low + width), atol=1e-9)


def test_clipping_the_free_solution_would_not_be_optimal() -> None:
    values, low, high = np.array([10.0, 0.0]), np.array([-np.inf, 6.0]), np.full(2, np.inf)
    assert isotonic_regression(values).x.tolist() == [5.0, 5.0]
    assert isotonic_in_band(values, low, high).tolist() == [6.0, 6.0]


def test_the_compiled_loop_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    values = np.cumsum(draw.normal(size=3000))
    low = np.maximum.accumulate(values - 1.0)
    high = np.maximum(low, np.minimum.accumulate((values + 1.0)[::-1])[::-1])
    high = np.maximum.accumulate(high)
    plain = isotonic_in_band(values, low, high)
    monkeypatch.setattr(module, "COMPILE_ABOVE", 0)
    assert np.array_equal(isotonic_in_band(values, low, high), plain)
    assert not np.array_equal(isotonic_regression(values).x, plain)


@pytest.mark.parametrize(
    ("low", "high"),
    [([0.0, 1.0], [0.0, 0.5]), ([1.0, 0.0], [2.0, 2.0]), ([0.0, 0.0], [2.0, 1.0]), ([0.0, np.nan], [2.0, 2.0])],
)
def test_a_band_that_is_none_is_refused(low: list[float], high: list[float]) -> None:
    with pytest.raises(InvalidInput):
        isotonic_in_band([0.0, 1.0], low, high)


def test_bad_vectors_and_bounds_are_refused() -> None:
    for values in ([np.nan], [[1.0]], [np.inf]):
        with pytest.raises(InvalidInput):
            isotonic_in_band(values, -np.inf, np.inf)
    for low in ([1.0, 1.0], [2.0]):
        with pytest.raises(InvalidInput):
            isotonic_in_band([1.0], low, [1.0])
    assert isotonic_in_band([], [], []).size == 0


@st.composite
def boxes(draw: Any) -> tuple[Vector, Vector, Vector, float]:
    size = draw(st.integers(1, 7))
    values = np.array(draw(st.lists(numbers, min_size=size, max_size=size)))
    below = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 6.0, np.inf]), min_size=size, max_size=size))
    above = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 6.0, np.inf]), min_size=size, max_size=size))
    low = np.maximum(values - np.array(below), 0.0)
    high = np.maximum(values + np.array(above), low)
    place = draw(st.floats(0.0, 1.0))
    least, most = float(low.sum()), min(float(high.sum()), 60.0)
    return values, low, high, min(max(least + place * (most - least), least), most)


def by_bisection(values: Vector, low: Vector, high: Vector, total: float) -> Vector:
    under, over = -1e4, 1e4
    for _ in range(200):
        middle = (under + over) / 2
        if np.clip(values - middle, low, high).sum() > total:
            under = middle
        else:
            over = middle
    return np.clip(values - over, low, high)


@effort(100)
@given(st.lists(boxes(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_filling_equals_bisection(boxes: list[tuple[Vector, Vector, Vector, float]], shuffle: Any) -> None:
    labels = np.repeat(np.arange(len(boxes)), [box[0].size for box in boxes])
    order = np.array(shuffle.sample(range(labels.size), labels.size))
    values, low, high = (np.concatenate([box[place] for box in boxes])[order] for place in range(3))
    found = fill_parts(Parts.of(labels[order], np.array([box[3] for box in boxes])), values, low, high)
    assert np.all(found >= low)
    assert np.all(found <= high)
    for part, box in enumerate(boxes):
        mine = found[np.argsort(order)][labels == part]
        assert mine.sum() == pytest.approx(box[3], abs=1e-9)
        assert np.allclose(mine, by_bisection(*box), atol=1e-8)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
def test_many_cells_are_filled_as_few_are(share: float) -> None:
    """The level lies among few break points of many; where all cells are alike, none lies between two looked at."""
    chance = np.random.default_rng(18)
    for values in (chance.normal(1.0, 20.0, 5000), np.repeat([3.0, 7.0], 2500)):
        width = chance.choice([0.0, 5.0, 60.0], values.size)
        low, high = np.maximum(values - width, 0.0), np.maximum(values + width, 0.0)
        total = float(low.sum() + share * (high.sum() - low.sum()))
        labels = np.zeros(values.size, dtype=np.int64)
        filled = fill_parts(Parts.of(labels, np.array([total])), values, low, high)
        assert np.all(filled >= low) and np.all(filled <= high)
        assert filled.sum() == pytest.approx(total, rel=1e-12)
        assert np.allclose(filled, by_bisection(values, low, high, total), atol=1e-8)


def test_a_total_out_of_reach_is_noticed() -> None:
    one, labels = np.ones(2), np.zeros(2, dtype=np.int64)
    for total, is_out in ((-0.1, True), (0.0, False), (2.0, False), (2.1, True)):
        assert unreachable(Parts.of(labels, np.array([total])), one, 0 * one, one).tolist() == [is_out]


@given(st.lists(numbers, min_size=1, max_size=8), st.integers(0, 30))
def test_counts_keep_the_total_and_lose_the_negatives(values: list[float], total: int) -> None:
    counts = nonnegative(values, total)
    assert counts.min() >= 0
    assert counts.sum() == pytest.approx(total, abs=1e-9)
    # The nearest point moves all positive counts alike and leaves nothing negative behind.
    moved = (counts - np.array(values))[counts > 0]
    assert np.ptp(moved) < 1e-9 if moved.size else True
    own = nonnegative(values)
    assert own.sum() == pytest.approx(max(0.0, sum(values)), abs=1e-9)


def test_no_counts_and_bad_totals() -> None:
    assert nonnegative([]).size == 0
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidInput):
            nonnegative([1.0], bad)
    with pytest.raises(InvalidInput):
        nonnegative([], 3.0)


def test_a_million_values() -> None:
    draw = np.random.default_rng(6)
    values = draw.normal(size=10**6) * 5
    counts = nonnegative(values, 10**6)
    assert counts.sum() == pytest.approx(10**6, rel=1e-12)
    assert np.all(np.diff(isotonic_in_band(np.cumsum(values), -np.inf, np.inf)) >= 0)
