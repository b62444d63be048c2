"""Neighbours under public constraints, from the definition: minimal sets of records whose change keeps them all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from blowfishdb.audit.definitions import Record, holds, moves, records
from blowfishdb.model.cells import Cells
from blowfishdb.model.constraints import Constraint, CountConstraint, MarginalConstraint, RangeConstraint
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy

ABSENT = None
FEW = 22
"""Among more different changes than this, sets of four are not listed."""


def signature(domain: Domain, constraints: tuple[Constraint, ...], record: Record | None) -> tuple[int, ...]:
    """What each constraint says of one record; a marginal has one entry per combination of values."""
    entries: list[int] = []
    for constraint in constraints:
        if isinstance(constraint, MarginalConstraint):
            cells = sorted({tuple(r[name] for name in constraint.attributes) for r in records(domain)})
            own = None if record is ABSENT else tuple(record[name] for name in constraint.attributes)
            entries += [int(cell == own) for cell in cells]
        elif isinstance(constraint, CountConstraint | RangeConstraint):
            entries.append(int(record is not ABSENT and holds(constraint.condition, domain, record) is True))
        else:
            entries.append(int(record is not ABSENT))
    return tuple(entries)


def vertices(domain: Domain, policy: Policy) -> list[Record | None]:
    return [*records(domain), *([] if policy.presence == "public" else [ABSENT])]


def edges(domain: Domain, policy: Policy) -> Iterator[tuple[int, int]]:
    """The edges of the policy's own graph between places of `vertices`, absence included."""
    everyone = vertices(domain, policy)
    for (i, one), (j, two) in itertools.combinations(enumerate(everyone), 2):
        if two is ABSENT or (one is not ABSENT and moves(domain, policy, one, two)):
            yield i, j


def columns(domain: Domain, policy: Policy, cells: Cells, rows: Ints) -> Ints:
    """What one record of each vertex adds to the measured rows (vertices by rows)."""
    everyone = list(records(domain))
    if cells.attributes:
        place = cells.cell_of({name: np.array([record[name] for record in everyone]) for name in cells.attributes})
    else:
        place = np.zeros(len(everyone), dtype=np.int64)
    padded = np.concatenate([rows.T, np.zeros((1, rows.shape[0]), dtype=np.int64)])
    found = padded[place]
    return found if policy.presence == "public" else np.concatenate([found, padded[-1:]])


def signatures(domain: Domain, policy: Policy, constraints: tuple[Constraint, ...]) -> Ints:
    return np.array([signature(domain, constraints, vertex) for vertex in vertices(domain, policy)], dtype=np.int64)


def is_bound(domain: Domain, policy: Policy, constraints: tuple[Constraint, ...]) -> bool:
    """Whether some edge of the policy changes a constraint."""
    told = signatures(domain, policy, constraints)
    return any(not np.array_equal(told[a], told[b]) for a, b in edges(domain, policy))


def minimal_changes(differences: Ints, size: int) -> Ints:
    """All sets of `size` changes (rows of indices, with repetition) that cancel, while no smaller part of them does."""
    assert differences.shape[1] <= 15
    # Entries of sums of four differences lie between -4 and 4, so one number in base 16 tells whether all are 0.
    chosen = chosen_among(differences.shape[0], size)
    codes = (differences @ 16 ** np.arange(differences.shape[1]))[chosen]
    for part in (size, *range(1, size)):
        for places in itertools.combinations(range(size), part):
            cancels = codes[:, places].sum(axis=1) == 0
            keep = cancels if part == size else ~cancels
            chosen, codes = chosen[keep], codes[keep]
    return chosen


@lru_cache(maxsize=128)
def chosen_among(count: int, size: int) -> Ints:
    return np.array(list(itertools.combinations_with_replacement(range(count), size)), dtype=np.int64)


def true_loss(
    domain: Domain, policy: Policy, constraints: tuple[Constraint, ...], found: Ints, weights: Ints, most: int
) -> int:
    """The largest weighted change of the rows between neighbours in which at most `most` records change.

    Without a constraint that an edge changes, neighbours are the edges; otherwise minimal sets of changes of any kind.
    """
    if not is_bound(domain, policy, constraints):
        return max((int(np.abs(found[a] - found[b]) @ weights) for a, b in edges(domain, policy)), default=0)
    differences, changes = different_changes(domain, policy, constraints, found)
    worst = 0
    for size in range(1, most + 1 if differences.shape[0] <= FEW else min(most, 3) + 1):
        chosen = minimal_changes(differences, size)
        worst = max(worst, int((np.abs(changes[chosen].sum(axis=1)) @ weights).max(initial=0)))
    return worst


def different_changes(
    domain: Domain, policy: Policy, constraints: tuple[Constraint, ...], found: Ints
) -> tuple[Ints, Ints]:
    """What one record can change: the constraints, and the rows; each pair of the two once."""
    told = signatures(domain, policy, constraints)
    pairs = np.array(list(itertools.permutations(range(told.shape[0]), 2)), dtype=np.int64).reshape(-1, 2)
    both = np.concatenate([told[pairs[:, 1]] - told[pairs[:, 0]], found[pairs[:, 1]] - found[pairs[:, 0]]], axis=1)
    both = np.unique(both, axis=0)
    return both[:, : told.shape[1]], both[:, told.shape[1] :]
