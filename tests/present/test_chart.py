"""Charts as values: what each kind of answer becomes, and what thinning keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from blowfishdb.inference.consistency import Consistent
from blowfishdb.present.answer_values import AnswerColumn, MeasuredRows
from blowfishdb.present.chart import Detail, can_be_percent, chart_of, is_categories, natural
from tests.present.cases import QUESTIONS, constructed, on_a_line, released

FEW = Detail(bars=4, points=5, dots=3, rows=3, squares=(3, 3))
KINDS = {"histogram": "bars", "names": "bars", "cdf": "steps", "plane": "heat", "count": "number", "marginals": "dots"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_limits_hold_every_value_and_interval(name: str) -> None:
    chart = chart_of(released(name), FEW)
    low, high = chart.ends
    assert chart.kind == KINDS.get(name, chart.kind)
    for column in (chart.values, chart.low, chart.high) if chart.kind != "heat" else (chart.values,):
        assert low <= column.min()
        assert column.max() <= high
    assert chart.caption.startswith("epsilon ")


def test_thinned_marks_stand_for_all_groups() -> None:
    values = [float(place % 7) for place in range(30)]
    bars = chart_of(on_a_line(values), FEW)
    assert bars.starts == (0, 7, 15, 22)
    assert [bars.values[mark] for mark in range(4)] == [6.0] * 4
    steps = chart_of(constructed(["x"] * 30, list(range(30)), kind="cdf"), FEW)
    assert (steps.places[0], steps.places[-1], len(steps.places)) == (0, 29, 5)
    assert steps.starts == (0, *(place + 1 for place in steps.places[:-1]))
    assert steps.remark == "5 of 30 running counts, evenly spread"
    listed = chart_of(on_a_line(values), replace(FEW, listed=True))
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


MANY = Detail(bars=900, points=900, dots=900, rows=900, squares=(90, 90))
NAMES = [f"Ward {place}" for place in range(1, 201)]
COUNTS = [float((place * 37) % 211 + 300) for place in range(200)]


def test_names_that_need_room_stand_beside_bars_that_lie() -> None:
    few, many = chart_of(constructed(["a", "b"], [1.0, 2.0]), MANY), chart_of(constructed(NAMES, COUNTS), MANY)
    long = chart_of(constructed(["x" * 60, "y" * 60], [1.0, 2.0]), MANY)
    assert (few.kind, many.kind, long.kind) == ("bars", "rows", "rows")
    assert many.marks == tuple(NAMES)
    numbers = chart_of(on_a_line(COUNTS), MANY)
    assert (numbers.kind, numbers.marks[:2]) == ("bars", ("0", "1")), "a number line needs no names"


def test_categories_are_sorted_and_searched_and_keep_their_intervals() -> None:
    answer = constructed(NAMES, COUNTS)
    by_value, by_name = (chart_of(answer, MANY, order=order) for order in ("value", "name"))
    assert by_value.values.tolist() == sorted(COUNTS, reverse=True)
    assert by_name.marks == tuple(NAMES), "ward 2 comes before ward 10"
    found = chart_of(answer, MANY, order="value", matching=" WARD 20 ")
    assert set(found.marks) == {"Ward 20", "Ward 200"}
    for chart in (by_value, by_name, found):
        for mark, place in enumerate(chart.places):
            assert chart.marks[mark] == NAMES[place]
            assert chart.interval(mark) == f"{COUNTS[place] - 5:.0f} to {COUNTS[place] + 5:.0f}"
    assert chart_of(answer, MANY, matching="nobody").marks == ()
    few = chart_of(answer, FEW)
    assert few.remark == "the 3 largest of 200 values"
    assert set(few.values) == set(sorted(COUNTS)[-3:])
    small = chart_of(constructed(["b", "a", "c"], [1.0, 3.0, 2.0]), MANY, order="value")
    assert (small.groups.labels, small.marks, small.starts) == (("a", "c", "b"), ("a", "c", "b"), (0, 1, 2))


def test_only_names_are_categories() -> None:
    assert is_categories(constructed(["a", "b"], [1.0, 2.0]))
    assert is_categories(released("names"))
    assert not any(map(is_categories, (on_a_line([1.0, 2.0]), released("cdf"), released("plane"), released("count"))))
    assert not is_categories(released("marginals")), "several lists are not sorted into one"
    assert sorted(["b10", "B2", "a"], key=natural) == ["a", "B2", "b10"]


def test_percent_of_a_public_total_has_the_counts_intervals() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    known = MeasuredRows(nothing, nothing, 100.0)
    answer = replace(constructed(["a", "b", "c"], [10.0, 30.0, 60.0]), measured=known)
    chart = chart_of(answer, MANY, percent=True)
    assert chart.values.tolist() == [10.0, 30.0, 60.0]
    assert chart.low == pytest.approx([5.0, 25.0, 55.0])
    assert chart.high == pytest.approx([15.0, 35.0, 65.0])
    assert chart.half_width == 5.0
    assert chart.measure.name == "percent of the records"


def test_percent_of_an_unknown_total_holds_every_share_that_the_intervals_allow() -> None:
    chart = chart_of(constructed(["a", "b", "c"], [10.0, 30.0, 60.0]), MANY, percent=True)
    assert chart.half_width is None
    corners = np.array([[low, b, c] for low in (5.0, 15.0) for b in (25.0, 35.0) for c in (55.0, 65.0)])
    shares = 100.0 * corners / corners.sum(axis=1, keepdims=True)
    assert chart.low == pytest.approx(shares.min(axis=0)), "no narrower interval holds all of them"
    assert chart.high == pytest.approx(shares.max(axis=0))
    assert chart.values == pytest.approx([10.0, 30.0, 60.0])
    empty = chart_of(constructed(["a", "b"], [0.0, 0.0], width=0.0), MANY, percent=True)
    assert (empty.low.tolist(), empty.high.tolist()) == ([0.0, 0.0], [100.0, 100.0]), "of nothing any share may be"


def test_only_counts_of_one_division_have_percentages() -> None:
    assert can_be_percent(released("names"))
    assert can_be_percent(released("plane"))
    assert not any(can_be_percent(released(name)) for name in ("cdf", "ranges", "marginals", "count"))
    chart = chart_of(released("cdf"), MANY, percent=True)
    assert chart.values.tolist() == released("cdf").values.tolist()
    plane = chart_of(released("plane"), MANY, percent=True)
    assert plane.values.sum() == pytest.approx(100.0)


def test_a_single_number_is_told_with_its_interval() -> None:
    chart = chart_of(constructed(["all"], [1234.0], kind="count"), MANY)
    assert (chart.value(0), chart.number_words) == ("1,234", "between 1,229 and 1,239, with 95 % confidence")
    exact = constructed(["all"], [7.0], width=0.0, kind="count")
    sure = replace(exact, certificate=replace(exact.certificate, epsilon=exact.certificate.epsilon * 0))
    assert chart_of(sure, MANY).number_words == "exact"


def test_squares_within_the_noise_are_marked_and_no_others() -> None:
    answer = released("plane")
    assert chart_of(answer, MANY).noise_words == ""
    numbers = answer.raw.copy()
    numbers[[3, 7]] = 20.0, 61.0
    quiet = replace(answer, raw=numbers, consistent=Consistent(numbers, True, ""))
    chart = chart_of(quiet, MANY)
    assert np.flatnonzero(chart.in_noise).tolist() == [3], "61 ± 60 is above 0 for certain"
    assert chart.noise_words == "dotted: within the noise of ± 60, perhaps 0"
    assert chart.square(0, 3).endswith("(0 to 80), within the noise")
    summed = chart_of(quiet, FEW)
    assert not summed.in_noise.any(), "sums of cells lie between the sums of their ends"
    assert summed.high.sum() == pytest.approx(quiet.bounds.high.sum())


def test_a_heat_map_tells_the_width_of_its_intervals_dotted_or_not() -> None:
    answer = released("plane")
    chart, summed = chart_of(answer, MANY), chart_of(answer, FEW)
    assert (chart.noise_words, chart.interval_words) == ("", "intervals ± 60")
    assert chart.interval_part == pytest.approx(120.0 / (chart.ends[1] - chart.ends[0]))
    assert summed.interval_words.startswith("intervals up to ± "), "sums of more cells have wider intervals"
    assert summed.interval_part * (summed.ends[1] - summed.ends[0]) == pytest.approx((summed.high - summed.low).max())


def test_rows_of_squares_that_have_names_are_not_added_up_where_a_picture_may_grow() -> None:
    answer = released("plane")
    table = answer.tables[0]
    turned = replace(answer, tables=(replace(table, axes=(replace(table.axes[0], edges=()), table.axes[1])),))
    grown = chart_of(turned, replace(FEW, named=400))
    assert grown.rows.labels == tuple(table.axes[0].labels)
    assert grown.rows.listed
    assert len(chart_of(turned, FEW).rows.labels) < len(grown.rows.labels)


def test_shares_are_drawn_as_bars_from_zero_and_means_are_not() -> None:
    counts = constructed(["a", "b"], [20.0, 80.0])
    share = replace(counts, kind="table", columns=(AnswerColumn("percent", "share"),))
    mean = replace(share, columns=(AnswerColumn("mean_cost", "mean"),))
    assert [chart_of(one, MANY).kind for one in (share, mean)] == ["bars", "dots"]
    assert chart_of(share, MANY).ends[0] == 0.0
    assert chart_of(mean, MANY).ends[0] > 0.0
