"""Public constraints as values: counts, ranges, marginals and the number of rows; how they are written and read."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from blowfishdb.errors import DomainError, PolicyError, QueryError
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.numbers import Ints, exact
from blowfishdb.model.predicate import (
    PREDICATES,
    Both,
    Comparison,
    Either,
    Member,
    Negation,
    Predicate,
    condition_text,
    name_text,
    value_text,
)

MOST_CONDITIONS = 128
MOST_NESTED = 32
"""Less than the parser of conditions bears, from wherever it is called."""
MOST_ROWS = 2**53


@dataclass(frozen=True)
class CountConstraint:
    """How many records meet a condition; `value` where the number itself is given."""

    condition: Predicate
    value: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.condition, PREDICATES):
            raise PolicyError(f"a count is of a condition such as col('age') < 18, not {self.condition!r}")
        object.__setattr__(self, "condition", _plain_condition(self.condition, MOST_CONDITIONS))
        _check_value(self.value)


@dataclass(frozen=True)
class RangeConstraint:
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
class MarginalConstraint:
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
class RowsConstraint:
    """How many rows there are."""

    value: int | None = None

    def __post_init__(self) -> None:
        _check_value(self.value)


Constraint: TypeAlias = CountConstraint | RangeConstraint | MarginalConstraint | RowsConstraint
CONSTRAINTS = (CountConstraint, RangeConstraint, MarginalConstraint, RowsConstraint)


def count_constraint(condition: Predicate, value: int | None = None) -> CountConstraint:
    """The public constraint how many records meet a condition."""
    return CountConstraint(condition, value)


def range_constraint(attribute: str, low: object, high: object, value: int | None = None) -> RangeConstraint:
    """The public constraint how many records lie from low to high, both included."""
    return RangeConstraint(attribute, low, high, value)


def marginal_constraint(
    *attributes: str, values: Iterable[tuple[Iterable[object], int]] | None = None
) -> MarginalConstraint:
    """The public constraint how many records have each combination of values of the attributes."""
    listed = None if values is None else tuple((tuple(combination), count) for combination, count in values)
    return MarginalConstraint(attributes, listed)


def rows_constraint(value: int | None = None) -> RowsConstraint:
    """The public constraint how many rows there are."""
    return RowsConstraint(value)


def is_given(constraint: Constraint) -> bool:
    """Whether the number itself is given, or the counts of a marginal."""
    return (constraint.values if isinstance(constraint, MarginalConstraint) else constraint.value) is not None


def numbers_given(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints of which the numbers themselves are given."""
    return tuple(filter(is_given, constraints))


def marginals_of(constraints: Iterable[Constraint]) -> list[MarginalConstraint]:
    """The marginals among the constraints."""
    return [constraint for constraint in constraints if isinstance(constraint, MarginalConstraint)]


def counts_of(constraints: Iterable[Constraint]) -> list[CountConstraint | RangeConstraint | RowsConstraint]:
    """The constraints on one number each."""
    return [constraint for constraint in constraints if not isinstance(constraint, MarginalConstraint)]


def rows_given(constraint: Constraint) -> int | None:
    """The number of rows that the constraint gives."""
    if isinstance(constraint, MarginalConstraint):
        return constraint.total
    return constraint.value if isinstance(constraint, RowsConstraint) else None


def without_values(constraint: Constraint) -> Constraint:
    """What is known, without the number itself."""
    match constraint:
        case CountConstraint(condition):
            return CountConstraint(condition)
        case RangeConstraint(attribute, low, high):
            return RangeConstraint(attribute, low, high)
        case MarginalConstraint(attributes):
            return MarginalConstraint(attributes)
        case RowsConstraint():
            return RowsConstraint()


