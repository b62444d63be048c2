"""DAWA + Transformed as the thesis has it: DAWA's buckets, then running sums of them under the line policy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.merged_strategy import best_merged_plan
from blowfishdb.mechanisms.data_aware.script import Finding, Script
from blowfishdb.mechanisms.replies import measured_rows
from blowfishdb.mechanisms.select.l1_partition import l1_partition
from blowfishdb.model.arrays import Ints
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Allowance, Ask, MeasurementStage, Program
from blowfishdb.reproduce.baselines.printed_dawa import PrintedPartition

SELECT, MEASURE = "partition", "buckets"


@dataclass(frozen=True)
class PrintedTransform:
    """`select_share` of epsilon on the paper's partition, with the noise that moves need; the rest on running sums."""

    select_share: Fraction = Fraction(1, 2)

    @property
    def name(self) -> str:
        return "dawa + transformed as printed"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Partition and measurement."""
        del problem
        select = epsilon * self.select_share
        return Program(self.name, (Allowance(SELECT, select), Allowance(MEASURE, epsilon - select)))

    def script(self, problem: Problem, program: Program) -> Script:
        """Both stages."""
        graph = problem.graph
        select, measure = (allowance.epsilon for allowance in program.allowances)
        inner = l1_partition(graph.cells, graph, select, candidates="powers", penalty=Fraction(0), one_sided=False)
        starts = yield Ask(SELECT, PrintedPartition(inner, 1 / measure))
        return (yield from _transformed(problem, np.asarray(starts), measure))


@dataclass(frozen=True, eq=False)
class GivenTransform:
    """Running sums of buckets that somebody else has chosen."""

    starts: Ints

    @property
    def name(self) -> str:
        return "given buckets, transformed"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage."""
        del problem
        return Program(self.name, (Allowance(MEASURE, epsilon),))

    def script(self, problem: Problem, program: Program) -> Script:
        """The measurement."""
        return _transformed(problem, self.starts, program.epsilon)


def _transformed(problem: Problem, starts: Ints, epsilon: Fraction) -> Script:
    buckets = Buckets(problem.graph.cells, starts)
    best = best_merged_plan(problem.graph, buckets.of_cells, epsilon)
    measured = measured_rows((yield Ask(MEASURE, MeasurementStage(best.plan), buckets.of_cells)))
    cells = best.cells(measured)
    answers = np.asarray(problem.workload.dot(cells))
    return Finding(cells, answers, best.answer_variances(problem.workload), buckets.of_cells)
