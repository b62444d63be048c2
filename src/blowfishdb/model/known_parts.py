"""What public facts with given counts say about the cells of a query: parts of the cells whose totals are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.cells import Cells
from blowfishdb.model.constraints.reach import pieces_of
from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.listed import marginal_counts
from blowfishdb.model.facts.signatures import signatures
from blowfishdb.model.facts.values import CountFact, MarginalFact, RangeFact, RowsFact
from blowfishdb.model.filtering import Verdict
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import Atom, Truth, atoms, truth

NO_PART = -1
MOST_COMBINATIONS = 2**20


@dataclass(frozen=True, eq=False)
class KnownParts:
    """Cells with equal `labels` add up to `totals[label]`; nothing is known of those without a part (NO_PART)."""

    labels: Ints
    totals: Ints

    @property
    def count(self) -> int:
        return int(self.totals.size)


def known_parts(domain: Domain, policy: Policy, cells: Cells) -> KnownParts | None:
    """The parts of the cells whose totals the given counts tell; None where they tell nothing.

    Facts that cut a cell in two, that the filter divides, or that cross parts already known are not used. Facts speak
    of all rows: where only the first rows of each person count, they tell no total.
    """
    if isinstance(policy.unit, Person):
        return None
    applied = policy.applied(domain)
    given = [
        fact for fact in policy.facts if (fact.total if isinstance(fact, MarginalFact) else fact.value) is not None
    ]
    if not given:
        return None
    size = cells.graph.cells
    labels, totals = np.full(size, NO_PART, dtype=np.int64), list[int]()
    verdict = _verdict(cells)
    margins = sorted(
        (f for f in given if isinstance(f, MarginalFact)), key=lambda f: -len(set(f.attributes) & set(cells.axes))
    )
    if margins and verdict is not None and not verdict.names:
        labels, counts = _marginal(applied, margins[0], cells)
        totals = counts.tolist()
    plain = [fact for fact in given if not isinstance(fact, MarginalFact)]
    told = [(mask, fact.value) for fact in plain if (mask := _cells_of(applied, fact, cells, verdict)) is not None]
    for mask, value in sorted(told, key=lambda known: int(known[0].sum())):
        _add(labels, totals, mask, int(value or 0))
    return KnownParts(labels, np.array(totals, dtype=np.int64)) if totals else None


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


def _verdict(cells: Cells) -> Verdict | None:
    """Which combinations the query counts; None where they are too many."""
    partial = {name for name, axis in cells.layout.items() if bool(np.any(axis.cell_of < 0))}
    asked = partial | {atom.attribute for atom in atoms(cells.where)}
    names = tuple(name for name in cells.attributes if name in asked)
    shape = tuple(cells.cuts[name].count for name in names)
    if math.prod(shape) > MOST_COMBINATIONS:
        return None

    def along(name: str, values: Bools) -> Bools:
        return values.reshape([-1 if other == name else 1 for other in names])

    def by_segment(atom: Atom) -> Truth:
        yes, no = cells.cuts[atom.attribute].truth(atom)
        return along(atom.attribute, yes), along(atom.attribute, no)

    accepted = np.ones(shape, dtype=np.bool_)
    if cells.where is not None:
        accepted &= truth(cells.where, by_segment)[0]
    for name in partial:
        accepted &= along(name, cells.layout[name].cell_of >= 0)
    return Verdict(names, accepted)


def _cells_of(
    domain: Domain, fact: CountFact | RangeFact | RowsFact, cells: Cells, verdict: Verdict | None
) -> Bools | None:
    """The cells that hold exactly the records the fact counts; None where there are no such cells."""
    if verdict is None:
        return None
    told = signatures(domain, [fact], cells.cuts)
    pieces = pieces_of(told, verdict, cells.cuts, cells.layout)
    counted = told.patterns[told.pattern, 0]
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


def _marginal(domain: Domain, fact: MarginalFact, cells: Cells) -> tuple[Ints, Ints]:
    """A part for each combination of cells along the axes that the marginal has, and its total."""
    listed = marginal_counts(domain, fact)
    shape = cells.graph.shape
    along = [name for name in cells.axes if name in fact.attributes]
    sizes = [cells.layout[name].cells for name in along]
    place = np.unravel_index(np.arange(cells.graph.cells), shape)
    labels = np.zeros(cells.graph.cells, dtype=np.int64)
    for name, size in zip(along, sizes, strict=True):
        labels = labels * size + place[cells.axes.index(name)]
    totals = np.zeros(math.prod(sizes), dtype=np.int64)
    if listed is not None:
        codes, counts = listed
        flat = np.zeros(counts.size, dtype=np.int64)
        for name, size in zip(along, sizes, strict=True):
            axis = cells.layout[name]
            flat = flat * size + axis.cell_of[axis.segments.of(codes[:, fact.attributes.index(name)])]
        np.add.at(totals, flat, counts)
    return labels, totals
