"""The law that noise is meant to have, from its definition: P(k) is proportional to exp(-|k| / scale)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Floats, Ints

FEWEST = 40
"""Bins of a goodness-of-fit test expect at least so many draws."""
MOST_BINS = 60


@dataclass(frozen=True)
class NoiseLaw:
    """Discrete Laplace noise, or the geometric variable that is never negative."""

    scale: float
    two_sided: bool = True

    @property
    def ratio(self) -> float:
        return math.exp(-1.0 / self.scale)

    @property
    def mean_size(self) -> float:
        """The mean of |X|."""
        q, left = self.ratio, -math.expm1(-1.0 / self.scale)
        return 2.0 * q / (left * (1.0 + q)) if self.two_sided else q / left

    @property
    def size_variance(self) -> float:
        """The variance of |X|."""
        q, left = self.ratio, -math.expm1(-1.0 / self.scale)
        second = 2.0 * q / left**2 if self.two_sided else q * (1.0 + q) / left**2
        return second - self.mean_size**2

    @property
    def even(self) -> float:
        """The chance of an even number."""
        q, left = self.ratio, -math.expm1(-1.0 / self.scale)
        # Even numbers are a law of half the scale, squeezed: (1 - q) / (1 + q) times (1 + q^2) / (1 - q^2).
        return (1.0 + q * q) / (1.0 + q) ** 2 if self.two_sided else left / (-math.expm1(-2.0 / self.scale))

    def below(self, values: Ints | Floats) -> Floats:
        """P(X < value) for whole values."""
        at = np.asarray(values, dtype=np.float64)
        if not self.two_sided:
            return np.where(at > 0, -np.expm1(-np.maximum(at, 0.0) / self.scale), 0.0)
        low = np.exp((np.minimum(at, 1.0) - 1.0) / self.scale) / (1.0 + self.ratio)
        high = 1.0 - np.exp(-np.maximum(at, 1.0) / self.scale) / (1.0 + self.ratio)
        return np.where(at <= 0, low, high)

    def at_least(self, value: int) -> float:
        """P(X >= value), precise far out."""
        if value <= 0:
            return float(1.0 - self.below(np.array([value]))[0])
        return math.exp(-value / self.scale) / ((1.0 + self.ratio) if self.two_sided else 1.0)

    def bins(self, draws: int) -> tuple[Ints, Floats]:
        """Whole edges and the chances of the bins between them, each expecting enough of so many draws."""
        wanted = min(MOST_BINS, max(2, draws // (4 * FEWEST)))
        levels = np.arange(1, wanted) / wanted
        high = levels[levels > 0.5]
        upper = -self.scale * np.log((1.0 - high) * ((1.0 + self.ratio) if self.two_sided else 1.0))
        edges = np.unique(np.ceil(upper).astype(np.int64))
        edges = edges[edges >= 1]
        if self.two_sided:
            edges = np.unique(np.concatenate([1 - edges, edges]))
        else:
            lower = -self.scale * np.log1p(-levels[levels <= 0.5])
            edges = np.unique(np.concatenate([np.ceil(lower).astype(np.int64), edges]))
            edges = edges[edges >= 1]
        chances = np.diff(np.concatenate([[0.0], self.below(edges), [1.0]]))
        return _merged(edges, chances, FEWEST / draws)


def _merged(edges: Ints, chances: Floats, least: float) -> tuple[Ints, Floats]:
    """Neighbouring bins joined until each has its least chance."""
    kept_edges, kept, running = list[int](), list[float](), 0.0
    for place, chance in enumerate(chances.tolist()):
        running += chance
        is_last = place == chances.size - 1
        if running >= least and not is_last:
            kept_edges.append(int(edges[place]))
            kept.append(running)
            running = 0.0
    if kept and running < least:
        kept_edges.pop()
        kept[-1] += running
    else:
        kept.append(running)
    return np.array(kept_edges, dtype=np.int64), np.array(kept)
