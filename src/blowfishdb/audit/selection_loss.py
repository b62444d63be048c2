"""What publishing a selection cost between two tables, found by asking the stage itself, as a black box.

Two facts carry this. With all other noise held still, a candidate wins exactly when the noise of one of its own items
passes a threshold; so the odds of winning change by at most (move of the threshold) / (scale of that noise). And where
every node of a refinement is decided by its own noise alone, the chance of an outcome is a product over the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from blowfishdb.model.arrays import Ints

FAR = 2**40
"""Noise that decides every comparison of the audit's small tables."""
MOST_ITEMS = 512
SLACK = 1e-9
"""Room for the rounding of logarithms."""

Outcome = Callable[[Ints, Ints], Ints]


class Chooser(Protocol):
    """What is asked: the winner for given counts and given noise."""

    def choose(self, counts: Ints, draws: Ints) -> Ints: ...


@dataclass(frozen=True, eq=False)
class Selected:
    """A selection that ran: its noise by item with the scales that were drawn, and what won."""

    stage: Chooser
    counts: Ints
    draws: Ints
    scales: np.ndarray[tuple[int], np.dtype[np.float64]]
    one_sided: bool
    is_refinement: bool
    winner: Ints

    def wins(self, counts: Ints, draws: Ints) -> bool:
        """Whether the same candidate wins on these counts with this noise."""
        return np.array_equal(self.stage.choose(counts, draws), self.winner)


class WrongSign(Exception):
    """More noise made a candidate lose, where it must only help it."""


def selection_loss(ran: Selected, other: Ints) -> float:
    """A bound on log P(winner | counts) / P(winner | other counts), either way round, given the rest of the noise."""
    if ran.is_refinement:
        return abs(_log_chance(ran, ran.counts) - _log_chance(ran, other))
    item = _own_item(ran)
    first, second = (_threshold(ran, counts, item) for counts in (ran.counts, other))
    if ran.one_sided:
        first, second = max(first, 0), max(second, 0)
    return abs(first - second) / float(ran.scales[item])


def _with(draws: Ints, item: int, value: int) -> Ints:
    changed = draws.copy()
    changed[item] = value
    return changed


def _own_item(ran: Selected) -> int:
    """The item with the most noise among those that the winner consists of: only those may be raised without end."""
    order = np.argsort(-ran.scales, kind="stable")[:MOST_ITEMS]
    for item in order.tolist():
        if ran.wins(ran.counts, _with(ran.draws, item, FAR)):
            return int(item)
    raise WrongSign("no item's noise helps the candidate it belongs to")


def _threshold(ran: Selected, counts: Ints, item: int) -> int:
    """The least noise of the item with which the winner wins, all other noise as it was."""
    if not ran.wins(counts, _with(ran.draws, item, FAR)):
        raise WrongSign("noise without end does not make the candidate win on a neighbouring table")
    return _least(lambda value: ran.wins(counts, _with(ran.draws, item, value)), -FAR, FAR)


def _least(is_enough: Callable[[int], bool], low: int, high: int) -> int:
    """The least value that is enough, when `high` is and all above are; `low` where even that is enough."""
    if is_enough(low):
        return low
    while high - low > 1:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def _log_chance(ran: Selected, counts: Ints) -> float:
    """The log of the chance of the outcome: a product over the nodes whose noise matters for it."""
    decided = ran.draws.copy()
    sides: dict[int, int] = {}
    for item in range(ran.draws.size):
        up = ran.wins(ran.counts, _with(ran.draws, item, FAR))
        down = ran.wins(ran.counts, _with(ran.draws, item, -FAR))
        if up != down:
            sides[item] = 1 if up else -1
            decided[item] = FAR if up else -FAR
    if not ran.wins(counts, decided):
        return -math.inf
    total = 0.0
    for item, side in sides.items():
        limit = _least(lambda value, at=item, to=side: ran.wins(counts, _with(decided, at, to * value)), -FAR, FAR)  # type: ignore[misc]
        # The noise is symmetric, so both sides ask for P(noise >= limit).
        total += _log_at_least(limit, float(ran.scales[item]))
    return total


def _log_at_least(limit: int, scale: float) -> float:
    """log P(X >= limit) for discrete Laplace noise."""
    ratio = math.exp(-1.0 / scale)
    if limit >= 1:
        return -limit / scale - math.log1p(ratio)
    return math.log1p(-math.exp(-(1 - limit) / scale) / (1.0 + ratio))
