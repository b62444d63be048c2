"""A condition or a list of groups alone: nothing else can be smuggled in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import QueryError
from blowfishdb.model.predicate import Axis, col
from blowfishdb.sql import read_axes, read_where

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
