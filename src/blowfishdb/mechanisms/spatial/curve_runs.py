"""Boxes as runs on a curve: how many cells of each stretch of the curve a box counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.spatial.hilbert import HilbertCurve
from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.model.arrays import Ints
from blowfishdb.model.workload import Rectangles


@dataclass(frozen=True, eq=False)
class RunCover:
    """Boxes over the stretches of a tree on the curve; `keys` are box x (places + 1) + first place of each run."""

    tree: RegionTree
    queries: int
    keys: Ints
    lengths: Ints
    before: Ints

    def cells(self, queries: Ints, nodes: Ints) -> Ints:
        span = self.tree.shape[0] + 1
        low, high = queries * span + self.tree.low[nodes, 0], queries * span + self.tree.high[nodes, 0]
        return self._up_to(high) - self._up_to(low)

    def _up_to(self, place: Ints) -> Ints:
        """How many cells all runs of all boxes count before the given places."""
        if not self.keys.size:
            return np.zeros_like(place)
        run = np.maximum(np.searchsorted(self.keys, place, side="right") - 1, 0)
        return np.asarray(self.before[run] + np.clip(place - self.keys[run], 0, self.lengths[run]))


def run_cover(curve: HilbertCurve, boxes: Rectangles, tree: RegionTree) -> RunCover:
    """The boxes of a grid over stretches of its curve."""
    query, low, high = curve.runs(boxes)
    lengths = high - low
    return RunCover(tree, boxes.shape[0], query * (curve.cells + 1) + low, lengths, np.cumsum(lengths) - lengths)
