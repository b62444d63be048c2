"""DAWA: looks where the counts are even, merges those cells into buckets, and measures the buckets for the workload."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.errors import Declined, PlanError
from blowfishdb.mechanisms.data_aware.buckets import Buckets, plan_buckets
from blowfishdb.mechanisms.data_aware.dawa_2d import program_2d, script_2d
from blowfishdb.mechanisms.data_aware.partition import GATE_RULE, KEEP, gate_stage, l1_refinement, worst_bucket
from blowfishdb.mechanisms.data_aware.script import BIAS_BETA, Finding, Script, check_hides, measured_rows
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Allowance, Ask, MeasurementStage, Program, merge_graph

NAME = "dawa"

BOUNDED = "dawa-bounded"

GATE, SELECT, BIAS, MEASURE = "gate", "partition", "bias", "buckets"

SELECT_SHARE = Fraction(1, 5)
"""The part of epsilon that finds the buckets; found by `python -m benchmarks tune-dawa` on synthetic tables."""


@dataclass(frozen=True)
class Dawa:
    """Serves every policy; bias from merging cells cannot be known without the data, so it promises no accuracy.

    With a `bias_share` that part of epsilon bounds the bias of every answer, which then comes with the finding;
    `select_share` is the part that finds the buckets.
    """

    name: str = NAME
    bias_share: Fraction = Fraction(0)
    select_share: Fraction = SELECT_SHARE

    def __post_init__(self) -> None:
        if self.bias_share < 0 or self.select_share <= 0 or GATE_RULE.share + self.bias_share + self.select_share >= 1:
            raise PlanError("shares of epsilon are positive and leave something for the measurement")

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Gate, partition, measurement: together exactly epsilon; two axes follow a Hilbert curve, without a gate."""
        graph = problem.graph
        check_hides(self.name, graph)
        if len(graph.shape) == 2 and self.bias_share:
            raise Declined(self.name, "on two axes no bound on the bias is offered; ask for 'dawa'")
        if len(graph.shape) == 2:
            return program_2d(NAME, epsilon)
        gate, select = epsilon * GATE_RULE.share, epsilon * self.select_share
        bias = epsilon * self.bias_share
        looking = [Allowance(GATE, gate), Allowance(SELECT, select), *([Allowance(BIAS, bias)] if bias else [])]
        return Program(self.name, (*looking, Allowance(MEASURE, epsilon - gate - select - bias)))

    def script(self, problem: Problem, program: Program) -> Script:
        """Publishes whether to merge, then where, then the measured buckets."""
        graph, cells = problem.graph, problem.graph.cells
        if len(graph.shape) == 2:
            return (yield from script_2d(problem, program))
        allowed = {allowance.stage: allowance.epsilon for allowance in program.allowances}
        outcome = yield Ask(GATE, gate_stage(problem, allowed[GATE], program.epsilon))
        if isinstance(outcome, np.ndarray) and outcome[0] == KEEP:
            return (yield from _measured(problem, Buckets(cells, np.arange(cells)), allowed, 0.0))
        starts = np.asarray((yield Ask(SELECT, l1_refinement(cells, graph, allowed.pop(SELECT)))))
        if BIAS not in allowed:
            return (yield from _measured(problem, Buckets(cells, starts), allowed, None))
        stage = worst_bucket(cells, starts, graph, allowed.pop(BIAS))
        level = np.asarray((yield Ask(BIAS, stage)))
        return (yield from _measured(problem, Buckets(cells, starts), allowed, stage.bound(int(level[0]), BIAS_BETA)))


def _measured(problem: Problem, buckets: Buckets, allowed: dict[str, Fraction], uneven: float | None) -> Script:
    """The last stage, with what is left to spend; `uneven` bounds the deviation of every bucket."""
    graph, is_cells = problem.graph, buckets.count == problem.graph.cells
    of_cells = None if is_cells else buckets.of_cells
    instead_of = tuple(stage for stage in allowed if stage not in (GATE, MEASURE))
    epsilon = sum((allowed[stage] for stage in (*instead_of, MEASURE)), Fraction(0))
    planned = plan_buckets(
        graph if of_cells is None else merge_graph(graph, of_cells), buckets, problem.workload, epsilon
    )
    measured = measured_rows((yield Ask(MEASURE, MeasurementStage(planned.plan), of_cells, instead_of)))
    estimate = buckets.spread(planned.totals(measured.noisy, measured.exact))
    answers = np.asarray(problem.workload.dot(estimate))
    bias = None if uneven is None else np.asarray(uneven * buckets.cut_counts(problem.workload), dtype=np.float64)
    spread, own, running = planned.answer_variances, planned.own, partial(planned.running, buckets)
    return Finding(estimate, answers, spread, buckets.of_cells, bias, own=own, running=running)
