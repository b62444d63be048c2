"""Gated: a small look at the table decides whether a data-aware mechanism runs or one whose error no data changes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import identity, kronecker
from blowfishdb.mechanisms.data_aware import DataAware, Finding, Script, check_hides, measured_rows
from blowfishdb.mechanisms.data_aware.buckets import Buckets, last_stage, measured_buckets, measured_by_policy, summed
from blowfishdb.mechanisms.data_aware.dawa import Dawa, DawaTransform
from blowfishdb.mechanisms.data_aware.kdtree import AdaptiveTree
from blowfishdb.mechanisms.data_aware.partition import KEEP, GateRule, gate_stage
from blowfishdb.mechanisms.data_aware.regions import HilbertCurve
from blowfishdb.mechanisms.parameters import Parameter
from blowfishdb.mechanisms.strategy import CellStrategy, row_variances
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.workload import Identity, total
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Measurement, Plan, Problem
from blowfishdb.plan.program import Allowance, MeasurementStage, Program, Reply, StageRequest

NAME = "gated"
RECORDS, BLOCKS = "records", "blocks"
SHARE = Fraction(1, 100)
"""The part of epsilon that decides."""
PARAMETERS = (
    Parameter(
        "split",
        "The part of epsilon that decides which mechanism runs; that one gets the rest.",
        Fraction(1, 1000),
        Fraction(1, 2),
        SHARE,
        field="share",
    ),
)
CLEAR = 8
"""On one axis, where an average cell holds this many times 1 / epsilon records, too few cells can be merged."""
BLOCK_RULE = GateRule(SHARE, 64, 20.0, 0.35, 0.2, 16)
"""On two axes: how uneven squares of 8 x 8 cells may be; from made-up grids (docs/proofs/gated.md)."""
PLAIN_TABLES = {identity.NAME: identity.propose, kronecker.NAME: kronecker.propose}
"""The mechanisms that run on two axes where no data-aware one does."""


@dataclass(frozen=True)
class Gated:
    """Serves one axis by the noisy number of records, two axes by how uneven small squares are; promises no accuracy.

    Whatever is decided gets the rest of epsilon: `dawa-transform` for cells and `dawa` for other queries of one axis,
    `adaptive-tree` on two; or else the measurement with the least expected error. `share` of epsilon decides.
    """

    name: ClassVar[str] = NAME
    share: Fraction = SHARE

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """The stage that decides, then those of the data-aware mechanism: together exactly epsilon."""
        check_hides(NAME, problem.graph)
        axes = len(problem.graph.shape)
        if axes > 2:
            raise Declined(NAME, f"it serves one or two axes, not {axes}; ask for 'adaptive-tree'")
        rest = _inner(problem).program(problem, epsilon * (1 - self.share)).allowances
        return Program(NAME, (Allowance(RECORDS if axes == 1 else BLOCKS, epsilon * self.share), *rest))

    def script(self, problem: Problem, program: Program) -> Script:
        """Publishes the number of records or whether squares are uneven, then what the mechanism so chosen does."""
        (first, *rest), inner = program.allowances, _inner(problem)
        decide = _stands_clear if first.stage == RECORDS else _is_uneven
        if not (yield from decide(problem, first, program.epsilon)):
            return (yield from inner.script(problem, Program(inner.name, tuple(rest))))
        if first.stage == BLOCKS:
            return (yield from _measured_table(problem, rest))
        cells = problem.graph.cells
        if isinstance(problem.workload, Identity):
            return (yield from measured_by_policy(problem, np.arange(cells), rest))
        return (yield from measured_buckets(problem, Buckets(cells, np.arange(cells)), rest, merged=False))


def _inner(problem: Problem) -> DataAware:
    """The data-aware mechanism for the workload."""
    if len(problem.graph.shape) == 2:
        return AdaptiveTree()
    return DawaTransform() if isinstance(problem.workload, Identity) else Dawa()


def _stands_clear(problem: Problem, allowance: Allowance, epsilon: Fraction) -> Generator[StageRequest, Reply, bool]:
    """Whether the published number of records is large; it is exact and free where no hidden move changes it."""
    graph = problem.graph
    everything = total(graph.cells)
    if np.any(graph.components() == ZERO):
        counted = Plan(Fraction(1), (Measurement(everything, np.ones(1, dtype=np.int64)),))
        plan, _ = calibrate(counted, graph, allowance.epsilon)
    else:
        plan = Plan(Fraction(1), (), everything)
    measured = measured_rows((yield StageRequest(allowance.stage, MeasurementStage(plan))))
    records = int(measured.noisy[0]) if measured.noisy.size else int(measured.exact[0])
    return records * epsilon > CLEAR * graph.cells


def _is_uneven(problem: Problem, allowance: Allowance, epsilon: Fraction) -> Generator[StageRequest, Reply, bool]:
    """Whether the counts in blocks along a Hilbert curve, which are squares, deviate much from their medians."""
    rows, columns = problem.graph.shape
    stage = gate_stage(problem, allowance.epsilon, epsilon, BLOCK_RULE)
    outcome = yield StageRequest(allowance.stage, stage, HilbertCurve((rows, columns)).positions)
    return bool(np.asarray(outcome)[0] == KEEP)


def _measured_table(problem: Problem, allowances: Sequence[Allowance]) -> Script:
    """The measurement of a table with the least expected error; it spends all the allowances."""
    plans: list[tuple[float, CellStrategy, Plan]] = []
    for propose in PLAIN_TABLES.values():
        with suppress(Declined):
            able = propose(problem)
            plan, _ = calibrate(able.plan(Fraction(1)), problem.graph, summed(allowances))
            plans.append((able.total_variance(row_variances(plan)), able, plan))
    _, strategy, plan = min(plans, key=lambda entry: entry[0])
    measured, spread = measured_rows((yield last_stage(plan, None, allowances))), row_variances(plan)
    cells = strategy.estimate_cells(measured.noisy.astype(np.float64), measured.exact.astype(np.float64), spread)
    answers = np.asarray(problem.workload.dot(cells))
    return Finding(cells, answers, strategy.answer_variances(spread), np.arange(problem.graph.cells))
