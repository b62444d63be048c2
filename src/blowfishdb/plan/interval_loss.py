"""Exact worst edges for weighted intervals on one axis: loss(u, v) = D(u) + D(v) - 2 C(u, v)."""

from __future__ import annotations

import numpy as np

from blowfishdb.model.arrays import Ints, total_weight
from blowfishdb.model.graphs.axis import AxisGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.window_sweep import sweep_windows
from blowfishdb.plan.worst_edge import NO_EDGE, WorstEdge, larger, worst_of

TABLE_CELLS = 1024
"""Up to this many cells the table of all C(u, v) is smaller than the compiler's start-up time."""


def cover(intervals: Intervals, weights: Ints) -> Ints:
    """D(u): the total weight of the intervals over each cell."""
    total_weight(weights)
    steps = np.zeros(intervals.shape[1] + 1, dtype=np.int64)
    np.add.at(steps, intervals.low, weights)
    np.subtract.at(steps, intervals.high, weights)
    return np.cumsum(steps[:-1])


def shared_cover(intervals: Intervals, weights: Ints, cell: int) -> Ints:
    """C(., cell): for each cell the total weight of the intervals over it and over `cell`."""
    over = (intervals.low <= cell) & (cell < intervals.high)
    return cover(Intervals(intervals.shape[1], intervals.low[over], intervals.high[over]), weights[over])


def overlap_table(intervals: Intervals, weights: Ints) -> Ints:
    """C(u, v) for all pairs, D(u) on the diagonal: sums over the starts up to one cell and the ends after the other."""
    size = intervals.shape[1]
    total_weight(weights)
    corner = np.zeros((size, size + 1), dtype=np.int64)
    full = intervals.high > intervals.low
    np.add.at(corner, (intervals.low[full], intervals.high[full]), weights[full])
    started = np.cumsum(corner, axis=0)
    upper = np.triu(np.cumsum(started[:, ::-1], axis=1)[:, ::-1][:, 1:])
    return upper + np.triu(upper, k=1).T


def table_losses(table: Ints, edges: Ints) -> Ints:
    """D(u) + D(v) - 2 C(u, v) for each listed edge."""
    first, second = edges[:, 0], edges[:, 1]
    return table[first, first] + table[second, second] - 2 * table[first, second]


def worst_axis_edge(intervals: Intervals, weights: Ints, graph: AxisGraph) -> WorstEdge:
    """The worst edge of an axis, exact; for graphs without windows beyond the table's size, a sound bound."""
    if graph.size <= TABLE_CELLS:
        edges = graph.edges()
        return worst_of(table_losses(overlap_table(intervals, weights), edges), edges)
    if isinstance(graph, WindowGraph):
        return _worst_window_edge(intervals, weights, graph)
    if graph.edge_count == 0:
        return NO_EDGE
    return WorstEdge(2 * int(cover(intervals, weights).max()), None, tight=False)


def _worst_window_edge(intervals: Intervals, weights: Ints, graph: WindowGraph) -> WorstEdge:
    over = cover(intervals, weights)
    shared = intervals.high - intervals.low > 1  # an interval of one cell covers no pair: it counts in D alone
    worst = NO_EDGE
    best, cell = sweep_windows(over, graph.reach, intervals.low[shared], intervals.high[shared], weights[shared])
    if cell >= 0:
        start = int(np.searchsorted(graph.reach, cell))
        losses = over[start:cell] + over[cell] - 2 * shared_cover(intervals, weights, cell)[start:cell]
        worst = WorstEdge(best, (start + int(losses.argmax()), cell))
    for hub in graph.hubs:
        losses = over + over[hub] - 2 * shared_cover(intervals, weights, int(hub))
        losses[hub] = -1
        other = int(losses.argmax())
        worst = larger(worst, WorstEdge(int(losses[other]), (min(other, int(hub)), max(other, int(hub)))))
    return worst
