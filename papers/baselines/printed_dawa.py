"""DAWA as printed, with the noise its proof needs, its variants, and the published code's unsound partition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from blowfishdb.errors import PlanError, TooLarge
from blowfishdb.mechanisms.data_aware import Finding, Script, measured_rows
from blowfishdb.mechanisms.data_aware.buckets import (
    Buckets,
    GreedyTree,
    answer_variances,
    greedy_weights,
    measured_buckets,
    one_run,
    weighted_tree,
)
from blowfishdb.mechanisms.data_aware.partition import l1_refinement
from blowfishdb.mechanisms.strategy import row_variances
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints, distinct
from blowfishdb.model.serialize import digest
from blowfishdb.model.workload import Rows
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Plan, Problem
from blowfishdb.plan.program import (
    Allowance,
    MeasurementStage,
    Program,
    SelectionNoise,
    SelectionStage,
    StageRequest,
    merge_graph,
)
from papers.data import MOST_CELLS

Candidates = Literal["powers", "aligned", "all"]
"""Buckets whose length is a power of two, at every position or at multiples of their length; or all intervals."""

EXACT_WEIGHTS = 2**40
ROUNDED_WEIGHTS = 2**24


@dataclass(frozen=True, eq=False)
class L1Partition:
    """Publishes the first cell of each bucket of the partition that minimises the sum over its buckets of

        sum |count - mean| - noise + penalty x noise scale.

    One record moves the cost of a bucket of L cells by at most 2 (1 - 1/L). Costs are whole multiples of 1 / grid;
    `unit` sets the noise level.
    """

    cells: int
    candidates: Candidates
    unit: Fraction
    penalty: Fraction
    one_sided: bool = True
    grid: int = 64

    def __post_init__(self) -> None:
        if self.candidates not in ("powers", "aligned", "all"):
            raise PlanError(f"candidates are 'powers', 'aligned' or 'all', not {self.candidates!r}")
        if self.cells < 1 or self.grid < 1 or self.penalty < 0:
            raise PlanError("a partition has at least one cell, a positive grid, and a penalty that is not negative")
        if self.candidates == "all" and self.cells > MOST_CELLS:
            raise TooLarge("cells of a partition into any intervals", self.cells, MOST_CELLS, "Use 'powers'.")

    @cached_property
    def lengths(self) -> Ints:
        """The lengths a bucket may have, in increasing order."""
        if self.candidates == "all":
            return np.arange(1, self.cells + 1)
        return 2 ** np.arange(self.cells.bit_length())

    @cached_property
    def steps(self) -> Ints:
        """A bucket of each length starts at multiples of its step."""
        return self.lengths if self.candidates == "aligned" else np.ones_like(self.lengths)

    @cached_property
    def offsets(self) -> Ints:
        """Where the items of each length start, by length and then by first cell; the number of items at the end."""
        return np.concatenate([[0], np.cumsum((self.cells - self.lengths) // self.steps + 1)])

    @cached_property
    def sensitivities(self) -> Ints:
        """How far one record moves the cost of a bucket of each length, on the grid: 2 (1 - 1/L) grid, rounded up."""
        return 2 * self.grid - 2 * self.grid // self.lengths

    @cached_property
    def noise(self) -> SelectionNoise:
        """One class for each different sensitivity; noise of scale proportional to the largest plus its own."""
        own = distinct(self.sensitivities)
        reach = [int(self.sensitivities[-1]) + int(value) or 1 for value in own]
        common = math.lcm(*reach)
        whole = common if common <= EXACT_WEIGHTS else ROUNDED_WEIGHTS
        sizes = np.bincount(np.searchsorted(own, self.sensitivities), weights=np.diff(self.offsets)).astype(np.int64)
        return SelectionNoise(self.unit, np.array([whole // value for value in reach]), own, sizes, self.one_sided)

    @cached_property
    def penalties(self) -> Ints:
        """What a bucket of each length pays, on the grid."""
        weights = self.noise.weights[np.searchsorted(self.noise.sensitivities, self.sensitivities)]
        return np.array([round(self.penalty * self.unit / int(weight)) for weight in weights])

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the buckets."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss, the noise and the choice depend on."""
        own = (self.cells, self.candidates, self.penalty, self.grid)
        return digest(("l1 partition", *own, self.noise.digest()))

    def costs(self, counts: Ints) -> Ints:
        """The cost of every item on the grid, in the order of `offsets`.

        Counts beyond what 64-bit arithmetic can hold for this many cells are cut off: the cap is public, and cutting
        off never makes two neighbouring tables differ more.
        """
        from papers.baselines import kernels

        cells = np.minimum(counts, 2**60 // (4 * self.grid * self.cells))
        values, rank = np.unique(cells, return_inverse=True)
        costs = np.empty(int(self.offsets[-1]), dtype=np.int64)
        if self.candidates == "all":
            kernels.fill_all_costs(cells, rank, values, self.offsets, self.grid, costs)
        else:
            kernels.fill_costs(cells, rank, values, self.lengths, self.steps, self.offsets, self.grid, costs)
        return costs

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """The first cell of each bucket; ties go to the shortest last bucket."""
        from papers.baselines import kernels

        scores = self.costs(counts)
        scores -= draws
        for place, penalty in enumerate(self.penalties):  # in place: all intervals of 8,192 cells take 256 MB each time
            scores[self.offsets[place] : self.offsets[place + 1]] += penalty
        starts = kernels.least_partition(self.cells, self.lengths, self.steps, self.offsets, scores)
        return np.asarray(starts, dtype=np.int64)


def l1_partition(
    cells: int,
    graph: CellGraph,
    epsilon: Fraction,
    *,
    candidates: Candidates,
    penalty: Fraction,
    one_sided: bool = True,
) -> L1Partition:
    """The partition that costs exactly epsilon."""
    loss = L1Partition(cells, candidates, Fraction(1), penalty, one_sided).epsilon(graph)
    if loss == 0:
        raise PlanError("one cell has one partition: there is nothing to select")
    return L1Partition(cells, candidates, loss / epsilon, penalty, one_sided)


# How the DAWA paper measures buckets: a binary tree over them with one of several sets of weights.

Weights = Literal["greedy", "uniform", "geometric", "laplace", "ours"]
"""The paper's choice for the workload, all nodes alike, more for lower nodes, buckets alone; or what `dawa` does."""


def weighted_buckets(problem: Problem, buckets: Buckets, weights: Weights, stage: str, epsilon: Fraction) -> Script:
    """The last stage of a script: buckets that are public by now, measured at a cost of epsilon."""
    if weights == "ours":
        return (yield from measured_buckets(problem, buckets, [Allowance(stage, epsilon)]))
    tree = weighted_tree(one_run(buckets.count), _tree(buckets, problem.workload, weights))
    plan, _ = calibrate(Plan(Fraction(1), tree.parts), merge_graph(problem.graph, buckets.of_cells), epsilon)
    measured = measured_rows((yield StageRequest(stage, MeasurementStage(plan), buckets.of_cells)))
    spread = row_variances(plan)
    cells = buckets.spread(tree.estimate(measured.noisy.astype(np.float64), np.empty(0), spread))
    variances = answer_variances(buckets, tree, problem.workload, spread)
    return Finding(cells, np.asarray(problem.workload.dot(cells)), variances, buckets.of_cells)


def _tree(buckets: Buckets, workload: Rows, weights: Weights) -> GreedyTree:
    if weights == "greedy":
        ranges = buckets.partial_ranges(workload)
        if ranges is None:
            raise ValueError("the paper's weights are for ranges")
        return greedy_weights(buckets.count, ranges)
    levels = level_weights(weights, max(buckets.count - 1, 0).bit_length() + 1)
    sizes = [-(-buckets.count // 2**height) for height in range(levels.size)]
    return GreedyTree(tuple(np.full(size, weight) for size, weight in zip(sizes, levels, strict=True)), 0.0)


def level_weights(weights: Weights, levels: int) -> Floats:
    """The weight of a node by its height above the buckets; they sum to 1."""
    if weights == "laplace":
        return np.asarray(np.eye(levels)[0])
    # Cormode et al. 2012: the variance of a range is least when budgets fall by the cube root of 2 from level to level.
    falling = np.exp2(-np.arange(levels) / 3) if weights == "geometric" else np.ones(levels)
    return np.asarray(falling / falling.sum())


# DAWA as printed, with the noise its proof needs, and its variants: other partitions, other weights of buckets.

First = Literal["powers", "all", "ours", "cells"]
"""Candidates whose length is a power of two, all intervals, the partition of `dawa`; or no partition at all."""
SELECT, MEASURE = "partition", "buckets"


@dataclass(frozen=True, eq=False)
class PrintedPartition:
    """The paper's Algorithm 1: two-sided noise on the deviation of every candidate, and 1/epsilon_2 for each bucket."""

    inner: L1Partition
    per_bucket: Fraction

    @property
    def cells(self) -> int:
        return self.inner.cells

    @property
    def noise(self) -> SelectionNoise:
        """The Remark's scales."""
        return self.inner.noise

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss; what each bucket pays does not look at the data."""
        return self.inner.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss, the noise and the choice depend on."""
        return digest(("printed partition", self.per_bucket, self.inner.digest()))

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """The first cell of each bucket."""
        return self.inner.choose(counts, draws - round(self.per_bucket * self.inner.grid))


@dataclass(frozen=True)
class PrintedDawa:
    """A quarter of epsilon on the partition, the rest on the buckets, as the paper has it."""

    first: First = "powers"
    second: Weights = "greedy"
    select_share: Fraction = Fraction(1, 4)

    @property
    def name(self) -> str:
        return f"dawa as printed, {self.first}, {self.second}"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Partition and measurement, or the latter alone."""
        del problem
        if self.first == "cells":
            return Program(self.name, (Allowance(MEASURE, epsilon),))
        select = epsilon * self.select_share
        return Program(self.name, (Allowance(SELECT, select), Allowance(MEASURE, epsilon - select)))

    def script(self, problem: Problem, program: Program) -> Script:
        """Both stages as in the paper."""
        cells, measure = problem.graph.cells, program.allowances[-1].epsilon
        if self.first == "cells":
            buckets = Buckets(cells, np.arange(cells))
        else:
            stage = self._stage(problem.graph, program.allowances[0].epsilon, measure)
            buckets = Buckets(cells, np.asarray((yield StageRequest(SELECT, stage))))
        return (yield from weighted_buckets(problem, buckets, self.second, MEASURE, measure))

    def _stage(self, graph: CellGraph, select: Fraction, measure: Fraction) -> SelectionStage:
        if self.first == "ours":
            return l1_refinement(graph.cells, graph, select)
        candidates: Literal["all", "powers"] = "all" if self.first == "all" else "powers"
        inner = l1_partition(graph.cells, graph, select, candidates=candidates, penalty=Fraction(0), one_sided=False)
        return PrintedPartition(inner, 1 / measure)


# What DAWA's published code does to choose buckets: NOT private at its stated epsilon, run only to explain figures.
#
# Its noise has half the scale that the proof needs, single cells get none, and noisy costs are raised to 1/epsilon_2
# after the noise (docs/errata.md). On a small table it loses more than twice what it states.


def published_starts(counts: Ints, select: Fraction, measure: Fraction) -> Ints:
    """The first cell of each bucket as the published code finds them."""
    from papers.baselines.kernels import least_partition

    stage = L1Partition(counts.size, "powers", Fraction(1), Fraction(0))
    scores = stage.costs(counts) + round(stage.grid / measure)
    for place, length in enumerate(stage.lengths.tolist()):
        own = scores[stage.offsets[place] : stage.offsets[place + 1]]
        if length > 1:
            scale = (2 - Fraction(1, length) - Fraction(1, counts.size)) / select
            own += sample(scale * stage.grid, 1, own.size)
        np.maximum(own, round(stage.grid / measure), out=own)
    return np.asarray(least_partition(stage.cells, stage.lengths, stage.steps, stage.offsets, scores), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class GivenBuckets:
    """Measures buckets that somebody else has chosen, with the paper's weights."""

    starts: Ints

    @property
    def name(self) -> str:
        return "given buckets"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage."""
        del problem
        return Program(self.name, (Allowance(MEASURE, epsilon),))

    def script(self, problem: Problem, program: Program) -> Script:
        """The measurement."""
        buckets = Buckets(problem.graph.cells, self.starts)
        return weighted_buckets(problem, buckets, "greedy", MEASURE, program.epsilon)