def _check_value(value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_ROWS:
        raise PolicyError(f"a public count is a whole number of records, 0 or more, not {value!r}")


def _plain_value(value: object) -> object:
    """Numbers exact, dates as text: then a constraint reads back from its text as it was."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float | Decimal | Fraction):
        number = exact(value, "a value", PolicyError)
        return int(number) if number.denominator == 1 else number
    if isinstance(value, str | int):
        return value
    raise PolicyError(f"a constraint compares with numbers, texts, truth values and dates, not with {value!r}")


def _plain_condition(condition: Predicate, depth: int, nested: int = 0) -> Predicate:
    """The condition with plain values; refused where its text could not be read back."""
    if depth == 0:
        raise PolicyError(f"a condition is nested at most {MOST_CONDITIONS} deep")
    if nested > MOST_NESTED:
        raise PolicyError(f"a condition has at most {MOST_NESTED} brackets or NOTs around each other")
    match condition:
        case Both(first, second) | Either(first, second):
            # A run such as "a and b and c" leans to the left and needs no brackets.
            run = nested + (type(first) is not type(condition))
            return type(condition)(
                _plain_condition(first, depth - 1, run), _plain_condition(second, depth - 1, nested + 1)
            )
        case Negation(inner):
            return Negation(_plain_condition(inner, depth - 1, nested + 1))
        case Comparison(attribute, op, value):
            return Comparison(attribute, op, _plain_value(value))
        case Member(attribute, ()):
            raise PolicyError(f"a list of values of {attribute} is empty; leave the constraint out")
        case Member(attribute, values):
            return Member(attribute, tuple(_plain_value(value) for value in values))
    return condition


LONGEST = 20_000
KINDS = ("count", "range", "marginal", "rows")
HELP = "write count(sex = 'F' and age < 18), range(age, 18, 64), marginal(sex, state) or rows, each with = 120 if known"


def write_constraint(constraint: Constraint) -> str:
    """The text that reads back to the constraint; a marginal's values are not part of it."""
    if isinstance(constraint, MarginalConstraint):
        return f"marginal({', '.join(name_text(name) for name in constraint.attributes)})"
    known = "" if constraint.value is None else f" = {constraint.value}"
    match constraint:
        case CountConstraint(condition):
            return f"count({condition_text(condition)}){known}"
        case RangeConstraint(attribute, low, high):
            return f"range({name_text(attribute)}, {value_text(low)}, {value_text(high)}){known}"
        case RowsConstraint():
            return f"rows{known}"


def read_constraint(text: str) -> Constraint:
    """The constraint that the text writes."""
    if not isinstance(text, str):
        raise PolicyError(f"a constraint is a text, not {text!r}; {HELP}")
    if len(text) > LONGEST:
        raise PolicyError(f"a written constraint has at most {LONGEST:,} characters, not {len(text):,}")
    # Loaded here: only who reads constraints waits for the parser.
    from blowfishdb.model.conditions import condition_of, name_in, read_call, value_in

    try:
        kind, arguments, known = read_call(text)
        if kind not in KINDS:
            raise QueryError(f"{kind!r} is no kind of constraint")
        value = value_in(known) if known else None
        match kind, arguments:
            case "rows", []:
                return RowsConstraint(_count(value))
            case "count", [condition]:
                return CountConstraint(condition_of(condition), _count(value))
            case "range", [name, low, high]:
                return RangeConstraint(name_in(name), value_in(low), value_in(high), _count(value))
            case "marginal", [_, *_] if value is None:
                return MarginalConstraint(tuple(name_in(name) for name in arguments))
    except QueryError as error:
        raise PolicyError(f"{error}; {HELP}") from None
    raise PolicyError(f"{kind} is not written so; {HELP}")


def _count(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise PolicyError(f"a public count is a whole number of records, not {value}")
    return value


def marginal_counts(domain: Domain, constraint: MarginalConstraint) -> tuple[Ints, Ints] | None:
    """The given counts of a marginal: value codes of each listed combination, and their counts; None without any."""
    if constraint.values is None:
        return None
    attributes = [(name, domain.find(name, PolicyError)) for name in constraint.attributes]
    codes = [
        [_code_of(attribute, value, name) for (name, attribute), value in zip(attributes, listed, strict=True)]
        for listed, _ in constraint.values
    ]
    counts = np.array([count for _, count in constraint.values], dtype=np.int64)
    return np.array(codes, dtype=np.int64).reshape(-1, len(constraint.attributes)), counts


def _code_of(attribute: Attribute, value: object, name: str) -> int:
    """The code of a declared value, or of the special cell of that name."""
    try:
        return attribute.index_of(value)
    except DomainError as error:
        for slot in attribute.slots:
            if slot.name == value:
                return slot.code
        raise PolicyError(f"a public constraint: {name}: {error}") from None
