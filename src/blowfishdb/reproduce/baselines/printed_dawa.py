"""DAWA as printed, with the noise its proof needs, and its variants: other partitions, other weights of buckets."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.script import Script
from blowfishdb.mechanisms.select.l1_partition import L1Partition, l1_partition
from blowfishdb.mechanisms.select.l1_refinement import l1_refinement
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.encoding import digest
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Allowance, Ask, Program, Selection, SelectionNoise
from blowfishdb.reproduce.baselines.bucket_trees import Weights, measured_buckets

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
            buckets = Buckets(cells, np.asarray((yield Ask(SELECT, stage))))
        return (yield from measured_buckets(problem, buckets, self.second, MEASURE, measure))

    def _stage(self, graph: CellGraph, select: Fraction, measure: Fraction) -> Selection:
        if self.first == "ours":
            return l1_refinement(graph.cells, graph, select)
        candidates: Literal["all", "powers"] = "all" if self.first == "all" else "powers"
        inner = l1_partition(graph.cells, graph, select, candidates=candidates, penalty=Fraction(0), one_sided=False)
        return PrintedPartition(inner, 1 / measure)
