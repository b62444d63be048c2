"""Compiles groups and a filter to cells: their names, the policy graph on them, and where each record falls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.arrays import Bools, Ints, distinct
from blowfishdb.model.cellgraph import ZERO, CellGraph
from blowfishdb.model.constraints.constrain import constrained_graph
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.filtering import Verdict, evaluate, leaving_cells, passing
from blowfishdb.model.grouping import Grouping, grouping
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import PREDICATES, Atom, Axis, Column, Predicate, as_axes, atoms
from blowfishdb.model.projection import complete, factor_graph
from blowfishdb.model.segments import AxisCells, Segments, atom_runs, segments

CELL_LIMIT = 2**24


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


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a query, row-major over its axes.

    Attributes of one joint threshold stand together, so `axes` may differ in order from what was asked. The first
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
            own = self.layout[name].cell_of[place[name]]
            counts &= own >= 0
            flat = flat * size + own
        counts &= passing(self.where, self.cuts, place)
        return np.where(counts, flat, ZERO).astype(np.int64)


def compile_cells(
    domain: Domain,
    policy: Policy,
    group_by: str | Column | Axis | Iterable[str | Column | Axis] = (),
    where: Predicate | None = None,
) -> Cells:
    """The cells of a query and the policy graph projected on them; reads no data."""
    policy.check(domain)
    domain = policy.applied(domain)
    axes = _together(as_axes(group_by), policy)
    if where is not None and not isinstance(where, PREDICATES):
        raise QueryError(f"a filter is a condition such as col('age') >= 18, not {where!r}")
    conditions = atoms(where)
    used = tuple(dict.fromkeys([*(axis.attribute for axis in axes), *(atom.attribute for atom in conditions)]))
    groups = {axis.attribute: grouping(axis, domain.find(axis.attribute)) for axis in axes}
    cuts = {name: _cut(name, domain.find(name), groups, conditions) for name in used}
    verdict = evaluate(where, conditions, cuts, groups)
    layout = {name: _layout(cuts[name], groups[name], name, verdict) for name in groups}
    shape = [layout[name].cells for name in groups] or [1]
    if math.prod(shape) > CELL_LIMIT:
        raise TooLarge("cells of a query", math.prod(shape), CELL_LIMIT, "Group by fewer attributes or wider bins.")
    return Cells(
        graph=_graph(domain, policy, verdict, cuts, layout),
        axes=tuple(groups),
        labels=tuple(_labels(layout[name], groups[name]) for name in groups) or (("all",),),
        plain=tuple(layout[name].plain for name in groups) or (1,),
        attributes=used,
        where=where,
        cuts=cuts,
        layout=layout,
    )


def _graph(
    domain: Domain, policy: Policy, verdict: Verdict, cuts: Mapping[str, Segments], layout: Mapping[str, AxisCells]
) -> CellGraph:
    constrained = constrained_graph(domain, policy, verdict, cuts, layout)
    if constrained is not None:
        return constrained
    factors = tuple(factor_graph(domain, policy, names, layout) for names in policy.factors(layout))
    return CellGraph(
        factors=factors or (complete(1),),
        composition=policy.composition,
        outside=leaving_cells(domain, policy, verdict, cuts, layout).reshape(-1),
        presence=policy.presence,
        rows_per_person=policy.rows_per_person,
    )


def _together(axes: Iterable[Axis], policy: Policy) -> list[Axis]:
    """The axes in an order in which those of one joint threshold stand together."""
    named = {axis.attribute: axis for axis in axes}
    return [named[name] for names in policy.factors(named) for name in names]


def _cut(name: str, attribute: Attribute, groups: Mapping[str, Grouping], conditions: Iterable[Atom]) -> Segments:
    pieces = [groups[name].runs] if name in groups else []
    pieces += [atom_runs(atom, attribute) for atom in conditions if atom.attribute == name]
    return segments(attribute, pieces)


def _layout(cut: Segments, group: Grouping, name: str, verdict: Verdict) -> AxisCells:
    numbers = cut.groups(group)
    possible: Bools = np.ones(cut.count, dtype=np.bool_)
    if verdict.accepted is not None and name in verdict.names:
        others = tuple(place for place, other in enumerate(verdict.names) if other != name)
        possible = np.asarray(verdict.accepted.any(axis=others))
    return AxisCells.of(cut, numbers, possible)


def _labels(axis: AxisCells, group: Grouping) -> Labels:
    kept = distinct(axis.segments.groups(group)[axis.cell_of >= 0])
    names = tuple(group.names[number] for number in kept[: axis.plain]) if group.names else ()
    return Labels(axis.segments.attribute, axis.firsts, axis.lasts, names, tuple(s.name for s in axis.special))
