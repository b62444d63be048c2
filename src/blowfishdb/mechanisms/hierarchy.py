"""Hierarchy: a tree of nested ranges, every level measured alike, with the fan-out that suits the workload."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.one_axis.axis import read_axis
from blowfishdb.mechanisms.one_axis.block_tree import grow
from blowfishdb.mechanisms.one_axis.energies import level_plans
from blowfishdb.mechanisms.one_axis.estimator import EstimatingStrategy
from blowfishdb.mechanisms.one_axis.tree_least_squares import TreeCorrection
from blowfishdb.plan.problem import Problem

NAME = "hierarchy"


def propose(problem: Problem) -> EstimatingStrategy:
    """Serves one ordered attribute under any policy on it."""
    axis = read_axis(NAME, problem)
    longest = int((axis.run_ends - axis.runs).max())
    free = bool(np.all(axis.free)) and axis.hubs.size == 0
    best = level_plans(problem.workload, longest, free=free, equal=True)[0]
    tree = grow(axis, axis.runs, best.sizes, roots=True)
    shares = np.full(len(tree.levels) + 2, 1.0 / (len(tree.levels) + 1))
    return EstimatingStrategy(NAME, problem, TreeCorrection(tree, shares))
