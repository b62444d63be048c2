"""Questions in words, and names for their answers."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.errors import InvalidInput
from blowfishdb.model.predicate import Predicate, condition_words
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable
from blowfishdb.present.words import policy_words, question_words, upper_end
from tests.present.cases import DOMAIN, POLICY, QUESTIONS, constructed, released

x, y = bf.col("x"), bf.col("y")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (x == "it's", "x = 'it''s'"),
        (x != 3, "x <> 3"),
        ((x >= 1) & (y < 2), "x >= 1 and y < 2"),
        (x.between(1, 5), "x between 1 and 5"),
        (((x == 1) | (y == 2)) & (x > 0), "(x = 1 or y = 2) and x > 0"),
        (~((x == 1) & (y == 2)), "not (x = 1 and y = 2)"),
        (x.isin(["a", "b"]), "x in ('a', 'b')"),
        (x.isin(range(9)), "x in (0, 1, 2, 3, 4, 5, ... 3 more)"),
        (x.is_null(), "x is NULL"),
        (~x.is_outside(), "not (x is outside its domain)"),
        (x > datetime.date(2024, 2, 1), "x > '2024-02-01'"),
    ],
)
def test_conditions_read_like_sql(condition: Predicate, words: str) -> None:
    assert condition_words(condition) == words


def test_a_deep_condition_is_cut_short() -> None:
    deep: Predicate = x == 1
    for _ in range(3_000):
        deep = ~deep & (y == 2)
    assert len(condition_words(deep)) < 2_000
    assert "..." in condition_words(deep)


def test_questions_read_as_titles() -> None:
    said = {name: question_words(asked) for name, asked in QUESTIONS.items()}
    assert said == {
        "count": "Number of records where ward = 'A1'",
        "histogram": "Histogram of age in bins of 10",
        "fine histogram": "Histogram of age where ward = 'A1'",
        "calendar": "Histogram of admitted",
        "names": "Histogram of ward",
        "cdf": "CDF of age where ward = 'A1'",
        "cdf beside NULL": "CDF of cost",
        "plane": "Histogram of age in bins of 20 × ward",
        "ranges": "3 ranges of age",
        "boxes": "2 ranges of age in bins of 20 × cost",
        "marginals": "Marginals of ward, low × ward",
        "three attributes": "Histogram of age in bins of 50 × ward × low",
    }
    assert question_words(bf.query("ranges", "x")) == "All ranges of x"
    assert question_words(bf.query("marginals", ["x", "y"], ways=1)) == "All 1-way marginals of x, y"
    assert question_words(bf.query("histogram", x.by("month"))) == "Histogram of x by month"
    assert question_words(bf.query("histogram", x.bins(edges=[1, 2, 9]))) == "Histogram of x in 2 bins"


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("count", "all", "all"),
        ("histogram", "0-9", "90-99"),
        ("cdf", "up to 0", "up to 99"),
        ("cdf beside NULL", "up to [0, 10)", "NULL"),
        ("plane", "0-19 × A1", "80-99 × outside"),
        ("ranges", "0 to 9", "3"),
        ("boxes", "0-19 to 20-39 × [0, 10) to [80, 90)", "20-39 to 80-99 × [30, 40)"),
        ("marginals", "ward A1", "ward outside × low no"),
    ],
)
def test_answers_are_named(name: str, first: str, last: str) -> None:
    labels = released(name).labels
    assert (labels[0], labels[-1]) == (first, last)
    assert len(labels) == released(name).raw.size


def test_groups_that_lie_on_a_line_know_their_ends() -> None:
    ages, costs, days = (released(name).tables[0].axes[0] for name in ("histogram", "cdf beside NULL", "calendar"))
    assert ages.edges == tuple(np.arange(-0.5, 100, 10))
    assert costs.edges == tuple(np.arange(0.0, 501, 10))
    assert (costs.plain, len(costs.labels)) == (50, 51)
    assert days.in_days
    assert days.edges[0] == (datetime.date(2024, 1, 1) - datetime.date(1970, 1, 1)).days
    assert released("names").tables[0].axes[0].edges == ()


@pytest.mark.parametrize("name", QUESTIONS)
def test_single_rows_are_those_of_the_whole(name: str) -> None:
    for table in released(name).tables:
        assert [table.row(place) for place in range(table.size)] == list(table.rows())


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="3 labels"):
        constructed(["a", "b", "c"], [1.0, 2.0])
    with pytest.raises(InvalidInput, match="one table along one attribute"):
        replace(released("plane"), kind="cdf")
    with pytest.raises(InvalidInput, match="equally many"):
        AnswerTable((AnswerAxis("x", ("a",), 1), AnswerAxis("y", ("a", "b"), 2)), crossed=False)
    with pytest.raises(InvalidInput, match="ends"):
        AnswerAxis("x", ("a", "b"), 2, (0.0, 1.0))
    with pytest.raises(InvalidInput, match="ordinary"):
        AnswerAxis("x", ("a", "b"), 3)


def test_the_policy_is_told_as_far_as_the_question_goes() -> None:
    said = policy_words(DOMAIN, POLICY, ("age", "ward"))
    assert [sentence.partition(":")[0] for sentence in said if ": " in sentence[:10]] == ["age", "age", "ward"]
    assert said[-1] == "No other attribute enters these numbers."
    assert set(said[:-1]) < set(bf.explain(DOMAIN, POLICY))
    assert policy_words(DOMAIN, POLICY, tuple(DOMAIN)) == bf.explain(DOMAIN, POLICY)


@given(st.floats(1e-5, 1e9), st.integers(2, 5))
def test_an_upper_end_is_never_below_and_hardly_above(number: float, digits: int) -> None:
    rounded = upper_end(number, digits)
    assert number <= rounded <= number * (1 + 10.0 ** (1 - digits) + 1e-12)
    assert upper_end(rounded, digits) == rounded


def test_what_is_short_already_is_not_rounded() -> None:
    assert [upper_end(number) for number in (0.3, 30.0, 0.0, 12.34, 77850.0)] == [0.3, 30.0, 0.0, 12.34, 77850.0]
    assert upper_end(31.23401) == 31.24
