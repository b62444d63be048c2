"""Facts about the whole table that are public already: counts, ranges, marginals and the number of rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from blowfishdb.errors import PolicyError
from blowfishdb.model.numbers import exact
from blowfishdb.model.predicate import PREDICATES, Both, Comparison, Either, Member, Negation, Predicate

MOST_CONDITIONS = 128
MOST_ROWS = 2**53


@dataclass(frozen=True)
class CountFact:
    """How many records meet a condition; `value` where the number itself is given."""

    condition: Predicate
    value: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.condition, PREDICATES):
            raise PolicyError(f"a count is of a condition such as col('age') < 18, not {self.condition!r}")
        object.__setattr__(self, "condition", _plain_condition(self.condition, MOST_CONDITIONS))
        _check_value(self.value)


@dataclass(frozen=True)
class RangeFact:
    """How many records have a value from low to high, both included."""

    attribute: str
    low: object
    high: object
    value: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _plain_value(self.low))
        object.__setattr__(self, "high", _plain_value(self.high))
        _check_value(self.value)

    @property
    def condition(self) -> Predicate:
        """The same as a condition."""
        return Both(Comparison(self.attribute, ">=", self.low), Comparison(self.attribute, "<=", self.high))


@dataclass(frozen=True)
class MarginalFact:
    """How many records have each combination of values of the attributes, NULL and outside included.

    `values` lists combinations with their counts, where they are given; what is not listed then counts 0. A special
    cell is written by its name, "NULL" or "outside".
    """

    attributes: tuple[str, ...]
    values: tuple[tuple[tuple[object, ...], int], ...] | None = None

    def __post_init__(self) -> None:
        if not self.attributes or len(set(self.attributes)) != len(self.attributes):
            raise PolicyError("a marginal is over one attribute or several, each named once")
        if self.values is None:
            return
        object.__setattr__(
            self, "values", tuple((tuple(_plain_value(v) for v in combination), n) for combination, n in self.values)
        )
        seen = set()
        for combination, count in self.values:
            if len(combination) != len(self.attributes):
                raise PolicyError(f"a combination of a marginal has {len(self.attributes)} values, not {combination!r}")
            if combination in seen:
                raise PolicyError(f"the combination {', '.join(map(str, combination))} is counted twice")
            seen.add(combination)
            _check_value(count)

    @property
    def total(self) -> int | None:
        """The number of rows that the given counts add up to."""
        return None if self.values is None else sum(count for _, count in self.values)


@dataclass(frozen=True)
class RowsFact:
    """How many rows there are."""

    value: int | None = None

    def __post_init__(self) -> None:
        _check_value(self.value)


Fact: TypeAlias = CountFact | RangeFact | MarginalFact | RowsFact
FACTS = (CountFact, RangeFact, MarginalFact, RowsFact)


def known_count(condition: Predicate, value: int | None = None) -> CountFact:
    """The public fact how many records meet a condition."""
    return CountFact(condition, value)


def known_range(attribute: str, low: object, high: object, value: int | None = None) -> RangeFact:
    """The public fact how many records lie from low to high, both included."""
    return RangeFact(attribute, low, high, value)


def known_marginal(*attributes: str, values: Iterable[tuple[Iterable[object], int]] | None = None) -> MarginalFact:
    """The public fact how many records have each combination of values of the attributes."""
    listed = None if values is None else tuple((tuple(combination), count) for combination, count in values)
    return MarginalFact(attributes, listed)


def known_rows(value: int | None = None) -> RowsFact:
    """The public fact how many rows there are."""
    return RowsFact(value)


def numbers_given(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """The facts of which the numbers themselves are given."""
    return tuple(f for f in facts if (f.values if isinstance(f, MarginalFact) else f.value) is not None)


def without_values(fact: Fact) -> Fact:
    """What is known, without the number itself."""
    match fact:
        case CountFact(condition):
            return CountFact(condition)
        case RangeFact(attribute, low, high):
            return RangeFact(attribute, low, high)
        case MarginalFact(attributes):
            return MarginalFact(attributes)
        case RowsFact():
            return RowsFact()


def _check_value(value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_ROWS:
        raise PolicyError(f"a public count is a whole number of records, 0 or more, not {value!r}")


def _plain_value(value: object) -> object:
    """Numbers exact, dates as text: then a fact reads back from its text as it was."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float | Decimal | Fraction):
        number = exact(value, "a value", PolicyError)
        return int(number) if number.denominator == 1 else number
    if isinstance(value, str | int):
        return value
    raise PolicyError(f"a fact compares with numbers, texts, truth values and dates, not with {value!r}")


def _plain_condition(condition: Predicate, depth: int) -> Predicate:
    if depth == 0:
        raise PolicyError(f"a condition is nested at most {MOST_CONDITIONS} deep")
    match condition:
        case Both(first, second):
            return Both(_plain_condition(first, depth - 1), _plain_condition(second, depth - 1))
        case Either(first, second):
            return Either(_plain_condition(first, depth - 1), _plain_condition(second, depth - 1))
        case Negation(inner):
            return Negation(_plain_condition(inner, depth - 1))
        case Comparison(attribute, op, value):
            return Comparison(attribute, op, _plain_value(value))
        case Member(attribute, ()):
            raise PolicyError(f"a list of values of {attribute} is empty; leave the fact out")
        case Member(attribute, values):
            return Member(attribute, tuple(_plain_value(value) for value in values))
    return condition
