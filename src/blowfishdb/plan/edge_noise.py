"""The loss of answers whose noise belongs to the edges of the policy (proof: docs/proofs/edge-transform.md)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.errors import CannotCertify
from blowfishdb.model.arrays import Ints, Numbers, check_sum, total_weight
from blowfishdb.model.cellgraph import ZERO, CellGraph
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Intervals, as_intervals
from blowfishdb.plan.plan import EdgePlan
from blowfishdb.plan.worst_edge import WorstEdge, worst_of

CHUNK_ENTRIES = 8_000_000
NARROW = 63
"""Coefficients up to this size differ by what one byte can hold."""


def worst_noised_edge(plan: EdgePlan, graph: CellGraph) -> WorstEdge:
    """The greatest column norm of the strategy, once every edge has a column and the decoder is proven right."""
    _check_edges(plan.edges, graph)
    _check_decoder(plan)
    norms = _weighted_column_norms(plan.strategy, plan.weights)
    return worst_of(norms, plan.edges)


def _check_edges(edges: Ints, graph: CellGraph) -> None:
    """Every edge of the policy must be a column, in either direction; more columns do no harm."""
    needed = _edge_keys(graph.edges(), graph.cells)
    if not np.isin(needed, _edge_keys(edges, graph.cells)).all():
        raise CannotCertify("the edge plan leaves out an edge of the policy")


def _edge_keys(edges: Ints, cells: int) -> Ints:
    shifted = np.sort(edges - ZERO, axis=1)
    return np.asarray(shifted[:, 0] * (cells + 1) + shifted[:, 1])


def _check_decoder(plan: EdgePlan) -> None:
    """decoder @ strategy == workload @ P in whole numbers, checked for every answer and every edge."""
    check_sum("entries of decoder times strategy", _largest_row_sum(plan.decoder) * _largest_entry(plan.strategy))
    product = csr_array(plan.decoder @ plan.strategy)
    answers, step = plan.workload.shape[0], max(1, CHUNK_ENTRIES // max(1, plan.edges.shape[0], plan.cells))
    listed = plan.workload.intervals() if isinstance(plan.workload, AllRanges) else as_intervals(plan.workload)
    workload = plan.workload if listed is None else listed
    for start in range(0, answers, step):
        chosen = np.arange(start, min(start + step, answers))
        if not _agree(_coefficients(workload, chosen), plan.edges, product[chosen]):
            raise CannotCertify("the decoder of an edge plan does not reproduce its workload on every edge")


def _coefficients(workload: Rows, chosen: Ints) -> Numbers:
    """The chosen rows of the workload and a 0 for the ZERO vertex, in the narrowest type that holds differences."""
    if isinstance(workload, Intervals):
        cell = np.arange(workload.shape[1] + 1)
        inside = (cell >= workload.low[chosen, None]) & (cell < workload.high[chosen, None])
        return inside.astype(np.int8)
    unit = np.zeros((workload.shape[0], chosen.size), dtype=np.int64)
    unit[chosen, np.arange(chosen.size)] = 1
    rows = np.zeros((chosen.size, workload.shape[1] + 1), dtype=np.int64)
    rows[:, :-1] = workload.transpose_dot(unit).T
    return rows.astype(np.int8) if np.abs(rows).max() <= NARROW else rows


def _agree(rows: Numbers, edges: Ints, product: csr_array) -> bool:
    """Whether each row's difference along each edge is the given sparse product: equal where stored, 0 elsewhere."""
    moved = rows[:, edges[:, 0]] - rows[:, edges[:, 1]]
    answer = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
    if not np.array_equal(moved[answer, product.indices], product.data):
        return False
    moved[answer, product.indices] = 0
    return not moved.any()


def _weighted_column_norms(strategy: csr_array, weights: Ints) -> Ints:
    check_sum("weights times entries", total_weight(weights) * _largest_entry(strategy))
    return np.asarray(abs(strategy).T @ weights, dtype=np.int64)


def _largest_entry(matrix: csr_array) -> int:
    return int(abs(matrix).max()) if matrix.nnz else 0


def _largest_row_sum(matrix: csr_array) -> int:
    return int(abs(matrix).sum(axis=1).max()) if matrix.nnz else 0
