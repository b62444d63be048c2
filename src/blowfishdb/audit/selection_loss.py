"""What publishing a selection cost between two tables, found by asking the stage itself, as a black box.

Raise the noise of a few of the winner's own items until it only just wins, on one table and on the other. The
difference of the two levels, over the scales of that noise, bounds how much the odds of the winner can differ; the
cheapest choice of items counts. Where every node of a refinement is decided by its own noise alone, the chance of an
outcome is a product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from blowfishdb.model.arrays import Floats, Ints

FAR = 2**40
"""Noise that decides every comparison of the audit's small tables."""
MOST_ITEMS = 512
MOST_OWN = 40
HAIR = 1e-6
SLACK = 2e-6
"""Room for the rounding of logarithms and of shares."""

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
    scales: Floats
    one_sided: bool
    is_refinement: bool
    winner: Ints

    def wins(self, counts: Ints, draws: Ints) -> bool:
        """Whether the same candidate wins on these counts with this noise."""
        return np.array_equal(self.stage.choose(counts, draws), self.winner)


class WrongSign(Exception):
    """More noise made a candidate lose, where it must only help it."""


def selection_loss(ran: Selected, other: Ints, enough: float = 0.0) -> float:
    """A bound on log P(winner | counts) / P(winner | other counts), either way round, given the rest of the noise.

    The first choice of items that costs no more than `enough` is taken; otherwise the cheapest of all.
    """
    if ran.is_refinement:
        return abs(_log_chance(ran, ran.counts) - _log_chance(ran, other))
    own = _own_items(ran)
    sets: list[tuple[int, ...]] = [(item,) for item in own]
    sets += list(itertools.combinations(own, 2))
    least = math.inf
    for items in sets:
        least = min(least, _loss_of(ran, other, items))
        if least <= enough:
            return least
    # Where not all of its items were tried, not finding a proof shows nothing.
    return enough if len(own) == MOST_OWN else least


def _loss_of(ran: Selected, other: Ints, items: tuple[int, ...]) -> float:
    """What raising these items costs; infinite where raising them without end does not make the winner win."""
    scales = ran.scales[list(items)]
    shares = scales / float(scales.max())
    if not ran.wins(other, _raised(ran.draws, items, shares, FAR)):
        return math.inf

    def wins_at(counts: Ints, level: int) -> bool:
        return ran.wins(counts, _raised(ran.draws, items, shares, level))

    levels = [_least(partial(wins_at, counts)) for counts in (ran.counts, other)]
    if ran.one_sided and len(items) == 1:
        # Noise below 0 never occurs, so it need not be told apart.
        levels = [max(level, -int(ran.draws[items[0]])) for level in levels]
    return float(
        sum(_shift(share, abs(levels[1] - levels[0])) / scale for share, scale in zip(shares, scales, strict=True))
    )


def _shift(share: float, level: int) -> int:
    """The item's part of a level, in whole steps; a hair is left for the rounding of shares."""
    return math.ceil(share * level - HAIR * abs(level) - HAIR)


def _raised(draws: Ints, items: tuple[int, ...], shares: Floats, level: int) -> Ints:
    changed = draws.copy()
    for item, share in zip(items, shares.tolist(), strict=True):
        changed[item] += _shift(share, level)
    return changed


def _with(draws: Ints, item: int, value: int) -> Ints:
    changed = draws.copy()
    changed[item] = value
    return changed


def _own_items(ran: Selected) -> list[int]:
    """The items that the winner consists of: it wins however much noise they get, and loses where they get too little.

    Where none decides, because all candidates share it or none is near, the first condition has to do.
    """
    order = np.argsort(-ran.scales, kind="stable")[:MOST_ITEMS].tolist()
    own = [item for item in order if ran.wins(ran.counts, _with(ran.draws, item, FAR))]
    if not own:
        raise WrongSign("no item's noise helps the candidate it belongs to")
    decisive = [item for item in own if not ran.wins(ran.counts, _with(ran.draws, item, -FAR))]
    return (decisive or own)[:MOST_OWN]


def _least(is_enough: Callable[[int], bool]) -> int:
    """The least level that is enough, when all above it are; at least -FAR. Searched from 0 outwards."""
    step = 1
    if is_enough(0):
        high = 0
        while step < FAR and is_enough(high - step):
            high, step = high - step, 2 * step
        low = high - step
    else:
        low = 0
        while step < FAR and not is_enough(low + step):
            low, step = low + step, 2 * step
        high = low + step
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

    def wins_with(item: int, side: int, value: int) -> bool:
        return ran.wins(counts, _with(decided, item, side * value))

    total = 0.0
    for item, side in sides.items():
        limit = _least(partial(wins_with, item, side))
        # The noise is symmetric, so both sides ask for P(noise >= limit).
        total += _log_at_least(limit, float(ran.scales[item]))
    return total


def _log_at_least(limit: int, scale: float) -> float:
    """log P(X >= limit) for discrete Laplace noise."""
    ratio = math.exp(-1.0 / scale)
    if limit >= 1:
        return -limit / scale - math.log1p(ratio)
    return math.log1p(-math.exp(-(1 - limit) / scale) / (1.0 + ratio))
