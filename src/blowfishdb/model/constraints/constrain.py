"""The policy graph of a query under public facts: every pair of cells that a change of several records may swap."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.cellgraph import CellGraph, Factor
from blowfishdb.model.changed_together import Case, ChangedTogether, collected
from blowfishdb.model.constraints.moves import moves_at_once
from blowfishdb.model.constraints.reach import Pieces, pieces_of
from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.atoms import Atoms, atoms_of
from blowfishdb.model.facts.signatures import MANY, signatures
from blowfishdb.model.filtering import Verdict
from blowfishdb.model.graphs.explicit import CliqueGraph, by_first_appearance
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.policy import Policy
from blowfishdb.model.segments import AxisCells, Segments

MOST_MEMBERS = 2**24
"""Groups that would list more cells than this in all are put together to one group of all cells."""


def constrained_graph(
    domain: Domain,
    policy: Policy,
    verdict: Verdict,
    cuts: Mapping[str, Segments],
    layout: Mapping[str, AxisCells],
) -> CellGraph | None:
    """The graph of a query's cells under the policy's facts; None when no hidden move changes a fact.

    Records make up for each other by changes of any kind, so all pairs of cells that some atom holds are joined,
    whatever the policy's own graphs say (proof: docs/proofs/constraints.md).
    """
    moves = moves_at_once(domain, policy)
    if moves is None:
        return None
    cells = math.prod(axis.cells for axis in layout.values())
    told = signatures(domain, policy.facts, cuts)
    absence = policy.presence != "public"
    found = atoms_of(told, absence=absence)
    if found.settled:
        together = _groups(found, pieces_of(told, verdict, cuts, layout), cells, moves)
    else:
        rejects = verdict.accepted is None or not bool(verdict.accepted.all())
        together = _everything("general", cells, rejects or absence, moves)
    shape = tuple(axis.cells for axis in layout.values()) or (1,)
    outside: Bools = np.zeros(cells, dtype=np.bool_)
    outside[together.members[np.repeat(together.with_zero, np.diff(together.starts))]] = True
    return CellGraph(_factors(together, shape), "record", outside, "public", together.moves, together)


def _everything(case: Case, cells: int, with_zero: bool, moves: int) -> ChangedTogether:
    """One group of all cells."""
    members = np.arange(cells)
    whole = ChangedTogether(case, np.array([0, cells]), members, np.array([with_zero]), np.array([moves]), moves)
    return collected(whole, np.zeros(cells, dtype=np.int64), members)


def _groups(found: Atoms, pieces: Pieces, cells: int, moves: int) -> ChangedTogether:
    """Atoms with the same reachable vertices as one group each."""
    keys = np.unique(found.atom_of * pieces.count + pieces.piece_of)
    atom, piece = keys // pieces.count, keys % pieces.count
    starts = np.searchsorted(atom, np.arange(found.count + 1))
    alike: dict[tuple[bytes, bool], int] = {}
    for number, times in enumerate(found.times.tolist()):
        key = (piece[starts[number] : starts[number + 1]].tobytes(), number == found.absent)
        alike[key] = min(MANY, alike.get(key, 0) + times)
    groups: dict[tuple[bytes, bool], int] = {}
    listed = 0
    for (held, absent), times in alike.items():
        numbers = np.frombuffer(held, dtype=np.int64)
        parts = [pieces.cells(int(number)) for number in numbers]
        members = parts[0] if len(parts) == 1 else np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
        zero = absent or bool(pieces.zero[numbers].any())
        if members.size + zero < 2:
            continue
        same = (members.tobytes(), zero)
        listed += 0 if same in groups else int(members.size)
        groups[same] = min(MANY, groups.get(same, 0) + times)
        if listed > MOST_MEMBERS:
            return _everything("atoms", cells, True, moves)
    members_of = [np.frombuffer(held, dtype=np.int64) for held, _ in groups]
    return ChangedTogether(
        "atoms",
        np.concatenate([[0], np.cumsum([m.size for m in members_of], dtype=np.int64)]),
        np.concatenate([np.empty(0, dtype=np.int64), *members_of]),
        np.array([zero for _, zero in groups], dtype=np.bool_),
        np.array(list(groups.values()), dtype=np.int64),
        max(1, min(moves, sum(groups.values()))),
    )


def _factors(together: ChangedTogether, shape: tuple[int, ...]) -> tuple[Factor, ...]:
    """For each axis, places that some group holds both of are joined, and so is whatever these join."""
    places = np.unravel_index(together.members, shape)
    group = np.repeat(np.arange(together.groups), np.diff(together.starts))
    return tuple(_cliques(place, group, together.groups, size) for place, size in zip(places, shape, strict=True))


def _cliques(place: Ints, group: Ints, groups: int, size: int) -> Factor:
    ones = np.ones(place.size, dtype=np.int8)
    links = coo_array((ones, (place, size + group)), shape=(size + groups, size + groups))
    labels = by_first_appearance(connected_components(links, directed=False)[1][:size].astype(np.int64))
    if bool(np.all(np.diff(labels) >= 0)):
        ends = np.append(np.flatnonzero(np.diff(labels)), size - 1)
        return WindowGraph(ends[labels], np.empty(0, dtype=np.int64))
    return CliqueGraph(labels)
