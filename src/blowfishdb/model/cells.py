"""A query compiled to cells or points: their names, the policy graph on them, and the totals constraints tell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

import numpy as np

from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.cached import cached_property
from blowfishdb.model.constraint_graph import constrained_graph, moves_at_once, pieces_of
from blowfishdb.model.constraints import (
    CountConstraint,
    MarginalConstraint,
    RangeConstraint,
    RowsConstraint,
    counts_of,
    marginal_counts,
    marginals_of,
    numbers_given,
    signatures,
)
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers
from blowfishdb.model.graphs import ZERO, CellGraph, Composition, Factor, GridGraph, Presence, axis_graphs, factor_shape
from blowfishdb.model.groups import ONE_GROUP, AxisCells, Grouping, Segments, atom_runs, grouping, refined, segments
from blowfishdb.model.numbers import Bools, Floats, Ints, row_major
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import PREDICATES, Atom, Axis, Column, Predicate, as_axes, atoms
from blowfishdb.model.projection import (
    Verdict,
    complete,
    evaluate,
    factor_graph,
    is_exact,
    leaving_cells,
    passing,
)
from blowfishdb.model.serialize import LONG, LongList, WholeNames, digest

CELL_LIMIT = 2**24
MOST_PIECES = 2**18
"""Pieces into which the cells of two queries cut the records, up to which the cells are compared."""


@dataclass(frozen=True, eq=False)
class Labels(Sequence[str]):
    """The names of the cells along one axis, made when asked for."""

    attribute: Attribute
    firsts: Ints
    lasts: Ints
    names: tuple[str, ...]
    special: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.firsts.size) + len(self.special)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if place >= self.firsts.size:
            return self.special[place - self.firsts.size]
        if self.names:
            return self.names[place]
        return self.attribute.run_label(int(self.firsts[place]), int(self.lasts[place]))

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(self.names or self.attribute.run_labels(self.firsts, self.lasts), self.special)

    def column(self) -> Sequence[str]:
        """All of them, made at once."""
        if len(self) < LONG:
            return tuple(self)
        attribute = self.attribute
        if isinstance(attribute, Integers) and not self.names and np.array_equal(self.firsts, self.lasts):
            count, first = self.firsts.size, int(self.firsts[0])
            if np.array_equal(self.firsts, np.arange(first, first + count)):
                return WholeNames(attribute.low + first, count, self.special)
        import pyarrow

        return LongList(pyarrow.array(list(self), pyarrow.large_string()))


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a query, row-major over its axes.

    Attributes of one joint graph stand together, so `axes` may differ in order from what was asked. The first
    `plain[j]` cells of axis j are its ordinary groups, the rest its special cells (NULL, outside). Without groups
    there is one cell. `attributes` are all that the groups and the filter look at; `cuts` and `layout` say how.
    """

    graph: CellGraph
    axes: tuple[str, ...]
    labels: tuple[Sequence[str], ...]
    plain: tuple[int, ...]
    attributes: tuple[str, ...]
    where: Predicate | None
    cuts: Mapping[str, Segments]
    layout: Mapping[str, AxisCells]

    def cell_of(self, columns: Mapping[str, Ints]) -> Ints:
        """The flat cell of each record, from its value codes by attribute; ZERO (-1) where it does not count."""
        missing = [name for name in self.attributes if name not in columns]
        if missing:
            raise QueryError(f"the columns {', '.join(missing)} are needed to place a record")
        if not self.attributes:
            raise QueryError("without groups and filter every record is in cell 0; no columns are needed")
        place = {name: self.cuts[name].of(np.asarray(columns[name])) for name in self.attributes}
        flat = np.zeros(place[self.attributes[0]].shape, dtype=np.int64)
        counts = np.ones(flat.shape, dtype=np.bool_)
        for name, size in zip(self.axes, self.graph.shape, strict=False):
            axis_cell = self.layout[name].cell_of[place[name]]
            counts &= axis_cell >= 0
            flat = flat * size + axis_cell
        counts &= passing(self.where, self.cuts, place)
        return np.where(counts, flat, ZERO).astype(np.int64)


