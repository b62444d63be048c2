"""Public constraints: how they are written, and which declarations are refused."""

from __future__ import annotations

import datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.errors import DocumentError, PolicyError, TooLarge
from blowfishdb.model.constraints import (
    Constraint,
    CountConstraint,
    MarginalConstraint,
    RangeConstraint,
    RowsConstraint,
    read_constraint,
    without_values,
    write_constraint,
)
from blowfishdb.model.document import Document, read_document, write_document
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Both, Comparison, Either, IsNull, IsOutside, Member, Negation, Predicate, col
from tests.effort import effort

PEOPLE = bf.domain(
    {
        "sex": bf.categorical(["F", "M"], null="F", outside="M"),
        "age": bf.integers(0, 99),
        "state": bf.categorical(["NC", "VA", "O'Hara"], null="NC"),
        "born": bf.dates("2020-01-01", "2020-12-31", null="2020-01-01"),
    }
)

NAMES = st.sampled_from(["age", "sex", "odd name", 'a"b', "in", "ß"])
VALUES = st.integers(-5, 5) | st.fractions(-3, 3, max_denominator=6) | st.text(max_size=4) | st.booleans()
LEAVES = (
    st.builds(Comparison, NAMES, st.sampled_from(["==", "<", "<=", ">", ">="]), VALUES)
    | st.builds(Member, NAMES, st.lists(VALUES, min_size=1, max_size=3).map(tuple))
    | st.builds(IsNull, NAMES)
    | st.builds(IsOutside, NAMES)
)


def grown(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    return st.builds(Both, inner, inner) | st.builds(Either, inner, inner) | st.builds(Negation, inner)


COUNTS = st.none() | st.integers(0, 10**6)
CONSTRAINTS = (
    st.builds(CountConstraint, st.recursive(LEAVES, grown, max_leaves=6), COUNTS)
    | st.builds(RangeConstraint, NAMES, VALUES, VALUES, COUNTS)
    | st.builds(MarginalConstraint, st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple))
    | st.builds(RowsConstraint, COUNTS)
)


@effort(40)
@given(CONSTRAINTS)
def test_a_written_constraint_reads_back_to_itself(constraint: Constraint) -> None:
    assert read_constraint(write_constraint(constraint)) == constraint


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("rows", RowsConstraint()),
        (" ROWS = 12 ", RowsConstraint(12)),
        ("count(sex = 'F' and age < 18) = 120", CountConstraint((col("sex") == "F") & (col("age") < 18), 120)),
        ("count(age between 3 and 5)", CountConstraint(col("age").between(3, 5))),
        ("count(age <> 3 or not age != 4)", CountConstraint((col("age") != 3) | ~(col("age") != 4))),
        ("count(age not in (1, 2) and x is not null)", CountConstraint(~col("age").isin([1, 2]) & ~col("x").is_null())),
        ("count((a = true or b = 'it''s') and c = -1.5)",
         CountConstraint(((col("a") == True) | (col("b") == "it's")) & (col("c") == Fraction(-3, 2)))),  # noqa: E712
        ('marginal(sex, "odd name")', MarginalConstraint(("sex", "odd name"))),
        ("range(born, '2020-02-01', '2020-03-01') = 4", RangeConstraint("born", "2020-02-01", "2020-03-01", 4)),
    ],
)  # fmt: skip
def test_how_constraints_are_written(text: str, constraint: object) -> None:
    assert read_constraint(text) == constraint


