"""Counts of nested regions that are never negative: least squares again, from the top down, with that known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blowfishdb.mechanisms.spatial.tree_estimate import TreeEstimate
from blowfishdb.model.arrays import Floats, Ints


def not_negative(estimate: TreeEstimate) -> TreeEstimate:
    """The estimate with no count below 0; children add up to their parents unless exact counts among them say more.

    Given the count of a region, the counts of its children are replaced by the nearest ones that are not negative and
    add up to it, distances in units of their variances: no further from any true counts that add up to the same.
    """
    tree, values = estimate.tree, estimate.values.copy()
    values[0] = max(values[0], 0.0)
    for nodes in tree.by_depth[1:]:
        values[nodes] = _shared(values[nodes], estimate.below[nodes], values, tree.parent[nodes])
    return replace(estimate, values=values)


def _shared(counts: Floats, spreads: Floats, totals: Floats, parents: Ints) -> Floats:
    """For each parent the counts nearest to its children's, in units of their variances, that add up to its total."""
    weights = np.where(np.bincount(parents, spreads, totals.size)[parents] > 0, spreads, 1.0)
    is_open = np.ones(counts.size, dtype=np.bool_)
    while True:
        missing = totals - np.bincount(parents, np.where(is_open, counts, 0.0), totals.size)
        shares = np.bincount(parents, np.where(is_open, weights, 0.0), totals.size)
        step = np.divide(missing, shares, out=np.zeros(totals.size), where=shares > 0)
        moved = counts + step[parents] * weights
        below = is_open & (moved < 0.0)
        if not np.any(below):
            return np.where(is_open, np.maximum(moved, 0.0), 0.0)
        is_open &= ~below