def compile_cells(
    domain: Domain,
    policy: Policy,
    group_by: str | Column | Axis | Iterable[str | Column | Axis] = (),
    where: Predicate | None = None,
    told_apart: Iterable[Predicate] = (),
) -> Cells:
    """The cells of a query and the policy graph projected on them; reads no data.

    Each condition in `told_apart` is true or false of whole cells: groups are cut where it changes, and attributes that
    are not grouped become axes.
    """
    policy.check(domain)
    domain = policy.applied(domain)
    grouped, cutting = as_axes(group_by), [atom for condition in told_apart for atom in atoms(condition)]
    given = {axis.attribute for axis in grouped}
    beside = dict.fromkeys(atom.attribute for atom in cutting if atom.attribute not in given)
    axes = _together([*grouped, *map(Axis, beside)], policy)
    if where is not None and not isinstance(where, PREDICATES):
        raise QueryError(f"a filter is a condition such as col('age') >= 18, not {where!r}")
    conditions = atoms(where)
    used = tuple(dict.fromkeys([*(axis.attribute for axis in axes), *(atom.attribute for atom in conditions)]))
    groups = {
        axis.attribute: ONE_GROUP if axis.attribute in beside else grouping(axis, domain.find(axis.attribute))
        for axis in axes
    }
    for name in dict.fromkeys(atom.attribute for atom in cutting):
        runs = [atom_runs(atom, domain.find(name)) for atom in cutting if atom.attribute == name]
        groups[name] = refined(groups[name], runs)
    cuts = {name: _cut(name, domain.find(name), groups, conditions) for name in used}
    verdict = evaluate(policy, where, cuts, {name: cuts[name].groups(group) >= 0 for name, group in groups.items()})
    if verdict.accepted is not None and not verdict.accepted.any():
        raise QueryError("the filter rejects every declared record; nothing is left to count")
    layout = {name: _layout(cuts[name], groups[name], name, verdict) for name in groups}
    shape = [layout[name].cells for name in groups] or [1]
    if math.prod(shape) > CELL_LIMIT:
        raise TooLarge("cells of a query", math.prod(shape), CELL_LIMIT, "Group by fewer attributes or wider bins.")
    return Cells(
        graph=_graph(domain, policy, verdict, layout),
        axes=tuple(groups),
        labels=tuple(_labels(layout[name], groups[name]) for name in groups) or (("all",),),
        plain=tuple(layout[name].plain for name in groups) or (1,),
        attributes=used,
        where=where,
        cuts=cuts,
        layout=layout,
    )


def _graph(domain: Domain, policy: Policy, verdict: Verdict, layout: Mapping[str, AxisCells]) -> CellGraph:
    constrained = constrained_graph(domain, policy, verdict, layout)
    if constrained is not None:
        return constrained
    factors = tuple(factor_graph(domain, policy, names, layout, verdict) for names in policy.factors(layout))
    return CellGraph(
        factors=factors or (complete(1),),
        composition=policy.composition,
        outside=leaving_cells(domain, policy, verdict, layout).reshape(-1),
        presence=policy.presence,
        rows_per_person=policy.rows_per_person,
        is_exact=is_exact(policy, verdict, factors, layout),
    )


def _together(axes: Iterable[Axis], policy: Policy) -> list[Axis]:
    """The axes in an order in which those of one joint graph stand together."""
    named = {axis.attribute: axis for axis in axes}
    return [named[name] for names in policy.factors(named) for name in names]


def cuts_of(domain: Domain, axes: Iterable[Axis], conditions: Iterable[Predicate | None]) -> Mapping[str, Segments]:
    """Where axes and conditions cut each attribute that they look at."""
    groups = {axis.attribute: grouping(axis, domain.find(axis.attribute)) for axis in axes}
    every = [atom for condition in conditions for atom in atoms(condition)]
    used = dict.fromkeys([*groups, *(atom.attribute for atom in every)])
    return {name: _cut(name, domain.find(name), groups, every) for name in used}


def _cut(name: str, attribute: Attribute, groups: Mapping[str, Grouping], conditions: Iterable[Atom]) -> Segments:
    starts = [groups[name].runs.starts] if name in groups else []
    starts += [atom_runs(atom, attribute).starts for atom in conditions if atom.attribute == name]
    return segments(attribute, starts)


def _layout(cut: Segments, group: Grouping, name: str, verdict: Verdict) -> AxisCells:
    numbers = cut.groups(group)
    possible: Bools = np.ones(cut.count, dtype=np.bool_)
    if verdict.accepted is not None and name in verdict.names:
        others = tuple(place for place, other in enumerate(verdict.names) if other != name)
        possible = np.asarray(verdict.accepted.any(axis=others))
    return AxisCells.of(cut, numbers, possible)


