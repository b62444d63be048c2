"""The noise variance of boxes answered from nested regions: exact, visiting only the regions a box cuts through."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.entries import squared
from blowfishdb.mechanisms.products.queries import as_boxes
from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews, TreeEstimate
from blowfishdb.model.arrays import Bools, Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Rectangles, as_intervals

VISITS = 200_000_000
"""Beyond about this many pairs of a query and a region the bound of the leaves alone is given instead."""
VISITS_AT_ONCE = 2_000_000


def answer_variances(workload: Rows, estimate: TreeEstimate, views: NodeViews) -> Floats:
    """The variance of each answer; for queries that are not boxes, or too many, an upper bound."""
    boxes = _boxes(workload, estimate.tree.shape)
    per_query = _visits(estimate.tree)
    if boxes is None or boxes.shape[0] * per_query > VISITS:
        return leaf_bound(workload, estimate.tree, views)
    size = max(1, VISITS_AT_ONCE // per_query)
    chunks = [
        _exact(estimate, boxes.low[start : start + size], boxes.high[start : start + size])
        for start in range(0, boxes.shape[0], size)
    ]
    return np.concatenate(chunks)


def leaf_bound(workload: Rows, tree: RegionTree, views: NodeViews) -> Floats:
    """What the leaves' own measurements alone would give: least squares is never worse.

    A query's weight on a leaf is its mean over the leaf's cells, whose square is at most the mean of the squares.
    """
    per_cell = (views.variances / tree.areas)[tree.leaves][tree.labels]
    return np.asarray(squared(workload).dot(per_cell), dtype=np.float64)


def _boxes(workload: Rows, shape: tuple[int, ...]) -> Rectangles | None:
    if len(shape) == 1 and not isinstance(workload, AllRanges):
        spans = as_intervals(workload)
        if spans is not None:
            return Rectangles(shape, spans.low[:, None], spans.high[:, None])
    return as_boxes(workload, shape)


def _visits(tree: RegionTree) -> int:
    """About how many regions the border of a box meets."""
    axes = len(tree.shape)
    return int(8 * axes * len(tree.by_depth) + 4 * axes * tree.leaves.size ** ((axes - 1) / axes))


def _exact(estimate: TreeEstimate, low: Ints, high: Ints) -> Floats:
    """Given a parent's count its children vary around their shares of it (docs/proofs/region-trees.md)."""
    tree = estimate.tree
    order, starts = tree.children
    queries = np.flatnonzero(np.all(low < high, axis=1))
    node = np.zeros(queries.size, dtype=np.int64)
    up = np.arange(queries.size)
    levels = []
    while node.size:
        inside, share = _covered(tree, node, low[queries], high[queries])
        kept = share > 0
        levels.append((queries[kept], node[kept], up[kept], share[kept]))
        opened = np.flatnonzero(~inside[kept] & ~tree.is_leaf[node[kept]])
        parent, asking = node[kept][opened], queries[kept][opened]
        count = starts[parent + 1] - starts[parent]
        place = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count - starts[parent], count)
        node, queries, up = order[place], np.repeat(asking, count), np.repeat(opened, count)
    result = np.zeros(low.shape[0])
    for depth in range(len(levels) - 1, 0, -1):
        asking, node, up, weight = levels[depth]
        above = levels[depth - 1]
        size = above[1].size
        spread = weight * estimate.below[node]
        mixed = np.bincount(up, weights=spread, minlength=size)
        squares = np.bincount(up, weights=weight * spread, minlength=size)
        opened = np.flatnonzero(np.bincount(up, minlength=size))
        total = estimate.summed[above[1][opened]]
        mean = np.divide(mixed[opened], total, out=np.zeros(opened.size), where=total > 0)
        np.add.at(result, above[0][opened], np.maximum(squares[opened] - mixed[opened] * mean, 0.0))
        above[3][opened] = mean
    if levels:
        asking, node, _, weight = levels[0]
        result[asking] += weight**2 * estimate.below[node]
    return result


def _covered(tree: RegionTree, node: Ints, low: Ints, high: Ints) -> tuple[Bools, Floats]:
    """Whether each region lies wholly in its box, and the share of its cells that does."""
    inside = np.ones(node.size, dtype=np.bool_)
    share = np.ones(node.size)
    for axis in range(len(tree.shape)):
        start, stop = tree.low[node, axis], tree.high[node, axis]
        common = np.minimum(stop, high[:, axis]) - np.maximum(start, low[:, axis])
        inside &= common == stop - start
        share *= np.maximum(common, 0) / (stop - start)
    return inside, share
