"""Ordered, hierarchy and ordered hierarchical: running sums along one axis, a tree of nested ranges, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.axis import (
    EstimatingStrategy,
    OrderedAxis,
    TreeCorrection,
    grow,
    read_axis,
    stand_in,
    typical_window,
)
from blowfishdb.mechanisms.optimized import FAN_OUTS, TreeShape, level_energies, tree_sizes
from blowfishdb.mechanisms.parameters import Parameter
from blowfishdb.mechanisms.strategy import LineStrategy
from blowfishdb.model.graphs import ZERO, CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Intervals, Rows
from blowfishdb.plan.plan import Problem

ORDERED = "ordered"


def propose_ordered(problem: Problem) -> LineStrategy:
    """Serves one ordered axis; runs that records can only leave on the left are summed from the right.

    Runs are the pieces no window crosses, universal vertices among them. The whole of a run is exact where no edge can
    change it; every other running sum is a noise variable.
    """
    graph = problem.graph
    axis = graph.factors[0]
    if len(graph.factors) != 1 or not isinstance(axis, WindowGraph):
        raise Declined(ORDERED, "running sums need one attribute whose policy follows an order")
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

    return LineStrategy(ORDERED, problem, parent, sums(np.flatnonzero(~exact)), sums(np.flatnonzero(exact)))


def is_line(graph: CellGraph) -> bool:
    """Whether records move by at most one step along one axis and can neither leave nor be absent.

    There running sums are what every mechanism comes to.
    """
    axis = graph.factors[0]
    if len(graph.factors) > 1 or not isinstance(axis, WindowGraph) or axis.universal.size or np.any(graph.to_zero):
        return False
    return bool(np.all(axis.reach <= np.arange(1, axis.size + 1)))


HIERARCHY = "hierarchy"
FAN_OUT = Parameter(
    "fan_out",
    "How many children each node of the tree has.",
    Fraction(2),
    Fraction(1024),
    is_whole=True,
    worked_out="the best one",
)
HIERARCHY_PARAMETERS = (FAN_OUT,)


def propose_hierarchy(problem: Problem, fan_out: int | None = None) -> EstimatingStrategy:
    """Serves one ordered attribute under any policy on it; the best fan-out where none is given."""
    axis = read_axis(HIERARCHY, problem)
    tried = FAN_OUTS if fan_out is None else (fan_out,)
    best = _best_sizes(problem.workload, axis.longest_run, tried, free=axis.has_free_runs)
    tree = grow(axis, axis.runs, best, roots=True)
    shares = np.full(len(tree.levels) + 2, 1.0 / (len(tree.levels) + 1))
    return EstimatingStrategy(HIERARCHY, problem, TreeCorrection(tree, tree.weights(shares)))


def _best_sizes(workload: Rows, length: int, tried: Sequence[int], *, free: bool) -> tuple[int, ...]:
    """The node sizes above the cells with the least error at equal shares; the root counts too unless it is free."""
    trees = list(dict.fromkeys(tree_sizes(fan_out, length) for fan_out in tried if fan_out < length)) or [(1,)]
    levels = [(*tree, *(() if free or length == tree[-1] else (length,))) for tree in trees]
    energies = level_energies(workload, levels, length, free=free)
    errors = [
        float(np.sum(energy * len(sizes) ** 2 / np.cumsum(sizes)))
        for energy, sizes in zip(energies, levels, strict=True)
    ]
    return trees[int(np.argmin(errors))][1:]


ORDERED_HIERARCHICAL = "ordered-hierarchical"

STEP_FAN_OUTS = (2, 4, 8, 16)

FIRST_SPLITS = (0.15, 0.4)
"""Fan-outs are compared at these splits, and the split is then tuned for the best one."""

ORDERED_HIERARCHICAL_PARAMETERS = (
    FAN_OUT,
    Parameter(
        "split",
        "The part of the loss that running sums get; the tree between them gets the rest.",
        Fraction(1, 50),
        Fraction(49, 50),
        worked_out="the best one",
    ),
)

STAND_IN = 1024
"""Fan-out and split are chosen on an axis of at most this many cells or 4 windows; errors hardly depend on it."""


def propose_ordered_hierarchical(
    problem: Problem, fan_out: int | None = None, split: Fraction | None = None
) -> EstimatingStrategy:
    """Serves one ordered attribute whose windows end before the axis does and whose records cannot vanish.

    A move crosses at most one running sum and changes at most two nodes on each of the h levels inside the steps, so
    running sums of scale 1/S and nodes of scale 2h/H cost S + H. The roots of the steps are not measured. The best
    fan-out and the best split S are used where they are not given.
    """
    axis = read_axis(ORDERED_HIERARCHICAL, problem)
    if not np.any(axis.chains):
        raise Declined(
            ORDERED_HIERARCHICAL, "running sums need windows shorter than the axis and records that cannot vanish"
        )
    window = typical_window(axis)
    if window == 1:
        raise Declined(ORDERED_HIERARCHICAL, "windows of one step leave no tree between running sums: use 'ordered'")
    from scipy.optimize import minimize_scalar  # takes a while to load, and many questions do without

    shown = stand_in(axis, problem.workload, window, max(STAND_IN, 4 * window))
    tried = STEP_FAN_OUTS if fan_out is None else (fan_out,)
    fan_outs = [size for size in tried if size < window] or [window]
    shapes = [TreeShape(tree_sizes(fan_out, window)[1:], "steps") for fan_out in fan_outs]
    errors = [_split_error(*shown, shape) for shape in shapes]
    splits = FIRST_SPLITS if split is None else (float(split),)
    best = min(range(len(shapes)), key=lambda k: min(errors[k](each) for each in splits))
    if split is None:
        minimum = minimize_scalar(errors[best], bounds=(0.02, 0.98), method="bounded", options={"xatol": 0.03})
        splits = (float(minimum.x),)
    tree = shapes[best].tree(axis)
    return EstimatingStrategy(
        ORDERED_HIERARCHICAL, problem, TreeCorrection(tree, tree.weights(_shares(shapes[best], splits[0])))
    )


def _shares(shape: TreeShape, split: float) -> Floats:
    """The shares of cells and levels, of the roots (none), and of the running sums."""
    levels = len(shape.sizes) + 1
    return np.append(np.full(levels, (1 - split) / (2 * levels)), [0.0, split])


def _split_error(axis: OrderedAxis, workload: Rows, shape: TreeShape) -> Callable[[float], float]:
    """The expected error of the shape for the part of the loss that its running sums get."""
    tree = shape.tree(axis)

    def error(split: float) -> float:
        correction = TreeCorrection(tree, tree.weights(_shares(shape, split)))
        # The variances of continuous noise with one over the weight as its scale.
        variances = np.concatenate([2.0 / part.weights.astype(np.float64) ** 2 for part in correction.parts])
        return correction.total_variance(workload, variances)

    return error
