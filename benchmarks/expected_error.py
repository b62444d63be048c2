"""The error that `dawa` is expected to have on a known table: its stages as they are, measurement noise as a formula.

Buckets are chosen by the mechanism's own code with seeded noise, the same for every setting. Given the buckets the bias
of each answer and the variance of its noise are known, so only the few draws of the buckets are random; what
the gate says is weighed by its probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from scipy.special import erf

from blowfishdb.mechanisms import optimized, ordered_hierarchy
from blowfishdb.mechanisms.data_aware.buckets import Buckets, plan_buckets
from blowfishdb.mechanisms.data_aware.partition import (
    CutRule,
    GateRule,
    l1_refinement,
    range_refinement,
    uneven_limit,
)
from blowfishdb.mechanisms.strategy import row_variances
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Intervals, Rows
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import merge_graph
from papers.baselines.noise import one_record

QUERIES = 400
LONGEST_SHORT = 64
KNOWN_BUCKETS = 2000
"""Settings that differ a little often find the same buckets: so many are remembered."""
WORKLOADS = ("ranges", "short ranges", "cells")


@dataclass(frozen=True, eq=False)
class Case:
    """One table, one epsilon, one kind of workload; draws of the selection's noise are seeded by `seed`."""

    counts: Ints
    epsilon: Fraction
    workload: str
    seed: int

    @property
    def cells(self) -> int:
        return int(self.counts.size)

    @property
    def blind(self) -> float:
        """The error of the best plan that does not look at the data."""
        return blind_error(self.cells, self.workload) / float(self.epsilon)

    @property
    def kept(self) -> float:
        """The error at the whole epsilon where every cell is measured."""
        return kept_error(self.cells, self.workload) / float(self.epsilon)


@dataclass(frozen=True, eq=False)
class Merged:
    """What some draws of the buckets give: for each draw the answers' biases and their variances at epsilon 1."""

    biases: Sequence[Floats]
    variances: Sequence[Floats]

    def error(self, epsilon: float) -> float:
        """The mean absolute error when the buckets are measured at epsilon."""
        pairs = zip(self.biases, self.variances, strict=True)
        return float(np.mean([mean_absolute(bias, spread / epsilon**2) for bias, spread in pairs]))


def merged(case: Case, share: Fraction, rule: CutRule, draws: int, for_ranges: bool = False) -> Merged:
    """The buckets that a part of epsilon finds, and what they do to the workload."""
    graph, workload = one_record(case.cells), make_workload(case.cells, case.workload)
    stage = (range_refinement if for_ranges else l1_refinement)(case.cells, graph, case.epsilon * share, rule)
    biases, variances = [], []
    for draw in range(draws):
        noise = np.random.default_rng([case.seed, draw]).laplace(0.0, 1.0, int(stage.noise.sizes[0]))
        starts = stage.choose(case.counts, np.rint(noise * float(stage.noise.unit)).astype(np.int64))
        buckets = Buckets(case.cells, starts)
        even = buckets.spread(np.add.reduceat(case.counts, starts).astype(np.float64))
        biases.append(np.asarray(workload.dot(even - case.counts)))
        variances.append(bucket_variances(case.cells, case.workload, starts.tobytes()))
    return Merged(biases, variances)


@lru_cache(maxsize=KNOWN_BUCKETS)
def bucket_variances(cells: int, workload: str, starts: bytes) -> Floats:
    """The variances of the answers when these buckets are measured at epsilon 1."""
    buckets = Buckets(cells, np.frombuffer(starts, dtype=np.int64))
    graph = merge_graph(one_record(cells), buckets.of_cells)
    return plan_buckets(graph, buckets, make_workload(cells, workload), Fraction(1)).answer_variances


def keep_chance(excess: Floats, unit: Floats) -> Floats:
    """The chance that noise of scale `unit` leaves the excess over the gate's threshold above 0."""
    tail = np.exp(-np.abs(excess) / unit) / 2
    return np.where(excess >= 0, 1.0 - tail, tail)


def short_part(cells: int, workload: str, rule: GateRule) -> float:
    """How far a workload stands between long ranges (0) and cells (1) for the gate."""
    ends = replace(rule, uneven_for_ranges=1.0, uneven_for_cells=2.0)
    return uneven_limit(problem_of(cells, workload), ends) - 1.0


def mean_absolute(bias: Floats, spread: Floats) -> float:
    """The mean of |bias + normal noise| over the answers: sums of noise are nearly normal."""
    deviation = np.sqrt(np.maximum(spread, 1e-12))
    part = bias / deviation
    folded = np.sqrt(2 / np.pi) * np.exp(-(part**2) / 2) + part * erf(part / np.sqrt(2))
    return float(np.mean(deviation * folded))


def make_workload(cells: int, name: str) -> Rows:
    """Uniform random ranges, ranges of up to 64 cells, or every cell."""
    if name == "cells":
        return Identity(cells)
    generator = np.random.default_rng(0)
    if name == "ranges":
        ends = np.sort(generator.integers(0, cells, (QUERIES, 2)), axis=1)
        return Intervals(cells, ends[:, 0], ends[:, 1] + 1)
    low = generator.integers(0, cells - LONGEST_SHORT, QUERIES)
    return Intervals(cells, low, low + generator.integers(1, LONGEST_SHORT + 1, QUERIES))


@cache
def problem_of(cells: int, workload: str) -> Problem:
    """The problem that a case puts."""
    return Problem(one_record(cells), make_workload(cells, workload))


@cache
def kept_error(cells: int, workload: str) -> float:
    """The error at epsilon 1 where every cell is a bucket."""
    graph, rows = one_record(cells), make_workload(cells, workload)
    planned = plan_buckets(graph, Buckets(cells, np.arange(cells)), rows, Fraction(1))
    return mean_absolute(np.zeros(1), planned.answer_variances)


@cache
def blind_error(cells: int, workload: str) -> float:
    """The error at epsilon 1 of the better of two data-independent plans."""
    problem = problem_of(cells, workload)
    errors = [kept_error(cells, workload)]
    for propose in (optimized.propose, ordered_hierarchy.propose_hierarchy):
        strategy = propose(problem)
        plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1))
        spread = strategy.answer_variances(row_variances(plan))
        errors.append(mean_absolute(np.zeros(1), spread))
    return min(errors)