def _labels(axis: AxisCells, group: Grouping) -> Labels:
    names: tuple[str, ...] = ()
    special = tuple(slot.name for slot, _ in axis.special)
    if group.names:
        numbers = dict(zip(axis.cell_of.tolist(), axis.segments.groups(group).tolist(), strict=True))
        all_names = (*group.names, *(slot.name for slot in axis.segments.slots))
        cell_names = tuple(all_names[numbers[cell]] for cell in range(axis.cells))
        names, special = cell_names[: axis.plain], cell_names[axis.plain :]
    return Labels(axis.segments.attribute, axis.firsts, axis.lasts, names, special)


NO_PART = -1
MOST_PARTS = 2**20


@dataclass(frozen=True, eq=False)
class ConstrainedParts:
    """Cells with equal `labels` add up to `totals[label]`; nothing is known of those without a part (NO_PART)."""

    labels: Ints
    totals: Ints

    @property
    def count(self) -> int:
        return int(self.totals.size)


def constrained_parts(domain: Domain, policy: Policy, cells: Cells) -> ConstrainedParts | None:
    """The parts of the cells whose totals the given counts tell; None where they tell nothing.

    Constraints that cut a cell in two, that the filter divides, or that cross parts already found are not used.
    Constraints speak of all rows: where only the first rows of each person count, they tell no total.
    """
    if isinstance(policy.unit, Person):
        return None
    applied = policy.applied(domain)
    given = numbers_given(policy.constraints)
    if not given:
        return None
    size = cells.graph.cells
    labels, totals = np.full(size, NO_PART, dtype=np.int64), list[int]()
    counted = {name: axis.cell_of >= 0 for name, axis in cells.layout.items()}
    verdict = evaluate(policy, cells.where, cells.cuts, counted, MOST_PARTS)
    margins = sorted(marginals_of(given), key=lambda marginal: -len({*marginal.attributes} & {*cells.axes}))
    if margins and not verdict.names:
        labels, counts = _marginal(applied, margins[0], cells)
        totals = counts.tolist()
    masks = [
        (mask, constraint.value)
        for constraint in counts_of(given)
        if (mask := _cells_of(applied, constraint, cells, verdict)) is not None
    ]
    for mask, value in sorted(masks, key=lambda pair: int(pair[0].sum())):
        _add(labels, totals, mask, int(value or 0))
    return ConstrainedParts(labels, np.array(totals, dtype=np.int64)) if totals else None


def _add(labels: Ints, totals: list[int], mask: Bools, value: int) -> None:
    """Takes in a set of cells with a known total, where it holds every known part wholly or not at all."""
    inside = [int(part) for part in np.unique(labels[mask]) if part != NO_PART]
    if inside and bool(np.isin(labels[~mask], inside).any()):
        return
    rest = mask & (labels == NO_PART)
    left = value - sum(totals[part] for part in inside)
    if rest.any() and left >= 0:
        labels[rest] = len(totals)
        totals.append(left)


def _cells_of(
    domain: Domain, constraint: CountConstraint | RangeConstraint | RowsConstraint, cells: Cells, verdict: Verdict
) -> Bools | None:
    """The cells that hold exactly the records the constraint counts; None where there are no such cells."""
    if verdict.accepted is None:
        return None
    signature = signatures(domain, [constraint], cells.cuts)
    pieces = pieces_of(signature, verdict, cells.layout)
    counted = signature.patterns[signature.pattern, 0]
    inside, outside = (np.unique(pieces.piece_of[chosen]).tolist() for chosen in (counted, ~counted))
    if bool(pieces.zero[inside].any()):
        return None
    mask, others = _union(inside, pieces.cells, cells), _union(outside, pieces.cells, cells)
    return None if bool(np.any(mask & others)) or not mask.any() else mask


def _union(numbers: Iterable[int], cells_of: Callable[[int], Ints], cells: Cells) -> Bools:
    mask = np.zeros(cells.graph.cells, dtype=np.bool_)
    for number in numbers:
        mask[cells_of(number)] = True
    return mask


def _marginal(domain: Domain, constraint: MarginalConstraint, cells: Cells) -> tuple[Ints, Ints]:
    """A part for each combination of cells along the axes that the marginal has, and its total."""
    codes, counts = marginal_counts(domain, constraint)
    along = [name for name in cells.axes if name in constraint.attributes]
    axes = [cells.layout[name] for name in along]
    sizes = [axis.cells for axis in axes]
    place = np.unravel_index(np.arange(cells.graph.cells), cells.graph.shape)
    labels = row_major((place[cells.axes.index(name)] for name in along), sizes)
    columns = (codes[:, constraint.attributes.index(name)] for name in along)
    listed = row_major((axis.cell_of[axis.segments.of(code)] for axis, code in zip(axes, columns, strict=True)), sizes)
    totals = np.zeros(math.prod(sizes), dtype=np.int64)
    np.add.at(totals, np.broadcast_to(listed, counts.shape), counts)
    return np.array(np.broadcast_to(labels, cells.graph.cells)), totals


