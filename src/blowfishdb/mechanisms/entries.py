"""Reads the entries of implicit workloads: squares, column energies, single rows."""

from __future__ import annotations

from functools import reduce

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import (
    AllRanges,
    Identity,
    Intervals,
    Kronecker,
    Prefix,
    Rectangles,
    Sparse,
    Stacked,
    as_intervals,
)

GOLDEN = (5**0.5 - 1) / 2

ZERO_ONE = (AllRanges, Identity, Intervals, Prefix, Rectangles)


def squared(rows: Rows) -> Rows:
    """The workload whose entries are the squares: it maps variances of cells to variances of answers."""
    if isinstance(rows, ZERO_ONE):
        return rows
    if isinstance(rows, Kronecker):
        return Kronecker(tuple(squared(factor) for factor in rows.factors))
    if isinstance(rows, Stacked):
        return Stacked(tuple(squared(part) for part in rows.parts))
    matrix = rows.matrix if isinstance(rows, Sparse) else csr_array(rows.dense())
    return Sparse(matrix.multiply(matrix))


def is_zero_one(rows: Rows) -> bool:
    """Whether every entry is known to be 0 or 1."""
    if isinstance(rows, Kronecker):
        return all(is_zero_one(factor) for factor in rows.factors)
    if isinstance(rows, Stacked):
        return all(is_zero_one(part) for part in rows.parts)
    return isinstance(rows, ZERO_ONE) or (isinstance(rows, Sparse) and bool(np.all(rows.matrix.data == 1)))


def column_energies(rows: Rows) -> Floats:
    """For each cell the sum of its squared entries over all queries; all ranges are never listed."""
    if isinstance(rows, AllRanges):
        cell = np.arange(rows.cells, dtype=np.float64)
        return (cell + 1) * (rows.cells - cell)
    if isinstance(rows, Kronecker):
        return np.asarray(reduce(np.multiply.outer, map(column_energies, rows.factors))).reshape(-1)
    if isinstance(rows, Stacked):
        return np.asarray(np.sum([column_energies(part) for part in rows.parts], axis=0))
    return np.asarray(squared(rows).transpose_dot(np.ones(rows.shape[0])))


def chosen_rows(rows: Rows, queries: Ints) -> Ints:
    """The given rows of the workload, written out."""
    spans = chosen_intervals(rows, queries)
    if spans is not None:
        low, high = spans
        cell = np.arange(rows.shape[1])
        return ((low[:, None] <= cell) & (cell < high[:, None])).astype(np.int64)
    picks = np.zeros((rows.shape[0], queries.size), dtype=np.int64)
    picks[queries, np.arange(queries.size)] = 1
    return np.asarray(rows.transpose_dot(picks)).T


def chosen_intervals(rows: Rows, queries: Ints) -> tuple[Ints, Ints] | None:
    """Lower and upper bounds of the given rows, or None when the rows are not intervals."""
    if isinstance(rows, AllRanges):
        start = np.arange(rows.cells)
        before = start * rows.cells - start * (start - 1) // 2
        low = np.searchsorted(before, queries, side="right") - 1
        return low, low + 1 + queries - before[low]
    listed = as_intervals(rows)
    return None if listed is None else (listed.low[queries], listed.high[queries])


def spread_choice(size: int, count: int) -> Ints:
    """About `count` of the numbers below `size`, spread evenly yet never in step with blocks of a fixed length."""
    if size <= count:
        return np.arange(size)
    place = np.arange(count)
    return np.minimum((place + place * GOLDEN % 1.0) * (size / count), size - 1).astype(np.int64)


def distinct(terms: Ints) -> tuple[Ints, Ints]:
    """The different numbers of terms, and how often each occurs."""
    counts = np.bincount(terms)
    found = np.flatnonzero(counts)
    return found, counts[found].astype(np.int64)
