"""Choices made at once, of groups and of quantiles: what the same outcome costs on a neighbouring table."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise.quantile_sampler import SpreadRecords
from blowfishdb.plan.program import GroupSelection

PARTS = 3
"""Positions of a cell that are gone through, instead of many thousands: the loss is the same for any number."""


def same_list(plan: GroupSelection, noise: Ints, chosen: Ints, moved: Ints) -> Ints:
    """Noise with which counts that are `moved` further give the chosen list again.

    A list above a count needs each noisy count as it was. In a round of the largest groups the winner needs as much
    more noise as a rival gained on it, and never less than it had: then its noise keeps its sign.
    """
    if plan.above is not None:
        return noise - moved
    rounds, left = noise.reshape(-1, plan.groups).copy(), np.ones(plan.groups, dtype=np.bool_)
    for row, winner in zip(rounds, chosen.tolist(), strict=True):
        left[winner] = False
        row[winner] += int((moved[left] - moved[winner]).max(initial=0))
    return rounds.reshape(-1)


@dataclass(frozen=True, eq=False)
class RankChoice:
    """One choice of quantiles as the sampler is asked for it."""

    records: SpreadRecords
    gaps: tuple[Fraction, ...]
    unit: Fraction

    def log_chance(self, cells: Ints) -> float:
        """The log chance that the quantiles lie in these cells."""
        positions = range(int(self.records.counts.size) * PARTS)
        vectors = np.array(list(itertools.combinations_with_replacement(positions, len(self.gaps) - 1)))
        fits = np.all(vectors // PARTS == cells, axis=1)
        return float(np.logaddexp.reduce(log_chances(self.records, self.gaps, self.unit)[fits]))


def log_chances(records: SpreadRecords, gaps: tuple[Fraction, ...], unit: Fraction, parts: int = PARTS) -> Floats:
    """The log chance of every ordered vector of positions, by the definition of the mechanism."""
    few = SpreadRecords(records.counts, parts)
    ranks = few.ranks(np.arange(few.positions)) / (2.0 * parts)
    vectors = np.array(list(itertools.combinations_with_replacement(ranks.tolist(), len(gaps) - 1)))
    between = np.diff(vectors, axis=1, prepend=0.0, append=float(few.total))
    off = np.abs(between - np.array([float(gap) for gap in gaps])).sum(axis=1)
    logs = -off / (2.0 * float(unit))
    chances: Floats = logs - np.logaddexp.reduce(logs)
    return chances
