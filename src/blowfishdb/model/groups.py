"""How a query cuts an attribute: groups of values, and the segments on which groups and comparisons are constant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from blowfishdb.errors import DomainError, QueryError, TooLarge
from blowfishdb.model.cached import cached_property
from blowfishdb.model.calendar import DAY, NESTS, SECONDS, Dates, Timestamps, first_days, periods_of_days
from blowfishdb.model.domain import CELL, Attribute, Bins, Slot, is_storable
from blowfishdb.model.numbers import Bools, Ints, distinct, exact, show, suggest, whole
from blowfishdb.model.predicate import Atom, Axis, Comparison, IsNull, Member, Predicate, Truth, truth

AXIS_LIMIT = 2**24
LEFT_OUT = -1

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Runs:
    """Value indices cut into runs, each with a number; the last run ends with the attribute."""

    starts: Ints
    numbers: Ints

    def at(self, starts: Ints) -> Ints:
        """The numbers of finer runs that begin at the given indices."""
        return np.asarray(self.numbers[np.searchsorted(self.starts, starts, side="right") - 1], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of one axis: runs numbered by group (LEFT_OUT for none), and the groups' own names if any.

    `special` gives the groups of special cells by their codes; those that are in no group stand beside.
    """

    runs: Runs
    count: int
    names: tuple[str, ...] = ()
    special: Mapping[int, int] = field(default_factory=dict)


ONE_GROUP = Grouping(Runs(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)), 1)


