"""Public constraints as values: counts, ranges, marginals and the number of rows; how they are written and read."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from blowfishdb.errors import DomainError, PolicyError
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.numbers import Ints, exact, show
from blowfishdb.model.predicate import (
    PREDICATES,
    Both,
    Comparison,
    Either,
    IsNull,
    IsOutside,
    Member,
    Negation,
    Op,
    Predicate,
)

MOST_CONDITIONS = 128
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
    """The public fact how many records meet a condition."""
    return CountConstraint(condition, value)


def range_constraint(attribute: str, low: object, high: object, value: int | None = None) -> RangeConstraint:
    """The public fact how many records lie from low to high, both included."""
    return RangeConstraint(attribute, low, high, value)


def marginal_constraint(
    *attributes: str, values: Iterable[tuple[Iterable[object], int]] | None = None
) -> MarginalConstraint:
    """The public fact how many records have each combination of values of the attributes."""
    listed = None if values is None else tuple((tuple(combination), count) for combination, count in values)
    return MarginalConstraint(attributes, listed)


def rows_constraint(value: int | None = None) -> RowsConstraint:
    """The public fact how many rows there are."""
    return RowsConstraint(value)


def numbers_given(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The facts of which the numbers themselves are given."""
    return tuple(f for f in constraints if (f.values if isinstance(f, MarginalConstraint) else f.value) is not None)


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


LONGEST = 20_000
KEYWORDS = frozenset(["and", "or", "not", "in", "between", "is", "null", "true", "false", "outside"])
NAME = re.compile(r"[^\W\d]\w*")

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+|/\d+)?(?!\w))
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><>|!=|<=|>=|[<>=(),])
    )""",
    re.VERBOSE,
)

Kind = Literal["number", "text", "name", "keyword", "sign", "end"]


@dataclass(frozen=True)
class Token:
    """One word: its kind, its value, and how it was written."""

    kind: Kind
    value: str | int | Fraction
    written: str


END = Token("end", "", "the end")


def tokens(text: str) -> list[Token]:
    """The words of the text, closed by an end; PolicyError at the first sign that means nothing."""
    if len(text) > LONGEST:
        raise PolicyError(f"a written fact has at most {LONGEST:,} characters, not {len(text):,}")
    found: list[Token] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            raise PolicyError(f"{text[place:].strip()[:20]!r} cannot be read in the fact {_short(text)}")
        found.append(_token(match))
        place = match.end()
    return [*found, END]


def _token(match: re.Match[str]) -> Token:
    kind, written = str(match.lastgroup), match[0].strip()
    if kind == "number":
        number = exact(written, "a number", PolicyError)
        return Token("number", int(number) if number.denominator == 1 else number, written)
    if kind == "text":
        return Token("text", written[1:-1].replace("''", "'"), written)
    if kind == "quoted":
        return Token("name", written[1:-1].replace('""', '"'), written)
    if kind == "word":
        lower = written.lower()
        return Token("keyword", lower, written) if lower in KEYWORDS else Token("name", written, written)
    return Token("sign", written, written)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


HELP = "write count(sex = 'F' and age < 18), range(age, 18, 64), marginal(sex, state) or rows, each with = 120 if known"
OPS: dict[str, Op] = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def read_constraint(text: str) -> Constraint:
    """The fact that the text writes."""
    if not isinstance(text, str):
        raise PolicyError(f"a fact is a text, not {text!r}; {HELP}")
    reader = _Reader(tokens(text))
    constraint = reader.constraint()
    if reader.next.kind != "end":
        raise PolicyError(f"{reader.next.written!r} comes after the end of the fact; {HELP}")
    return constraint


def write_constraint(constraint: Constraint) -> str:
    """The text that reads back to the fact; a marginal's values are not part of it."""
    if isinstance(constraint, MarginalConstraint):
        return f"marginal({', '.join(_name(name) for name in constraint.attributes)})"
    known = "" if constraint.value is None else f" = {constraint.value}"
    match constraint:
        case CountConstraint(condition):
            return f"count({_condition(condition)}){known}"
        case RangeConstraint(attribute, low, high):
            return f"range({_name(attribute)}, {_value(low)}, {_value(high)}){known}"
        case RowsConstraint():
            return f"rows{known}"


