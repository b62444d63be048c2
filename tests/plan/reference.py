"""The loss computed the plain way: every edge, every row, exact integers."""

from __future__ import annotations

from blowfishdb.model.graphs import ZERO, CellGraph
from blowfishdb.model.workload import Kronecker
from blowfishdb.plan.plan import KroneckerMeasurement, Plan


def reference_loss(plan: Plan, graph: CellGraph) -> int:
    """max over edges (u, v) of the sum over rows of weight * |q_u - q_v|, at unit 1 and one row per person."""
    rows: list[tuple[int, list[int]]] = []
    for part in plan.parts:
        matrix = Kronecker(tuple(f.rows for f in part.factors)) if isinstance(part, KroneckerMeasurement) else part.rows
        rows.extend((int(w), [int(q) for q in row]) for w, row in zip(part.weights, matrix.dense(), strict=True))
    worst = 0
    for first, second in graph.edges():
        loss = sum(w * abs(q[first] - (0 if second == ZERO else q[second])) for w, q in rows)
        worst = max(worst, loss)
    return worst
