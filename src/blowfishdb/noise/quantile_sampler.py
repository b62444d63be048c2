"""Exact draws of quantiles by the joint exponential mechanism. The engine alone may import this module.

Proof note: docs/proofs/quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from blowfishdb.errors import InvalidInput, NoiseScaleError
from blowfishdb.noise.certified import Noise, tell
from blowfishdb.noise.distribution import Floats, Ints
from blowfishdb.noise.sampler import BitStream, Keystream, enclose_exp

MAX_RANK: Final = 2**62


class SpreadRecords:
    """Counts of cells in order, as records spread evenly over the `parts` positions of their cells.

    The rank of a position is the number of records before it, parts of records included. Ranks are whole numbers of
    1 / (2 parts): position a of a cell with k records lies (2 a + 1) k of them above the rank of the cell's beginning.
    """

    def __init__(self, counts: Ints, parts: int) -> None:
        if counts.ndim != 1 or counts.size == 0 or int(counts.min()) < 0 or parts < 1:
            raise InvalidInput("records to spread are counted in at least one cell, and no count is negative")
        self.counts, self.parts = counts, parts
        self.values = np.flatnonzero(counts)
        self.before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts[self.values])])
        self.total = int(self.before[-1])
        self.positions = int(counts.size) * parts
        if max(self.total, int(counts.size)) > MAX_RANK // (2 * parts):
            raise InvalidInput("ranks of so many records do not fit 64 bits")

    def ranks(self, positions: Ints) -> Ints:
        """The ranks of positions, in units of 1 / (2 parts)."""
        cell, offset = np.divmod(positions, self.parts)
        begins = self.before[np.searchsorted(self.values, cell)]
        ranks: Ints = 2 * self.parts * begins + self.counts[cell] * (2 * offset + 1)
        return ranks

    def first_at_least(self, ranks: Ints) -> Ints:
        """The first position of at least each rank, in the same units; the number of positions where there is none."""
        if self.values.size == 0:
            return np.where(ranks <= 0, 0, self.positions)
        place = np.searchsorted(2 * self.parts * self.before[1:], ranks)
        held = np.minimum(place, self.values.size - 1)
        number = self.counts[self.values[held]]
        offset = -((2 * self.parts * self.before[held] + number - ranks) // (2 * number))
        first = self.values[held] * self.parts + np.clip(offset, 0, self.parts)
        return np.where(ranks <= 0, 0, np.where(place == self.values.size, self.positions, first))


def penalty(records: SpreadRecords, positions: Sequence[int], gaps: Sequence[Fraction]) -> Fraction:
    """Half the sum, over the intervals between positions, of how far its number of records is from the one wanted."""
    inner = records.ranks(np.array(positions, dtype=np.int64)).tolist()
    ranks = [0, *inner, 2 * records.parts * records.total]
    numbers = [Fraction(high - low, 2 * records.parts) for low, high in pairwise(ranks)]
    return sum((abs(number - gap) for number, gap in zip(numbers, gaps, strict=True)), Fraction(0)) / 2


def sample_quantiles(records: SpreadRecords, gaps: Sequence[Fraction], unit: Fraction) -> Ints:
    """Positions o_1 <= ... <= o_m, each such vector with probability proportional to exp(-penalty / unit), exactly.

    `gaps` are the numbers of records wanted in the m + 1 intervals. A float computation proposes, with whole-number
    weights that are known exactly; then random bits, compared with an enclosure of exp(-rational), accept or not.
    """
    return draw_quantiles(Proposal(records, gaps, unit), Keystream())


def draw_quantiles(proposal: Proposal, stream: BitStream) -> Ints:
    """The first proposal that is accepted."""
    tell(Noise("quantiles", proposal.unit, 1, proposal.levels))
    while True:
        positions, odds = proposal.draw(stream)
        if len(positions) < proposal.levels:
            continue
        exponent = penalty(proposal.records, positions, proposal.wanted) / proposal.unit + proposal.log_bound
        if happens(odds, exponent, stream):
            return np.array(positions, dtype=np.int64)


UNLIKELY = "A proposal of quantiles was less likely than its bound allows; nothing was released."


def happens(odds: Fraction, exponent: Fraction, stream: BitStream) -> bool:
    """True with probability odds * exp(-exponent), exactly; NoiseScaleError where that is not a probability."""
    if exponent < 0:
        raise NoiseScaleError(UNLIKELY)
    bits, drawn = 64, stream.integer(64)
    while True:
        precision = bits + odds.numerator.bit_length() + 64
        low, high = enclose_exp(exponent, precision)
        scale = odds.denominator << (precision - bits)
        least, most = odds.numerator * low // scale, -(-odds.numerator * high // scale)
        if least > 1 << bits:
            raise NoiseScaleError(UNLIKELY)
        if drawn < least or drawn >= most:
            return drawn < least
        drawn, bits = (drawn << bits) | stream.integer(bits), 2 * bits


def below(limit: int, stream: BitStream) -> int:
    """A uniform whole number from 0 to limit - 1."""
    bits = limit.bit_length()
    while True:
        drawn = stream.integer(bits)
        if drawn < limit:
            return drawn


def ordered_choice(size: int, count: int, stream: BitStream) -> list[int]:
    """A uniform one of the never decreasing sequences of `count` numbers below `size`.

    Adding 0, 1, 2, ... makes such a sequence a set of different numbers; Floyd's algorithm draws a uniform set.
    """
    members: set[int] = set()
    for last in range(size - 1, size + count - 1):
        drawn = below(last + 1, stream)
        members.add(last if drawn in members else drawn)
    return [member - place for place, member in enumerate(sorted(members))]


FLOOR: Final = -500.0
"""Logarithms of weights further below the largest are raised to this: a proposal may be too likely, never too rare."""
TINIEST: Final = 1e-300
HEAD: Final = 2.0**50
"""The largest whole-number weight of each choice of a proposal."""
SLACK: Final = Fraction(1, 2**20)
"""Room for the roundings of logarithms of weights; those of ranks are added to it (docs/proofs/quantiles.md)."""
FINEST: Final = 2.0
GROWTH: Final = 0.7
"""How wide intervals are at a target, in records times rate and levels, and by how much of their distance they grow."""
ALONE: Final = 2.0
"""Where intervals are narrower than so many records, positions of one rank get an interval of their own."""


class Proposal:
    """A chain over intervals of positions whose weights are nowhere below those that are wanted.

    Interval t holds the positions from `cuts[t]` to `cuts[t + 1] - 1`. A vector of positions has the greatest weight
    that any vector in the same intervals could have. Log weights are kept level by level: `arriving[j, t]` sums those
    of all choices of j positions before interval t, with the factor that leads there, less `shifts[j]` and all before;
    `closed[j, t]` those of j positions whose last lies in interval t.
    """

    def __init__(self, records: SpreadRecords, gaps: Sequence[Fraction], unit: Fraction) -> None:
        self.records, self.wanted, self.unit = records, tuple(gaps), unit
        self.levels = len(self.wanted) - 1
        self.rate = float(1 / (2 * unit))
        self.gaps = np.array([float(gap) for gap in self.wanted])
        self.cuts = self._cuts()
        scale = 2.0 * records.parts
        self.lows, self.highs = records.ranks(self.cuts[:-1]) / scale, records.ranks(self.cuts[1:] - 1) / scale
        number = np.arange(1.0, self.levels + 1.0)[:, None]
        self.choices = np.cumsum(np.log((np.diff(self.cuts) + number - 1.0) / number), axis=0)
        count = self.lows.size
        self.arriving, self.shifts = np.empty((self.levels, count)), np.zeros(self.levels)
        self.closed = np.zeros((self.levels + 1, count))
        self._fill()
        total = float(records.total)
        self.last = self.closed[-1] - self._loss(total - self.highs, total - self.lows, self.gaps[-1])
        reach = self.rate * (total + float(self.gaps.sum())) + count
        rounding = Fraction(len(self.wanted) * math.ceil(reach), 2**48)
        log_total = float(np.logaddexp.reduce(self.last)) + float(self.shifts.sum())
        self.log_bound = Fraction(log_total) + SLACK + rounding
        """At least the log of the greatest ratio of wanted weight to proposed probability."""

    def _cuts(self) -> Ints:
        """The ends of the intervals: narrow at the targets, wider further off; any ends would do."""
        records, total = self.records, float(self.records.total)
        finest, growth = FINEST / (self.rate * len(self.wanted)), GROWTH / len(self.wanted)
        steps = [0.0]
        while steps[-1] < total:
            steps.append(steps[-1] * (1.0 + growth) + finest)
        offsets = np.concatenate([-np.array(steps[:0:-1]), steps])
        targets = np.cumsum(self.gaps[:-1]) * (total / max(float(self.gaps.sum()), TINIEST))
        ends = np.concatenate([[0.0], (targets[1:] + targets[:-1]) / 2.0, [total]])
        parts = [np.clip(target + offsets, ends[place], ends[place + 1]) for place, target in enumerate(targets)]
        ranks = np.unique(np.concatenate(parts))
        apart = np.diff(ranks, prepend=-ALONE)
        near, scale = ranks[apart < ALONE], 2.0 * records.parts
        whole = np.unique(np.concatenate([np.floor(near), np.ceil(near)])) * scale
        others = np.rint(ranks[(apart >= ALONE) | (apart < 1.0 / ALONE)] * scale)
        inside = records.first_at_least(np.unique(np.concatenate([others, whole, whole + 1.0])).astype(np.int64))
        return np.unique(np.concatenate([[0], inside, [records.positions]]))

    def _loss(self, least: Floats, most: Floats, gap: float) -> Floats:
        """The least loss of a factor when the number of records between is somewhere from least to most."""
        loss: Floats = self.rate * np.maximum(0.0, np.maximum(least - gap, gap - most))
        return loss

    def _terms(self, level: int, intervals: slice) -> Iterator[Floats]:
        """The log weights of the first `level` positions, the last 1, 2, ... of them in the same interval."""
        inside, width = np.zeros(1), self.highs[intervals] - self.lows[intervals]
        for number in range(1, level + 1):
            before = level - number
            yield self.arriving[before, intervals] + self.choices[number - 1, intervals] - inside
            inside = inside + self._loss(np.zeros(1), width, self.gaps[before]) + self.shifts[before]

    def _fill(self) -> None:
        """The weights of all choices, from the first position on."""
        sums_before = _compiled()
        for level in range(self.levels):
            row = -self._loss(self.lows, self.highs, self.gaps[0])
            if level:
                most = self.closed[level].max()
                weights = np.exp(self.closed[level] - most)
                sums = sums_before(weights, self.lows, self.highs, self.gaps[level], self.rate)
                row = np.log(np.maximum(sums, TINIEST)) + most
            self.shifts[level] = row.max()
            self.arriving[level] = _floored(row - row.max())
            closed = np.full(row.size, -np.inf)
            for term in self._terms(level + 1, slice(None)):
                closed = np.logaddexp(closed, term)
                if term.max() < closed.max() + 2.0 * FLOOR:
                    break
            self.closed[level + 1] = _floored(closed)

    def draw(self, stream: BitStream) -> tuple[list[int], Fraction]:
        """Positions in order, and one over the probability with which they were proposed; too few lead nowhere."""
        level, odds, weights = self.levels, Fraction(1), self.last
        positions: list[int] = []
        while level and weights.size:
            place, inverse = _chosen(weights, stream)
            number, again = _chosen(np.concatenate(list(self._terms(level, slice(place, place + 1)))), stream)
            first, size = int(self.cuts[place]), int(self.cuts[place + 1] - self.cuts[place])
            group = ordered_choice(size, number + 1, stream)
            odds *= inverse * again * math.comb(size + number, number + 1)
            positions = [*(first + offset for offset in group), *positions]
            level -= number + 1
            least, most = self.lows[place] - self.highs[:place], self.highs[place] - self.lows[:place]
            weights = self.closed[level, :place] - self._loss(least, most, self.gaps[level])
        return positions, odds


@cache
def _compiled() -> Callable[..., Floats]:
    """`passed_on` through the compiler, which loads slowly and is asked for on first use."""
    from numba import njit

    made: Callable[..., Floats] = njit(cache=True)(passed_on)
    return made


def passed_on(weights: Any, lows: Any, highs: Any, gap: float, rate: float) -> Any:
    """For each interval t the sum over those before it of weights[p] * exp(-rate * distance), by sums alone.

    The distance is that of `gap` from the numbers of records that may lie between positions of p and of t, which are
    from lows[t] - highs[p] to highs[t] - lows[p]. As p grows there are first surely more records than the gap, then
    perhaps as many, then surely fewer. The last sum is kept by halves: from each place before the pivot up to the
    pivot, and from the pivot on.
    """
    count = weights.size
    result = np.zeros(count)
    halves = np.zeros(count + 1)
    far, near, pivot = 0, 0, 0
    more, anchor = 0.0, 0.0
    after = 0.0
    for t in range(1, count):
        while far < t and lows[t] - highs[far] > gap:
            more = more * np.exp(-rate * (highs[far] - anchor)) + weights[far]
            anchor = highs[far]
            far += 1
        total = more * np.exp(-rate * (lows[t] - gap - anchor)) if far > 0 else 0.0
        while near < t and highs[t] - lows[near] >= gap:
            near += 1
        for p in range(far, near):
            total += weights[p]
        if near > pivot or pivot == 0:
            pivot, after = t, 0.0
            halves[t] = 0.0
            for p in range(t - 1, near - 1, -1):
                following = halves[p + 1] * np.exp(-rate * (lows[p + 1] - lows[p])) if p + 1 < t else 0.0
                halves[p] = weights[p] + following
        else:
            after += weights[t - 1] * np.exp(-rate * (lows[t - 1] - lows[pivot]))
        if near < pivot:
            total += halves[near] * np.exp(-rate * (gap - highs[t] + lows[near]))
        if after > 0.0:
            total += after * np.exp(-rate * (gap - highs[t] + lows[pivot]))
        result[t] = total
    return result


def _floored(logs: Floats) -> Floats:
    floored: Floats = np.maximum(logs, logs.max() + FLOOR)
    return floored


def _chosen(logs: Floats, stream: BitStream) -> tuple[int, Fraction]:
    """An index drawn with whole-number weights that are at least in proportion, and one over its probability."""
    weights = np.floor(np.exp(logs - logs.max()) * HEAD).astype(np.int64) + 1
    running = np.cumsum(weights)
    total = int(running[-1])
    place = int(np.searchsorted(running, below(total, stream), side="right"))
    return place, Fraction(total, int(weights[place]))
