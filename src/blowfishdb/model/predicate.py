"""Conditions on declared attributes: `(col("age") >= 18) & col("state").isin(["NC", "VA"])`.

Truth is three-valued as in SQL: a comparison with NULL is unknown, and only records with a true condition count.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NoReturn, TypeAlias

import numpy as np

from blowfishdb.errors import QueryError
from blowfishdb.model.arguments import checked
from blowfishdb.model.numbers import Bools, show

Op = Literal["==", "<", "<=", ">", ">="]
Truth: TypeAlias = tuple[Bools, Bools]
"""Where a condition is true and where it is false; unknown where neither."""


@checked(QueryError)
class Condition:
    """What all conditions share: &, | and ~, and a clear refusal of Python's own and, or, not."""

    def __and__(self, other: Predicate) -> Both:
        return Both(_checked(self), _checked(other))

    def __or__(self, other: Predicate) -> Either:
        return Either(_checked(self), _checked(other))

    def __invert__(self) -> Negation:
        return Negation(_checked(self))

    def __bool__(self) -> NoReturn:
        raise QueryError(
            "a condition has no truth value of its own: write (a) & (b), (a) | (b), ~(a) instead of and, or, not, "
            "and col('x').between(low, high) instead of low <= col('x') <= high"
        )


@dataclass(frozen=True)
class Comparison(Condition):
    """An attribute against one value."""

    attribute: str
    op: Op
    value: object

    def __post_init__(self) -> None:
        if isinstance(self.value, Column | Condition):
            raise QueryError(f"{self.attribute} can be compared with a value, not with another attribute")


@dataclass(frozen=True)
class Member(Condition):
    """An attribute among listed values."""

    attribute: str
    values: tuple[object, ...]


@dataclass(frozen=True)
class IsNull(Condition):
    """An attribute that is NULL."""

    attribute: str


@dataclass(frozen=True)
class IsOutside(Condition):
    """An attribute whose value is none of the declared ones."""

    attribute: str


@dataclass(frozen=True)
class Both(Condition):
    """Two conditions at once."""

    first: Predicate
    second: Predicate


@dataclass(frozen=True)
class Either(Condition):
    """At least one of two conditions."""

    first: Predicate
    second: Predicate


@dataclass(frozen=True)
class Negation(Condition):
    """The opposite of a condition; unknown stays unknown."""

    inner: Predicate


Atom: TypeAlias = Comparison | Member | IsNull | IsOutside
Predicate: TypeAlias = Atom | Both | Either | Negation
ATOMS = (Comparison, Member, IsNull, IsOutside)
PREDICATES = (*ATOMS, Both, Either, Negation)


def _checked(value: object) -> Predicate:
    if not isinstance(value, PREDICATES):
        raise QueryError(f"a condition such as col('age') >= 18 is expected, not {value!r}; mind the brackets")
    return value


def atoms(predicate: Predicate | None) -> tuple[Atom, ...]:
    """The comparisons a condition is made of, in order of appearance."""
    comparisons: list[Atom] = []
    waiting: list[Predicate] = [] if predicate is None else [_checked(predicate)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Both | Either):
            waiting += [part.second, part.first]
        elif isinstance(part, Negation):
            waiting.append(part.inner)
        else:
            comparisons.append(part)
    return tuple(comparisons)


def truth(predicate: Predicate, of_atom: Callable[[Atom], Truth]) -> Truth:
    """Where the condition is true and false, from the truth of its comparisons (arrays broadcast)."""
    if isinstance(predicate, Negation):
        yes, no = truth(predicate.inner, of_atom)
        return no, yes
    if isinstance(predicate, Both | Either):
        one, two = truth(predicate.first, of_atom), truth(predicate.second, of_atom)
        if isinstance(predicate, Both):
            return np.asarray(one[0] & two[0]), np.asarray(one[1] | two[1])
        return np.asarray(one[0] | two[0]), np.asarray(one[1] & two[1])
    return of_atom(predicate)


@dataclass(frozen=True)
class Axis:
    """One attribute to group by, and how finely: at most one of width, edges, unit and groups."""

    attribute: str
    width: object | None = None
    edges: tuple[object, ...] = ()
    unit: str | None = None
    groups: tuple[tuple[str, tuple[object, ...]], ...] = ()


