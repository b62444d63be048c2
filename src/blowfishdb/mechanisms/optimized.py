"""Optimized: the shape and the shares of the loss that minimise the workload's expected squared error."""

from __future__ import annotations

from blowfishdb.mechanisms.one_axis.axis import read_axis
from blowfishdb.mechanisms.one_axis.estimator import EstimatingStrategy
from blowfishdb.mechanisms.one_axis.shape_search import choose
from blowfishdb.plan.problem import Problem

NAME = "optimized"


def propose(problem: Problem) -> EstimatingStrategy:
    """Serves one ordered attribute: smooth rows up to some thousands of cells, optimised trees beyond."""
    axis = read_axis(NAME, problem)
    best = choose(axis, problem.workload)
    return EstimatingStrategy(NAME, problem, best.shape.build(axis, best.shares))
