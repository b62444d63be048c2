"""The exact law of a selection with few items: every combination of noise is gone through, up to a tiny remainder."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from blowfishdb.model.arrays import Ints

Outcome = tuple[int, ...]
REMAINDER = 1e-5
"""Noise of each item is gone through until this chance is left; what was left out counts against a violation."""


class Chooser(Protocol):
    """The winner for given counts and noise."""

    def choose(self, counts: Ints, draws: Ints) -> Ints: ...


@dataclass(frozen=True)
class OneSidedItem:
    """The noise of one item: geometric of this scale, gone through up to `most`."""

    scale: float

    @property
    def most(self) -> int:
        return math.ceil(-self.scale * math.log(REMAINDER))

    def mass(self, value: int) -> float:
        """P(noise = value)."""
        return -math.expm1(-1.0 / self.scale) * math.exp(-value / self.scale)

    def at_least(self, value: int) -> float:
        """P(noise >= value)."""
        return math.exp(-max(value, 0) / self.scale)


def selection_law(
    stage: Chooser, counts: Sequence[int], scales: Sequence[float], words: int = 0
) -> dict[Outcome, float]:
    """The chance of each outcome; together they fall short of 1 by what was left out.

    The item with the most noise is not gone through: as its noise grows the outcome changes once at most.
    """
    items = [OneSidedItem(scale) for scale in scales]
    swept = int(np.argmax(scales))
    others = [place for place in range(len(items)) if place != swept]
    table = np.array(counts, dtype=np.int64)
    tie = np.arange(1, words + 1, dtype=np.int64) * 7919
    found: dict[Outcome, float] = defaultdict(float)
    draws = np.zeros(len(items), dtype=np.int64)

    def outcome(value: int) -> Outcome:
        draws[swept] = value
        return tuple(int(part) for part in stage.choose(table, np.concatenate([draws, tie])))

    for values in itertools.product(*(range(items[place].most + 1) for place in others)):
        draws[others] = values
        chance = math.prod(items[place].mass(value) for place, value in zip(others, values, strict=True))
        if chance < REMAINDER * REMAINDER:
            continue
        most = items[swept].most
        first, last = outcome(0), outcome(most)
        if first == last:
            found[first] += chance
            continue
        change = _first_other(outcome, first, most)
        found[first] += chance * (1.0 - items[swept].at_least(change))
        found[last] += chance * items[swept].at_least(change)
    return dict(found)


def _first_other(outcome: Callable[[int], Outcome], first: Outcome, most: int) -> int:
    """The least noise at which the outcome is no longer the first one."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if outcome(middle) == first:
            low = middle
        else:
            high = middle
    return high


def worst_ratio(one: dict[Outcome, float], two: dict[Outcome, float]) -> float:
    """A certain lower bound of the largest log-ratio of an outcome's chances, either way round."""
    missing = [1.0 - sum(law.values()) + 1e-12 for law in (one, two)]
    worst = 0.0
    for first, second, left_out in ((one, two, missing[1]), (two, one, missing[0])):
        for outcome, chance in first.items():
            if chance > 10 * left_out:
                worst = max(worst, math.log(chance / (second.get(outcome, 0.0) + left_out)))
    return worst
