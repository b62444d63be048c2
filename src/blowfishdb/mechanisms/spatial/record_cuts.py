"""Cuts the boxes that hold many more records than their noise could feign."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.spatial.region_tree import RegionTree, cut, halvings
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews, least_squares
from blowfishdb.model.cellgraph import CellGraph

HALVINGS = 4
"""A cut halves at most four times, the longest axis first: 16 pieces."""
CUTS = (2, HALVINGS)
"""Boxes are cut into 4 or into 16."""


@dataclass(frozen=True)
class RecordRule:
    """When a box is cut: it holds `per_piece` records for each piece, in units of the noise scale of the whole epsilon,
    and its count is `clearance` standard deviations above 0.
    """

    per_piece: float
    clearance: float

    def __post_init__(self) -> None:
        if self.per_piece < 0 or self.clearance < 0:
            raise PlanError("what a box must hold to be cut is not negative")


RECORD_RULE = RecordRule(3.0, 5.0)
"""Found by `python -m benchmarks tune-spatial` on synthetic grids."""


def noise_unit(graph: CellGraph, epsilon: Fraction) -> float:
    """The noise scale of a count on which the whole epsilon were spent."""
    touched = 2 if graph.has_value_edges else 1
    return float(touched * graph.rows_per_person / epsilon)


def cut_where_records_are(
    tree: RegionTree, views: NodeViews, unit: float, rule: RecordRule = RECORD_RULE
) -> RegionTree:
    """The tree with every leaf cut into as many pieces as it holds enough records for."""
    leaves = tree.leaves
    counts = least_squares(tree, views).values[leaves]
    is_clear = counts > rule.clearance * np.sqrt(views.variances[leaves])
    pieces = np.ones((leaves.size, len(tree.shape)), dtype=np.int64)
    for times in CUTS:
        more = halvings(tree.low[leaves], tree.high[leaves], times)
        enough = is_clear & (counts > rule.per_piece * unit * np.prod(more, axis=1))
        pieces[enough] = more[enough]
    return cut(tree, leaves, pieces)
