"""Cuts the boxes that hold many more records than their noise could feign."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.spatial.region_tree import RegionTree, cut, halvings
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews, least_squares
from blowfishdb.model.cellgraph import CellGraph

HALVINGS = 4
"""A cut halves at most four times, the longest axis first: 16 pieces."""
CUTS = (2, HALVINGS)
"""Boxes are cut into 4 or into 16."""
RECORDS_PER_PIECE = 2.0
"""A box is cut when it has this many records for each piece, in units of the noise scale of the whole epsilon."""
CLEARANCE = 3.0
"""A box is cut only when its count is so many standard deviations above 0."""


def noise_unit(graph: CellGraph, epsilon: Fraction) -> float:
    """The noise scale of a count on which the whole epsilon were spent."""
    touched = 2 if graph.has_value_edges else 1
    return float(touched * graph.rows_per_person / epsilon)


def cut_where_records_are(tree: RegionTree, views: NodeViews, unit: float) -> RegionTree:
    """The tree with every leaf cut into as many pieces as it holds enough records for."""
    leaves = tree.leaves
    counts = least_squares(tree, views).values[leaves]
    is_clear = counts > CLEARANCE * np.sqrt(views.variances[leaves])
    pieces = np.ones((leaves.size, len(tree.shape)), dtype=np.int64)
    for times in CUTS:
        more = halvings(tree.low[leaves], tree.high[leaves], times)
        enough = is_clear & (counts > RECORDS_PER_PIECE * unit * np.prod(more, axis=1))
        pieces[enough] = more[enough]
    return cut(tree, leaves, pieces)
