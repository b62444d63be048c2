"""Twenty analysts at once on a real server process cannot spend one budget twice; the check would notice it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.load import Run, Sizes, attack, books_row
from benchmarks.serving.campaign import counted

SIZES = Sizes(analysts=20, rounds=1, thinking_rounds=0, think=0.0)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return attack(tmp_path_factory.mktemp("load"), SIZES)


def test_twenty_analysts_at_once_spend_no_more_than_there_is(seen: Run) -> None:
    everything = seen.warm + seen.thinking + seen.rushing
    assert seen.books.faults == []
    assert books_row(seen.books, everything).ratio == pytest.approx(float(seen.books.spent / seen.books.limit))
    kinds = counted(everything)
    assert kinds["preview"] == kinds["read"] == kinds["release"] + kinds["refusal"] == 20 * 2
    assert kinds["refusal"] > 0
    assert kinds["replay"] == kinds["release"]
    dearest = Fraction(1002, 10**6)
    assert seen.books.limit - seen.books.spent < dearest, "whoever came while there was room was served"


def test_wrong_books_are_an_error(seen: Run) -> None:
    books = seen.books
    for wrong in (
        replace(books, spent=books.limit + Fraction(1, 10**9), charged=books.limit + Fraction(1, 10**9)),
        replace(books, charges=books.charges - 1),
        replace(books, answers=books.answers + 1),
        replace(books, charged=books.charged - Fraction(1, 10**6)),
        replace(books, paid_for=books.paid_for + Fraction(1, 10**6)),
        replace(books, is_sound=False),
    ):
        with pytest.raises(RuntimeError):
            books_row(wrong, seen.rushing)
