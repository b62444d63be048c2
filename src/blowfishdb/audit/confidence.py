"""Bounds on probabilities from counts (Clopper and Pearson), what they say about a loss, and what they can miss."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats


def lower(seen: int, tries: int, level: float) -> float:
    """What the probability exceeds, except with probability `level`."""
    return 0.0 if seen == 0 else float(stats.beta.ppf(level, seen, tries - seen + 1))


def upper(seen: int, tries: int, level: float) -> float:
    """What the probability stays below, except with probability `level`."""
    return 1.0 if seen == tries else float(stats.beta.isf(level, seen + 1, tries - seen))


@dataclass(frozen=True)
class Comparison:
    """How often an event was seen on each of two neighbouring tables."""

    event: str
    first: int
    second: int
    tries: int

    def certain_loss(self, level: float) -> float:
        """A log-ratio of the two probabilities that the true one exceeds, except with probability `level`."""
        ways = ((self.first, self.second), (self.second, self.first))
        found = 0.0
        for much, little in ways:
            low, high = lower(much, self.tries, level / 4), upper(little, self.tries, level / 4)
            if low > 0:
                found = max(found, math.log(low / high))
        return found

    @property
    def seen_loss(self) -> float:
        """The log-ratio of the frequencies themselves."""
        if not self.first or not self.second:
            return math.inf if self.first != self.second else 0.0
        return abs(math.log(self.first / self.second))


def power(likely: float, unlikely: float, tries: int, epsilon: float, level: float) -> float:
    """At least how often a comparison of events with these true probabilities certainly exceeds epsilon."""
    for miss in (1e-6, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5):
        seen = int(stats.binom.ppf(miss / 2, tries, likely))
        other = int(stats.binom.isf(miss / 2, tries, unlikely))
        if Comparison("", seen, other, tries).certain_loss(level) > epsilon:
            return 1.0 - miss
    return 0.0


def tries_needed(likely: float, unlikely: float, epsilon: float, level: float, wanted: float = 0.99) -> int:
    """About how many tries give the wanted power."""
    tries = 1000
    while power(likely, unlikely, tries, epsilon, level) < wanted and tries < 10**8:
        tries = tries * 5 // 4
    return tries
