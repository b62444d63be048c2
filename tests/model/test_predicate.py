"""Conditions: how they are written, read from text, refused and decided."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from blowfishdb.errors import PolicyError, QueryError
from blowfishdb.model.calendar import dates
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.constraints import CountConstraint, read_constraint, write_constraint
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Either, Predicate, col, condition_code

TABLE = domain(
    {
        "age": integers(0, 9, outside="cell"),
        "state": ["NC", "VA", "TX"],
        "size": categorical(["S", "M", "L"], ordered=True, null="S"),
        "income": bins(0, 100, width=10, null=0),
        "day": dates("2020-01-01", "2020-12-31", "month", null="2020-01-01"),
    }
)


def accepted(where: Predicate, name: str) -> list[int]:
    """The codes of one attribute that pass a condition on it."""
    attribute = TABLE[name]
    codes = np.array([*range(attribute.size), *sorted(slot.code for slot in attribute.slots)])
    return codes[compile_cells(TABLE, Policy(), (), where).cell_of({name: codes}) >= 0].tolist()


def test_comparisons_follow_sql() -> None:
    # 10 is NULL, 11 is a value outside: its order is unknown, but it equals no declared value.
    age = col("age")
    assert accepted(age >= 7, "age") == [7, 8, 9]
    assert accepted(age < 2, "age") == [0, 1]
    assert accepted(age <= 2.5, "age") == [0, 1, 2]
    assert accepted(age > 8, "age") == [9]
    assert accepted(age == 3, "age") == [3]
    assert accepted(age != 3, "age") == [0, 1, 2, 4, 5, 6, 7, 8, 9, 11]
    assert accepted(~(age >= 7), "age") == [0, 1, 2, 3, 4, 5, 6]
    assert accepted(age.between(3, 5), "age") == [3, 4, 5]
    assert accepted(age.isin([1, 9]), "age") == [1, 9]
    assert accepted(~age.isin([1, 9]), "age") == [0, 2, 3, 4, 5, 6, 7, 8, 11]
    assert accepted(age.is_null(), "age") == [10]
    assert accepted(~age.is_null(), "age") == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]
    assert accepted(age.is_outside() | (age == 0), "age") == [0, 11]
    assert accepted((age < 2) | age.is_null(), "age") == [0, 1, 10]
    assert accepted(~((age < 2) & age.is_null()), "age") == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]


def test_other_kinds_of_attributes() -> None:
    assert accepted(col("state") == "VA", "state") == [1]
    assert accepted(col("size") >= "M", "size") == [1, 2]
    assert accepted((col("income") >= 20) & (col("income") < 40), "income") == [2, 3]
    assert accepted(col("day").between("2020-02-01", "2020-03-31"), "day") == [1, 2]
    assert accepted(col("day") == "2020-03", "day") == [2]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: (col("age") > 1) and (col("age") < 3), "instead of and"),
        (lambda: not (col("age") > 1), "instead of and"),
        (lambda: 1 < col("age") < 3, "between"),
        (lambda: bool(col("age")), "compare it"),
        (lambda: (col("age") > 1) & 5, "mind the brackets"),  # type: ignore[operator]
        (lambda: (col("age") > 1) | True, "mind the brackets"),  # type: ignore[operator]
        (lambda: col("age") == col("state"), "not with another attribute"),
        (lambda: col("state").isin("NC"), "values of isin is a list of .*, not text"),
        (lambda: col("age").bins(), "width or edges"),
    ],
)
def test_misuse_is_refused_when_written(make: Any, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        make()


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (col("agee") > 1, "did you mean 'age'"),
        (col("state") == "NCC", "did you mean 'NC'"),
        (col("state") == 5, "no value 5"),
        (col("state") < "NC", "no order"),
        (col("state") == ["NC"], "no value"),
        (col("age") == "young", "finite number"),
        (col("age") == 3.5, "whole number"),
        (col("age") == 10, "not between 0 and 9"),
        (col("age") > float("nan"), "finite number"),
        (col("age") > None, "must be a number"),
        (col("income") < 15, "10 and 20"),
        (col("income") == 10, "range between edges"),
        (col("income").between(10, 20), "each bin is counted as a whole"),
        (col("income").is_null(), "no cell of its own"),
        (col("income").is_outside(), "no cell of its own"),
        (col("day") == "2020-03-01", "whole months"),
        (col("day") < "2020-03-02", "2020-03-01 and 2020-04-01"),
        ((col("age") > 3) & (col("age") < 2), "rejects every declared record"),
        ("age > 3", "a filter is a condition"),
    ],
)
def test_conditions_that_the_domain_does_not_decide_are_refused(where: Any, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        compile_cells(TABLE, Policy(), ["age"], where)


STORED = (
    "rows",
    "rows = 12",
    "count(age < 18) = 120",
    "count(sex = 'F' and age < 18 and state in ('NC', 'O''Hara'))",
    "count(a = 1 or b = 2 and c = 3 or d = 4)",
    "count(a = 1 and (b = 2 and c = 3))",
    "count(not (a = 1 or b = 2) and not x is null)",
    "count(not not outside(x))",
    "count(group = 1/3 and values = -0.5 and date = '2020-01-01' and \"in\" = true)",
    "range(order, -5, 1/7) = 3",
    "range(born, '2020-02-01', '2020-03-01')",
    'marginal(sex, "odd name", "a""b", select, case, interval, ß)',
)


@pytest.mark.parametrize("text", STORED)
def test_stored_spellings_read_back_to_the_same_bytes(text: str) -> None:
    assert write_constraint(read_constraint(text)) == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (" COUNT ( Age<18 AND\n x<>'a' )=1e2 ", "count(Age < 18 and not x = 'a') = 100"),
        ("count(x between -.5 and +1.e1)", "count(x >= -0.5 and x <= 10)"),
        ("count(x not in (4/2, TRUE) and y is NOT null)", "count(not x in (2, true) and not y is null)"),
        ("count(((a = 1)) and (b != 'x'))", "count(a = 1 and not b = 'x')"),
    ],
)
def test_other_spellings_become_the_stored_one(text: str, stored: str) -> None:
    assert write_constraint(read_constraint(text)) == stored


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("count(age < b)", "another attribute"),
        ("count(age < null)", "IS NULL"),
        ("count(age in (select 1))", "cannot be read|list of values|not a plain value"),
        ("count(age like 'x')", "cannot be|attribute|not matched"),
        ("count(t.age = 1)", "not an attribute"),
        ("sum(age)", "'sum' is not a kind of constraint"),
        ("count(age < 18", "bracket is left open"),
        ("count(age < 'x)", "quote"),
        ("rows 12", "not expected"),
    ],
)
def test_a_refusal_says_why_and_what_works(text: str, reason: str) -> None:
    with pytest.raises(PolicyError, match=reason) as refusal:
        read_constraint(text)
    assert "write count(sex = 'F' and age < 18)" in str(refusal.value)


def test_what_could_not_be_read_back_is_not_made() -> None:
    right: Predicate = col("a") == 0
    left: Predicate = col("a") == 0
    for value in range(30):
        right, left = Either(col("a") == value, right), Either(left, col("a") == value)
    for made in (CountConstraint(right), CountConstraint(left)):
        assert read_constraint(write_constraint(made)) == made
    for value in range(30):
        right, left = Either(col("a") == value, right), Either(left, col("a") == value)
    assert read_constraint(write_constraint(CountConstraint(left))) == CountConstraint(left)
    with pytest.raises(PolicyError, match="brackets"):
        CountConstraint(right)


def test_code_makes_the_same_condition() -> None:
    import blowfishdb as bf

    a, b = col("a"), col("b c")
    for condition in (
        (a >= 1) & (a <= 3),
        ((a >= 1) | b.isin(["x", "y"])) & ~b.is_null(),
        ~(b.is_outside() | (a == 2) & (b == "it's")),
    ):
        assert eval(condition_code(condition), {"bf": bf}) == condition


def test_the_model_loads_no_parser_until_a_text_is_read() -> None:
    code = (
        "import sys, blowfishdb.model.policy, blowfishdb.model.explain; assert 'sqlglot' not in sys.modules;"
        "blowfishdb.model.policy.Policy(constraints=['rows = 3']); assert 'sqlglot' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