def test_values_are_made_plain() -> None:
    assert bf.count_constraint(col("x") == 0.5) == CountConstraint(col("x") == Fraction(1, 2))
    assert bf.range_constraint("born", datetime.date(2020, 2, 1), datetime.date(2020, 3, 1)).low == "2020-02-01"
    assert without_values(bf.rows_constraint(3)) == RowsConstraint()
    assert without_values(bf.marginal_constraint("sex", values=[(["F"], 2)])) == bf.marginal_constraint("sex")
    assert without_values(bf.range_constraint("age", 1, 2, 3)) == bf.range_constraint("age", 1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "", "row", "count", "count()", "count(age)", "count(age < )", "count(age < 18", "count(age < 18) = ",
        "count(age < 18) = 1.5", "count(age < 18) = -1", "count(age < 18) = 5 6", "count(age < 18) extra",
        "count(age < b)", "count(age in ())", "count(age is 3)", "count(18 < age)", "count(age < 'x)", "count(a ; b)",
        "marginal()", "marginal(sex,)", "marginal(sex, sex)", "marginal(sex) = 3", "range(age, 1)",
        "range(age, 1, 2, 3)",
        "count(age <> null)", "sum(age)", "rows >= 3", "count(age < 1" + " and age < 1" * 3000 + ")",
        "count(" + "(" * 300 + "age < 1" + ")" * 300 + ")", "count(" + "not " * 300 + "age < 1)",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        read_constraint(text)


@pytest.mark.parametrize(
    "constraints",
    [
        ["count(agee < 18)"], ["count(sex = 'X')"], ["count(sex < 'F')"], ["marginal(sex, town)"],
        ["count(outside(age))"], ["range(sex, 'F', 'M')"],
        ["count(age < 18) = 5", "count(age < 18) = 6"],
        ["count(age < 18) = 5", "count(age < 10) = 6"],
        ["count(age < 18) = 5", "not a constraint"],
        ["rows = 3", "count(age < 18) = 4"],
        ["rows = 12", "count(age < 18) = 5", "count(age >= 18 or age is null) = 6"],
        ["range(age, 0, 9) = 3", "range(age, 5, 14) = 3", "range(age, 0, 14) = 2"],
        ["count(age < 0) = 1"],
        [bf.marginal_constraint("sex", values=[(["F"], 3), (["M"], 4)]), "rows = 8"],
        [bf.marginal_constraint("sex", values=[(["F"], 3), (["M"], 4)]), "count(sex = 'F' and age < 5) = 4"],
        [bf.marginal_constraint("sex", values=[(["F"], 3), (["M"], 4)]), "count(sex = 'F' or age < 5) = 2"],
        [bf.marginal_constraint("sex", values=[(["X"], 3)])],
        [bf.marginal_constraint("sex", values=[(["F"], 3), (["M"], 4)]),
         bf.marginal_constraint("sex", "state", values=[(["F", "NC"], 2), (["M", "VA"], 5)])],
        ["count(age in (1, 2)) = 1", "count(age in (2, 3)) = 1", "count(age in (1, 3)) = 1", "rows = 1"],
        ["count(age in (1, 2)) = 1", "count(age in (2, 3)) = 1", "count(age in (1, 3)) = 1"],
        [bf.marginal_constraint("sex", values=[(["F"], 3), (["M"], 4)]), "count(age < 5) = 4",
         "count(age < 5 and sex = 'F') = 3", "count(age < 5 and sex = 'M') = 2"],
        [3], "rows",
    ],
)  # fmt: skip
def test_declarations_that_no_table_can_meet_are_refused(constraints: list[object]) -> None:
    with pytest.raises(PolicyError):
        Policy(constraints=constraints).check(PEOPLE)  # type: ignore[arg-type]


def test_bad_values_are_refused() -> None:
    for make in (
        lambda: bf.rows_constraint(-1),
        lambda: bf.rows_constraint(True),
        lambda: bf.count_constraint("age < 18"),  # type: ignore[arg-type]
        lambda: bf.count_constraint(col("age").isin([])),
        lambda: bf.count_constraint(col("age") == None),  # noqa: E711
        lambda: bf.marginal_constraint("sex", values=[(["F", "x"], 1)]),
        lambda: bf.marginal_constraint("sex", values=[(["F"], 1), (["F"], 2)]),
        lambda: bf.marginal_constraint(),
    ):
        with pytest.raises(PolicyError):
            make()


def test_constraints_that_can_all_be_true_are_accepted_and_kept_once() -> None:
    special = bf.marginal_constraint("age", values=[(["NULL"], 1), ([4], 2)])
    constraints = ["count(age < 18)", special, "count(age < 18) = 2", "rows = 3", "count(age is null) = 1", "rows"]
    policy = Policy(constraints=constraints)
    policy.check(PEOPLE)
    assert policy.constraints == (
        read_constraint("count(age < 18) = 2"),
        special,
        RowsConstraint(3),
        read_constraint("count(age is null) = 1"),
    )


def test_too_many_constraints_are_refused() -> None:
    with pytest.raises(TooLarge):
        Policy(constraints=[f"range(age, {i}, {i + 1})" for i in range(5000)])
    wide = bf.domain({name: bf.integers(0, 10**6, null=0) for name in "abcd"})
    crossed = [f"range({name}, {i}, {2 * i})" for name in "abcd" for i in range(1, 40)]
    with pytest.raises(TooLarge):
        Policy(constraints=crossed).check(wide)


@pytest.mark.parametrize("form", ["toml", "json"])
def test_documents_carry_constraints(form: str) -> None:
    values = [(["F"], 3), (["M"], 4)]
    known = bf.marginal_constraint("sex", values=values)
    constraints = ["count(sex = 'F' and age < 18) = 2", known, "rows", "range(age, 3, 5)"]
    policy = Policy({"age": bf.threshold(5)}, constraints=constraints)
    document = Document(PEOPLE, policy)
    assert read_document(write_document(document, form), form) == document  # type: ignore[arg-type]


def test_a_document_names_the_line_of_a_bad_constraint() -> None:
    text = write_document(Document(PEOPLE, Policy(constraints=["rows = 3"])))
    wrong = {
        "'count(agee < 3)'": "agee", "3": "type", "'rows = 3', 'count(age < 9) = 4'": "contradicts",
        "{fact = 'rows', values = [[1]]}": "less than 2", "{fact = 'rows', values = [['F', 3]]}": "only marginals",
        "{fact = 'marginal(sex)', values = [['F', 'x']]}": "whole number", "{fact = 'marginal(sex)'}": "missing",
    }  # fmt: skip
    for written, said in wrong.items():
        with pytest.raises(DocumentError, match=said) as caught:
            read_document(text.replace('"rows = 3"', written))
        assert caught.value.line is not None
