"""Matching with a transform: cells with like counts are joined in rounds, near or far, and measured by the policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.merged_strategy import best_merged_plan, check_mixed
from blowfishdb.mechanisms.data_aware.script import Finding, Script, check_hides
from blowfishdb.mechanisms.own_noise import own_variances
from blowfishdb.mechanisms.replies import measured_rows
from blowfishdb.mechanisms.select.matching import matching_partition
from blowfishdb.plan.merged import merge_graph
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Allowance, Ask, MeasurementStage, Program

NAME = "matching-transform"
MATCH, MEASURE = "matching", "buckets"


@dataclass(frozen=True)
class MatchingTransform:
    """Serves every policy. Each of up to `rounds` rounds may double the buckets; together they get `select_share`.

    `caution` is how many scales of its own noise a pair must be worth beyond the error it saves: without it the
    luckiest of many pairs would win.
    """

    rounds: int = 3
    select_share: Fraction = Fraction(1, 2)
    caution: Fraction = Fraction(3)

    @property
    def name(self) -> str:
        return NAME

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """The rounds and the measurement, together exactly epsilon."""
        graph = problem.graph
        check_hides(NAME, graph)
        if graph.cells < 2:
            raise Declined(NAME, "there is nothing to join in a single cell")
        check_mixed(NAME, problem)
        rounds = min(self.rounds, int(math.log2(graph.cells)))
        each = epsilon * self.select_share / rounds
        stages = [Allowance(f"{MATCH} {number + 1}", each) for number in range(rounds)]
        return Program(NAME, (*stages, Allowance(MEASURE, epsilon - rounds * each)))

    def script(self, problem: Problem, program: Program) -> Script:
        """Publishes a matching of the current buckets in each round, then the measured buckets."""
        graph, of_cells = problem.graph, np.arange(problem.graph.cells)
        *rounds, measure = program.allowances
        for number, allowance in enumerate(rounds):
            merged = merge_graph(graph, of_cells) if number else graph
            cells_of = np.bincount(of_cells).astype(np.int64)
            stage = matching_partition(cells_of, Fraction(0), merged, allowance.epsilon)
            scale = stage.unit / int(stage.noise.weights.min()) / stage.grid
            saving = 2 / measure.epsilon - self.caution * scale
            stage = matching_partition(cells_of, saving, merged, allowance.epsilon)
            chosen = yield Ask(allowance.stage, stage, of_cells if number else None)
            of_cells = np.asarray(chosen)[of_cells]
        best = best_merged_plan(graph, of_cells, measure.epsilon)
        measured = measured_rows((yield Ask(measure.stage, MeasurementStage(best.plan), of_cells)))
        estimate = best.cells(measured)
        answers = np.asarray(problem.workload.dot(estimate))
        own = own_variances(best.strategy, best.plan, best.variances)
        return Finding(estimate, answers, best.answer_variances(problem.workload), of_cells, own=own)
