"""Decides whether looking for buckets can pay at all, by how many short blocks of cells are clearly uneven."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.select.l1_refinement import deviations
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.plan.plan import digest
from blowfishdb.plan.stages import SelectionNoise

MERGE, KEEP = 0, 1
"""What the gate publishes: look for buckets, or measure every cell."""


@dataclass(frozen=True, eq=False)
class L1Gate:
    """Compares the sum over blocks of `block` cells of min(deviation from the median, cap) with a public threshold.

    One record changes the deviation of one block by at most 1.
    """

    cells: int
    block: int
    cap: int
    threshold: int
    unit: Fraction

    @property
    def noise(self) -> SelectionNoise:
        """One variable for each of the two outcomes; the threshold does not depend on the data."""
        return SelectionNoise(self.unit, np.array([1, 2]), np.array([1, 0]), np.array([1, 1]), one_sided=True)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the outcome."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss, the noise and the outcome depend on."""
        head = f"{self.cells} {self.block} {self.cap} {self.threshold}".encode()
        return digest([b"l1 gate", head, self.noise.digest().encode()])

    def unevenness(self, counts: Ints) -> int:
        """The sum that is compared, before noise."""
        return int(np.minimum(deviations(counts, self.block), self.cap).sum())

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """MERGE or KEEP; a tie is MERGE."""
        uneven = self.unevenness(counts)
        return np.array([KEEP if self.threshold - int(draws[1]) < uneven - int(draws[0]) else MERGE])


def l1_gate(cells: int, graph: CellGraph, epsilon: Fraction, block: int, cap: float, share: float) -> L1Gate:
    """The gate that costs exactly epsilon and says KEEP where blocks reach more than `share` of the cap on average."""
    whole_cap = max(1, math.ceil(cap))
    threshold = math.floor(share * whole_cap * -(-cells // block))
    loss = L1Gate(cells, block, whole_cap, threshold, Fraction(1)).epsilon(graph)
    return L1Gate(cells, block, whole_cap, threshold, loss / epsilon)
