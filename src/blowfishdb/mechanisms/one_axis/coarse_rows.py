"""Noisy cells plus groups of coarse rows: the least-squares error of a workload as a function of the groups' shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from blowfishdb.mechanisms.entries import column_energies
from blowfishdb.mechanisms.one_axis.axis import Axis
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Intervals
from blowfishdb.model.workload.line import are_most_pairs, sums_before

CHUNK = 64
"""Columns of the workload's Gram matrix that are worked on at once."""


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that share one weight, with entries from 0 to `height`; `falling` when no row ever rises along a run."""

    matrix: csr_array
    height: int
    falling: bool = False

    @property
    def unit_rows(self) -> csr_array:
        """The rows divided by their height."""
        return csr_array(self.matrix / float(self.height))

    @property
    def column_sums(self) -> Floats:
        """The loss per unit of share when a record vanishes from each cell."""
        return np.asarray(self.unit_rows.sum(axis=0), dtype=np.float64)


def gram_dot(workload: Rows, columns: Floats) -> Floats:
    """W'W times the columns; for all ranges, entry (i, j) of W'W is (min + 1)(n - max) and nothing is listed."""
    if isinstance(workload, Intervals) and are_most_pairs(workload.cells, workload.low.size):
        return _gram_of_pairs(workload, columns)
    if not isinstance(workload, AllRanges):
        found = np.empty(columns.shape)
        for start in range(0, columns.shape[1], CHUNK):
            part = slice(start, start + CHUNK)
            found[:, part] = workload.transpose_dot(workload.dot(columns[:, part]))
        return found
    below = np.arange(1.0, workload.cells + 1)[:, None]
    above = below[::-1]
    up_to = np.cumsum(below * columns, axis=0)
    after = np.cumsum((above * columns)[::-1], axis=0)[::-1]
    return above * up_to + below * (after - above * columns)


def _gram_of_pairs(workload: Intervals, columns: Floats) -> Floats:
    """W'W times the columns: ranges are differences of running sums, and each pair of ends is looked at once."""
    ends = workload.cells + 1
    pairs = np.bincount(workload.low * ends + workload.high, minlength=ends * ends).reshape(ends, ends)
    between = pairs + pairs.T
    sums = sums_before(columns)
    at_ends = between.sum(axis=1)[:, None] * sums - between.astype(np.float64) @ sums
    return np.cumsum(at_ends[:0:-1], axis=0)[::-1]


def reach_losses(axis: Axis, groups: list[Group]) -> Floats:
    """The loss per unit of share of the cells and of each group, on the worst moves up the order from each cell.

    Running sums lose most on the longest move. Other rows lose most on a move to where they weigh most, once moves
    are longer than the rows; for shorter moves the longest one stands for all.
    """
    cell = np.arange(axis.cells)
    noisy = np.zeros(axis.cells)
    noisy[axis.noisy] = 1.0
    moves = np.flatnonzero(axis.reach > cell)
    leaving = np.flatnonzero(axis.leaves)
    norms = [noisy, *(group.column_sums for group in groups)]
    moved = [2.0 * noisy[moves]]
    for group, over in zip(groups, norms[1:], strict=True):
        columns = group.unit_rows.tocsc()
        longest = np.asarray(abs(columns[:, moves] - columns[:, axis.reach[moves]]).sum(axis=0))
        if not group.falling:
            widest = int(np.diff(group.matrix.indptr).max(initial=0))
            apart = (over + window_maxima(over, cell, axis.reach))[moves]
            longest = np.where((axis.reach - cell)[moves] >= widest, apart, longest)
        moved.append(longest)
    edges = [np.stack(moved, axis=1), np.stack([norm[leaving] for norm in norms], axis=1)]
    if axis.hubs.size:
        spoke = np.stack(norms, axis=1)
        spoke[:, 0] += 1.0
        edges.append(spoke)
    found = np.unique(np.concatenate(edges), axis=0)
    return np.asarray(found[found.sum(axis=1) > 0])


def window_maxima(values: Floats, first: Ints, last: Ints) -> Floats:
    """The largest value in each window first .. last, by doubling."""
    tables = [values]
    while 2 ** len(tables) <= values.size:
        step = 2 ** (len(tables) - 1)
        tables.append(np.maximum(tables[-1], np.append(tables[-1][step:], np.full(step, -np.inf))))
    depth = np.log2(last - first + 1).astype(np.int64)
    table = np.stack(tables)
    return np.asarray(np.maximum(table[depth, first], table[depth, last + 1 - 2**depth]))


def coarse_error(axis: Axis, workload: Rows, groups: list[Group]) -> Callable[[Floats], tuple[float, Floats]]:
    """The workload's total expected squared error at the given shares (cells first), and its gradient.

    With cells of variance v and coarse rows H of variances D (0 for free totals) the least-squares covariance is
    v I - v^2 H'(D + v H H')^-1 H; every product with W'W is computed once, so an evaluation costs (rows of H)^3.
    """
    noisy = np.zeros(axis.cells)
    noisy[axis.noisy] = 1.0
    totals = free_totals(axis)
    rows = vstack([*(group.unit_rows for group in groups), totals], format="csr").toarray() * noisy
    group_of = np.repeat(np.arange(len(groups) + 1), [*(g.matrix.shape[0] for g in groups), totals.shape[0]])
    kept = rows.any(axis=1)
    rows, group_of = rows[kept], group_of[kept]
    overlap = rows @ rows.T
    seen = rows @ gram_dot(workload, rows.T)
    whole = float(column_energies(workload) @ noisy)

    def error(shares: Floats) -> tuple[float, Floats]:
        relative = np.append((shares[0] / shares[1:]) ** 2, 0.0)
        inverse = np.linalg.inv(overlap + np.diag(relative[group_of]))
        explained = inverse @ seen
        left = whole - float(np.trace(explained))
        per_row = np.einsum("ij,ij->i", explained, inverse)
        per_group = np.bincount(group_of, weights=per_row, minlength=len(groups) + 1)[:-1]
        scale = 2.0 / shares[0] ** 2
        slope = np.empty(shares.size)
        slope[1:] = -2 * per_group * shares[0] ** 2 / shares[1:] ** 3 * scale
        slope[0] = 2 * float(np.sum(per_group / shares[1:] ** 2)) * shares[0] * scale - 2 * left * scale / shares[0]
        return left * scale, slope

    return error


def free_totals(axis: Axis) -> csr_array:
    """One row for each free total."""
    free = np.flatnonzero(axis.free)
    row_of = np.full(axis.free.size, -1)
    row_of[free] = np.arange(free.size)
    row = row_of[axis.span_of]
    cell = np.flatnonzero(row >= 0)
    return csr_array((np.ones(cell.size), (row[cell], cell)), shape=(free.size, axis.cells))
