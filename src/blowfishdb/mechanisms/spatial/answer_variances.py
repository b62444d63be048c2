"""The noise variance of boxes answered from nested regions: exact, visiting only the regions a box cuts through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from blowfishdb.mechanisms.entries import squared
from blowfishdb.mechanisms.products.queries import as_boxes
from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews, TreeEstimate
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Rectangles, as_intervals

VISITS = 200_000_000
"""Beyond about this many pairs of a query and a region the bound of the leaves alone is given instead."""
VISITS_AT_ONCE = 2_000_000


class Cover(Protocol):
    """Queries that count each cell of some set once."""

    @property
    def queries(self) -> int: ...

    def cells(self, queries: Ints, nodes: Ints) -> Ints:
        """How many cells of each node its query counts; one query for each node."""
        ...


@dataclass(frozen=True, eq=False)
class BoxCover:
    """Boxes over the regions of a tree of the same grid."""

    tree: RegionTree
    boxes: Rectangles

    @property
    def queries(self) -> int:
        return self.boxes.shape[0]

    def cells(self, queries: Ints, nodes: Ints) -> Ints:
        found = np.ones(nodes.size, dtype=np.int64)
        for axis in range(len(self.tree.shape)):
            stop = np.minimum(self.tree.high[nodes, axis], self.boxes.high[queries, axis])
            found *= np.maximum(stop - np.maximum(self.tree.low[nodes, axis], self.boxes.low[queries, axis]), 0)
        return found


def answer_variances(workload: Rows, estimate: TreeEstimate, views: NodeViews) -> Floats:
    """The variance of each answer; for queries that are not boxes, or too many, an upper bound."""
    boxes = _boxes(workload, estimate.tree.shape)
    if boxes is None or boxes.shape[0] * visits(estimate.tree, len(estimate.tree.shape)) > VISITS:
        return leaf_bound(workload, estimate.tree, views, estimate.tree.labels)
    return cover_variances(BoxCover(estimate.tree, boxes), estimate, len(estimate.tree.shape))


def cover_variances(cover: Cover, estimate: TreeEstimate, axes: int) -> Floats:
    """The variance of each query of the cover, exact; `axes` tells how large the borders of the queries are."""
    size = max(1, VISITS_AT_ONCE // visits(estimate.tree, axes))
    chunks = [
        _exact(estimate, cover, np.arange(start, min(start + size, cover.queries)))
        for start in range(0, cover.queries, size)
    ]
    return np.concatenate(chunks)


def visits(tree: RegionTree, axes: int) -> int:
    """About how many regions the border of a query meets."""
    return int(8 * axes * len(tree.by_depth) + 4 * axes * tree.leaves.size ** ((axes - 1) / axes))


def leaf_bound(workload: Rows, tree: RegionTree, views: NodeViews, labels: Ints) -> Floats:
    """What the leaves' own measurements alone would give: least squares is never worse.

    `labels` names the leaf of each cell of the workload. A query's weight on a leaf is its mean over the leaf's cells,
    whose square is at most the mean of the squares.
    """
    per_cell = (views.variances / tree.areas)[tree.leaves][labels]
    return np.asarray(squared(workload).dot(per_cell), dtype=np.float64)


def _boxes(workload: Rows, shape: tuple[int, ...]) -> Rectangles | None:
    if len(shape) == 1 and not isinstance(workload, AllRanges):
        spans = as_intervals(workload)
        if spans is not None:
            return Rectangles(shape, spans.low[:, None], spans.high[:, None])
    return as_boxes(workload, shape)


def _exact(estimate: TreeEstimate, cover: Cover, asked: Ints) -> Floats:
    """Given a parent's count its children vary around their shares of it (docs/proofs/region-trees.md)."""
    tree = estimate.tree
    order, starts = tree.children
    queries, node, up = asked, np.zeros(asked.size, dtype=np.int64), np.arange(asked.size)
    levels = []
    while node.size:
        share = cover.cells(queries, node) / tree.areas[node]
        kept = share > 0
        queries, node, share = queries[kept], node[kept], share[kept]
        levels.append((queries, node, up[kept], share))
        opened = np.flatnonzero((share < 1) & ~tree.is_leaf[node])
        count = starts[node[opened] + 1] - starts[node[opened]]
        place = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count - starts[node[opened]], count)
        node, queries, up = order[place], np.repeat(queries[opened], count), np.repeat(opened, count)
    result = np.zeros(asked.size)
    for depth in range(len(levels) - 1, 0, -1):
        _, node, up, weight = levels[depth]
        query_above, node_above, _, weight_above = levels[depth - 1]
        spread = weight * estimate.below[node]
        opened = np.flatnonzero(np.bincount(up, minlength=node_above.size))
        mixed = np.bincount(up, weights=spread, minlength=node_above.size)[opened]
        squares = np.bincount(up, weights=weight * spread, minlength=node_above.size)[opened]
        total = estimate.summed[node_above[opened]]
        mean = np.divide(mixed, total, out=np.zeros(opened.size), where=total > 0)
        np.add.at(result, query_above[opened] - asked[0], np.maximum(squares - mixed * mean, 0.0))
        weight_above[opened] = mean
    if levels:
        query_above, node_above, _, weight_above = levels[0]
        result[query_above - asked[0]] += weight_above**2 * estimate.below[node_above]
    return result
