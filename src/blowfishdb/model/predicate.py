"""Conditions on declared attributes: `(col("age") >= 18) & col("state").isin(["NC", "VA"])`.

Truth is three-valued as in SQL: a comparison with NULL is unknown, and only records with a true condition count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

import numpy as np

from blowfishdb.errors import QueryError
from blowfishdb.model.numbers import Bools

Op = Literal["==", "<", "<=", ">", ">="]
Truth: TypeAlias = tuple[Bools, Bools]
"""Where a condition is true and where it is false; unknown where neither."""


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
    found: list[Atom] = []
    waiting: list[Predicate] = [] if predicate is None else [_checked(predicate)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Both | Either):
            waiting += [part.second, part.first]
        elif isinstance(part, Negation):
            waiting.append(part.inner)
        else:
            found.append(part)
    return tuple(found)


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
    width: object = None
    edges: tuple[object, ...] = ()
    unit: str | None = None
    groups: tuple[tuple[str, tuple[object, ...]], ...] = ()


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
        if isinstance(values, str):
            raise QueryError("isin takes a list of values")
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
