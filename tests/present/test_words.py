"""Questions and answers in words: names, notes, and what a Python prompt and a terminal show."""

from __future__ import annotations

import datetime
import io
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import InvalidInput
from blowfishdb.model.predicate import Predicate, condition_words
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable, Bounds
from blowfishdb.present.chart_terminal import drawing
from blowfishdb.present.words import (
    Digits,
    digits_of,
    epsilon_words,
    percent,
    policy_words,
    printable,
    question_words,
    shortened,
    upper_end,
)
from tests.effort import effort
from tests.present.cases import DOMAIN, POLICY, QUESTIONS, answers, constructed, released

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
        (x >= Fraction("47.5"), "x >= 47.5"),
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


def printed(answer: Answer, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(drawing(answer))
    return console.file.getvalue()


def with_epsilon(answer: Answer, epsilon: Fraction) -> Answer:
    return replace(answer, certificate=replace(answer.certificate, epsilon=epsilon))


def test_an_answer_reads_like_a_small_table() -> None:
    answer = replace(constructed(["0-100", "100-200"], [12.0, 310.0], width=50.0), dataset="visits", policy_version=2)
    assert repr(answer).splitlines() == [
        "A title   epsilon 0.41 of visits (policy v2)   every value within 50 (95 %)",
        "      age  count  low  high",
        "    0-100     12    0    62",
        "  100-200    310  260   360",
    ]
    assert str(answer) == repr(answer)


def test_long_answers_show_both_ends_and_their_length() -> None:
    lines = repr(constructed([f"label {place}" for place in range(1500)], [1.0] * 1500)).splitlines()
    assert [line.split()[1] for line in lines[2:8]] == list("012345")
    assert lines[8].strip() == "..."
    assert lines[-2].split()[1] == "1499"
    assert lines[-1].strip() == "1,500 rows"


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_kind_prints_and_draws(name: str) -> None:
    answer = released(name)
    assert answer.title in repr(answer)
    assert answer.title in printed(answer, 120)
    assert "every value within" in repr(answer) or answer.raw.size == 1


def test_bars_are_solid_to_the_low_end_and_light_to_the_high_end() -> None:
    lines = printed(constructed(["a", "b"], [50.0, 100.0], width=10.0)).splitlines()[2:]
    solid, light = ([line.count(sign) for line in lines] for sign in "█▒")
    assert solid == [round(44 * 40 / 110), round(44 * 90 / 110)]
    assert [one + two for one, two in zip(solid, light, strict=True)] == [round(44 * 60 / 110), 44]


def test_many_bars_are_the_largest_and_say_so() -> None:
    values = [float(place) for place in range(100)]
    shown = printed(constructed([f"n{place}" for place in range(100)], values))
    assert "the 24 largest of 100 values" in shown
    assert "n99" in shown
    assert "n75" not in shown
    assert "24 of 100 running counts, evenly spread" in printed(constructed(["x"] * 100, values, kind="cdf"))


def test_planes_are_shaded_squares_with_the_cells_added_up() -> None:
    shown = printed(released("plane"))
    assert "across: ward, A1 … outside; down: age" in shown
    squares = [line.split()[-1] for line in shown.splitlines() if line.strip().endswith(tuple("·░▒▓█"))]
    assert {len(line) for line in squares} == {10}
    answer = released("plane")
    row, column = divmod(int(answer.values.argmax()), 5)
    assert squares[row][2 * column : 2 * column + 2] == "██"
    assert f"██ {answer.values.max():,.0f}" in shown


def test_labels_cannot_steer_the_terminal_or_use_markup() -> None:
    answer = constructed(["\x1b[31mred\x07", "[bold]b[/bold]"], [1.0, 2.0], title="T\x1b]0;owned\x07\u202e")
    for shown in (repr(answer), printed(answer), answer.note()):
        assert not any(sign in shown for sign in "\x1b\x07\u202e")
    assert "[bold]b[/bold]" in printed(answer)


@effort(40)
@given(answers(st.floats(-1e15, 1e15)))
def test_any_answer_can_be_printed(answer: Answer) -> None:
    for shown in (repr(answer), printed(answer), answer.note()):
        assert all(sign.isprintable() or sign == "\n" for sign in shown)


@given(st.floats(-1e9, 1e9), st.integers(0, 4))
def test_ends_of_intervals_are_rounded_outwards(number: float, places: int) -> None:
    digits = Digits(places)
    low, high = (Fraction(text.replace(",", "")) for text in (digits.low(number), digits.high(number)))
    slack = Fraction(1, 10**6)
    assert low <= Fraction(number) + slack
    assert high >= Fraction(number) - slack
    assert high - low <= Fraction(1, 10**places) + slack


def test_numbers_in_words() -> None:
    assert [percent(beta) for beta in (0.05, 0.001, 0.1, 1e-6)] == ["95 %", "99.9 %", "90 %", "99.9999 %"]
    assert epsilon_words(Fraction(1, 3)) == "1/3"
    assert epsilon_words(Fraction(41, 100)) == "0.41"
    assert epsilon_words(Fraction(123_456_789, 10**9 + 7)) == "≈ 0.124"
    assert Digits(0).value(-0.2) == "0"
    assert printable("a\x00b") == "a�b"


def test_a_mean_shows_as_many_digits_as_its_interval_deserves() -> None:
    answer = constructed(["age"], [38.61234], kind="mean")
    narrow = replace(answer, simultaneous=Bounds(np.array([38.512]), np.array([38.723])))
    assert digits_of(narrow).places == 2
    assert "between 38.51 and 38.73 (95 %)" in repr(narrow)
    assert digits_of(replace(answer, simultaneous=Bounds(np.array([10.0]), np.array([90.0])))).places == 0


def test_the_note_says_what_a_reader_must_know() -> None:
    note = replace(released("cdf"), unprotected=("Roughly how large age is.",)).note()
    for part in (
        "CDF of age where ward = 'A1', from the dataset visits.",
        "under the policy version 2 by the mechanism identity",
        "With 95 % confidence every one of the 100 true values is within",
        "age: values at most 5 apart are hidden from each other.",
        "Not protected: Roughly how large age is.",
        "2026-01-02",
        "BlowfishDB",
    ):
        assert part in note
    assert "\n" not in note


def test_the_note_of_an_exact_answer_says_so() -> None:
    exact = with_epsilon(constructed(["a"], [7.0], width=0.0), Fraction(0))
    assert "exact and cost nothing" in exact.note()
    assert "confidence" not in exact.note()
    assert "epsilon 0   exact" in repr(exact)


def test_raw_answers_are_called_so() -> None:
    answer = constructed(["a", "b"], [-30.0, 5.0])
    raw = replace(answer, consistent=replace(answer.consistent, feasible=False, note="raw answers returned: why"))
    assert "shown as they are (raw answers returned: why)" in raw.note()
    assert "raw answers returned: why" in repr(raw)
    assert "raw answers returned: why" in printed(raw)


def test_quantiles_of_whole_numbers_are_whole() -> None:
    answer = constructed(["25 %", "50 %"], [25.0, 38.0], kind="quantiles")
    whole = replace(answer, simultaneous=Bounds(np.array([24.0, 38.0]), np.array([25.0, 39.0])))
    assert repr(whole).splitlines()[2].split() == ["25", "%", "25", "24", "25"]


def test_long_labels_keep_both_ends() -> None:
    assert shortened("a" * 40 + "1", 12) == "aaaaaaa…aaa1"
    assert shortened("short", 12) == "short"
