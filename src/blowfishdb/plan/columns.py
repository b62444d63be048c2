"""Losses edge by edge: exact, for any rows, where the edges can be listed."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csc_array, kron, vstack

from blowfishdb.errors import TooLarge
from blowfishdb.model.arrays import Ints, check_sum, total_weight
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Kronecker, Sparse, Stacked, as_intervals
from blowfishdb.plan.interval_loss import TABLE_CELLS, overlap_table
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement

ENTRIES = 50_000_000
"""The most matrix entries that are written out to compare columns."""


def sparse_columns(rows: Rows) -> csc_array:
    """The matrix itself, by columns; refused with TooLarge where it does not fit."""
    intervals = as_intervals(rows)
    if intervals is not None:
        lengths = intervals.high - intervals.low
        _check_entries(int(lengths.sum()))
        starts = np.cumsum(lengths) - lengths
        cells = np.arange(int(lengths.sum())) - np.repeat(starts - intervals.low, lengths)
        query = np.repeat(np.arange(lengths.size), lengths)
        return csc_array((np.ones(cells.size, dtype=np.int64), (query, cells)), shape=rows.shape)
    if isinstance(rows, Sparse):
        return csc_array(rows.matrix)
    if isinstance(rows, Stacked):
        return csc_array(vstack([sparse_columns(part) for part in rows.parts], format="csc"))
    if isinstance(rows, Kronecker):
        product = sparse_columns(rows.factors[0])
        for factor in rows.factors[1:]:
            following = sparse_columns(factor)
            _check_entries(product.nnz * following.nnz)
            product = csc_array(kron(product, following, format="csc"))
        return product
    return csc_array(rows.dense())


def _check_entries(entries: int) -> None:
    if entries > ENTRIES:
        raise TooLarge("matrix entries to compare", entries, ENTRIES, "Use coarser bins.")


def column_losses(columns: csc_array, weights: Ints, edges: Ints) -> Ints:
    """For each edge (u, v) the weighted L1 distance between columns u and v, exact."""
    check_sum("weights times entries", total_weight(weights) * int(abs(columns).max() if columns.nnz else 0))
    first, second = edges[:, 0], edges[:, 1]
    per_column = np.diff(columns.indptr)
    _check_entries(int(per_column[first].sum() + per_column[second].sum()))
    return np.asarray(abs(columns[:, first] - columns[:, second]).T @ weights, dtype=np.int64)


def listed_losses(part: Measurement | KroneckerMeasurement, edges: Ints) -> Ints:
    """The loss of each listed edge between flattened cells under one part of a plan."""
    factors = part.factors if isinstance(part, KroneckerMeasurement) else (part,)
    tables = _overlap_tables(factors)
    if tables is not None:
        return _zero_one_losses(tables, edges)
    product: Rows = Kronecker(tuple(factor.rows for factor in factors)) if len(factors) > 1 else factors[0].rows
    return column_losses(sparse_columns(product), part.weights, edges)


def _overlap_tables(factors: tuple[Measurement, ...]) -> list[Ints] | None:
    tables = []
    for factor in factors:
        intervals = as_intervals(factor.rows)
        if intervals is None or factor.cells > TABLE_CELLS:
            return None
        tables.append(overlap_table(intervals, factor.weights))
    check_sum("product of column norms", math.prod(int(table.max()) for table in tables))
    return tables


def _zero_one_losses(tables: list[Ints], edges: Ints) -> Ints:
    """|A| + |B| - 2 |A and B| for the sets of 0/1 rows over the two ends: all three are products over the axes."""
    shape = tuple(len(table) for table in tables)
    first, second = np.unravel_index(edges[:, 0], shape), np.unravel_index(edges[:, 1], shape)
    over_first = over_second = over_both = np.ones(edges.shape[0], dtype=np.int64)
    for axis, table in enumerate(tables):
        over_first = over_first * table[first[axis], first[axis]]
        over_second = over_second * table[second[axis], second[axis]]
        over_both = over_both * table[first[axis], second[axis]]
    return over_first + over_second - 2 * over_both
