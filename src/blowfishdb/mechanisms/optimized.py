"""Optimized: the shape and the shares of the loss that minimise the workload's expected squared error."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.one_axis.axis import any_move, read_axis
from blowfishdb.mechanisms.one_axis.estimator import EstimatingStrategy
from blowfishdb.mechanisms.one_axis.shape_search import choose
from blowfishdb.plan.problem import Problem

NAME = "optimized"
LONG_WINDOW = 0.2
"""The part of the axis from which a window may as well be the whole of it."""


def propose(problem: Problem) -> EstimatingStrategy:
    """Serves one ordered attribute: smooth rows up to some thousands of cells, optimised trees beyond."""
    axis = read_axis(NAME, problem)
    # Plans for more moves lose no more on fewer. Where hubs or long windows leave little order they may be better.
    is_loose = axis.hubs.size or int((axis.reach - np.arange(axis.cells)).max()) >= LONG_WINDOW * axis.cells
    axes = [axis, any_move(axis)] if is_loose else [axis]
    chosen = [(choose(each, problem.workload), each) for each in axes]
    best, used = min(chosen, key=lambda entry: entry[0].error)
    return EstimatingStrategy(NAME, problem, best.shape.build(used, best.shares))
