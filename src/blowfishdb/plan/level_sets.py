"""Rows that rise, then fall along an axis, seen as nested intervals with the same loss on every edge."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.model.arrays import Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Intervals, Sparse, as_intervals

MOST_LEVELS = 8_000_000
"""Rows whose heights add up to more than this are not taken apart."""


def weighted_intervals(rows: Rows, weights: Ints) -> tuple[Intervals, Ints] | None:
    """Intervals and weights that lose on every edge exactly what the rows lose, or None when rows are of another kind.

    A row q >= 0 is the sum over k >= 1 of its level sets {q >= k}. They are nested, so |q_u - q_v| is the sum of
    the level sets' differences; and they are intervals exactly when q never rises again after it has fallen.
    """
    found = as_intervals(rows)
    if found is not None:
        return found, weights
    if not isinstance(rows, Sparse):
        return None
    return _level_sets(rows.matrix, weights)


def _level_sets(matrix: csr_array, weights: Ints) -> tuple[Intervals, Ints] | None:
    value = matrix.data
    if int(value.min(initial=0)) < 0:
        return None
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    column = matrix.indices.astype(np.int64)
    follows = np.zeros(value.size, dtype=np.bool_)
    follows[1:] = (row[1:] == row[:-1]) & (column[1:] == column[:-1] + 1)
    before = np.where(follows, np.roll(value, 1), 0)
    stops = ~np.roll(follows, -1)
    rise, fall = np.maximum(value - before, 0), np.maximum(before - value, 0)
    if float(rise.astype(np.float64).sum()) > MOST_LEVELS:
        return None
    start_row, start = np.repeat(row, rise), np.repeat(column, rise)
    drop = np.concatenate([fall, value[stops]])
    end_row = np.repeat(np.concatenate([row, row[stops]]), drop)
    end = np.repeat(np.concatenate([column, column[stops] + 1]), drop)
    outermost_first = np.lexsort((-end, end_row))
    end = end[outermost_first]
    last_start, first_end = np.zeros(matrix.shape[0], dtype=np.int64), np.full(matrix.shape[0], matrix.shape[1] + 1)
    np.maximum.at(last_start, start_row, start)
    np.minimum.at(first_end, start_row, end)
    if np.any(last_start >= first_end):
        return None
    return Intervals(int(matrix.shape[1]), start, end), weights[start_row]
