"""Rows whose entries rise and fall linearly along the order: hats, and running sums with a ramp instead of a step."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csr_array

from blowfishdb.model.arrays import Ints


def hats(cells: int, starts: Ints, ends: Ints, spacing: int) -> csr_array:
    """Triangles 1, 2, ..., spacing, ..., 2, 1 centred every `spacing` cells in each run, cut off at the run's ends.

    Away from the ends the triangles over a cell always sum to `spacing`.
    """
    counts = (ends - starts + spacing // 2) // spacing
    run = np.repeat(np.arange(starts.size), counts)
    place = np.arange(run.size) - np.repeat(np.cumsum(counts) - counts, counts)
    first = starts[run] + place * spacing - (spacing - 1) // 2
    shape = spacing - np.abs(np.arange(1 - spacing, spacing))
    column = first[:, None] + np.arange(2 * spacing - 1)
    row = np.broadcast_to(np.arange(run.size)[:, None], column.shape)
    inside = (column >= starts[run][:, None]) & (column < ends[run][:, None])
    entries = np.broadcast_to(shape, column.shape)[inside]
    return csr_array(coo_array((entries, (row[inside], column[inside])), shape=(run.size, cells)))


def ramps(cells: int, starts: Ints, tops: Ints, width: int) -> csr_array:
    """Running sums from `starts` that count a cell `width` times before its `tops` and fall to 0 in steps of one."""
    lengths = tops + width - 1 - starts
    row = np.repeat(np.arange(tops.size), lengths)
    column = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths - starts, lengths)
    entries = np.minimum(width, tops[row] + width - 1 - column)
    return csr_array(coo_array((entries, (row, column)), shape=(tops.size, cells)))


def boxes(cells: int, low: Ints, high: Ints) -> csr_array:
    """Rows of ones on low <= c < high."""
    lengths = high - low
    column = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths - low, lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((np.ones(column.size, dtype=np.int64), column, ends), shape=(low.size, cells))
