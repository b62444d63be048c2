"""Answers at a Python prompt and in a terminal, and the note to paste under a figure."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from blowfishdb.engine.answer import Answer
from blowfishdb.present.answer_values import Bounds
from blowfishdb.present.chart_terminal import drawing
from blowfishdb.present.words import Digits, digits_of, epsilon_words, percent, printable, shortened
from tests.present.cases import QUESTIONS, answers, constructed, released


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
