"""Sees many workloads as intervals, so that one fast certificate and one fast solver serve them all."""

from __future__ import annotations

import numpy as np

from blowfishdb.model.rows import Rows
from blowfishdb.model.workload.boxes import Rectangles
from blowfishdb.model.workload.compound import Kronecker, Stacked
from blowfishdb.model.workload.line import RANGE_LIMIT, AllRanges, Identity, Intervals, Prefix
from blowfishdb.model.workload.sparse import Sparse


def as_intervals(rows: Rows) -> Intervals | None:
    """The same rows as intervals, in the same order, or None when some row is not an interval."""
    if isinstance(rows, Intervals):
        return rows
    if isinstance(rows, Identity):
        start = np.arange(rows.cells)
        return Intervals(rows.cells, start, start + 1)
    if isinstance(rows, Prefix):
        start = np.arange(rows.cells)
        return Intervals(rows.cells, np.zeros_like(start), start + 1)
    if isinstance(rows, AllRanges):
        return rows.intervals() if rows.shape[0] <= RANGE_LIMIT else None
    if isinstance(rows, Rectangles):
        return Intervals(rows.shape[1], rows.low[:, 0], rows.high[:, 0]) if len(rows.grid) == 1 else None
    if isinstance(rows, Kronecker):
        return as_intervals(rows.factors[0]) if len(rows.factors) == 1 else None
    if isinstance(rows, Stacked):
        return _from_stacked(rows)
    if isinstance(rows, Sparse):
        return _from_sparse(rows)
    return None


def _from_stacked(rows: Stacked) -> Intervals | None:
    parts = []
    for part in rows.parts:
        seen = as_intervals(part)
        if seen is None:
            return None
        parts.append(seen)
    low, high = np.concatenate([p.low for p in parts]), np.concatenate([p.high for p in parts])
    return Intervals(rows.shape[1], low, high)


def _from_sparse(rows: Sparse) -> Intervals | None:
    """Sorted distinct columns that span no more than their number are consecutive."""
    matrix = rows.matrix
    if np.any(matrix.data != 1):
        return None
    start, count = matrix.indptr[:-1].astype(np.int64), np.diff(matrix.indptr).astype(np.int64)
    filled = count > 0
    low = np.zeros(rows.shape[0], dtype=np.int64)
    low[filled] = matrix.indices[start[filled]]
    last = matrix.indices[(start + count - 1)[filled]]
    if np.any(last - low[filled] + 1 != count[filled]):
        return None
    return Intervals(rows.shape[1], low, low + count)
