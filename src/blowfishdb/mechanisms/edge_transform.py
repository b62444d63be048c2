"""Edge transform: noise on the edges of the policy, of which only the answers' share is ever published."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.sparse import coo_array, csr_array, eye_array, hstack

from blowfishdb.errors import Declined, TooLarge
from blowfishdb.mechanisms.edge_lines import choose_family, line_strategy, sides_by_steps, unit_steps
from blowfishdb.mechanisms.products.queries import as_boxes
from blowfishdb.mechanisms.spanning_tree import TreeStrategy, best_forest, listed_edges, tree_strategy
from blowfishdb.model.arrays import Floats, Ints, as_ints
from blowfishdb.model.cellgraph import ZERO
from blowfishdb.model.workload import Rectangles
from blowfishdb.plan.columns import sparse_columns
from blowfishdb.plan.plan import EdgePlan
from blowfishdb.plan.problem import Problem

NAME = "edge-transform"
ROUTE_STEPS = 4_000_000
ENTRIES = 20_000_000
PROOF_ENTRIES = 1_000_000_000
"""The certificate compares every answer with every edge."""


@dataclass(frozen=True, eq=False)
class EdgeStrategy:
    """Noise variables over the policy's edges: `strategy` (variables by edges) and `decoder` (answers by variables)."""

    problem: Problem
    edges: Ints
    strategy: csr_array
    decoder: csr_array
    weights: Ints

    @property
    def mechanism(self) -> str:
        return NAME

    @property
    def direct(self) -> None:
        return None

    @property
    def loss(self) -> int:
        """The largest weighted column norm of the strategy: the plan's loss at unit 1."""
        return int((abs(self.strategy).T @ self.weights).max(initial=0))

    @property
    def steady_scale(self) -> int:
        """The answers combine the noise in one way at every level."""
        return 0

    def plan(self, unit: Fraction) -> EdgePlan:
        return EdgePlan(unit, self.problem.workload, self.edges, self.strategy, self.decoder, self.weights)

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        del exact, variances
        return np.asarray(self.decoder @ measured)

    def answer_variances(self, variances: Floats) -> Floats:
        return np.asarray(self.decoder.power(2) @ np.asarray(variances, dtype=np.float64))

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers."""
        return float(self.answer_variances(variances).sum())

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        return np.asarray(self.decoder[queries].toarray(), dtype=np.float64)


def propose(problem: Problem) -> EdgeStrategy | TreeStrategy:
    """Serves any policy whose edges can be listed; for a forest it measures the flow over every edge as a row."""
    edges = listed_edges(NAME, problem)
    cells = problem.graph.cells
    if edges.shape[0] <= cells:
        forest = best_forest(cells, edges)
        if edges.shape[0] == int((~forest.is_root).sum()):
            return tree_strategy(NAME, problem, edges, forest)
    compared = problem.workload.shape[0] * edges.shape[0]
    if compared > PROOF_ENTRIES:
        raise Declined(NAME, f"its proof would compare {compared:,} entries, more than {PROOF_ENTRIES:,}")
    found = [choice for choice in (on_lines(problem), on_single_edges(problem)) if choice is not None]
    if not found:
        raise Declined(NAME, "the answers change along too many edges")
    return min(found, key=_expected_error)


def _expected_error(strategy: EdgeStrategy) -> float:
    return strategy.total_variance(strategy.weights.astype(np.float64) ** -2) * strategy.loss**2


def on_single_edges(problem: Problem) -> EdgeStrategy | None:
    """One noise variable for each edge; None where the answers have too many entries."""
    edges = problem.graph.edges()
    boxes = grid_boxes(problem)
    try:
        decoder = _falls(problem, edges) if boxes is None else sides_by_steps(boxes) @ unit_steps(edges, boxes.grid)
    except TooLarge:
        return None
    if decoder.nnz > ENTRIES:
        return None
    decoder = csr_array(decoder, dtype=np.int64)
    decoder.eliminate_zeros()
    identity = csr_array(eye_array(edges.shape[0], dtype=np.int64))
    return EdgeStrategy(problem, edges, identity, decoder, as_ints(np.ones(edges.shape[0], dtype=np.int64)))


def _falls(problem: Problem, edges: Ints) -> csr_array:
    """Answers by edges: how much each answer falls when one record moves along each edge."""
    cells, edge = problem.graph.cells, np.arange(edges.shape[0])
    counted = edges[:, 1] != ZERO
    row = np.concatenate([edges[:, 0], edges[counted, 1]])
    column = np.concatenate([edge, edge[counted]])
    sign = np.concatenate([np.ones(edge.size, dtype=np.int64), np.full(int(counted.sum()), -1)])
    incidence = csr_array(coo_array((sign, (row, column)), shape=(cells, edge.size)))
    return csr_array(csr_array(sparse_columns(problem.workload)) @ incidence)


def grid_boxes(problem: Problem) -> Rectangles | None:
    """The workload as boxes over two axes from which no record can leave; None otherwise."""
    graph = problem.graph
    if len(graph.shape) != 2 or min(graph.shape) < 2 or graph.to_zero.any():
        return None
    return as_boxes(problem.workload, graph.shape)


def on_lines(problem: Problem) -> EdgeStrategy | None:
    """Trees over the lines of unit steps that box sides lie on; longer edges are routed along unit steps."""
    boxes = grid_boxes(problem)
    if boxes is None:
        return None
    edges, shape = problem.graph.edges(), boxes.grid
    steps = unit_steps(edges, shape)
    if steps.nnz > ROUTE_STEPS:
        return None
    families = [choose_family(boxes, axis) for axis in (0, 1)]
    scales = _balance([family.error for family in families], [int(f.weights.sum()) for f in families], steps, shape)
    weights = np.concatenate([family.row_weights * scale for family, scale in zip(families, scales, strict=True)])
    decoder = csr_array(hstack([family.decoder for family in families]), dtype=np.int64)
    return EdgeStrategy(problem, edges, line_strategy(families, shape, steps), decoder, as_ints(weights))


def _balance(errors: list[float], norms: list[int], steps: csr_array, shape: tuple[int, ...]) -> tuple[int, int]:
    """Whole factors for the weights of the two families.

    Where no edge steps along both axes each family may lose as much as the other; otherwise the two losses add up, and
    cube roots of the errors share them best.
    """
    split = (shape[0] - 1) * shape[1]
    along = [np.diff(part.tocsc().indptr) > 0 for part in (steps[:split], steps[split:])]
    wanted = np.ones(2)
    if np.any(along[0] & along[1]):
        wanted = np.cbrt(np.maximum(errors, 1e-9 * max(errors, default=1.0)))
    factors = wanted / np.array(norms)
    whole = np.maximum(1, np.round(64 * factors / factors.max())).astype(np.int64)
    return int(whole[0]), int(whole[1])
