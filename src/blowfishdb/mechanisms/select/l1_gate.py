"""Decides whether looking for buckets can pay at all, by how many short blocks of cells are clearly uneven."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.select.l1_refinement import deviations
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.encoding import digest
from blowfishdb.plan.refinement import RefinementNoise

MERGE, KEEP = 0, 1
"""What the gate publishes: look for buckets, or measure every cell."""


@dataclass(frozen=True, eq=False)
class L1Gate:
    """Compares the sum over blocks of `block` cells of min(deviation from the median, cap) with a public threshold.

    One record changes the deviation of one block by at most 1, so this is a refinement of one node on one level.
    """

    cells: int
    block: int
    cap: int
    threshold: int
    unit: Fraction

    @property
    def noise(self) -> RefinementNoise:
        """One variable for the one comparison. The sum is never negative, so nothing is clipped."""
        return RefinementNoise(self.unit, np.ones(1, dtype=np.int64), self.threshold, 1, self.threshold)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the outcome."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss, the noise and the outcome depend on."""
        return digest(("l1 gate", self.cells, self.block, self.cap, self.threshold, self.noise.digest()))

    def unevenness(self, counts: Ints) -> int:
        """The sum that is compared, before noise."""
        return int(np.minimum(deviations(counts, self.block), self.cap).sum())

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """MERGE or KEEP; a tie is MERGE."""
        return np.where(self.noise.cut(0, np.array([self.unevenness(counts)]), draws), KEEP, MERGE)


def l1_gate(cells: int, graph: CellGraph, epsilon: Fraction, block: int, cap: float, share: float) -> L1Gate:
    """The gate that costs exactly epsilon and says KEEP where blocks reach more than `share` of the cap on average."""
    whole_cap = max(1, math.ceil(cap))
    threshold = math.floor(share * whole_cap * -(-cells // block))
    loss = L1Gate(cells, block, whole_cap, threshold, Fraction(1)).epsilon(graph)
    return L1Gate(cells, block, whole_cap, threshold, loss / epsilon)
