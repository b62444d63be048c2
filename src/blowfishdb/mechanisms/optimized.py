"""Optimized: the shape and the shares of the loss that minimise the workload's expected squared error."""

from __future__ import annotations

from blowfishdb.mechanisms.one_axis.axis import any_move, read_axis
from blowfishdb.mechanisms.one_axis.estimator import EstimatingStrategy
from blowfishdb.mechanisms.one_axis.shape_search import choose
from blowfishdb.plan.problem import Problem

NAME = "optimized"


def propose(problem: Problem) -> EstimatingStrategy:
    """Serves one ordered attribute: smooth rows up to some thousands of cells, optimised trees beyond."""
    axis = read_axis(NAME, problem)
    # Plans for more moves lose no more on fewer. Hubs leave little order, and plans that respect them may be worse.
    axes = [axis, any_move(axis)] if axis.hubs.size else [axis]
    chosen = [(choose(each, problem.workload), each) for each in axes]
    best, used = min(chosen, key=lambda entry: entry[0].error)
    return EstimatingStrategy(NAME, problem, best.shape.build(used, best.shares))
