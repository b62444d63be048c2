"""Groups and conditions as people write them: what each becomes, what is refused, and nothing else smuggled in."""

from __future__ import annotations

import datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.errors import QueryError
from blowfishdb.model.predicate import Axis, col
from blowfishdb.sql import parse, query_of, read_axes, read_where

DOMAIN = bf.domain(
    {
        "age": bf.integers(3, 99),
        "state": bf.categorical(["NC", "NY"]),
        "day": bf.dates("2020-01-01", "2020-02-29"),
        "month": bf.dates("2020-01-01", "2020-12-31", by="month"),
        "long": bf.dates("1900-01-01", "2020-12-31"),
        "big": bf.integers(1, 10**6),
        "cost": bf.bins(1, 501, width=2),
        "region": bf.categorical(["NC", "NY"], null="NC", outside="NY"),
        "number": bf.categorical([1, 2]),
        "flag": bf.categorical([True, False]),
        "low": bf.integers(-9, 9),
        "moment": bf.timestamps("2020-01-01", "2020-03-01", by="hour"),
    }
)
MONTHS = tuple(
    (f"{month:02}", tuple(datetime.date(2020, month, 1 + day) for day in range(days)))
    for month, days in ((1, 31), (2, 29))
)


def axes(group: str) -> tuple[Axis, ...]:
    return query_of(parse(f"SELECT {group}, COUNT(*) FROM t GROUP BY {group}"), DOMAIN).axes


@pytest.mark.parametrize(
    ("group", "axis"),
    [
        ("strftime(day, '%Y-%m')", Axis("day", unit="month")),
        ("EXTRACT(year FROM day)", Axis("day", unit="year")),
        ("DATE_PART('month', day)", Axis("day", groups=MONTHS)),
        ("MONTH(CAST(day AS DATE))", Axis("day", groups=MONTHS)),
        ("age / 30 * 30", Axis("age", edges=(3, 30, 60, 90, 100))),
        ("FLOOR(age / 1) * 1", Axis("age", width=1)),
        ("FLOOR(cost / 250) * 250", Axis("cost", edges=(1, 250, 500, 501))),
        ("FLOOR(state / 10) * 10", Axis("state", width=10)),
        ("WIDTH_BUCKET(age, 0, 75, 2)", Axis("age", edges=(0, Fraction(75, 2), 75, 100))),
        ("CASE region WHEN 'NC' THEN 1 ELSE 0 END", Axis("region", groups=(("1", ("NC",)), ("0", ("NY",))))),
        ("IF(region = 'NC', 1.5, 0)", Axis("region", groups=(("1.5", ("NC",)), ("0", ("NY",))))),
        ("CAST(age AS BIGINT)", Axis("age")),
        ("CAST(region AS VARCHAR)", Axis("region")),
        ("CAST(flag AS BOOLEAN)", Axis("flag")),
        ("CAST(number AS INT)", Axis("number")),
        ("CAST(cost AS DOUBLE)", Axis("cost")),
        ("CAST(day AS TIMESTAMP)", Axis("day")),
        ("CAST(DATE_TRUNC('month', day) AS DATE)", Axis("day", unit="month")),
        ("CAST(moment AS DATE)", Axis("moment", unit="day")),
        ("CAST(DATE_TRUNC('month', moment) AS DATE)", Axis("moment", unit="month")),
        ("CAST(EXTRACT(YEAR FROM day) AS INT)", Axis("day", unit="year")),
        ("CAST(strftime(day, '%Y-%m') AS TEXT)", Axis("day", unit="month")),
        (
            "CAST(CASE region WHEN 'NC' THEN 1 ELSE 0 END AS INT)",
            Axis("region", groups=(("1", ("NC",)), ("0", ("NY",)))),
        ),
        ("CAST(FLOOR(age / 30) AS INT)", Axis("age", edges=(3, 30, 60, 90, 100))),
        ("TRUNC(age / 30.0, 0)", Axis("age", edges=(3, 30, 60, 90, 100))),
    ],
)
def test_what_a_group_becomes(group: str, axis: Axis) -> None:
    assert axes(group) == (axis,)