def refined(groups: Grouping, cuts: Iterable[Runs]) -> Grouping:
    """The groups cut further wherever one of the runs begins; each run of a group is a group of its own."""
    starts = distinct(np.concatenate([groups.runs.starts, *(runs.starts for runs in cuts)]))
    inside = groups.runs.at(starts) != LEFT_OUT
    numbers = np.where(inside, np.cumsum(inside) - 1, LEFT_OUT)
    return Grouping(Runs(starts, numbers), int(inside.sum()))


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
    return Grouping(Runs(starts, numbers), int(edges.size) - 1)


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
        raise DomainError(f"is not a date, so it cannot be grouped by {unit!r}")
    if unit == attribute.by:
        _check_size("an axis", attribute.size)
        return np.arange(attribute.size + 1)
    if unit not in NESTS[attribute.by]:
        fits = NESTS[attribute.by]
        advice = suggest(unit, fits) if fits else "it can only be used as it is"
        raise DomainError(f"{attribute.by}s do not make up whole {unit}s; {advice}")
    if unit in ("minute", "hour"):
        coarse = SECONDS[unit] // SECONDS[attribute.by]
        inner = np.arange(-attribute.first_period % coarse or coarse, attribute.size, coarse, dtype=np.int64)
    else:
        # A day and more begin at midnight of the wall clock.
        first, last = periods_of_days(attribute.starts(np.array([0, attribute.size - 1])), unit).tolist()
        days = first_days(np.arange(first + 1, last + 1), unit)
        is_date = isinstance(attribute, Dates)
        periods = periods_of_days(days, attribute.by) if is_date else days * (DAY // SECONDS[attribute.by])
        inner = periods - attribute.first_period
    return np.concatenate([[0], inner, [attribute.size]]).astype(np.int64)


def _named_groups(axis: Axis, attribute: Attribute) -> Grouping:
    member: dict[int, int] = {}
    for number, (name, values) in enumerate(axis.groups):
        if not values:
            raise DomainError(f"the group {name!r} is empty")
        if not isinstance(name, str) or not is_storable(name):
            raise DomainError(f"the name of a group is text that can be stored, not {name!r}")
        for value in values:
            if member.setdefault(attribute.code_of(value), number) != number:
                raise DomainError(f"the value {value!r} is in two groups")
    special = {slot.code: member.pop(slot.code) for slot in attribute.slots if slot.code in member}
    names = tuple(name for name, _ in axis.groups)
    shown = Counter([*names, *(slot.name for slot in attribute.slots if slot.code not in special)])
    for name in names:
        if shown[name] > 1:
            raise DomainError(f"a group and another, or a separate cell, are both called {name!r}; rename the group")
    return Grouping(_runs_of(member, attribute.size, LEFT_OUT), len(axis.groups), names, special)


@dataclass(frozen=True, eq=False)
class Segments:
    """One attribute cut as finely as the query needs: runs of values, then its special cells."""

    attribute: Attribute
    starts: Ints

    @property
    def stops(self) -> Ints:
        return np.append(self.starts[1:], self.attribute.size)

    @property
    def slots(self) -> tuple[Slot, ...]:
        return self.attribute.slots

    @property
    def codes(self) -> Ints:
        """The lowest value code of each segment."""
        return np.append(self.starts, np.array([slot.code for slot in self.slots], dtype=np.int64))

    @property
    def count(self) -> int:
        return int(self.starts.size) + len(self.slots)

    def of(self, codes: Ints) -> Ints:
        """The segment of each value code."""
        if self.starts.size == self.attribute.size:
            # Every value is a segment of its own.
            place = np.clip(codes, -1, self.attribute.size - 1)
        else:
            place = np.searchsorted(self.starts, codes, side="right") - 1
        for offset, slot in enumerate(self.slots):
            place = np.where(codes == slot.code, self.starts.size + offset, place)
        return place.astype(np.int64)

    def truth(self, atom: Atom) -> Truth:
        """Where the comparison is true and false, by segment."""
        inside = atom_runs(atom, self.attribute).at(self.starts) == 1
        yes, no = [inside], [~inside]
        for slot in self.slots:
            known = _slot_truth(atom, slot)
            yes.append(np.array([known is True]))
            no.append(np.array([known is False]))
        return np.concatenate(yes), np.concatenate(no)

    def groups(self, grouping: Grouping) -> Ints:
        """The group of each segment; special cells that are in none follow the groups."""
        numbers = (grouping.special.get(slot.code, grouping.count + n) for n, slot in enumerate(self.slots))
        return np.append(grouping.runs.at(self.starts), np.array([*numbers], dtype=np.int64))


def along(names: Sequence[str], name: str, values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Values by segment of one attribute, shaped to spread over the combinations of segments of all the names."""
    return values.reshape([-1 if other == name else 1 for other in names])


def combinations(condition: Predicate, names: Sequence[str], cuts: Mapping[str, Segments]) -> Bools:
    """Which combinations of segments of the named attributes meet the condition."""

    def by_segment(atom: Atom) -> Truth:
        yes, no = cuts[atom.attribute].truth(atom)
        return along(names, atom.attribute, yes), along(names, atom.attribute, no)

    return truth(condition, by_segment)[0]


def _slot_truth(atom: Atom, slot: Slot) -> bool | None:
    """NULL compares as unknown; a value outside equals no declared one, and its order is unknown."""
    if isinstance(atom, Comparison | Member):
        ordering = isinstance(atom, Comparison) and atom.op != "=="
        return None if slot.name == "NULL" or ordering else False
    return (slot.name == "NULL") == isinstance(atom, IsNull)


def atom_runs(atom: Atom, attribute: Attribute) -> Runs:
    """Where a comparison holds along the declared values; QueryError where they do not decide it."""
    try:
        if isinstance(atom, Member):
            return _runs_of({attribute.index_of(value): 1 for value in atom.values}, attribute.size)
        if isinstance(atom, Comparison):
            return _comparison_runs(atom, attribute)
    except DomainError as error:
        raise QueryError(f"{atom.attribute}: {error}") from None
    wanted = attribute.null if isinstance(atom, IsNull) else attribute.outside
    if wanted != CELL:
        what = "NULL" if isinstance(atom, IsNull) else "a value outside"
        raise QueryError(f"{atom.attribute}: {what} has no cell of its own here, so it cannot be asked for")
    return _runs_of({}, attribute.size)


def _comparison_runs(atom: Comparison, attribute: Attribute) -> Runs:
    if atom.op == "==":
        return _runs_of({attribute.index_of(atom.value): 1}, attribute.size)
    if not attribute.ordered:
        raise DomainError(f"has no order, so {atom.op} means nothing; use == or isin")
    cut = attribute.below(atom.value) if atom.op in ("<", ">=") else attribute.up_to(atom.value)
    low_side = int(atom.op in ("<", "<="))
    filled = np.array([cut > 0, cut < attribute.size])
    return Runs(np.array([0, cut])[filled], np.array([low_side, 1 - low_side])[filled])


def _runs_of(numbers: Mapping[int, int], size: int, otherwise: int = 0) -> Runs:
    """Runs with the given numbers at their indices, and another number elsewhere."""
    inside = np.array(list(numbers), dtype=np.int64)
    starts = distinct(np.concatenate([[0], inside, inside + 1]))
    starts = starts[starts < size]
    return Runs(starts, np.array([numbers.get(start, otherwise) for start in starts.tolist()], dtype=np.int64))


def segments(attribute: Attribute, starts: Iterable[Ints]) -> Segments:
    """The coarsest cut of the attribute that begins a segment at each of the given values."""
    return Segments(attribute, distinct(np.concatenate([np.zeros(1, dtype=np.int64), *starts])))


@dataclass(frozen=True, eq=False)
class AxisCells:
    """The segments of one attribute put together to the cells of an axis.

    `cell_of` gives each segment's cell, LEFT_OUT for segments that never count. Every cell has a segment. The `plain`
    cells, which hold declared values, come first; the others hold NULL or outside alone.
    """

    segments: Segments
    cell_of: Ints
    plain: int
    cells: int

    @staticmethod
    def of(segments: Segments, groups: Ints, possible: Bools) -> AxisCells:
        """The axis whose cells are the groups that still have a segment after the filter."""
        counts = possible & (groups >= 0)
        first = segments.starts.size
        plain = distinct(groups[:first][counts[:first]])
        cell_of = np.where(counts, np.searchsorted(plain, groups), LEFT_OUT).astype(np.int64)
        beside = [number for number in np.unique(groups[first:][counts[first:]]) if not np.any(plain == number)]
        for cell, number in enumerate(beside, start=plain.size):
            cell_of[first:][counts[first:] & (groups[first:] == number)] = cell
        return AxisCells(segments, cell_of, int(plain.size), int(plain.size) + len(beside))

    @staticmethod
    def finest_of(segments: Segments) -> AxisCells:
        """The axis on which every segment is a cell of its own."""
        return AxisCells(segments, np.arange(segments.count), int(segments.starts.size), segments.count)

    def finest(self) -> AxisCells:
        """The axis on which every segment that counts is a cell of its own."""
        return AxisCells.of(self.segments, np.arange(self.segments.count), self.cell_of >= 0)

    def merged(self, mask: Bools, place: int) -> Bools:
        """A mask over segments along the given dimension, as a mask over cells: where some segment of the cell is."""
        counts = self.cell_of >= 0
        front = np.moveaxis(mask, place, 0)
        by_cell = np.zeros((self.cells, *front.shape[1:]), dtype=np.bool_)
        np.logical_or.at(by_cell, self.cell_of[counts], front[counts])
        return np.moveaxis(by_cell, 0, place)

    @property
    def _plain_cell_of(self) -> Ints:
        return self.cell_of[: self.segments.starts.size]

    @property
    def in_order(self) -> bool:
        """Whether every ordinary cell lies wholly before the next one, and holds declared values alone."""
        cells = self._plain_cell_of[self._plain_cell_of >= 0]
        return bool(np.all(np.diff(cells) >= 0)) and all(cell >= self.plain for _, cell in self.special)

    @cached_property
    def firsts(self) -> Ints:
        """The lowest value of each ordinary cell."""
        cells = self._plain_cell_of
        lowest = np.full(self.plain, np.iinfo(np.int64).max)
        np.minimum.at(lowest, cells[cells >= 0], self.segments.starts[cells >= 0])
        return lowest

    @cached_property
    def lasts(self) -> Ints:
        """The highest value of each ordinary cell."""
        cells = self._plain_cell_of
        highest = np.full(self.plain, -1)
        np.maximum.at(highest, cells[cells >= 0], self.segments.stops[cells >= 0] - 1)
        return highest

    @property
    def special(self) -> tuple[tuple[Slot, int], ...]:
        """The special cells of the attribute that count, each with the cell that holds it."""
        cells = self.cell_of[self.segments.starts.size :].tolist()
        return tuple((slot, cell) for slot, cell in zip(self.segments.slots, cells, strict=True) if cell >= 0)

    @property
    def universal(self) -> Ints:
        """The cells that hold NULL or outside where it is hidden among all values."""
        return np.array(sorted({cell for slot, cell in self.special if not slot.public}), dtype=np.int64)


def first_segments(axis: AxisCells) -> Ints:
    """The first segment of each cell of an axis."""
    counted = np.flatnonzero(axis.cell_of != LEFT_OUT)
    _, first = np.unique(axis.cell_of[counted], return_index=True)
    return np.asarray(counted[first], dtype=np.int64)


def first_codes(axis: AxisCells) -> Ints:
    """A value code in each cell of an axis."""
    return np.asarray(axis.segments.codes[first_segments(axis)], dtype=np.int64)
