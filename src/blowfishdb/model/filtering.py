"""Which records a filter accepts, and from which cells one move of a record leaves them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import QueryError
from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.domain import Domain
from blowfishdb.model.grouping import Grouping
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Atom, Predicate, Truth, truth
from blowfishdb.model.projection import dilate, factor_graph
from blowfishdb.model.segments import AxisCells, Segments

FILTER_LIMIT = 2**22
"""Combinations of segments a filter is evaluated on; above it every cell counts as joined to outside."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """Which combinations of segments of the named attributes the query counts; None when there are too many."""

    names: tuple[str, ...]
    accepted: Bools | None


def passing(where: Predicate | None, cuts: Mapping[str, Segments], place: Mapping[str, Ints]) -> Bools:
    """Which records a filter accepts, given the segment of each record by attribute."""

    def by_record(atom: Atom) -> Truth:
        yes, no = cuts[atom.attribute].truth(atom)
        return yes[place[atom.attribute]], no[place[atom.attribute]]

    return np.ones(1, dtype=np.bool_) if where is None else truth(where, by_record)[0]


def evaluate(
    where: Predicate | None,
    conditions: Iterable[Atom],
    cuts: Mapping[str, Segments],
    groups: Mapping[str, Grouping],
) -> Verdict:
    """Evaluates filter and left-out groups on every combination of segments of the attributes that matter."""
    partial = {name for name, group in groups.items() if np.any(group.runs.numbers < 0)}
    asked = partial | {atom.attribute for atom in conditions}
    names = tuple(name for name in cuts if name in asked)
    sizes = tuple(cuts[name].count for name in names)
    if math.prod(sizes) > FILTER_LIMIT:
        return Verdict(names, None)

    def along(name: str, values: Bools) -> Bools:
        return values.reshape([-1 if other == name else 1 for other in names])

    def by_segment(atom: Atom) -> Truth:
        yes, no = cuts[atom.attribute].truth(atom)
        return along(atom.attribute, yes), along(atom.attribute, no)

    accepted = np.ones(sizes, dtype=np.bool_)
    if where is not None:
        accepted &= truth(where, by_segment)[0]
    for name in partial:
        accepted &= along(name, cuts[name].groups(groups[name]) >= 0)
    if not accepted.any():
        raise QueryError("the filter rejects every declared record; nothing is left to count")
    return Verdict(names, accepted)


def leaving_cells(
    domain: Domain,
    policy: Policy,
    verdict: Verdict,
    cuts: Mapping[str, Segments],
    layout: Mapping[str, AxisCells],
) -> Bools:
    """The cells from which some edge leads to a record that does not count."""
    shape = tuple(axis.cells for axis in layout.values()) or (1,)
    if verdict.accepted is None:
        return np.ones(shape, dtype=np.bool_)
    leaving = verdict.accepted & _reached(domain, policy, verdict.names, ~verdict.accepted, cuts)
    for place, name in enumerate(verdict.names):
        if name not in layout:
            leaving = np.asarray(leaving.any(axis=place, keepdims=True))
            continue
        counts = layout[name].cell_of >= 0
        front = np.moveaxis(leaving, place, 0)
        merged = np.zeros((layout[name].cells, *front.shape[1:]), dtype=np.bool_)
        np.logical_or.at(merged, layout[name].cell_of[counts], front[counts])
        leaving = np.moveaxis(merged, 0, place)
    grouped = [place for place, name in enumerate(verdict.names) if name in layout]
    by_axis = np.transpose(
        leaving.reshape([leaving.shape[place] for place in grouped]),
        np.argsort([list(layout).index(verdict.names[place]) for place in grouped], kind="stable"),
    )
    sizes = [axis.cells if name in verdict.names else 1 for name, axis in layout.items()]
    return np.broadcast_to(by_axis.reshape(sizes or [1]), shape)


def _reached(
    domain: Domain, policy: Policy, names: Sequence[str], rejected: Bools, cuts: Mapping[str, Segments]
) -> Bools:
    """Combinations of segments from which one move of a record leads to a rejected one (or which are rejected)."""
    whole = {name: AxisCells.finest_of(cuts[name]) for name in names}
    reached = rejected
    for factor in policy.factors(names):
        places = [names.index(name) for name in factor]
        source = reached if policy.composition == "record" else rejected
        front = np.moveaxis(source, places, range(len(places)))
        flat = front.reshape(-1, *front.shape[len(places) :])
        moved = dilate(factor_graph(domain, policy, factor, whole), flat).reshape(front.shape)
        reached = reached | np.moveaxis(moved, range(len(places)), places)
    return reached
