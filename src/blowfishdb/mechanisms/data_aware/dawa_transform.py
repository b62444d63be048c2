"""DAWA with a transform: buckets of even counts, measured as the policy makes it cheapest."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.mechanisms import ordered
from blowfishdb.mechanisms.data_aware.bucket_strategy import plan_buckets
from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.gate_rule import GATE_RULE, gate_stage
from blowfishdb.mechanisms.data_aware.merged_strategy import best_merged_plan
from blowfishdb.mechanisms.data_aware.running_sums import even_runs
from blowfishdb.mechanisms.data_aware.script import Finding, Script, check_hides
from blowfishdb.mechanisms.replies import measured_rows
from blowfishdb.mechanisms.row_variances import row_variances
from blowfishdb.mechanisms.select.l1_gate import KEEP
from blowfishdb.mechanisms.select.l1_refinement import l1_refinement
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import Identity, Prefix
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.merged import merge_graph
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Allowance, Ask, MeasurementStage, Program

NAME = "dawa-transform"
GATE, SELECT, MEASURE, SUMS = "gate", "partition", "buckets", "sums"


@dataclass(frozen=True)
class DawaTransform:
    """Serves every policy; bias from sharing out buckets cannot be known without data, so it promises no accuracy.

    On a line, running sums of all cells cost no more than those of merged buckets: they get the whole epsilon, and
    buckets are read off them. Elsewhere, or with `sums_first` off, a little decides whether to look for buckets at all,
    as `dawa` does, and `select_share` of epsilon finds them.
    """

    select_share: Fraction = Fraction(1, 2)
    sums_first: bool = True

    @property
    def name(self) -> str:
        return NAME

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage on a line; gate, partition and measurement elsewhere: together exactly epsilon."""
        graph = problem.graph
        check_hides(NAME, graph)
        if self.sums_first and is_line(graph):
            return Program(NAME, (Allowance(SUMS, epsilon),))
        gate, select = epsilon * GATE_RULE.share, epsilon * self.select_share
        shares = (Allowance(GATE, gate), Allowance(SELECT, select), Allowance(MEASURE, epsilon - gate - select))
        return Program(NAME, shares)

    def script(self, problem: Problem, program: Program) -> Script:
        """The stages of the program, as they unfold."""
        if len(program.allowances) == 1:
            return _from_sums(problem, program.epsilon)
        return _from_partition(problem, program)


def is_line(graph: CellGraph) -> bool:
    """Whether records move by at most one step along one axis and can neither leave nor be absent."""
    axis = graph.factors[0]
    if len(graph.factors) != 1 or not isinstance(axis, WindowGraph) or axis.hubs.size or np.any(graph.to_zero):
        return False
    return bool(np.all(axis.reach - np.arange(axis.size) <= 1))


def _from_sums(problem: Problem, epsilon: Fraction) -> Script:
    strategy = ordered.propose(problem)
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, epsilon)
    measured = measured_rows((yield Ask(SUMS, MeasurementStage(plan))))
    spread = row_variances(plan)
    cells, buckets, before = [], [], 0
    ends = np.flatnonzero(strategy.exact)
    # Runs that no record crosses have exact totals and are read one by one.
    for run, sums in enumerate(np.split(measured.noisy, ends[:-1] - np.arange(ends.size - 1))):
        found = even_runs(sums.astype(np.float64), float(measured.exact[run]), float(spread[0]))
        cells.append(found.cells)
        is_start = np.zeros(found.cells.size, dtype=np.int64)
        is_start[found.starts] = 1
        buckets.append(before + np.cumsum(is_start) - 1)
        before += found.starts.size
    estimate = np.concatenate(cells)
    answers = np.asarray(problem.workload.dot(estimate))
    running = partial(strategy.variances_of, Prefix(estimate.size), spread)
    return Finding(estimate, answers, strategy.answer_variances(spread), np.concatenate(buckets), running=running)


def _from_partition(problem: Problem, program: Program) -> Script:
    graph, cells = problem.graph, problem.graph.cells
    gate, select, measure = (allowance.epsilon for allowance in program.allowances)
    outcome = yield Ask(GATE, gate_stage(problem, gate, program.epsilon))
    instead_of: tuple[str, ...] = ()
    if isinstance(outcome, np.ndarray) and outcome[0] == KEEP:
        buckets, instead_of, measure = Buckets(cells, np.arange(cells)), (SELECT,), select + measure
    else:
        buckets = Buckets(cells, np.asarray((yield Ask(SELECT, l1_refinement(cells, graph, select)))))
    own, running = None, None
    if isinstance(problem.workload, Identity):
        best = best_merged_plan(graph, buckets.of_cells, measure)
        measured = measured_rows((yield Ask(MEASURE, MeasurementStage(best.plan), buckets.of_cells, instead_of)))
        estimate, spread = best.cells(measured), best.answer_variances(problem.workload)
    else:
        planned = plan_buckets(merge_graph(graph, buckets.of_cells), buckets, problem.workload, measure)
        measured = measured_rows((yield Ask(MEASURE, MeasurementStage(planned.plan), buckets.of_cells, instead_of)))
        estimate = buckets.spread(planned.totals(measured.noisy, measured.exact))
        spread, own, running = planned.answer_variances, planned.own, partial(planned.running, buckets)
    answers = np.asarray(problem.workload.dot(estimate))
    return Finding(estimate, answers, spread, buckets.of_cells, own=own, running=running)
