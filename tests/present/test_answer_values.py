"""Intervals are cut by what is known of counts, and never lose the truth."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.present.answer_values import Bounds, around, of_counts, of_running_counts

ERRORS = st.lists(st.floats(-1, 1), min_size=1, max_size=12)


@given(ERRORS, st.floats(0.1, 50), st.data())
def test_truth_inside_all_intervals_stays_inside(errors: list[float], width: float, data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(0, 30), min_size=len(errors), max_size=len(errors)))
    truth = np.cumsum(steps).astype(float)
    full = around(truth + width * np.array(errors), width)
    cut = of_running_counts(of_counts(full), truth.size)
    assert np.all(cut.low <= truth + 1e-9)
    assert np.all(truth <= cut.high + 1e-9)
    assert np.all(cut.high - cut.low <= full.high - full.low + 1e-9)
    assert np.all(np.diff(cut.low) >= 0)
    assert np.all(np.diff(cut.high) >= 0)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 9)), min_size=1, max_size=8))
def test_truth_outside_stays_outside(pairs: list[tuple[float, float]]) -> None:
    """Cutting never claims more than the joint statement: a truth outside the box stays outside the cut one."""
    low, wide = (np.array(column) for column in zip(*pairs, strict=True))
    full = Bounds(low, low + wide)
    truth = np.maximum.accumulate(np.abs(low) + 10.0)
    assert not np.all((full.low <= truth) & (truth <= full.high))
    cut = of_running_counts(of_counts(full), truth.size)
    assert not np.all((cut.low <= truth) & (truth <= cut.high))


def test_intervals_that_contradict_each_other_are_left_alone() -> None:
    crossed = Bounds(np.array([10.0, 0.0]), np.array([12.0, 5.0]))
    assert of_running_counts(crossed, 2) is crossed


def test_special_cells_beside_the_order_are_not_cut() -> None:
    cut = of_running_counts(Bounds(np.array([3.0, 1.0, 0.0]), np.array([9.0, 8.0, 2.0])), 2)
    assert cut.low.tolist() == [3.0, 3.0, 0.0]
    assert cut.high.tolist() == [8.0, 8.0, 2.0]


def test_an_interval_without_a_count_is_shown_as_it_is() -> None:
    shown = of_counts(Bounds(np.array([-9.0, -2.0]), np.array([-3.0, 4.0])))
    assert shown.low.tolist() == [-9.0, 0.0]
    assert shown.high.tolist() == [-3.0, 4.0]
