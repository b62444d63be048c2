"""Conditions as text: spellings that ledgers store, read back to the same bytes; words of SQL are names here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from blowfishdb.errors import PolicyError
from blowfishdb.model.constraints import CountConstraint, read_constraint, write_constraint
from blowfishdb.model.predicate import Either, Predicate, col, condition_code

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
        ("count(age in (select 1))", "cannot be read|list of values|no plain value"),
        ("count(age like 'x')", "cannot be|attribute|not matched"),
        ("count(t.age = 1)", "no attribute"),
        ("sum(age)", "'sum' is no kind of constraint"),
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
