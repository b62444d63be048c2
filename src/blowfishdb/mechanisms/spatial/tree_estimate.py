"""Weighted least squares over nested regions: inverse-variance means, a pass up and a pass down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.model.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class NodeViews:
    """What was measured of each region so far: its inverse-variance mean, infinite variance where nothing was."""

    values: Floats
    variances: Floats

    @staticmethod
    def none(nodes: int) -> NodeViews:
        return NodeViews(np.zeros(nodes), np.full(nodes, np.inf))

    def for_nodes(self, nodes: int) -> NodeViews:
        """The same views when the tree has grown to so many nodes."""
        missing = nodes - self.values.size
        return NodeViews(
            np.concatenate([self.values, np.zeros(missing)]),
            np.concatenate([self.variances, np.full(missing, np.inf)]),
        )

    def add(self, nodes: Ints, values: Floats, variances: Floats) -> NodeViews:
        """With one more view of each of the given nodes."""
        mean, spread = self.values.copy(), self.variances.copy()
        mean[nodes], spread[nodes] = combined(mean[nodes], spread[nodes], values, variances)
        return NodeViews(mean, spread)

    def with_total(self, total: float | None) -> NodeViews:
        """With the exact count of the whole grid, where it is known."""
        if total is None:
            return self
        return self.add(np.zeros(1, dtype=np.int64), np.array([total]), np.zeros(1))


def combined(first: Floats, first_variance: Floats, second: Floats, second_variance: Floats) -> tuple[Floats, Floats]:
    """The inverse-variance mean of two independent views and its variance; variances may be 0 or infinite."""
    known = np.isfinite(first_variance)
    spread = np.where(known, first_variance, 1.0)
    with np.errstate(invalid="ignore"):
        share = np.where(spread > 0, spread / (spread + second_variance), np.where(second_variance > 0, 0.0, 1.0))
    share = np.where(known, share, 1.0)
    return first + share * (second - first), np.where(known, spread * (1.0 - share), second_variance)


@dataclass(frozen=True, eq=False)
class TreeEstimate:
    """The least squares count of every region.

    `below` is the variance of each node's count as its own subtree tells it, `summed` that of the sum over its
    children; given the count of a parent, its children share the correction in proportion to `below`.
    """

    tree: RegionTree
    values: Floats
    below: Floats
    summed: Floats

    @cached_property
    def cells(self) -> Floats:
        """Every cell's share of its leaf, all cells of a leaf alike."""
        leaves = self.tree.leaves
        return np.asarray((self.values / self.tree.areas)[leaves][self.tree.labels])


def least_squares(tree: RegionTree, views: NodeViews) -> TreeEstimate:
    """The counts with the least weighted sum of squares such that children add up to their parents."""
    leaves = tree.leaves
    if not np.all(np.isfinite(views.variances[leaves])):
        raise PlanError("every leaf has to be measured at least once")
    values, below, summed = views.values.copy(), views.variances.copy(), np.zeros(tree.nodes)
    sums = np.zeros(tree.nodes)
    for nodes in reversed(tree.by_depth[1:]):
        parents = tree.parent[nodes]
        totals = np.bincount(parents, weights=values[nodes], minlength=tree.nodes)
        spreads = np.bincount(parents, weights=below[nodes], minlength=tree.nodes)
        above = tree.by_depth[int(tree.depth[nodes[0]]) - 1]
        inner = above[~tree.is_leaf[above]]
        sums[inner], summed[inner] = totals[inner], spreads[inner]
        values[inner], below[inner] = combined(sums[inner], summed[inner], views.values[inner], views.variances[inner])
    for nodes in tree.by_depth[1:]:
        parents = tree.parent[nodes]
        share = np.divide(below[nodes], summed[parents], out=np.zeros(nodes.size), where=summed[parents] > 0)
        values[nodes] += share * (values[parents] - sums[parents])
    return TreeEstimate(tree, values, below, summed)
