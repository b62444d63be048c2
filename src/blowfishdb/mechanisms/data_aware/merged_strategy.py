"""The best data-independent way to count buckets, found on the public merged graph by its expected error."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.errors import CannotCertify, Declined, TooLarge
from blowfishdb.mechanisms import edge_transform, identity, optimized, ordered, spanning_tree
from blowfishdb.mechanisms.entries import chosen_rows
from blowfishdb.mechanisms.row_variances import row_variances
from blowfishdb.mechanisms.strategy import Mechanism, Strategy
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Identity
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.merged import merge_graph
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Measured

CANDIDATES: tuple[Mechanism, ...] = (
    ordered.propose,
    identity.propose,
    optimized.propose,
    edge_transform.propose,
    spanning_tree.propose,
)
ENTRIES_AT_ONCE = 2**22
MOST_MIXED = 4096
"""Up to this many buckets the noise of answers that mix several is written out."""


@dataclass(frozen=True, eq=False)
class MergedPlan:
    """A calibrated plan whose strategy counts every bucket; `of_cells` names the bucket of each cell."""

    of_cells: Ints
    strategy: Strategy
    plan: Plan | EdgePlan

    @cached_property
    def variances(self) -> Floats:
        """The variance of each noise variable."""
        return row_variances(self.plan)

    @cached_property
    def sizes(self) -> Ints:
        """How many cells each bucket holds."""
        return np.bincount(self.of_cells).astype(np.int64)

    def expected_error(self) -> float:
        """The summed variance of all cells when buckets are shared out evenly."""
        return float(np.sum(self.strategy.answer_variances(self.variances) / self.sizes))

    def cells(self, measured: Measured) -> Floats:
        """Every cell's share of its bucket."""
        if isinstance(self.plan, EdgePlan):
            totals = measured.noisy.astype(np.float64)
        else:
            noisy, exact = measured.noisy.astype(np.float64), measured.exact.astype(np.float64)
            totals = self.strategy.decode(noisy, exact, self.variances)
        return np.asarray((totals / self.sizes)[self.of_cells])

    def answer_variances(self, workload: Rows) -> Floats:
        """The variance of the noise of each answer."""
        if isinstance(workload, Identity):
            return (self.strategy.answer_variances(self.variances) / self.sizes**2)[self.of_cells]
        # Each bucket's response to every noise variable, a column each.
        basis = np.eye(self.variances.size)
        exact = self.plan.exact.shape[0] if isinstance(self.plan, Plan) and self.plan.exact is not None else 0
        response = self.strategy.decode(basis, np.zeros((exact, self.variances.size)), self.variances)
        found = np.empty(workload.shape[0])
        portion = max(1, ENTRIES_AT_ONCE // max(self.of_cells.size, self.variances.size))
        by_bucket = np.argsort(self.of_cells, kind="stable")
        starts = np.cumsum(self.sizes) - self.sizes
        for start in range(0, found.size, portion):
            queries = np.arange(start, min(start + portion, found.size))
            shares = np.add.reduceat(chosen_rows(workload, queries)[:, by_bucket], starts, axis=1) / self.sizes
            found[queries] = (shares @ response) ** 2 @ self.variances
        return found


def best_merged_plan(graph: CellGraph, of_cells: Ints, epsilon: Fraction) -> MergedPlan:
    """The strategy with the least expected error over all cells, calibrated to epsilon on the merged graph."""
    merged = merge_graph(graph, of_cells)
    problem = Problem(merged, Identity(merged.cells))
    found = []
    for propose in CANDIDATES:
        try:
            found.append(_calibrated(problem, of_cells, propose(problem), epsilon))
        except (Declined, TooLarge, CannotCertify):
            continue
    return min(found, key=MergedPlan.expected_error)


def _calibrated(problem: Problem, of_cells: Ints, strategy: Strategy, epsilon: Fraction) -> MergedPlan:
    plan = strategy.plan(Fraction(1))
    if plan.weights.size == 0:
        return MergedPlan(of_cells, strategy, plan)
    return MergedPlan(of_cells, strategy, calibrate(plan, problem.graph, epsilon)[0])


def check_mixed(mechanism: str, problem: Problem) -> None:
    """Declined when the noise of the answers could not be written out."""
    if not isinstance(problem.workload, Identity) and problem.graph.cells > MOST_MIXED:
        raise Declined(mechanism, f"answers other than cells are served up to {MOST_MIXED:,} cells")
