"""How the buckets of a tree and the blocks above them are measured: shares that suit the workload, and the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews, TreeEstimate, least_squares
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.plan import Measurement

TRIED = ((1, 0.0), (1, 0.08), (2, 0.12), (2, 0.2), (2, 0.3))
"""Blocks of every level, or of every second, take this part of what the blocks above them left."""
GRID = 2**20


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """The measured nodes of a tree and their whole weights; along each path they add up to about GRID."""

    tree: RegionTree
    nodes: Ints
    weights: Ints

    def measurement(self) -> Measurement:
        """The nodes as ranges of buckets."""
        starts = self.tree.low[self.tree.leaves, 0]
        low, high = (np.searchsorted(starts, bound[self.nodes, 0]) for bound in (self.tree.low, self.tree.high))
        return Measurement(Intervals(starts.size, low, high), self.weights)

    def views(self, values: Floats, variances: Floats) -> NodeViews:
        """What the measured rows tell of the nodes."""
        return NodeViews.none(self.tree.nodes).add(self.nodes, values, variances)


def shared_weights(tree: RegionTree, stride: int, share: float) -> BlockWeights:
    """Every stride-th level of blocks takes a share of what is left; the buckets take the rest."""
    left = np.ones(tree.nodes)
    own = np.zeros(tree.nodes)
    for depth, nodes in enumerate(tree.by_depth[1:], start=1):
        left[nodes] = left[tree.parent[nodes]] - own[tree.parent[nodes]]
        if depth % stride == 0:
            own[nodes] = share * left[nodes]
    own[tree.leaves] = left[tree.leaves]
    whole: Ints = np.rint(own * GRID).astype(np.int64)
    nodes = np.flatnonzero(whole)
    return BlockWeights(tree, nodes, whole[nodes])


def best_weights(tree: RegionTree, error: Callable[[TreeEstimate], float]) -> BlockWeights:
    """The shares with the least predicted error; where noise is alike, a variance is 1 / weight^2."""

    def predicted(candidate: BlockWeights) -> float:
        views = candidate.views(np.zeros(candidate.nodes.size), (GRID / candidate.weights) ** 2)
        return error(least_squares(tree, views))

    return min((shared_weights(tree, *each) for each in TRIED), key=predicted)
