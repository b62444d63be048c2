"""A binary tree over buckets with a weight of its own for every node, read by least squares in two passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from blowfishdb.mechanisms.data_aware.greedy_weights import GreedyTree
from blowfishdb.mechanisms.one_axis.axis import Axis
from blowfishdb.mechanisms.one_axis.block_tree import grow
from blowfishdb.mechanisms.one_axis.shares import GRID
from blowfishdb.mechanisms.one_axis.tree_least_squares import TreeCorrection
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.plan.plan import Measurement

STEPS_PER_OCTAVE = 16
"""Each different weight costs the sampler a table, so weights are rounded to this many values per factor of two."""


@dataclass(frozen=True, eq=False)
class WeightedTree(TreeCorrection):
    """The buckets and the measured nodes of each level, with whole weights."""

    whole: tuple[Ints, ...]

    @cached_property
    def parts(self) -> tuple[Measurement, ...]:
        """The buckets, then each level that has a measured node."""
        rows = [self.tree.axis.noisy_rows, *self.tree.rows()[:-1]]
        return tuple(Measurement(group, weight) for group, weight in zip(rows, self.whole, strict=True) if weight.size)


def weighted_tree(axis: Axis, greedy: GreedyTree) -> WeightedTree:
    """The tree with the given weights on an axis that is one run of buckets; nodes of no weight are not measured."""
    sizes = tuple(2**height for height in range(1, max(axis.cells - 1, 0).bit_length()))
    tree = grow(axis, axis.runs, sizes)
    weights = [_whole(weight) for weight in greedy.weights]
    levels = [replace(level, measured=weight > 0) for level, weight in zip(tree.levels, weights[1:], strict=False)]
    measured = [weight[weight > 0] for weight in weights[1:]]
    alone = [np.empty(0, dtype=np.int64)] * (len(tree.levels) - len(levels))
    whole = (np.maximum(1, weights[0]), *measured, *alone)
    return WeightedTree(replace(tree, levels=(*levels, *tree.levels[len(levels) :])), np.empty(0), whole)


def _whole(weights: Floats) -> Ints:
    """Weights on the grid, rounded to few different values; 0 where they are too small to matter."""
    seen = weights * GRID >= 1
    octaves = np.round(np.log2(np.where(seen, weights, 1.0)) * STEPS_PER_OCTAVE) / STEPS_PER_OCTAVE
    return np.where(seen, np.exp2(octaves) * GRID, 0).astype(np.int64)
