"""How many records may have to change together: the largest minimal set of changes whose signatures cancel."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from blowfishdb.model.arrays import Ints

MOST_COLUMNS = 62
MOST_ELEMENTS = 4096
MOST_WORK = 1_000_000_000
"""Elements looked at; a second or two. A limit in time would make a policy's price depend on the machine."""

Vector = tuple[int, ...]


@lru_cache(maxsize=256)
def most_changes(differences: tuple[Vector, ...], most_work: int = MOST_WORK) -> int | None:
    """g: the largest L1 norm in the Graver basis of the given columns, at least 2; None where that is too much work.

    Columns are the differences of signatures, one of each pair of opposite signs, and none is 0. A minimal set of
    changed records that keeps all facts has at most g records; without columns it has one (proof:
    docs/proofs/constraints.md).
    """
    if not differences:
        return 1
    if len(differences) > MOST_COLUMNS:
        return None
    kernel = integer_kernel(differences)
    if kernel.shape[0] == 0:
        return 2
    # Loaded here: few policies have facts that overlap, and the compiler takes a second to load.
    from blowfishdb.model.constraints.graver_kernel import completed

    basis, work = completed(kernel, MOST_ELEMENTS, most_work)
    if work < 0:
        return None
    return max(2, int(np.abs(minimal(basis)).sum(axis=1).max()))


def integer_kernel(columns: tuple[Vector, ...]) -> Ints:
    """A lattice basis of all whole-number combinations of the columns that cancel, one per row."""
    count, height = len(columns), len(columns[0])
    rows = [[*column, *(int(i == place) for i in range(count))] for place, column in enumerate(columns)]
    done = 0
    for entry in range(height):
        while True:
            left = [row for row in rows[done:] if row[entry]]
            if len(left) <= 1:
                break
            pivot = min(left, key=lambda row: abs(row[entry]))
            for row in left:
                if row is not pivot:
                    times = row[entry] // pivot[entry]
                    row[:] = [a - times * b for a, b in zip(row, pivot, strict=True)]
        if left:
            place = next(i for i in range(done, count) if rows[i] is left[0])
            rows[done], rows[place] = rows[place], rows[done]
            done += 1
    return np.array([row[height:] for row in rows[done:]], dtype=np.int64).reshape(-1, count)


def minimal(basis: Ints) -> Ints:
    """The vectors that hold no other one, sign by sign, in either direction."""
    sizes = np.abs(basis)
    kept = []
    for place, vector in enumerate(basis):
        fits = np.all(sizes <= sizes[place], axis=1)
        inside = np.all(basis * vector >= 0, axis=1) | np.all(basis * vector <= 0, axis=1)
        inside &= fits
        inside[place] = False
        if not inside.any():
            kept.append(place)
    return basis[kept]