def test_group_by_all_takes_what_is_selected() -> None:
    assert query_of(parse("SELECT state, age, COUNT(*) FROM t GROUP BY ALL"), DOMAIN).axes == (
        Axis("state"),
        Axis("age"),
    )


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("EXTRACT(century FROM day)", "year, quarter, month, day or dow"),
        ("strftime(day, '%j')", "'%Y', '%Y-%m' or '%Y-%m-%d'"),
        ("EXTRACT(month FROM long)", "44,195 declared days"),
        ("EXTRACT(month FROM month)", "not a date by day; DATE_TRUNC"),
        ("EXTRACT(month FROM age)", "age is not a date; bin"),
        ("FLOOR(big / 7) * 7", "too many for big"),
        ("WIDTH_BUCKET(age, 0, state, 3)", "takes an attribute, two ends"),
        ("WIDTH_BUCKET(age, 5, 3, 3)", "low end below its high end"),
        ("WIDTH_BUCKET(age, 0, 9, 0)", "at least one bucket"),
        ("CASE WHEN age < 18 THEN state END", "gives texts or numbers"),
        ("CASE WHEN age < 18 AND state = 'NC' THEN 1 ELSE 0 END", "looks at one attribute"),
        ("CASE WHEN big < 18 THEN 1 ELSE 0 END", "1,000,000 declared values; bin_edges"),
        ("CASE WHEN age < 18 THEN 'NULL' END", "two groups of one name"),
        ("CASE WHEN age < 18 THEN '' ELSE 'adult' END", "empty text, and a group needs a name.*such as 'none'"),
        ("COALESCE(state, '')", "empty text, and a group needs a name"),
        ("SUBSTRING(state, 3)", "empty text, and a group needs a name"),
        ("CASE WHEN number = 3 THEN 'three' ELSE 'other' END", "number: there is no value 3; known are 1, 2$"),
        ("CASE WHEN number IN (1, '2') THEN 'a' ELSE 'b' END", "no value '2'; write 2 without quotes"),
        ("CAST(age AS BOOLEAN)", "group by 'age' itself"),
        ("CAST(age AS TEXT)", "group by 'age' itself"),
        ("CAST(age AS DECIMAL(1, 0))", "group by 'age' itself"),
        ("CAST(cost AS INTEGER)", "group by 'cost' itself"),
        ("CAST(bin(age, 10) AS INTEGER)", "itself"),
        ("CAST(region AS VARCHAR(1))", "group by 'region' itself"),
        ("CAST(region AS INTEGER)", "group by 'region' itself"),
        ("CAST(MONTH(day) AS TEXT)", "itself"),
        ("CAST(region = 'NC' AS INTEGER)", "itself"),
        ("MONTH(CAST(day AS TIME))", "not an attribute"),
        ("TRUNC(age / 10, 1)", r"FLOOR\(age / 10\) rounds down to whole numbers"),
        ("FLOOR(cost / 10, 1)", r"FLOOR\(cost / 10\) rounds down to whole numbers"),
        ("CAST(cost / 10 AS INTEGER)", r"FLOOR\(cost / 10\) rounds down"),
        ("cost / 10 * 10", r"not rounded; FLOOR\(cost / 10\)"),
        ("FLOOR(age / 2.0 * 2)", r"not rounded; FLOOR\(age / 2\)"),
        ("CASE WHEN cost < 12 THEN 1 ELSE 0 END", "nearest edges are 11 and 13"),
        ("moment < '2020-02-01 10:30'", "nearest edges are 2020-02-01T10:00 and"),
        ("age / 10.0", r"not rounded; FLOOR\(age / 10\)"),
        ("age / 2.5", r"not rounded; FLOOR\(age / 2.5\)"),
        ("low - low % 10", r"values below 0.*FLOOR\(low / 10\)"),
        ("low / 10", r"values below 0.*FLOOR\(low / 10\)"),
        ("TRUNC(low / 10)", r"values below 0.*FLOOR\(low / 10\)"),
        ("FLOOR(day / 10)", "DATE_TRUNC"),
        ("MONTH(moment)", "compared by ranges.*DATE_TRUNC"),
    ],
)
def test_what_is_refused(group: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        axes(group)


ATTRIBUTES = ("age", "state", "day")


def test_conditions_and_groups() -> None:
    assert read_where("state = 'A -- 3' AND age >= 18", ATTRIBUTES) == (col("state") == "A -- 3") & (col("age") >= 18)
    assert read_where("age >= 18 -- grown up", ATTRIBUTES) == (col("age") >= 18)
    assert read_axes("state, bin(age, 5)", ATTRIBUTES) == (Axis("state"), Axis("age", width=5))
    assert read_axes("DATE_TRUNC('month', day)", ATTRIBUTES) == (Axis("day", unit="month"),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "age",
        "age > 1 GROUP BY age",
        "age > 1 OPTIONS (epsilon = 1)",
        "age > 1 LIMIT 1",
        "age > 1; SELECT 1",
        "age > 1 UNION SELECT 1",
        "age > 1 /* ",
        "age > (SELECT 1)",
    ],
)
def test_a_condition_stands_alone(text: str) -> None:
    with pytest.raises(QueryError):
        read_where(text, ATTRIBUTES)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "age, COUNT(*) FROM other GROUP BY age --",
        "age FROM other",
        "SUM(age)",
        "age, /* ",
        "1",
        "age; SELECT age",
        "DISTINCT age",
    ],
)
def test_groups_stand_alone(text: str) -> None:
    with pytest.raises(QueryError):
        read_axes(text, ATTRIBUTES)


@given(st.text(alphabet="age ,()*'\";-/=<>1sint\n", max_size=30))
def test_any_text_is_a_piece_or_a_query_error(text: str) -> None:
    for read in (read_where, read_axes):
        try:
            assert read(text, ATTRIBUTES) is not None  # type: ignore[operator]
        except QueryError as refusal:
            assert "What works" not in str(refusal)


def test_declared_names_need_no_quotes_among_groups() -> None:
    odd = ["Age (years)", "order", "Cost €", "a, b"]
    assert [axis.attribute for axis in read_axes("Cost €, order", odd)] == ["Cost €", "order"]
    assert [axis.attribute for axis in read_axes(" a, b ", odd)] == ["a, b"]
    with pytest.raises(QueryError, match="double quotes"):
        read_axes("Cost", odd)
    with pytest.raises(QueryError, match=r"known are .*\. Names with spaces"):
        read_where("zzz > 3", odd)
