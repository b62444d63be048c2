"""One value of every kind that certificates and receipts name by a digest."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.model.cells import PointGraph
from blowfishdb.model.graphs import CellGraph, CliqueGraph, ConstraintMoves, EdgeGraph, GridGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Kronecker, Prefix, Rectangles, Sparse, Stacked
from blowfishdb.plan.plan import EdgePlan, KroneckerMeasurement, Measurement, Plan
from blowfishdb.plan.points import PointAxis, PointPlan
from blowfishdb.plan.program import Allowance, Program

NONE = np.empty(0, dtype=np.int64)
LINE = WindowGraph(np.array([1, 2, 3, 3, 4]), np.array([4]))
PLACES = np.array([0, 1, 2, 9])


def joint(first: bool, second: bool) -> GridGraph:
    """A square with a fourth cell on each axis for NULL, hidden where told."""
    universal = tuple(np.array([3]) if hidden else NONE for hidden in (first, second))
    return GridGraph((PLACES, PLACES), (PLACES, PLACES), 1, "l1", universal)


def cells(*factors: object, constraint_moves: ConstraintMoves | None = None) -> CellGraph:
    """The policy graph of these factors."""
    moves = 1 if constraint_moves is None else constraint_moves.most
    return CellGraph(factors, "record", np.array(False), "public", moves, constraint_moves)  # type: ignore[arg-type]


TIED = ConstraintMoves(
    "atoms", np.array([0, 2, 5]), np.array([0, 1, 2, 3, 4]), np.array([False, True]), np.array([1, 2]), 3
)
GRAPHS = {
    "a window": cells(LINE),
    "a joint threshold, first NULL hidden": cells(joint(True, False)),
    "a joint threshold, second NULL hidden": cells(joint(False, True)),
    "listed edges": cells(EdgeGraph(5, np.array([[0, 1], [2, 4]]))),
    "cliques": cells(CliqueGraph(np.array([0, 0, 1, 1, 0]))),
    "two factors": cells(LINE, CliqueGraph(np.array([0, 0, 1]))),
    "records that change together": cells(LINE, constraint_moves=TIED),
}
ROWS = {
    "identity": Identity(6),
    "prefix": Prefix(6),
    "all ranges": AllRanges(6),
    "intervals": Intervals(6, np.array([0, 2]), np.array([3, 6])),
    "rectangles": Rectangles((2, 3), np.array([[0, 1]]), np.array([[2, 3]])),
    "sparse": Sparse(csr_array(np.array([[1, 0, 2, 0, 0, 1], [0, 1, 0, 0, 3, 0]]))),
    "product": Kronecker((Identity(2), Prefix(3))),
    "union": Stacked((Identity(6), Prefix(6))),
}
ONE = np.ones(1, dtype=np.int64)
PLANS = {
    **{name: Plan(Fraction(5, 3), (Measurement(rows, ONE),)) for name, rows in ROWS.items()},
    "exact rows": Plan(Fraction(2), (Measurement(Identity(6), ONE),), Prefix(6)),
    "a product of measurements": Plan(
        Fraction(2), (KroneckerMeasurement((Measurement(Identity(2), 2 * ONE), Measurement(Prefix(3), ONE))),)
    ),
    "noise on edges": EdgePlan(
        Fraction(1, 500),
        Prefix(6),
        np.stack([np.arange(5), np.arange(1, 6)], axis=1),
        csr_array(np.eye(5, dtype=np.int64)),
        csr_array(np.eye(6, 5, dtype=np.int64)),
        np.ones(5, dtype=np.int64),
    ),
}
PROGRAM = Program("dawa", (Allowance("first", Fraction(1, 3)), Allowance("second", Fraction(2, 3))))
POINTS = PointGraph((LINE, joint(True, False)), (4, 3, 3), "record", False, "public", 2)
NODES = PointPlan(
    Fraction(3), (PointAxis(2, np.arange(4)), PointAxis(1, np.arange(3))), 2, (np.zeros(4, int), np.arange(3))
)
EXACT_NODES = PointPlan(None, (PointAxis(2, np.arange(4)),), 2)
