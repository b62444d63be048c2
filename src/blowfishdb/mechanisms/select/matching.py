"""Matching partition: each bucket stays single or joins one other, however far apart, at the least noisy cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.select.matching_pairs import MOST_COMPLETE, candidate_pairs
from blowfishdb.mechanisms.select.matching_solver import best_matching, best_near_matching
from blowfishdb.model.arrays import Ints, as_ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.encoding import digest
from blowfishdb.model.graphs.explicit import by_first_appearance
from blowfishdb.plan.stages import WORD_BITS, SelectionNoise

GRID = 64
"""Steps per record when buckets of different sizes are compared; equal sizes give whole numbers by themselves."""
LARGEST_BUCKET = 1024
LARGEST_COUNT = 2**43
"""Costs are computed from counts cut at this number, which moves no cost further and keeps int64 from wrapping."""
WEIGHT_STEPS = 2**24
SCORE_BITS = 120
"""What the solver's 128-bit arithmetic leaves for a score and the bits that break ties."""
NOISE_REACH = 128
"""Noise beyond this many scales has a chance below 2^-184 and is cut, so that scores fit their bits."""
TIE_WORDS = 2


@dataclass(frozen=True, eq=False)
class MatchingPartition:
    """Joins buckets in pairs. `cells_of` says how many cells each bucket holds, `saving` what a join is worth.

    Joining b and c costs the L1 distance that appears when both take their common average,
    2 |c's cells x b's count - b's cells x c's count| / (cells of both); staying single costs nothing. Up to 256 buckets
    every pair is a candidate, beyond that every pair of near ones. `saving`, in records, is public and may be negative.
    """

    cells_of: Ints
    saving: Fraction
    unit: Fraction
    one_sided: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells_of", as_ints(self.cells_of))
        if self.cells_of.ndim != 1 or self.cells_of.size < 2 or int(self.cells_of.min()) < 1:
            raise PlanError("a matching needs at least two buckets, each of at least one cell")
        if int(self.cells_of.max()) > LARGEST_BUCKET:
            raise PlanError(f"a matching joins buckets of at most {LARGEST_BUCKET} cells")
        if not isinstance(self.unit, Fraction) or self.unit <= 0:
            raise PlanError("the unit of a selection is a positive Fraction")
        if self.is_complete and self.tie_bits < WORD_BITS:
            raise PlanError("the noise of this matching is too large for its solver; use more epsilon")

    @property
    def cells(self) -> int:
        return int(self.cells_of.size)

    @property
    def is_complete(self) -> bool:
        """Whether every pair of buckets is a candidate."""
        return self.cells <= MOST_COMPLETE

    @property
    def grid(self) -> int:
        """Steps per record in which costs are counted."""
        return 1 if int(self.cells_of.min()) == int(self.cells_of.max()) else GRID

    @cached_property
    def pairs(self) -> Ints:
        """The candidate pairs, those of one class of noise together."""
        found = candidate_pairs(self.cells)
        return found[np.argsort(self._pair_sensitivity(found), kind="stable")]

    @cached_property
    def noise(self) -> SelectionNoise:
        """Single buckets first, which cost nothing whatever the data; then pairs by their sensitivity."""
        own, sizes = np.unique(self._pair_sensitivity(self.pairs), return_counts=True)
        sensitivities = np.concatenate([[0], own])
        weights = WEIGHT_STEPS // (int(sensitivities.max()) + sensitivities)
        words = TIE_WORDS if self.is_complete else 0
        counts = np.concatenate([[self.cells], sizes])
        return SelectionNoise(self.unit, weights, sensitivities, counts, self.one_sided, words)

    @property
    def tie_bits(self) -> int:
        """How many random bits break ties; two optimal matchings tie with a chance of at most items / 2^bits."""
        return min(TIE_WORDS * WORD_BITS, SCORE_BITS - (2 * self._largest_gain).bit_length())

    def epsilon(self, graph: CellGraph) -> Fraction:
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        return digest(("matching", self.saving, self.grid, self.cells_of, self.noise.digest()))

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """For each bucket the number of its new one, numbered by first appearance."""
        gains = np.minimum(self._gains(counts, draws), self._largest_gain)
        if self.is_complete:
            items = self.cells + self.pairs.shape[0]
            words = draws[items:].reshape(TIE_WORDS, items)
            partner = best_matching(self.cells, self.pairs, gains, words, self.tie_bits)
        else:
            partner = best_near_matching(self.cells, self.pairs, gains)
        return by_first_appearance(np.minimum(partner, np.arange(self.cells)))

    def _gains(self, counts: Ints, draws: Ints) -> Ints:
        """What each candidate pair improves on its two buckets staying single, in grid steps."""
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        single, joint = draws[: self.cells], draws[self.cells : self.cells + self.pairs.shape[0]]
        saving = round(self.saving * self.grid)
        return saving - self.costs(counts) + joint - single[first] - single[second]

    def costs(self, counts: Ints) -> Ints:
        """The cost of each pair in grid steps, rounded to the nearest."""
        capped = np.minimum(counts, LARGEST_COUNT)
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        both = self.cells_of[first] + self.cells_of[second]
        apart = np.abs(self.cells_of[second] * capped[first] - self.cells_of[first] * capped[second])
        return np.asarray((4 * self.grid * apart + both) // (2 * both))

    def _pair_sensitivity(self, pairs: Ints) -> Ints:
        one, other = self.cells_of[pairs[:, 0]], self.cells_of[pairs[:, 1]]
        return np.asarray(-(-2 * self.grid * np.maximum(one, other) // (one + other)))

    @cached_property
    def _largest_gain(self) -> int:
        scale = self.unit / int(self.noise.weights.min())
        return abs(round(self.saving * self.grid)) + int(3 * NOISE_REACH * scale) + 1


def matching_partition(cells_of: Ints, saving: Fraction, graph: CellGraph, epsilon: Fraction) -> MatchingPartition:
    """The matching whose noise costs exactly epsilon on this graph of the buckets."""
    coarse = MatchingPartition(cells_of, saving, Fraction(WEIGHT_STEPS))
    return replace(coarse, unit=coarse.unit * coarse.epsilon(graph) / epsilon)
