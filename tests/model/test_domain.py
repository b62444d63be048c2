"""Attributes: sizes, indices, cut points, labels, reading raw columns without ever raising; numbers are exact."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import DomainError, InvalidInput, QueryError
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.domain import Attribute, Domain, bins, categorical, domain, integers
from blowfishdb.model.numbers import exact, show
from tests.effort import effort

COLUMNS: list[Attribute] = [
    categorical(["a", "b", "c"]),
    categorical(["a", "b", "other"], outside="other"),
    categorical([1, 5, 9], ordered=True, null=5),
    categorical([False, True]),
    integers(-3, 10),
    integers(0, 10**12, null=7, outside="cell"),
    bins(0, 1, width="0.1"),
    bins(edges=[0, "0.3", 7, 7.5], outside="cell", outside_public=True, null_public=True),
    dates("2020-01-15", "2021-03-02"),
    dates("2020-01-15", "2021-03-02", "week", null="2020-02-01"),
    dates("1960-01-15", "2021-03-02", "month"),
    dates("1960-01-15", "2021-03-02", "quarter", outside="cell"),
    dates("1960-01-15", "2021-03-02", "year"),
    timestamps("2020-01-01", "2020-01-09T12:30", "minute"),
    timestamps("1969-12-31T23:00", "1970-01-03", "hour", outside="cell"),
]
ODD: list[Any] = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "x",
    "1e999",
    "-3",
    "0.1",
    10**40,
    -(10**40),
    1e308,
    b"b",
    [],
    {},
]
ODD += [
    object(),
    True,
    3.7,
    Decimal("NaN"),
    Decimal("1e-500"),
    Decimal("-Infinity"),
    1 + 2j,
    "2020-02-30",
    "2020-02-28",
]
ODD += [
    datetime.date.min,
    datetime.datetime.max,
    np.datetime64("NaT"),
    datetime.datetime.min.replace(tzinfo=datetime.UTC),
]
ODD += [
    "0001-01-01T00:00:00+23:00",
    np.float32(2),
    np.int8(3),
    datetime.timedelta(1),
    (1, 2),
    "9999-12-31T23:59:59-23:00",
]


@pytest.mark.parametrize("attribute", COLUMNS)
def test_odd_data_never_raise_and_always_land_somewhere(attribute: Attribute) -> None:
    column = np.empty(len(ODD), dtype=object)
    column[:] = ODD
    allowed = {slot.code for slot in attribute.slots}
    for code in attribute.encode(column).tolist():
        assert 0 <= code < attribute.size or code in allowed
    arrays = [np.array([np.nan, np.inf, -np.inf, 1e300, 0.5]), np.array([2**64 - 1, 0], dtype=np.uint64)]
    arrays += [
        np.array([-(2**63), 2**63 - 1]),
        np.array([True, False]),
        np.array(["a", "zz"]),
        np.array([], dtype=float),
    ]
    arrays += [
        np.array(["NaT", "1600-01-01", "2400-01-01"], dtype=f"datetime64[{unit}]") for unit in ("D", "s", "us", "M")
    ]
    for array in arrays:
        for code in attribute.encode(array).tolist():
            assert 0 <= code < attribute.size or code in allowed


def test_integers_are_clamped_or_set_apart() -> None:
    raw = [-5, 0, 3, 10, 11, None, "7", 3.99]
    assert integers(0, 10).encode(raw).tolist() == [0, 0, 3, 10, 10, 11, 7, 3]
    assert integers(0, 10, outside="cell", null=2).encode(raw).tolist() == [12, 0, 3, 10, 12, 2, 7, 3]
    assert integers(0, 10).encode(np.array([-5.0, np.nan, 10.5, 4.2])).tolist() == [0, 11, 10, 4]


def test_unlisted_values_are_set_apart_or_counted_as_one_of_the_list() -> None:
    raw = ["a", "z", None, 5]
    assert categorical(["a", "b"]).encode(raw).tolist() == [0, 3, 2, 3]
    assert categorical(["a", "b"], outside="b", null="a").encode(raw).tolist() == [0, 1, 0, 1]


def test_a_range_of_a_million_million_costs_nothing() -> None:
    wide = integers(0, 10**12)
    assert wide.size == 10**12 + 1
    assert wide.encode(np.array([10**12, 5])).tolist() == [10**12, 5]
    assert domain({f"c{i}": wide for i in range(15)}).size == (10**12 + 2) ** 15


@given(st.integers(-50, 50), st.sampled_from(["0.1", "0.25", "1/8", "0.3", "7"]), st.integers(1, 60), st.data())
@effort(80)
def test_decimal_values_fall_where_exact_arithmetic_puts_them(
    low: int, width: str, count: int, data: st.DataObject
) -> None:
    step = Fraction(width)
    column = bins(low, low + count * step, width=width)
    places = data.draw(st.lists(st.integers(-3, 2 * count + 3), min_size=1, max_size=20))
    # Values on edges and half-way between them, as the doubles nearest to them.
    raw = [low + step * place / 2 for place in places]
    wanted = [min(max(place // 2, 0), count - 1) for place in places]
    assert column.encode(np.array([float(value) for value in raw])).tolist() == wanted
    same = bins(edges=[low + k * step for k in range(count + 1)])
    assert same.encode([float(value) for value in raw]).tolist() == wanted


def test_fine_bins_far_from_zero_are_exact() -> None:
    column = bins(10**9, 10**9 + 1000, width="0.001")
    index = np.arange(0, 10**6, 997)
    assert column.encode((10**12 + index) / 1000).tolist() == index.tolist()


def test_dates_by_every_unit() -> None:
    days = np.array(["2020-02-29", "2020-03-01", "2019-12-31", "2022-01-01", "NaT"], dtype="datetime64[D]")
    wanted = {
        "day": [59, 60, 0, 730, 731],
        "week": [8, 8, 0, 104, 105],
        "month": [1, 2, 0, 23, 24],
        "quarter": [0, 0, 0, 7, 8],
        "year": [0, 0, 0, 1, 2],
    }
    for unit, codes in wanted.items():
        column = dates("2020-01-01", "2021-12-31", unit)
        assert column.encode(days).tolist() == codes, unit
        assert column.encode([None if np.isnat(d) else d.item() for d in days]).tolist() == codes, unit
        assert column.encode([str(d) for d in days]).tolist() == codes, unit
    assert dates("2020-01-01", "2021-12-31", "month").encode(["2020-02-29 13:00:00"]).tolist() == [1]


def test_timestamps_are_wall_clock_time_of_their_zone() -> None:
    column = timestamps("2020-01-01", "2020-01-03", "hour")
    aware = datetime.datetime(2020, 1, 1, 5, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert column.encode([aware, "2020-01-01T05:30", "2020-01-01T05:30+01:00"]).tolist() == [3, 5, 4]
    raw = np.array(["2020-01-01T23:59:59.999", "2020-01-03T00:00", "NaT"], dtype="datetime64[ms]")
    assert column.encode(raw).tolist() == [23, 47, 48]


def test_labels() -> None:
    assert integers(0, 99).run_label(5, 5) == "5"
    assert integers(0, 99).run_label(5, 9) == "5-9"
    assert bins(0, 1, width="0.25").run_label(1, 2) == "[0.25, 0.75)"
    months = dates("2020-01-01", "2021-12-31", "month")
    assert [months.run_label(1, 1), months.run_label(0, 2), months.run_label(12, 23)] == ["2020-02", "2020-Q1", "2021"]
    assert dates("2020-01-01", "2020-12-31").run_label(3, 5) == "2020-01-04 .. 2020-01-06"
    hours = timestamps("2020-01-01", "2020-03-01")
    assert hours.run_label(0, 1) == "2020-01-01T00:00 .. 2020-01-01T02:00"
    assert hours.run_label(0, 31 * 24 - 1) == "2020-01"
    assert hours.run_label(24, 47) == "2020-01-02"
    assert hours.run_label(1, 24) == "2020-01-01T01:00 .. 2020-01-02T01:00"
    assert timestamps("2020-01-01", "2020-02-01", "day").run_label(1, 1) == "2020-01-02"
    assert categorical(["a", "b", "c", "d"]).run_label(0, 3) == "a, b and 2 more"
    assert categorical(["a", "b", "c", "d"], ordered=True).run_label(0, 3) == "a .. d"


@pytest.mark.parametrize("by", ["day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_labels_made_at_once_are_those_made_one_by_one(by: str, length: int) -> None:
    column = dates("1898-11-30", "1906-03-01", by)
    firsts = np.arange(0, column.size - length, length)
    lasts = firsts + length - 1
    one_by_one = [column.run_label(first, last) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
    assert list(column.run_labels(firsts, lasts)) == one_by_one


@pytest.mark.parametrize("attribute", COLUMNS, ids=lambda attribute: type(attribute).__name__)
def test_the_value_at_an_index_is_found_there(attribute: Attribute) -> None:
    for index in {0, attribute.size // 2, attribute.size - 1}:
        assert attribute.locate(attribute.value_at(index)) == index


def test_cut_points_are_decided_or_refused() -> None:
    tenths = bins(0, 1, width="0.1")
    assert [tenths.below(v) for v in (-1, 0, 0.3, "0.9", 1, 5)] == [0, 0, 3, 9, 10, 10]
    with pytest.raises(DomainError, match=r"0\.3 and 0\.4"):
        tenths.below("0.35")
    with pytest.raises(DomainError, match="counted as a whole: compare by < or >= with"):
        tenths.up_to("0.3")
    assert [tenths.up_to(v) for v in (-1, 1)] == [0, 10]
    assert [integers(0, 9).below(v) for v in (2.5, 3, -7, 99)] == [3, 3, 0, 10]
    assert [integers(0, 9).up_to(v) for v in (2.5, 3, -7, 99)] == [3, 4, 0, 10]
    months = dates("2020-01-01", "2020-12-31", "month")
    assert [months.below(v) for v in ("2020-03", "2020-03-01", "1999-01-17")] == [2, 2, 0]
    assert [months.up_to(v) for v in ("2020-03", "2020-02-29", "2021-06-06")] == [3, 2, 12]
    with pytest.raises(DomainError, match="2020-03-01 and 2020-04-01"):
        months.below("2020-03-05")
    hours = timestamps("2020-01-01", "2020-01-02")
    assert [hours.below(v) for v in ("2020-01-01T03:00", "2019-01-01T03:20", "2021-01-01T03:20")] == [3, 0, 24]
    assert hours.up_to("2020-01-02") == 24
    with pytest.raises(DomainError, match="2020-01-01T03:00 and 2020-01-01T04:00"):
        hours.below("2020-01-01T03:20")
    with pytest.raises(DomainError, match="T04:00"):
        hours.up_to("2020-01-01T03:20")


@pytest.mark.parametrize(
    "make",
    [
        lambda: categorical([]),
        lambda: categorical("abc"),
        lambda: categorical(["a", "a"]),
        lambda: categorical(["a", "b\0c"]),
        lambda: categorical(["a", "\ud800"]),
        lambda: categorical(["a", 1]),
        lambda: categorical([1.5]),  # type: ignore[list-item]
        lambda: categorical(["a"], outside="clamp"),
        lambda: categorical(["a", "b"], ordered=True, outside="clamp"),
        lambda: categorical(["a"], outside="b"),
        lambda: categorical(["a"], null="b"),
        lambda: categorical(["a"], null="a", null_public=True),
        lambda: integers(5, 4),
        lambda: integers(0.5, 4),  # type: ignore[arg-type]
        lambda: integers(0, 10**17),
        lambda: integers(0, 9, null=10),
        lambda: integers(0, 9, outside="drop"),
        lambda: integers(0, 9, outside_public=True),
        lambda: integers(True, 9),
        lambda: bins(0, 1),
        lambda: bins(0, 1, width=0),
        lambda: bins(0, 1, width="0.3"),
        lambda: bins(1, 0, width=1),
        lambda: bins(0, 0, width=1),
        lambda: bins(edges=[0, 2, 1]),
        lambda: bins(edges=[0, 1, 1]),
        lambda: bins(edges=[0]),
        lambda: bins(edges=[]),
        lambda: bins(0, 1, width=1, edges=[0, 1]),
        lambda: bins(0, math.inf, width=1),
        lambda: bins(0, math.nan, width=1),
        lambda: bins("a", 1, width=1),
        lambda: bins(0, 10**12, width="1e-9"),
        lambda: bins(edges=[0, "1e-400", 1]),
        lambda: bins(0, 1, width="0.5", null=2),
        lambda: dates("2020-13-01", "2021-01-01"),
        lambda: dates("2021-01-02", "2021-01-01"),
        lambda: dates("2021-01-02", "2021-01-03", "hour"),
        lambda: dates(datetime.datetime(2020, 1, 1), "2021-01-03"),
        lambda: dates(2020, 2021),
        lambda: timestamps("2021-01-01", "2021-01-01"),
        lambda: timestamps("2021-01-01", "2022-01-01", "month"),
        lambda: timestamps("2021-01-01", "2022-01-01", zone="Mars/Olympus"),
        lambda: timestamps("noon", "2022-01-01"),
        lambda: timestamps(5, "2022-01-01"),
        lambda: Domain(()),
        lambda: domain({"": integers(0, 1)}),
        lambda: Domain((("a", integers(0, 1)), ("a", integers(0, 1)))),
        lambda: Domain((("a", 5),)),  # type: ignore[arg-type]
    ],
)
def test_bad_declarations_are_refused(make: Any) -> None:
    with pytest.raises(DomainError):
        make()


def test_a_domain_finds_projects_and_suggests() -> None:
    table = domain({"age": integers(0, 9), "state": ["NC", "VA"]})
    assert table.names == ("age", "state") and "age" in table and list(table) == ["age", "state"]
    assert table.size == 11 * 4
    assert table.project(["state"]).names == ("state",)
    with pytest.raises(QueryError, match="did you mean 'state'"):
        table["stat"]
    with pytest.raises(DomainError):
        table.project(["nothing"])


def test_special_cells_are_all_hidden_or_all_public() -> None:
    both = integers(0, 9, outside="cell")
    assert [(slot.name, slot.code, slot.public) for slot in both.slots] == [("NULL", 10, False), ("outside", 11, False)]
    assert [slot.public for slot in both.with_public_cells().slots] == [True, True]
    with pytest.raises(DomainError, match="both public or both hidden"):
        integers(0, 9, outside="cell", outside_public=True)


@given(st.fractions() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=6))
def test_numbers_are_shown_exactly(number: Fraction | int | Decimal) -> None:
    assert exact(show(exact(number, "it")), "it") == Fraction(number)


def test_floats_mean_what_they_show() -> None:
    assert exact(0.1, "it") == Fraction(1, 10)
    assert show(Fraction(-1, 8)) == "-0.125"
    assert show(Fraction(1, 3)) == "1/3"


@pytest.mark.parametrize("vast", ["1e999999999", "-1E-999999999", " 7e401 ", Decimal("1e1000000"), "0e999999999"])
def test_vast_exponents_are_refused(vast: object) -> None:
    with pytest.raises(InvalidInput, match="below 1e400"):
        exact(vast, "the value")


def test_what_people_write_is_exact() -> None:
    assert exact("1e400", "the value") == 10**400
    assert exact("1/3", "the value") == Fraction(1, 3)
    assert exact(0.1, "the value") == exact("0.1", "the value") == exact(Decimal("0.1"), "the value") == Fraction(1, 10)
    with pytest.raises(InvalidInput, match="finite"):
        exact("nan", "the value")
