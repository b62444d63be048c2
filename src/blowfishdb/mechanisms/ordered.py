"""Ordered: measures running sums along the order of the cells, so that a move to a neighbour changes few of them."""

from __future__ import annotations

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.strategy import LineStrategy
from blowfishdb.model.graphs import ZERO, CellGraph, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.plan import Problem

NAME = "ordered"


def propose(problem: Problem) -> LineStrategy:
    """Serves one ordered axis; runs that records can only leave on the left are summed from the right.

    Runs are the pieces no window crosses, universal vertices among them. The whole of a run is exact where no edge can
    change it; every other running sum is a noise variable.
    """
    graph = problem.graph
    axis = graph.factors[0]
    if len(graph.factors) != 1 or not isinstance(axis, WindowGraph):
        raise Declined(NAME, "running sums need one attribute whose policy follows an order")
    starts = np.concatenate([[True], axis.reach[:-1] == np.arange(axis.size - 1)])
    run = np.cumsum(starts) - 1
    first = np.flatnonzero(starts)
    last = np.concatenate([first[1:], [axis.size]]) - 1
    cell, leaves = np.arange(axis.size), graph.to_zero
    forward_cost, backward_cost = np.zeros((2, first.size), dtype=np.int64)
    np.maximum.at(forward_cost, run[leaves], (last[run] - cell + 1)[leaves])
    np.maximum.at(backward_cost, run[leaves], (cell - first[run] + 1)[leaves])
    backward = (backward_cost < forward_cost)[run]
    is_whole = cell == np.where(backward, first[run], last[run])
    is_kept = graph.components() != ZERO
    exact = is_kept if axis.universal.size and axis.size == 1 else is_whole & is_kept & (axis.universal.size == 0)
    parent = np.where(is_whole, np.where(exact, cell, axis.size), np.where(backward, cell - 1, cell + 1))
    low, high = np.where(backward, cell, first[run]), np.where(backward, last[run], cell) + 1

    def sums(chosen: Ints) -> Intervals | None:
        return Intervals(axis.size, low[chosen], high[chosen]) if chosen.size else None

    return LineStrategy(NAME, problem, parent, sums(np.flatnonzero(~exact)), sums(np.flatnonzero(exact)))


def is_line(graph: CellGraph) -> bool:
    """Whether records move by at most one step along one axis and can neither leave nor be absent.

    There running sums are what every mechanism comes to.
    """
    axis = graph.factors[0]
    if len(graph.factors) > 1 or not isinstance(axis, WindowGraph) or axis.universal.size or np.any(graph.to_zero):
        return False
    return bool(np.all(axis.reach <= np.arange(1, axis.size + 1)))