MOST_COLUMNS = 8
MOST_VALUES = 2**20


@dataclass(frozen=True, eq=False)
class PointGraph:
    """Which moves of one point the policy hides, column by column; the product is never written out.

    Column j has `plain[j]` values in order; cells of `factors` beyond them are NULL or outside and are no points.
    `leaves` tells that some move leads to a record that the filter rejects.
    """

    factors: tuple[Factor, ...]
    plain: tuple[int, ...]
    composition: Composition
    leaves: bool
    presence: Presence
    rows_per_person: int = 1

    @cached_property
    def can_vanish(self) -> bool:
        """Whether a hidden move can take a point away: by the filter, by absence, or to NULL or outside."""
        special = any(_joins_special(factor, self.plain[start:stop]) for factor, start, stop in self.spans)
        return self.leaves or self.presence != "public" or special

    @property
    def spans(self) -> tuple[tuple[Factor, int, int], ...]:
        """Each factor with the columns [start, stop) it is about."""
        spans, start = [], 0
        for factor in self.factors:
            stop = start + len(factor_shape(factor))
            spans.append((factor, start, stop))
            start = stop
        return tuple(spans)

    def digest(self) -> str:
        """A hash of everything above."""
        factors = tuple(factor.fingerprint() for factor in self.factors)
        content = (self.composition, self.leaves, self.presence, self.rows_per_person, self.plain, factors)
        return digest(("points", *content))


def _joins_special(factor: Factor, plain: Sequence[int]) -> bool:
    if isinstance(factor, GridGraph):
        return any(universal.size > 0 for universal in factor.universal)
    return any(
        bool(axis.joined(np.full(count, cell), np.arange(count)).any())
        for axis, count in zip(axis_graphs(factor), plain, strict=True)
        for cell in range(count, axis.size)
    )


@dataclass(frozen=True, eq=False)
class Points:
    """The columns of a question about points, in an order that keeps those of a joint graph together.

    `attributes` are all that the columns and the filter look at; `cuts` and `layout` say how.
    """

    graph: PointGraph
    axes: tuple[str, ...]
    attributes: tuple[str, ...]
    where: Predicate | None
    cuts: Mapping[str, Segments]
    layout: Mapping[str, AxisCells]

    def middles(self, column: int) -> tuple[Ints, Fraction]:
        """The middle of each value of a column, as whole multiples of the given number."""
        numerators, _, unit = middles(self.axes[column], self.layout[self.axes[column]])
        return numerators, unit

    def positions(self, column: int) -> Floats:
        """The middle of each value of a column."""
        numerators, unit = self.middles(column)
        return numerators.astype(np.float64) * float(unit)

    def place(self, columns: Mapping[str, Ints]) -> tuple[Ints, Bools]:
        """The value of each record in each column (records by columns), and which records are points that count."""
        where = {name: self.cuts[name].of(np.asarray(columns[name])) for name in self.attributes}
        values = np.stack([self.layout[name].cell_of[where[name]] for name in self.axes], axis=1)
        counts = np.all((values >= 0) & (values < np.array(self.graph.plain)), axis=1)
        return values, counts & passing(self.where, self.cuts, where)


def middles(name: str, axis: AxisCells) -> tuple[Ints, Ints, Fraction]:
    """The middle of each ordinary cell of a numeric axis and how far from it a value of the cell may be, at most.

    Both are whole multiples of the given number.
    """
    attribute = axis.segments.attribute
    if not isinstance(attribute, Integers | Bins):
        raise QueryError(f"{name} is not a bounded number; sums, means and points need integers or numeric bins")
    low, high = attribute.value_ends(axis.firsts, axis.lasts, attribute.denominator)
    return low + high, high - low, Fraction(1, 2 * attribute.denominator)


