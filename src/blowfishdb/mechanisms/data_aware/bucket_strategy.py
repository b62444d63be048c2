"""How buckets are measured: by hats, trees or greedy weights, whichever predicts least error for the workload."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import identity
from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.greedy_weights import PartialRanges, greedy_weights
from blowfishdb.mechanisms.data_aware.hat_solver import HatSolver
from blowfishdb.mechanisms.data_aware.partial_variances import answer_variances
from blowfishdb.mechanisms.data_aware.quick_levels import quick_levels
from blowfishdb.mechanisms.data_aware.weighted_tree import weighted_tree
from blowfishdb.mechanisms.identity import IdentityStrategy
from blowfishdb.mechanisms.one_axis.axis import Axis, read_axis
from blowfishdb.mechanisms.one_axis.estimator import EstimatingStrategy, Estimator
from blowfishdb.mechanisms.one_axis.shape_search import choose
from blowfishdb.mechanisms.one_axis.shapes import SmoothShape, TreeShape
from blowfishdb.mechanisms.own_noise import own_variances
from blowfishdb.mechanisms.row_variances import row_variances
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Prefix
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.problem import Problem

NAME = "buckets"

SMOOTH_BUCKETS = 8192
"""Up to this many buckets hats are worth their system; beyond, trees."""

PLACES, CROWDED, FEW_BUCKETS = 32, 3, 1024
"""Of so many places, none holds so many times its part of the ends of ranges that are spread over all buckets."""

CLEARLY = 0.98
"""Greedy weights replace hats where they predict less than this part of the hats' squared error."""


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """A calibrated plan over buckets, the strategy that reads it, and the variance of each answer's noise."""

    strategy: EstimatingStrategy | IdentityStrategy
    plan: Plan
    answer_variances: Floats

    @property
    def own(self) -> Floats:
        """The variance of each bucket's own measurement."""
        return own_variances(self.strategy, self.plan, row_variances(self.plan))

    def running(self, buckets: Buckets) -> Floats:
        """The variance of the total of the first 1, 2, ... cells of the buckets."""
        if isinstance(self.strategy, IdentityStrategy):
            return np.zeros(buckets.cells)
        return answer_variances(buckets, self.strategy.estimator, Prefix(buckets.cells), row_variances(self.plan))

    def totals(self, noisy: Ints, exact: Ints) -> Floats:
        """The least-squares count of each bucket, by the variances that those of the answers come from."""
        measured, free, spread = noisy.astype(np.float64), exact.astype(np.float64), row_variances(self.plan)
        if isinstance(self.strategy, IdentityStrategy):
            return self.strategy.estimate_cells(measured, free, spread)
        return self.strategy.estimator.estimate(measured, free, spread)


def plan_buckets(graph: CellGraph, buckets: Buckets, workload: Rows, epsilon: Fraction) -> BucketPlan:
    """Measures the buckets of a merged graph at a cost of epsilon, for a workload over cells.

    The choice looks at the buckets and the workload, both public; it is free where nothing about buckets is hidden.
    """
    problem = Problem(graph, buckets.rounded(workload))
    try:
        axis = read_axis(NAME, problem)
    except Declined:
        if not graph.value_edge_bound and not np.any(graph.to_zero):
            exact = identity.propose(problem)
            return BucketPlan(exact, exact.plan(Fraction(1)), np.zeros(workload.shape[0]))
        axis = one_run(graph.cells)
    if np.any(axis.chains):
        best = choose(axis, problem.workload)
        return _calibrated(problem, best.shape.build(axis, best.shares), buckets, workload, epsilon)
    planned = _calibrated(problem, _levels(axis, problem.workload), buckets, workload, epsilon)
    ranges = buckets.partial_ranges(workload)
    if ranges is None or _ends_everywhere(ranges, buckets.count):
        return planned
    greedy = greedy_weights(buckets.count, ranges)
    to_beat = CLEARLY * float(planned.answer_variances.sum())
    if 2 * greedy.error / float(epsilon) ** 2 > to_beat:
        return planned
    tree = weighted_tree(one_run(graph.cells), greedy)
    weighted = _calibrated(problem, tree, buckets, workload, epsilon)
    return weighted if float(weighted.answer_variances.sum()) < to_beat else planned


def one_run(cells: int) -> Axis:
    """The axis of buckets of which nothing is known: any plan for it can be calibrated for any policy."""
    window = WindowGraph(np.arange(cells), np.empty(0, dtype=np.int64))
    graph = CellGraph((window,), "record", np.zeros(cells, dtype=np.bool_), "only")
    everything = np.zeros(1, dtype=np.int64)
    return Axis(cells, everything, everything > 0, everything, window.reach, window.hubs, graph.to_zero)


def _calibrated(
    problem: Problem, estimator: Estimator, buckets: Buckets, workload: Rows, epsilon: Fraction
) -> BucketPlan:
    strategy = EstimatingStrategy(NAME, problem, estimator)
    plan = calibrate(strategy.plan(Fraction(1)), problem.graph, epsilon)[0]
    return BucketPlan(strategy, plan, answer_variances(buckets, estimator, workload, row_variances(plan)))


def _ends_everywhere(ranges: PartialRanges, count: int) -> bool:
    """Whether the ends of the ranges lie all over many buckets: then greedy weights, equal everywhere, cannot win."""
    ends = np.concatenate([ranges.first, ranges.last]) * PLACES // count
    return count > FEW_BUCKETS and int(np.bincount(ends).max()) * PLACES < CROWDED * ends.size


def _levels(axis: Axis, workload: Rows) -> Estimator:
    """Hats with the shares that suit a tree of the same sizes: within 1 % of shares tuned for hats."""
    longest = int((axis.run_ends - axis.runs).max())
    free = bool(np.all(axis.free)) and axis.hubs.size == 0
    best = quick_levels(workload, longest, free=free)
    if axis.cells > SMOOTH_BUCKETS:
        return TreeShape(best.sizes).build(axis, np.append(best.shares, 0.0))
    hats = SmoothShape(best.sizes).build(axis, best.shares)
    return HatSolver(axis, hats.cell_weights, hats.coarse, hats.coarse_weights)
