"""Arguments of wrong kinds: what is refused, in which words, and that nothing is done before."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import BlowfishError, CatalogError, DomainError, InvalidInput, PolicyError, QueryError
from blowfishdb.model.arguments import MARK, checked


class Mute:
    """A value that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


ITSELF: list[object] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("refused", "error", "words"),
    [
        (lambda: bf.col(3), QueryError, "name of col is text, not a whole number"),
        (lambda: bf.integers("1", 2), DomainError, "low of integers is a whole number, not text"),
        (lambda: bf.integers(0, None), DomainError, "high of integers is a whole number, not None"),
        (lambda: bf.Policy(4), PolicyError, "attributes of Policy is a dictionary"),
        (lambda: bf.Policy({"a": Mute()}), PolicyError, "not a dictionary with something else in it"),
        (lambda: bf.categorical(b"ab"), DomainError, "values of categorical is a list of text, .* not bytes"),
        (lambda: bf.query("count", where=True), QueryError, "where of query is a condition .* not a truth value"),
        (lambda: bf.query("histogram", ITSELF), QueryError, "group_by of query is .* not a list with something"),
        (lambda: bf.query("histogram", iter(["age", 3])), QueryError, "not one that gives a whole number"),
        (lambda: bf.threshold(10**5_000), PolicyError, "theta of threshold is .* not a whole number of thousands of"),
        (
            lambda: bf.integers(0, 10**5_000),
            DomainError,
            "high of integers .* of thousands of digits",
        ),
        (lambda: bf.connect(4), InvalidInput, "address of connect is text or a path, not a whole number"),
        (lambda: bf.connect("x", analyst=b"a"), InvalidInput, "analyst of connect is text, not bytes"),
        (lambda: bf.Dataset("a", source=Path("x"), domain={}), CatalogError, "source of Dataset is text, not a path"),
        (lambda: bf.Aggregate("sum", (Mute(),)), QueryError, "factors of Aggregate is a list of text"),
    ],
    ids=itertools.count(),
)
def test_the_argument_is_named_and_the_value_is_not_shown(
    refused: Callable[[], object], error: type[InvalidInput], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        refused()
    assert type(caught.value) is error


def test_what_is_like_a_kind_is_taken() -> None:
    assert bf.categorical(("a", "b")) == bf.categorical(["a", "b"])
    assert bf.query("histogram", (name for name in ["age"])) == bf.query("histogram", "age")
    assert bf.threshold(Decimal(5)) == bf.threshold("5")


def test_a_wrong_signature_is_an_error_of_python() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument") as caught:
        bf.col()  # type: ignore[call-arg]
    assert not isinstance(caught.value, BlowfishError)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        bf.col("a", names="b")  # type: ignore[call-arg]


def test_endless_iterators_are_read_as_far_as_they_are_needed() -> None:
    @checked()
    def first(numbers: Iterable[int]) -> int:
        return next(iter(numbers))

    assert first(itertools.count(7)) == 7


def test_a_look_costs_microseconds() -> None:
    began = time.perf_counter()
    for _ in range(10_000):
        bf.col("age")
    assert hasattr(bf.col, MARK)
    assert time.perf_counter() - began < 1