def compile_points(domain: Domain, policy: Policy, columns: tuple[Axis, ...], where: Predicate | None = None) -> Points:
    """The columns as points, with the policy on their values; reads no data."""
    filtered = compile_cells(domain, policy, (), where)
    domain = policy.applied(domain)
    named = {axis.attribute: axis for axis in columns}
    if not 1 <= len(columns) <= MOST_COLUMNS or len(named) != len(columns):
        raise QueryError(f"points have 1 to {MOST_COLUMNS} different columns, not {len(columns)}")
    axes = tuple(name for names in policy.factors(named) for name in names)
    groups = {name: _numeric_groups(named[name], domain) for name in axes}
    conditions = atoms(where)
    cuts, layout = {}, {}
    for name in dict.fromkeys([*axes, *(atom.attribute for atom in conditions)]):
        cuts[name] = _cut(name, domain.find(name), groups, conditions)
        if name in groups:
            everything = np.ones(cuts[name].count, dtype=np.bool_)
            layout[name] = AxisCells.of(cuts[name], cuts[name].groups(groups[name]), everything)
    moves = moves_at_once(domain, policy)
    policy_factors = tuple(factor_graph(domain, policy, names, layout) for names in policy.factors(axes))
    graph = PointGraph(
        # Public constraints make records change together by moves of any length (docs/proofs/constraints.md).
        factors=policy_factors if moves is None else tuple(complete(layout[name].cells) for name in axes),
        plain=tuple(layout[name].plain for name in axes),
        composition=policy.composition if moves is None else "record",
        leaves=bool(filtered.graph.outside.any()) or (moves is not None and where is not None),
        presence="secret" if moves is not None and policy.presence == "only" else policy.presence,
        rows_per_person=policy.rows_per_person if moves is None else moves,
    )
    return Points(graph, axes, tuple(cuts), where, cuts, layout)


def _numeric_groups(axis: Axis, domain: Domain) -> Grouping:
    """The values or bins of one column; all of them count."""
    attribute = domain.find(axis.attribute)
    if not isinstance(attribute, Integers | Bins):
        raise QueryError(f"{axis.attribute} is not a bounded number; points need integers or numeric bins")
    if axis.groups or axis.edges or axis.unit is not None:
        raise QueryError(f"{axis.attribute}: points take whole columns, or bins of one width")
    if axis.width is None and attribute.size > MOST_VALUES:
        advice = f"Use wider bins: col({axis.attribute!r}).bins(...)."
        raise TooLarge(f"values of {axis.attribute}", attribute.size, MOST_VALUES, advice)
    bins = grouping(axis, attribute)
    if bins.count > MOST_VALUES:
        raise TooLarge(f"bins of {axis.attribute}", bins.count, MOST_VALUES, "Use wider bins.")
    return bins


def refinement(queries: Sequence[Cells]) -> list[Ints] | None:
    """For each of several queries the cell in which each common cell lies (ZERO: it does not count there).

    The common cells are the fewest of which the cells of all are made. None where the cells cut the records into too
    many pieces to be compared.
    """
    names = list(dict.fromkeys(name for cells in queries for name in cells.attributes))
    codes = []
    for name in names:
        cuts = [cells.cuts[name] for cells in queries if name in cells.cuts]
        starts = np.unique(np.concatenate([cut.starts for cut in cuts]))
        slots = np.array([slot.code for slot in cuts[0].slots], dtype=np.int64)
        codes.append(np.concatenate([starts, slots]).astype(np.int64))
    sizes = [code.size for code in codes]
    pieces = math.prod(sizes)
    if pieces > MOST_PIECES:
        return None
    columns: Mapping[str, Ints] = {
        name: np.broadcast_to(code.reshape([-1 if n == place else 1 for n in range(len(names))]), sizes).reshape(-1)
        for place, (name, code) in enumerate(zip(names, codes, strict=True))
    }
    places = [_places(cells, columns, pieces) for cells in queries]
    common = np.zeros(pieces, dtype=np.int64)
    for cells, place in zip(queries, places, strict=True):
        common = np.unique(common * (cells.graph.cells + 1) + place + 1, return_inverse=True)[1].reshape(-1)
    _, first = np.unique(common, return_index=True)
    return [place[first] for place in places]


def merged_cells(new: Cells, past: Cells) -> Ints | None:
    """For each cell of the past query the cell of the new one it lies in (ZERO: it does not count there).

    None where a past cell is cut, or where the new query counts records that the past one did not.
    """
    places = refinement([past, new])
    if places is None:
        return None
    before, after = places
    counted = before != ZERO
    merged = np.full(past.graph.cells, ZERO, dtype=np.int64)
    merged[before[counted]] = after[counted]
    is_whole = np.array_equal(merged[before[counted]], after[counted]) and np.all(after[~counted] == ZERO)
    return merged if is_whole else None


def _places(cells: Cells, columns: Mapping[str, Ints], size: int) -> Ints:
    """The cell of each combination of values."""
    return cells.cell_of(columns) if cells.attributes else np.zeros(size, dtype=np.int64)
