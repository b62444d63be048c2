"""Charts as values: what each kind of answer becomes, and what thinning keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from blowfishdb.present.chart import Detail, chart_of
from tests.present.cases import QUESTIONS, constructed, released

FEW = Detail(bars=4, points=5, dots=3, squares=(3, 3))
KINDS = {"histogram": "bars", "names": "bars", "cdf": "steps", "plane": "heat", "count": "dots", "marginals": "dots"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_limits_hold_every_value_and_interval(name: str) -> None:
    chart = chart_of(released(name), FEW)
    low, high = chart.ends
    assert chart.kind == KINDS.get(name, chart.kind)
    for column in (chart.values, chart.low, chart.high):
        assert low <= column.min()
        assert column.max() <= high
    assert chart.caption.startswith("epsilon ")


def test_thinned_marks_stand_for_all_groups() -> None:
    values = [float(place % 7) for place in range(30)]
    bars = chart_of(constructed([str(place) for place in range(30)], values), FEW)
    assert bars.starts == (0, 7, 15, 22)
    assert [bars.values[mark] for mark in range(4)] == [6.0] * 4
    steps = chart_of(constructed(["x"] * 30, list(range(30)), kind="cdf"), FEW)
    assert (steps.places[0], steps.places[-1], len(steps.places)) == (0, 29, 5)
    assert steps.starts == (0, *(place + 1 for place in steps.places[:-1]))
    assert steps.remark == "5 of 30 running counts, evenly spread"
    listed = chart_of(constructed(["x"] * 30, values), replace(FEW, listed=True))
    assert listed.remark == "the 4 largest of 30 values"


def test_squares_add_up_their_cells_and_keep_the_total() -> None:
    answer = released("plane")
    chart = chart_of(answer, FEW)
    assert chart.values.sum() == pytest.approx(answer.values.sum())
    assert chart.half_width is None
    assert "cells" in chart.remark
    assert chart_of(answer, replace(FEW, squares=(9, 9))).half_width == answer.widths.simultaneous


def test_sections_begin_where_their_marks_do() -> None:
    answer = released("marginals")
    assert list(chart_of(answer, replace(FEW, dots=99)).sections) == [0, 5]
    assert np.array_equal(chart_of(answer, replace(FEW, dots=99), raw=True).values, answer.raw)
