"""Bounds privately how uneven the most uneven bucket is: what spreading counts evenly can do to an answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Ints, as_ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.encoding import digest
from blowfishdb.noise.distribution import geometric_quantile
from blowfishdb.plan.stages import SelectionNoise

RATIO = 1.1
"""Neighbouring levels differ by this ratio, or by 1."""

LARGEST = 10**15
"""No table deviates more than it has rows, and none has so many."""


@dataclass(frozen=True, eq=False)
class WorstBucket:
    """Publishes which of some public levels is nearest to the largest deviation of a bucket from its median.

    One record moves that deviation by at most 1, and with it the distance to every level.
    """

    cells: int
    starts: Ints
    unit: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", as_ints(self.starts))

    @property
    def noise(self) -> SelectionNoise:
        """One variable for each level."""
        return SelectionNoise(self.unit, np.ones(1, int), np.ones(1, int), np.array([levels().size]), one_sided=True)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the level."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss, the noise and the level depend on."""
        return digest(("worst bucket", self.cells, self.starts, self.noise.digest()))

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """The number of the level; a tie goes to the lowest."""
        worst = int(bucket_deviations(counts, self.starts).max())
        return np.array([int(np.argmin(np.abs(levels() - worst) - draws))])

    def bound(self, chosen: int, beta: float) -> float:
        """What no bucket's deviation exceeds, with probability 1 - beta, given the published level.

        The level wins against the one nearest to the truth, so it is further away by at most its own noise; the nearest
        one is at most half a step away.
        """
        noise = int(geometric_quantile(float(self.unit), beta / levels().size))
        return (float(levels()[chosen]) + noise + 1.0) / (1.0 - (RATIO - 1.0) / 2.0)


def worst_bucket(cells: int, starts: Ints, graph: CellGraph, epsilon: Fraction) -> WorstBucket:
    """The stage that costs exactly epsilon."""
    return WorstBucket(cells, starts, WorstBucket(cells, starts, Fraction(1)).epsilon(graph) / epsilon)


def levels() -> Ints:
    """0, 1, 2, ... and then by a constant ratio."""
    steps = math.ceil(math.log(LARGEST) / math.log(RATIO))
    grown = np.ceil(RATIO ** np.arange(steps + 1)).astype(np.int64)
    return np.unique(np.append(grown, np.arange(int(1 / (RATIO - 1)) + 1)))


def bucket_deviations(counts: Ints, starts: Ints) -> Ints:
    """For each bucket the least sum of |count - c| over all c: its upper half less its lower half."""
    lengths = np.diff(np.append(starts, counts.size))
    bucket = np.repeat(np.arange(starts.size), lengths)
    ordered = counts[np.lexsort((counts, bucket))]
    place = np.arange(counts.size) - np.repeat(starts, lengths)
    half = np.repeat(lengths // 2, lengths)
    upper = place >= np.repeat(lengths, lengths) - half
    sign = upper.astype(np.int64) - (place < half)
    return np.asarray(np.add.reduceat(sign * ordered, starts))
