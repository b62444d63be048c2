"""The atoms of public facts: classes of records that no fact tells apart, and whether the facts settle their sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.facts.signatures import MANY, Signatures

PRIME = 2_147_483_629
MOST_ELIMINATED = 1024
"""So many vectors that do not fall apart are eliminated; more count as dependent, which is refused or bounded later."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """`atom_of` numbers each combination's atom; behind number a stand `times[a]` atoms that are alike.

    `absent` is the number of the atom of a record that is not there, where absence is hidden.
    """

    atom_of: Ints
    times: Ints
    absent: int | None
    settled: bool

    @property
    def count(self) -> int:
        """How many different numbers there are."""
        return int(self.times.size)


def atoms_of(signatures: Signatures, *, absence: bool) -> Atoms:
    """The atoms, and `settled`: whether the counts of all atoms follow from the facts and the number of records.

    Only one marginal can be settled; several are left to the general case, and their atoms are listed by the first.
    """
    margin = signatures.margins[0] if signatures.margins else ()
    shape = signatures.pattern.shape
    cell = np.zeros((1,) * len(shape), dtype=np.int64)
    behind = np.ones((1,) * len(shape), dtype=np.float64)
    for name in margin:
        lengths = signatures.lengths(name)
        cell = cell * lengths.size + signatures.along(name, np.arange(lengths.size))
        behind = behind * signatures.along(name, lengths)
    cells = int(cell.max()) + 1
    width = signatures.patterns.shape[0] + 1
    keys = np.broadcast_to(cell, shape) * width + signatures.pattern
    patterns = np.concatenate([signatures.patterns, np.zeros((1, signatures.patterns.shape[1]), dtype=np.bool_)])
    nothing = _row_of(signatures.patterns, patterns[-1], width - 1)
    own_key = cells * width + nothing if margin else nothing
    every = np.append(keys.reshape(-1), own_key) if absence else keys.reshape(-1)
    found, first, numbers = np.unique(every, return_index=True, return_inverse=True)
    spread = np.append(np.broadcast_to(behind, shape).reshape(-1), 1.0)
    times = np.where(spread[first] < MANY, spread[first], MANY).astype(np.int64)
    settled = len(signatures.margins) <= 1 and _is_settled(found // width, patterns[found % width], times)
    atom_of = numbers[: keys.size].reshape(shape).astype(np.int64)
    return Atoms(atom_of, times, int(numbers[-1]) if absence else None, settled)


def _row_of(patterns: Bools, wanted: Bools, otherwise: int) -> int:
    same = np.flatnonzero(np.all(patterns == wanted, axis=1))
    return int(same[0]) if same.size else otherwise


def _is_settled(cells: Ints, patterns: Bools, times: Ints) -> bool:
    """Whether the signatures are affinely independent (proof: docs/proofs/constraints.md).

    Within each cell of the marginal the patterns count against the first one there; these differences must be
    linearly independent, over all cells together.
    """
    first_here = np.concatenate([[True], cells[1:] != cells[:-1]])
    others = ~first_here
    if not others.any():
        return True
    many = float(times[others].astype(np.float64).sum())
    if many > patterns.shape[1] or np.any(times[others] > 1):
        return False
    reference = np.maximum.accumulate(np.where(first_here, np.arange(cells.size), 0))
    differences = patterns[others].astype(np.int64) - patterns[reference[others]].astype(np.int64)
    return _independent(differences)


def _independent(vectors: Ints) -> bool:
    """Whether the rows are linearly independent: never said of dependent ones."""
    rows = vectors.copy()
    while rows.shape[0]:
        # A column that only one row uses settles that row.
        used = np.count_nonzero(rows, axis=0)
        single = np.flatnonzero(used == 1)
        if single.size == 0:
            break
        settled = np.zeros(rows.shape[0], dtype=np.bool_)
        settled[np.abs(rows[:, single]).argmax(axis=0)] = True
        rows = rows[~settled]
    if rows.shape[0] == 0:
        return True
    return bool(rows.shape[0] <= MOST_ELIMINATED and _rank_modulo(rows % PRIME) == rows.shape[0])


def _rank_modulo(rows: Ints) -> int:
    """The rank modulo a prime, which is at most the rank."""
    rank = 0
    for column in range(rows.shape[1]):
        used = rank + np.flatnonzero(rows[rank:, column])
        if used.size == 0:
            continue
        rows[[rank, used[0]]] = rows[[used[0], rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, PRIME) % PRIME
        others = used[1:]
        rows[others] = (rows[others] - rows[others, column : column + 1] * rows[rank] % PRIME) % PRIME
        rank += 1
        if rank == rows.shape[0]:
            break
    return rank


def explicit_signatures(signatures: Signatures, *, absence: bool, limit: int) -> tuple[tuple[int, ...], ...] | None:
    """Every different signature as a vector of whole numbers; None where there are more than `limit`.

    Only for signatures cut at every value of the marginals' attributes.
    """
    columns = [signatures.patterns[signatures.pattern.reshape(-1)].astype(np.int64)]
    for margin in signatures.margins:
        cell = np.zeros((1,) * signatures.pattern.ndim, dtype=np.int64)
        sizes = []
        for name in margin:
            size = signatures.lengths(name).size
            sizes.append(size)
            cell = cell * size + signatures.along(name, np.arange(size))
        if math.prod(sizes) > limit:
            return None
        flat = np.broadcast_to(cell, signatures.pattern.shape).reshape(-1)
        columns.append((flat[:, None] == np.arange(math.prod(sizes))[None, :]).astype(np.int64))
    matrix = np.concatenate(columns, axis=1)
    if absence:
        matrix = np.concatenate([matrix, np.zeros((1, matrix.shape[1]), dtype=np.int64)])
    distinct = {tuple(int(x) for x in row) for row in np.unique(matrix, axis=0)}
    return tuple(sorted(distinct)) if len(distinct) <= limit else None
