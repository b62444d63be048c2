"""Hierarchy: a tree of nested ranges, every level measured alike, with the fan-out that suits the workload."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.axis import grow, read_axis
from blowfishdb.mechanisms.axis_estimate import EstimatingStrategy, TreeCorrection
from blowfishdb.mechanisms.optimized import level_plans
from blowfishdb.plan.plan import Problem

NAME = "hierarchy"


def propose(problem: Problem) -> EstimatingStrategy:
    """Serves one ordered attribute under any policy on it."""
    axis = read_axis(NAME, problem)
    longest = int((axis.run_ends - axis.runs).max())
    free = bool(np.all(axis.free)) and axis.universal.size == 0
    best = level_plans(problem.workload, longest, free=free, equal=True)[0]
    tree = grow(axis, axis.runs, best.sizes, roots=True)
    shares = np.full(len(tree.levels) + 2, 1.0 / (len(tree.levels) + 1))
    return EstimatingStrategy(NAME, problem, TreeCorrection(tree, shares))
