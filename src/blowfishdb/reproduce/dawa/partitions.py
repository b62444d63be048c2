"""The cost of a partition, and the partition of least cost, found without noise: what private ones are held to."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.select.l1_partition import L1Partition
from blowfishdb.model.arrays import Ints


def optimal_starts(counts: Ints, epsilon: Fraction) -> Ints:
    """The first cells of the buckets of least summed deviation plus 1 / epsilon for each bucket; not private."""
    from blowfishdb.mechanisms.select.l1_kernel import least_partition

    stage = L1Partition(counts.size, "all", Fraction(1), Fraction(0))
    scores = stage.costs(counts) + round(stage.grid / epsilon)
    return np.asarray(least_partition(stage.cells, stage.lengths, stage.steps, stage.offsets, scores), dtype=np.int64)


def partition_cost(counts: Ints, starts: Ints, epsilon: Fraction) -> float:
    """Definition 5 of the paper: the deviations of all buckets from their means, plus 1 / epsilon for each bucket."""
    ends = np.append(starts[1:], counts.size)
    means = np.add.reduceat(counts, starts) / (ends - starts)
    return float(np.abs(counts - np.repeat(means, ends - starts)).sum() + starts.size / float(epsilon))
