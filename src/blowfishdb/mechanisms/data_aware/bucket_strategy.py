"""How buckets are measured: hats or trees with shares that suit the workload, and what the noise does to answers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import identity
from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.entries import chosen_rows
from blowfishdb.mechanisms.identity import IdentityStrategy
from blowfishdb.mechanisms.one_axis.axis import Axis, read_axis
from blowfishdb.mechanisms.one_axis.energies import level_plans
from blowfishdb.mechanisms.one_axis.estimator import EstimatingStrategy, Estimator, covariance_dot
from blowfishdb.mechanisms.one_axis.shape_search import choose
from blowfishdb.mechanisms.one_axis.shapes import SmoothShape, TreeShape
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Intervals, as_intervals
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.problem import Problem

NAME = "buckets"

SMOOTH_BUCKETS = 6000
"""Up to this many buckets hats are worth their dense system; beyond, trees."""

ENTRIES_AT_ONCE = 2**22
"""Queries that are not ranges are written out in portions of this many entries."""


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """A calibrated plan over buckets with the strategy that reads it."""

    strategy: EstimatingStrategy | IdentityStrategy
    plan: Plan

    @property
    def variances(self) -> Floats:
        """The variance of each noisy row."""
        return variance(float(self.plan.unit) / self.plan.weights)

    def totals(self, noisy: Ints, exact: Ints) -> Floats:
        """The least-squares count of each bucket."""
        return self.strategy.estimate_cells(noisy.astype(np.float64), exact.astype(np.float64), self.variances)


def plan_buckets(graph: CellGraph, workload: Intervals | AllRanges, epsilon: Fraction) -> BucketPlan:
    """Measures the buckets of a merged graph at a cost of epsilon; free where nothing about them is hidden."""
    strategy = bucket_strategy(Problem(graph, workload))
    plan = strategy.plan(Fraction(1))
    return BucketPlan(strategy, calibrate(plan, graph, epsilon)[0] if plan.parts else plan)


def bucket_strategy(problem: Problem) -> EstimatingStrategy | IdentityStrategy:
    """Hats with the shares that suit trees, within 1 % of tuned ones; running sums where the policy affords them."""
    try:
        axis = read_axis(NAME, problem)
    except Declined:
        if np.all(problem.graph.components() >= 0) and not problem.graph.value_edge_bound:
            return identity.propose(problem)
        axis = read_axis(NAME, Problem(_unordered(problem.graph.cells), problem.workload))
    if np.any(axis.chains):
        best = choose(axis, problem.workload)
        return EstimatingStrategy(NAME, problem, best.shape.build(axis, best.shares))
    return EstimatingStrategy(NAME, problem, _levels(axis, problem.workload))


def _unordered(cells: int) -> CellGraph:
    """The graph under which nothing is known but that records may be absent: any plan for it suits any policy."""
    window = WindowGraph(np.arange(cells), np.empty(0, dtype=np.int64))
    return CellGraph((window,), "record", np.zeros(cells, dtype=np.bool_), "only")


def _levels(axis: Axis, workload: Rows) -> Estimator:
    longest = int((axis.run_ends - axis.runs).max())
    free = bool(np.all(axis.free)) and axis.hubs.size == 0
    best = level_plans(workload, longest, free=free, equal=False)[0]
    if axis.cells <= SMOOTH_BUCKETS:
        return SmoothShape(best.sizes).build(axis, best.shares)
    return TreeShape(best.sizes).build(axis, np.append(best.shares, 0.0))


def answer_variances(buckets: Buckets, measured: BucketPlan, workload: Rows) -> Floats:
    """The variance of each answer's noise when every bucket's total is shared out evenly over its cells."""
    strategy = measured.strategy
    if isinstance(strategy, IdentityStrategy):
        return np.zeros(workload.shape[0])
    spans = None if isinstance(workload, AllRanges) else as_intervals(workload)
    if spans is None:
        return _variances_of_rows(buckets, strategy.estimator, workload, measured.variances)
    return _variances_of_ranges(buckets, strategy.estimator, spans, measured.variances)


def _variances_of_ranges(buckets: Buckets, estimator: Estimator, spans: Intervals, variances: Floats) -> Floats:
    """A range is a part of one bucket, whole buckets, and a part of another: six variances give all covariances."""
    first, before = buckets.parts_before(spans.low)
    last, until = buckets.parts_before(spans.high)
    apart = last > first
    inner = np.where(apart, first + 1, last)
    ranges = ((first, inner), (inner, last), (last, last + 1), (first, last), (inner, last + 1), (first, last + 1))
    low = np.concatenate([pair[0] for pair in ranges])
    high = np.concatenate([np.maximum(pair[0], pair[1]) for pair in ranges])
    left, whole, right, left_whole, whole_right, every = np.split(
        estimator.range_variances(low, high, variances), len(ranges)
    )
    rest = 1.0 - before
    found = (
        rest**2 * left
        + whole
        + until**2 * right
        + rest * (left_whole - left - whole)
        + until * (whole_right - whole - right)
        + rest * until * (every - left_whole - whole_right + whole)
    )
    return np.maximum(np.where(apart, found, (until - before) ** 2 * right), 0.0)


def _variances_of_rows(buckets: Buckets, estimator: Estimator, workload: Rows, variances: Floats) -> Floats:
    found = np.empty(workload.shape[0])
    portion = max(1, ENTRIES_AT_ONCE // buckets.cells)
    for start in range(0, found.size, portion):
        queries = np.arange(start, min(start + portion, found.size))
        rows = np.add.reduceat(chosen_rows(workload, queries), buckets.starts, axis=1) / buckets.lengths
        found[queries] = np.einsum("ij,ji->i", rows, covariance_dot(estimator, rows.T, variances))
    return np.maximum(found, 0.0)
