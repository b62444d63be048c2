"""Hierarchy: a tree of nested ranges, every level measured alike, with the fan-out that suits the workload."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.axis import EstimatingStrategy, TreeCorrection, grow, read_axis
from blowfishdb.mechanisms.optimized import FAN_OUTS, level_energies, tree_sizes
from blowfishdb.model.workload import Rows
from blowfishdb.plan.plan import Problem

NAME = "hierarchy"


def propose(problem: Problem) -> EstimatingStrategy:
    """Serves one ordered attribute under any policy on it."""
    axis = read_axis(NAME, problem)
    best = _best_sizes(problem.workload, axis.longest_run, free=axis.has_free_runs)
    tree = grow(axis, axis.runs, best, roots=True)
    shares = np.full(len(tree.levels) + 2, 1.0 / (len(tree.levels) + 1))
    return EstimatingStrategy(NAME, problem, TreeCorrection(tree, tree.weights(shares)))


def _best_sizes(workload: Rows, length: int, *, free: bool) -> tuple[int, ...]:
    """The node sizes above the cells with the least error at equal shares; the root counts too unless it is free."""
    trees = list(dict.fromkeys(tree_sizes(fan_out, length) for fan_out in FAN_OUTS if fan_out < length)) or [(1,)]
    levels = [(*tree, *(() if free or length == tree[-1] else (length,))) for tree in trees]
    energies = level_energies(workload, levels, length, free=free)
    errors = [
        float(np.sum(energy * len(sizes) ** 2 / np.cumsum(sizes)))
        for energy, sizes in zip(energies, levels, strict=True)
    ]
    return trees[int(np.argmin(errors))][1:]