@checked(QueryError)
@dataclass(frozen=True, eq=False)
class Column:
    """An attribute, to be compared or grouped."""

    name: str

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison(self.name, "==", other)

    def __ne__(self, other: object) -> Negation:  # type: ignore[override]
        return Negation(Comparison(self.name, "==", other))

    def __lt__(self, other: object) -> Comparison:
        return Comparison(self.name, "<", other)

    def __le__(self, other: object) -> Comparison:
        return Comparison(self.name, "<=", other)

    def __gt__(self, other: object) -> Comparison:
        return Comparison(self.name, ">", other)

    def __ge__(self, other: object) -> Comparison:
        return Comparison(self.name, ">=", other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __bool__(self) -> NoReturn:
        raise QueryError(f"col({self.name!r}) is not a condition; compare it with a value")

    def isin(self, values: Iterable[object]) -> Member:
        """True for the listed values."""
        return Member(self.name, tuple(values))

    def between(self, low: object, high: object) -> Both:
        """True from low to high, both included."""
        return Both(Comparison(self.name, ">=", low), Comparison(self.name, "<=", high))

    def is_null(self) -> IsNull:
        """True for NULL, where NULL has a cell of its own."""
        return IsNull(self.name)

    def is_outside(self) -> IsOutside:
        """True for values outside the declared ones, where they have a cell of their own."""
        return IsOutside(self.name)

    def bins(self, width: object = None, *, edges: Iterable[object] | None = None) -> Axis:
        """Groups of the given width from the low end, or between the given edges (what lies beyond is left out)."""
        if (width is None) == (edges is None):
            raise QueryError("bins needs either a width or edges")
        return Axis(self.name, width=width, edges=tuple(edges) if edges is not None else ())

    def by(self, unit: str) -> Axis:
        """Calendar groups: 'day', 'week', 'month', 'quarter' or 'year'."""
        return Axis(self.name, unit=unit)

    def groups(self, groups: dict[str, Iterable[object]]) -> Axis:
        """Named groups of values; values in no group are left out."""
        return Axis(self.name, groups=tuple((name, tuple(values)) for name, values in groups.items()))


@checked(QueryError)
def col(name: str) -> Column:
    """The attribute of that name, ready to be compared or grouped."""
    return Column(name)


def as_axes(group_by: str | Column | Axis | Iterable[str | Column | Axis]) -> tuple[Axis, ...]:
    """What to group by, as axes; a name or a plain column keeps its declared values."""
    items = [group_by] if isinstance(group_by, str | Column | Axis) else group_by
    axes = tuple(
        item if isinstance(item, Axis) else Axis(item.name if isinstance(item, Column) else item) for item in items
    )
    names = [axis.attribute for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"{name} is grouped twice")
    return axes


KEYWORDS = frozenset(["and", "or", "not", "in", "between", "is", "null", "true", "false", "outside"])
NAME = re.compile(r"[^\W\d]\w*")
"""A name that needs no quotes, unless it is a keyword."""
LISTED = 6
"""A list of values in a condition shows this many, then how many more there are."""
DEEPEST = 40
"""A condition nested deeper than this is cut short in words."""


def condition_text(condition: Predicate) -> str:
    """The SQL that reads back to the condition. The ledger stores it: its spelling never changes."""
    match condition:
        case Either(first, second):
            return f"{condition_text(first)} or {_bracketed(second, Either)}"
        case Both(first, second):
            return f"{_bracketed(first, Either)} and {_bracketed(second, Either, Both)}"
        case Negation(inner):
            return f"not {_bracketed(inner, Either, Both)}"
        case Comparison(attribute, op, value):
            return f"{name_text(attribute)} {'=' if op == '==' else op} {value_text(value)}"
        case Member(attribute, values):
            return f"{name_text(attribute)} in ({', '.join(value_text(value) for value in values)})"
        case IsNull(attribute):
            return f"{name_text(attribute)} is null"
        case IsOutside(attribute):
            return f"outside({name_text(attribute)})"


def _bracketed(condition: Predicate, *kinds: type) -> str:
    text = condition_text(condition)
    return f"({text})" if isinstance(condition, kinds) else text


def name_text(name: str) -> str:
    """The name of an attribute in SQL, quoted where it must be."""
    if NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def value_text(value: object) -> str:
    """A number, truth value or text in SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Fraction):
        return show(value)
    return _quoted(str(value))


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def condition_words(condition: Predicate, depth: int = DEEPEST) -> str:
    """The condition for people, much as SQL would write it; long lists and deep nests are cut short."""
    if depth == 0:
        return "..."
    match condition:
        case Comparison(attribute, op, value):
            return f"{attribute} {'=' if op == '==' else op} {_value_words(value)}"
        case Member(attribute, values):
            shown = [_value_words(value) for value in values[:LISTED]]
            more = [f"... {len(values) - LISTED} more"] if len(values) > LISTED else []
            return f"{attribute} in ({', '.join([*shown, *more])})"
        case IsNull(attribute):
            return f"{attribute} is NULL"
        case IsOutside(attribute):
            return f"{attribute} is outside its domain"
        case Negation(Comparison(attribute, "==", value)):
            return f"{attribute} <> {_value_words(value)}"
        case Negation(inner):
            return f"not ({condition_words(inner, depth - 1)})"
        case Both(Comparison(one, ">=", low), Comparison(two, "<=", high)) if one == two:
            return f"{one} between {_value_words(low)} and {_value_words(high)}"
        case Both(first, second):
            return f"{condition_words(first, depth - 1)} and {condition_words(second, depth - 1)}"
        case Either(first, second):
            return f"({condition_words(first, depth - 1)} or {condition_words(second, depth - 1)})"


def _value_words(value: object) -> str:
    if isinstance(value, datetime.date):
        return _quoted(value.isoformat())
    if isinstance(value, Fraction):
        return show(value)
    return _quoted(value) if isinstance(value, str) else str(value)


def condition_code(condition: Predicate) -> str:
    """The Python that makes the condition, with `bf` for blowfishdb."""
    match condition:
        case Comparison(attribute, op, value):
            return f"bf.col({attribute!r}) {op} {_value_code(value)}"
        case Member(attribute, values):
            return f"bf.col({attribute!r}).isin([{', '.join(_value_code(value) for value in values)}])"
        case IsNull(attribute):
            return f"bf.col({attribute!r}).is_null()"
        case IsOutside(attribute):
            return f"bf.col({attribute!r}).is_outside()"
        case Negation(inner):
            return f"~({condition_code(inner)})"
        case Both(Comparison(one, ">=", low), Comparison(two, "<=", high)) if one == two:
            return f"bf.col({one!r}).between({_value_code(low)}, {_value_code(high)})"
        case Both(first, second):
            return f"({condition_code(first)}) & ({condition_code(second)})"
        case Either(first, second):
            return f"({condition_code(first)}) | ({condition_code(second)})"


def _value_code(value: object) -> str:
    """The value as Python writes it; a short decimal as one, which conditions take exactly."""
    if isinstance(value, Fraction) and str(float(value)) == show(value):
        return show(value)
    return repr(value)
