"""Comparing samples: how far apart two distributions are, what chance alone would show, and slopes with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from blowfishdb.model.numbers import Floats

RESAMPLES = 400
SEGMENTS = 10


@dataclass(frozen=True)
class Difference:
    """How two samples differ: the largest gap of their distributions, and what 95 % of shuffles stay below.

    The gap is what the best threshold gains over guessing from one observation. `shift` is the difference of the
    medians in seconds, with a 95 % interval from resampling.
    """

    gap: float
    by_chance: float
    shift: float
    low: float
    high: float

    @property
    def is_seen(self) -> bool:
        """Whether chance alone would rarely show as much."""
        return self.gap > self.by_chance


def difference(one: Sequence[float], two: Sequence[float]) -> Difference:
    """The difference of two samples; deterministic."""
    rng = np.random.default_rng(0)
    first, second = np.asarray(one), np.asarray(two)
    both = np.concatenate([first, second])
    shuffled = [_gap(*np.split(rng.permutation(both), [first.size])) for _ in range(RESAMPLES)]
    shifts = [
        float(np.median(rng.choice(second, second.size)) - np.median(rng.choice(first, first.size)))
        for _ in range(RESAMPLES)
    ]
    return Difference(
        gap=_gap(first, second),
        by_chance=float(np.quantile(shuffled, 0.95)),
        shift=float(np.median(second) - np.median(first)),
        low=float(np.quantile(shifts, 0.025)),
        high=float(np.quantile(shifts, 0.975)),
    )


@dataclass(frozen=True)
class Slope:
    """A slope with its 95 % interval."""

    value: float
    low: float
    high: float


def slope(places: Sequence[float], values: Sequence[float]) -> Slope:
    """The slope through means of ten segments: neighbouring samples resemble each other, means of segments hardly."""
    parts = [np.asarray(part) for part in (places, values)]
    means = [np.array([chunk.mean() for chunk in np.array_split(part, SEGMENTS)]) for part in parts]
    fitted = stats.linregress(means[0], means[1])
    reach = float(stats.t.ppf(0.975, SEGMENTS - 2)) * float(fitted.stderr)
    return Slope(float(fitted.slope), float(fitted.slope) - reach, float(fitted.slope) + reach)


def at(values: Sequence[float], share: float) -> float:
    """The value that this share of the sample does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _gap(first: Floats, second: Floats) -> float:
    return float(stats.ks_2samp(first, second, method="asymp").statistic)
