"""Consistent answers stay inside the raw box, meet what is known, or are the raw answers and say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from blowfishdb.errors import InvalidInput
from blowfishdb.inference.consistency import (
    Consistent,
    consistent_cdf,
    consistent_counts,
    consistent_histogram,
    nonnegative,
)
from tests.effort import effort

Vector = np.ndarray[Any, np.dtype[np.float64]]


@st.composite
def answers(draw: Any) -> tuple[Vector, Vector, int | None]:
    size = draw(st.integers(1, 8))
    raw = np.array(draw(st.lists(st.integers(-6, 15), min_size=size, max_size=size)), dtype=float)
    widths = np.array(draw(st.lists(st.integers(0, 7), min_size=size, max_size=size)), dtype=float)
    return raw, widths, draw(st.none() | st.integers(0, 60))


def in_box(found: Consistent, raw: Vector, widths: Vector) -> bool:
    return bool(np.all(found.values >= raw - widths) and np.all(found.values <= raw + widths))


@effort(300)
@given(answers())
def test_a_histogram_stays_in_the_box_or_is_raw(case: tuple[Vector, Vector, int | None]) -> None:
    raw, widths, total = case
    found = consistent_histogram(raw, widths, total)
    low, high = np.maximum(raw - widths, 0.0), raw + widths
    possible = bool(np.all(high >= 0)) and (total is None or low.sum() <= total <= high.sum())
    assert found.feasible == possible
    assert in_box(found, raw, widths)
    if not possible:
        assert np.array_equal(found.values, raw)
        assert "raw answers returned" in found.note
        return
    assert found.note == ""
    assert found.values.min() >= 0
    if total is not None:
        assert found.values.sum() == pytest.approx(total, abs=1e-9)


@effort(300)
@given(answers())
def test_a_cdf_stays_in_the_box_or_is_raw(case: tuple[Vector, Vector, int | None]) -> None:
    raw, widths, total = case
    found = consistent_cdf(raw, widths, total)
    top = np.inf if total is None else total
    # Pushing every value as low as the box and its predecessor allow finds a feasible sequence if there is one.
    level, possible = 0.0, True
    for value, width in zip(raw, widths, strict=True):
        level = max(level, value - width)
        possible = possible and level <= min(value + width, top)
    assert found.feasible == possible
    assert in_box(found, raw, widths)
    if not possible:
        assert np.array_equal(found.values, raw)
        assert "raw answers returned" in found.note
        return
    assert np.all(np.diff(found.values) >= 0)
    assert found.values.min() >= 0
    assert found.values.max() <= top


@effort(200)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(0, 6), st.data())
def test_order_and_sign_never_enlarge_the_largest_error(cells: list[int], width: int, data: st.DataObject) -> None:
    """Given that the truth is in the box, as it is with probability 1 - beta."""
    noise = data.draw(st.lists(st.integers(-width, width), min_size=len(cells), max_size=len(cells)))
    counts = np.array(cells, dtype=float)
    for truth, make in ((counts, consistent_counts), (np.cumsum(counts), consistent_cdf)):
        raw = truth + np.array(noise)
        found = make(raw, width)
        assert found.feasible
        assert np.abs(found.values - truth).max() <= np.abs(raw - truth).max() + 1e-9
    cumulated = np.cumsum(counts)
    bounded = consistent_cdf(cumulated + np.array(noise), width, total=counts.sum())
    assert np.abs(bounded.values - cumulated).max() <= np.abs(np.array(noise)).max() + 1e-9


def test_free_projection_can_double_the_largest_error() -> None:
    cells, width = 200, 10.0
    truth = np.zeros(cells)
    truth[0] = 1000.0
    raw = truth + width
    raw[0] = truth[0] - width
    free = nonnegative(raw, truth.sum())
    assert np.abs(raw - truth).max() == width
    assert np.abs(free - truth).max() > 1.98 * width
    # No rule does better when the total must be met: see docs/proofs/consistency.md. The raw interval still holds
    # both the truth and the consistent answer.
    found = consistent_histogram(raw, width, truth.sum())
    assert found.feasible
    assert in_box(found, raw, np.full(cells, width))


def test_free_projection_spoils_precise_answers_and_the_box_protects_them() -> None:
    truth = np.array([50.0, 0.0, 0.0, 0.0])
    widths = np.array([1.0, 20.0, 20.0, 20.0])
    raw = np.array([50.5, 20.0, 20.0, 20.0])
    free = nonnegative(raw, truth.sum())
    assert abs(free[0] - truth[0]) > 10 * widths[0]
    found = consistent_histogram(raw, widths, truth.sum())
    assert found.feasible
    assert in_box(found, raw, widths)
    steps, narrow = np.array([30.0, 10.0, 10.5]), np.array([25.0, 1.0, 1.0])
    assert abs(isotonic_regression(steps).x[1] - steps[1]) > 5 * narrow[1]
    assert in_box(consistent_cdf(steps, narrow), steps, narrow)


def test_exact_answers_are_never_changed() -> None:
    raw, widths = np.array([4.0, 3.0, 9.0]), np.array([2.0, 0.0, 0.0])
    assert consistent_cdf(raw, widths, total=9).values.tolist() == [3.0, 3.0, 9.0]
    histogram = consistent_histogram(raw, widths, total=15)
    assert histogram.values.tolist() == [3.0, 3.0, 9.0]


def test_answers_without_an_interval_move_freely() -> None:
    raw, widths = np.array([-5.0, 8.0]), np.array([np.inf, 1.0])
    found = consistent_histogram(raw, widths, total=10)
    assert found.values.sum() == pytest.approx(10)
    assert 7.0 <= found.values[1] <= 9.0


@pytest.mark.parametrize("make", [consistent_counts, consistent_histogram, consistent_cdf])
def test_senseless_input_is_refused(make: Callable[..., Consistent]) -> None:
    for raw, widths in (([np.nan], 1.0), ([1.0], -1.0), ([1.0], np.nan), ([1.0], [1.0, 2.0]), ([[1.0]], 1.0)):
        with pytest.raises(InvalidInput):
            make(raw, widths)


@pytest.mark.parametrize("make", [consistent_histogram, consistent_cdf])
@pytest.mark.parametrize("total", [-1.0, np.nan, np.inf])
def test_a_senseless_total_is_refused(make: Callable[..., Consistent], total: float) -> None:
    with pytest.raises(InvalidInput):
        make([1.0], 1.0, total)
