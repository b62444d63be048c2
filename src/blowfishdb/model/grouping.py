"""The groups of one axis of a query: runs of value indices of equal width, between edges, by calendar or by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import DomainError, QueryError, TooLarge
from blowfishdb.model.arrays import Ints, distinct
from blowfishdb.model.calendar import NESTS, first_days, periods_of_days
from blowfishdb.model.domain import Attribute, Bins, Dates, Timestamps
from blowfishdb.model.numbers import exact, show, suggest, whole
from blowfishdb.model.predicate import Axis

AXIS_LIMIT = 2**24
LEFT_OUT = -1


@dataclass(frozen=True, eq=False)
class Runs:
    """Value indices cut into runs, each with a number; the last run ends at `size`."""

    size: int
    starts: Ints
    numbers: Ints

    def at(self, starts: Ints) -> Ints:
        """The numbers of finer runs that begin at the given indices."""
        return np.asarray(self.numbers[np.searchsorted(self.starts, starts, side="right") - 1], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of one axis: runs numbered by group (LEFT_OUT for none), and the groups' own names if any."""

    runs: Runs
    count: int
    names: tuple[str, ...] = ()


def grouping(axis: Axis, attribute: Attribute) -> Grouping:
    """The groups of one axis; QueryError when they do not fit the declared values."""
    try:
        if axis.groups:
            return _named_groups(axis, attribute)
        if axis.unit is not None:
            edges = _calendar_edges(axis.unit, attribute)
        elif axis.width is not None:
            edges = _width_edges(axis.width, attribute)
        elif axis.edges:
            edges = _given_edges(axis.edges, attribute)
        else:
            _check_size(axis.attribute, attribute.size)
            edges = np.arange(attribute.size + 1)
    except DomainError as error:
        raise QueryError(f"{axis.attribute}: {error}") from None
    _check_size(axis.attribute, edges.size - 1)
    starts, numbers = edges, np.append(np.arange(edges.size - 1), LEFT_OUT)
    if starts[-1] == attribute.size:
        starts, numbers = starts[:-1], numbers[:-1]
    if starts[0] > 0:
        starts, numbers = np.insert(starts, 0, 0), np.insert(numbers, 0, LEFT_OUT)
    return Grouping(Runs(attribute.size, starts, numbers), int(edges.size) - 1)


def _check_size(name: str, count: int) -> None:
    if count > AXIS_LIMIT:
        raise TooLarge(f"cells along {name}", count, AXIS_LIMIT, f"Group it: col({name!r}).bins(...) with wider bins.")


def _width_edges(width: object, attribute: Attribute) -> Ints:
    step = exact(width, "the width", DomainError)
    if step <= 0:
        raise DomainError("the width of a group must be positive")
    if isinstance(attribute, Bins):
        if attribute.width is None:
            raise DomainError("its bins are of unequal width; give edges")
        step = step / attribute.width
        if step.denominator != 1:
            raise DomainError(f"the width must be a multiple of the bins' own width {show(attribute.width)}")
    if not attribute.ordered:
        raise DomainError("has no order; use groups({...})")
    size = whole(step, "the width", DomainError)
    _check_size("an axis", -(-attribute.size // size))
    return np.append(np.arange(0, attribute.size, size, dtype=np.int64), attribute.size)


def _given_edges(edges: Sequence[object], attribute: Attribute) -> Ints:
    if not attribute.ordered:
        raise DomainError("has no order; use groups({...})")
    cuts = np.array([attribute.below(edge) for edge in edges], dtype=np.int64)
    if cuts.size < 2 or np.any(np.diff(cuts) <= 0):
        raise DomainError("edges must be two or more and increase, with a declared value in every group")
    return cuts


def _calendar_edges(unit: str, attribute: Attribute) -> Ints:
    if not isinstance(attribute, Dates | Timestamps):
        raise DomainError(f"is no date, so it cannot go by {unit!r}")
    if unit == attribute.by:
        _check_size("an axis", attribute.size)
        return np.arange(attribute.size + 1)
    if unit not in NESTS[attribute.by]:
        fits = NESTS[attribute.by]
        advice = suggest(unit, fits) if fits else "it can only be used as it is"
        raise DomainError(f"{attribute.by}s do not make up whole {unit}s; {advice}")
    if isinstance(attribute, Timestamps):
        return _timestamp_edges(unit, attribute)
    ends = attribute.starts(np.array([0, attribute.size]))
    first, last = (int(p) for p in periods_of_days(np.array([ends[0], ends[1] - 1]), unit))
    inner = first_days(np.arange(first + 1, last + 1), unit)
    return np.concatenate([[0], periods_of_days(inner, attribute.by) - attribute.first_period, [attribute.size]])


def _timestamp_edges(unit: str, attribute: Timestamps) -> Ints:
    # Microseconds per coarse period: a day and more begin at midnight of the wall clock.
    if unit in ("minute", "hour"):
        coarse = (60 if unit == "minute" else 3600) * 1_000_000 // attribute.step
        first = -(-attribute.first_period // coarse) * coarse - attribute.first_period
        inner = np.arange(first if first else coarse, attribute.size, coarse, dtype=np.int64)
    else:
        days = attribute.days(np.array([0, attribute.size - 1]))
        begin, end = (int(p) for p in periods_of_days(days, unit))
        starts = first_days(np.arange(begin + 1, end + 1), unit)
        inner = starts * (86_400 * 1_000_000 // attribute.step) - attribute.first_period
    return np.concatenate([[0], inner, [attribute.size]]).astype(np.int64)


def _named_groups(axis: Axis, attribute: Attribute) -> Grouping:
    member: dict[int, int] = {}
    for number, (name, values) in enumerate(axis.groups):
        if not values:
            raise DomainError(f"the group {name!r} is empty")
        for value in values:
            if member.setdefault(attribute.index_of(value), number) != number:
                raise DomainError(f"the value {value!r} is in two groups")
    inside = np.array(sorted(member), dtype=np.int64)
    starts = distinct(np.concatenate([[0], inside, inside + 1]))
    starts = starts[starts < attribute.size].astype(np.int64)
    numbers = np.array([member.get(int(start), LEFT_OUT) for start in starts], dtype=np.int64)
    return Grouping(Runs(attribute.size, starts, numbers), len(axis.groups), tuple(n for n, _ in axis.groups))