class _Reader:
    """Reads from left to right, one word ahead."""

    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._place = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        return self._words[self._place]

    def _take(self) -> Token:
        token = self.next
        self._place += token.kind != "end"
        return token

    def _takes(self, value: str) -> bool:
        """Whether the next word is this keyword or sign; if so it is taken."""
        found = self.next.kind in ("keyword", "sign") and self.next.value == value
        self._place += found
        return found

    def _expect(self, value: str) -> None:
        if not self._takes(value):
            raise PolicyError(f"{value!r} is expected before {self.next.written!r}; {HELP}")

    def constraint(self) -> Constraint:
        kind = self._take().written.lower()
        if kind == "rows":
            return RowsConstraint(self._known())
        if kind not in ("count", "range", "marginal"):
            raise PolicyError(f"{kind!r} is no kind of fact; {HELP}")
        self._expect("(")
        if kind == "count":
            condition = self._deeper(self._either)
            self._expect(")")
            return CountConstraint(condition, self._known())
        names = [self._attribute()]
        if kind == "range":
            self._expect(",")
            low = self._plain()
            self._expect(",")
            high = self._plain()
            self._expect(")")
            return RangeConstraint(names[0], low, high, self._known())
        while self._takes(","):
            names.append(self._attribute())
        self._expect(")")
        return MarginalConstraint(tuple(names))

    def _known(self) -> int | None:
        if not self._takes("="):
            return None
        token = self._take()
        if not isinstance(token.value, int):
            raise PolicyError(f"a public count is a whole number of records, not {token.written!r}")
        return token.value

    def _attribute(self) -> str:
        token = self._take()
        if token.kind != "name":
            raise PolicyError(f'{token.written!r} is no attribute; names with odd signs stand in "double quotes"')
        return str(token.value)

    def _plain(self) -> object:
        token = self._take()
        if token.kind in ("number", "text"):
            return token.value
        if token.kind == "keyword" and token.value in ("true", "false"):
            return token.value == "true"
        raise PolicyError(f"{token.written!r} is no plain value; text stands in 'single quotes'")

    def _deeper(self, read: Callable[[], Predicate]) -> Predicate:
        """What `read` reads, one level deeper; bounded, since it reads within itself."""
        self._depth += 1
        if self._depth > MOST_CONDITIONS:
            raise PolicyError(f"a condition is nested at most {MOST_CONDITIONS} deep")
        found = read()
        self._depth -= 1
        return found

    def _either(self) -> Predicate:
        found = self._both()
        while self._takes("or"):
            found = Either(found, self._both())
        return found

    def _both(self) -> Predicate:
        found = self._negation()
        while self._takes("and"):
            found = Both(found, self._negation())
        return found

    def _negation(self) -> Predicate:
        if self._takes("not"):
            return Negation(self._deeper(self._negation))
        if self._takes("("):
            found = self._deeper(self._either)
            self._expect(")")
            return found
        if self._takes("outside"):
            self._expect("(")
            name = self._attribute()
            self._expect(")")
            return IsOutside(name)
        return self._comparison(self._attribute())

    def _comparison(self, name: str) -> Predicate:
        for sign, op in OPS.items():
            if self._takes(sign):
                return Comparison(name, op, self._plain())
        if self._takes("<>") or self._takes("!="):
            return Negation(Comparison(name, "==", self._plain()))
        if self._takes("between"):
            low = self._plain()
            self._expect("and")
            return Both(Comparison(name, ">=", low), Comparison(name, "<=", self._plain()))
        if self._takes("is"):
            is_not = self._takes("not")
            self._expect("null")
            return Negation(IsNull(name)) if is_not else IsNull(name)
        is_not = self._takes("not")
        self._expect("in")
        member = Member(name, self._list())
        return Negation(member) if is_not else member

    def _list(self) -> tuple[object, ...]:
        self._expect("(")
        values = [self._plain()]
        while self._takes(","):
            values.append(self._plain())
        self._expect(")")
        return tuple(values)


def _condition(condition: Predicate) -> str:
    match condition:
        case Either(first, second):
            return f"{_condition(first)} or {_inside(second, Either)}"
        case Both(first, second):
            return f"{_inside(first, Either)} and {_inside(second, Either, Both)}"
        case Negation(inner):
            return f"not {_inside(inner, Either, Both)}"
        case Comparison(attribute, op, value):
            return f"{_name(attribute)} {'=' if op == '==' else op} {_value(value)}"
        case Member(attribute, values):
            return f"{_name(attribute)} in ({', '.join(_value(value) for value in values)})"
        case IsNull(attribute):
            return f"{_name(attribute)} is null"
        case IsOutside(attribute):
            return f"outside({_name(attribute)})"


def _inside(condition: Predicate, *bracketed: type) -> str:
    written = _condition(condition)
    return f"({written})" if isinstance(condition, bracketed) else written


def _name(name: str) -> str:
    if NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Fraction):
        return show(value)
    doubled = str(value).replace("'", "''")
    return f"'{doubled}'"


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
        raise PolicyError(f"a public fact: {name}: {error}") from None
