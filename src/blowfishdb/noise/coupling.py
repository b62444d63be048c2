"""Exact draws of noisy numbers at one more noise level, given what is published at the levels beside it.

All levels of one number form a Markov chain from fine to coarse, in whatever order they are drawn
(docs/proofs/sharing.md). The engine alone may import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from blowfishdb.errors import InvalidInput, NoiseScaleError, TooLarge
from blowfishdb.noise.certified import Noise, tell
from blowfishdb.noise.distribution import MAX_SCALE, MIN_SCALE, Floats, Ints
from blowfishdb.noise.sampler import BitStream, Keystream, enclose_exp, sample, sample_geometric

HEAD_BITS: Final = 53
MARGIN: Final = 2.0**-30
"""Floats decide outside this distance of a threshold; their errors are below 2^-40 (docs/proofs/sharing.md)."""
MORE_BITS: Final = 128
LARGEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Enclosure:
    """A non-negative real number between two fractions."""

    low: Fraction
    high: Fraction

    def __add__(self, other: Enclosure | int) -> Enclosure:
        if isinstance(other, int):
            return Enclosure(self.low + other, self.high + other)
        return Enclosure(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Enclosure | int) -> Enclosure:
        if isinstance(other, int):
            return Enclosure(self.low * other, self.high * other)
        return Enclosure(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low / other.high, self.high / other.low)


@dataclass(frozen=True)
class Step:
    """Two levels beside each other by their rates (1 / scale), with difference and sum; numbers, or one per weight."""

    fine: Any
    coarse: Any
    fall: Any
    both: Any

    @staticmethod
    def between(finer: Fraction, coarser: Fraction) -> Step:
        """The step between two levels, given by their units."""
        fine, coarse = 1 / finer, 1 / coarser
        return Step(fine, coarse, fine - coarse, fine + coarse)

    def at(self, weight: int) -> Step:
        """The rates of one number."""
        return Step(self.fine * weight, self.coarse * weight, self.fall * weight, self.both * weight)

    def floats(self, weights: Ints) -> Step:
        """The rates of all numbers as floats; the difference is exact before it is rounded."""
        return Step(*(weights * float(rate) for rate in (self.fine, self.coarse, self.fall, self.both)))


class Exponentials:
    """exp(-rate) and 1 - exp(-rate) of arrays of floats."""

    def decay(self, rate: Any) -> Any:
        """exp(-rate)."""
        return np.exp(-rate)

    def rise(self, rate: Any) -> Any:
        """1 - exp(-rate)."""
        return -np.expm1(-rate)


@dataclass(frozen=True)
class Enclosed(Exponentials):
    """The same of fractions, as intervals of width 2^-bits."""

    bits: int

    def decay(self, rate: Any) -> Enclosure:
        """exp(-rate)."""
        low, high = enclose_exp(rate, self.bits)
        return Enclosure(Fraction(low, 1 << self.bits), Fraction(high, 1 << self.bits))

    def rise(self, rate: Any) -> Enclosure:
        """1 - exp(-rate); more than 0 for every rate that is served."""
        fall = self.decay(rate)
        return Enclosure(1 - fall.high, 1 - fall.low)


def stay(step: Step, of: Exponentials) -> Any:
    """The probability w0 that a number is the same at both levels by not moving at all."""
    share = of.rise(step.coarse) / of.rise(step.fine)
    return of.decay(step.fall) * share * share


def move(step: Step, of: Exponentials) -> Any:
    """1 - w0, without cancellation."""
    return of.rise(step.fall) * of.rise(step.both) / (of.rise(step.fine) * of.rise(step.fine))


def height(rate: Any, of: Exponentials) -> Any:
    """The probability that noise of this rate is 0."""
    return of.rise(rate) / (of.decay(rate) + 1)


def coarser_law(step: Step, of: Exponentials) -> list[Any]:
    """The probabilities to stay at the finer value, and to move away from it by noise of the coarser level."""
    return [stay(step, of), move(step, of)]


def between_law(left: Step | None, right: Step, apart: Any, meets: Any, of: Exponentials) -> list[Any]:
    """The weights of the five ways to lie between a finer and a coarser value that are `apart` from each other.

    `right` leads from the new level to the coarser one, `left` from the finer one to the new level, None where the
    finer value is the true number; `meets` is 1 where both values are the same. In order: at the finer value, at the
    coarser value, before the finer one, from the finer to the coarser one, beyond the coarser one.
    """
    gap = of.decay(right.fall * apart)
    outside = of.decay(right.both) / of.rise(right.both)
    inside = of.rise(right.fall * (apart + 1)) / of.rise(right.fall)
    stays, spread = stay(right, of), move(right, of) * height(right.coarse, of)
    leaves = height(right.fine, of)
    remains = stays * 0
    if left is not None:
        remains, leaves = stay(left, of), move(left, of) * leaves
    cut = leaves * spread
    return [
        remains * (stays * meets + spread),
        leaves * stays * gap,
        cut * outside,
        cut * inside,
        cut * gap * outside,
    ]


def is_served(finer: Fraction | None, unit: Fraction, coarser: Fraction | None, weights: Ints) -> bool:
    """Whether numbers of these weights can be drawn at level `unit` between the others; units grow with the noise."""
    if (finer is not None and finer >= unit) or (coarser is not None and coarser <= unit):
        return False
    units = [unit]
    if coarser is not None:
        step = Step.between(unit, coarser)
        units = [1 / step.fall, 1 / step.both]
    lightest, heaviest = int(weights.min()), int(weights.max())
    return all(one / heaviest >= MIN_SCALE and one / lightest <= MAX_SCALE for one in units)


def draw_coarser(values: Ints, finer: Fraction, unit: Fraction, weights: Ints) -> Ints:
    """The values of level `finer` with as much noise added as level `unit` has more; reads nothing else."""
    _check(finer, unit, None, weights, values)
    tell(Noise("level", unit, weights, weights.size, (finer, None)))
    step = Step.between(finer, unit)
    fast = coarser_law(step.floats(weights), Exponentials())
    choice = choose(fast, lambda row, bits: coarser_law(step.at(int(weights[row])), Enclosed(bits)), Keystream())
    return _summed(values, np.where(choice == 0, 0, sample(unit, weights)))


def draw_between(
    fine: Ints, finer: Fraction | None, coarse: Ints, coarser: Fraction, unit: Fraction, weights: Ints
) -> Ints:
    """The values of level `unit`, given those of a finer level (None: the true numbers) and those of a coarser one."""
    _check(finer, unit, coarser, weights, fine, coarse)
    tell(Noise("level", unit, weights, weights.size, (finer, coarser)))
    left, right = None if finer is None else Step.between(finer, unit), Step.between(unit, coarser)
    distance = _distance(fine, coarse)
    apart, meets = distance.astype(np.float64), (distance == 0).astype(np.float64)
    before = None if left is None else left.floats(weights)
    fast = between_law(before, right.floats(weights), apart, meets, Exponentials())

    def exact(row: int, bits: int) -> list[Enclosure]:
        weight, steps = int(weights[row]), int(distance[row])
        before = None if left is None else left.at(weight)
        return between_law(before, right.at(weight), steps, int(steps == 0), Enclosed(bits))

    choice = choose(fast, exact, Keystream())
    beyond, along = sample_geometric(1 / right.both, weights), sample_geometric(1 / right.fall, weights)
    ways = [np.zeros_like(distance), distance, -1 - beyond, along % (distance + 1), _summed(distance + 1, beyond)]
    return _summed(fine, np.where(coarse < fine, -1, 1) * np.choose(choice, ways))


def choose(fast: Sequence[Floats], exact: Callable[[int, int], list[Enclosure]], stream: BitStream) -> Ints:
    """For each number one of several ways, with probabilities proportional to their weights, exactly.

    `fast` are the weights as floats, way by way. Where the first bits of a uniform number come too near to a threshold,
    `exact` gives the weights of that number as intervals for so many bits, and the comparison goes on.
    """
    sums = np.cumsum(np.stack(np.broadcast_arrays(*fast)), axis=0)
    lanes = np.empty((sums.shape[1], 4), np.uint16)
    stream.fill(lanes)
    heads = lanes.view(np.uint64).reshape(-1) >> np.uint64(64 - HEAD_BITS)
    uniform, thresholds = heads.astype(np.float64) * 2.0**-HEAD_BITS, sums[:-1] / sums[-1]
    choice: Ints = np.sum(uniform >= thresholds, axis=0).astype(np.int64)
    for row in np.flatnonzero(np.any(np.abs(uniform - thresholds) < MARGIN, axis=0)).tolist():
        choice[row] = settle(int(heads[row]), partial(exact, row), stream)
    return choice


def settle(head: int, exact: Callable[[int], list[Enclosure]], stream: BitStream) -> int:
    """The way of a uniform number that begins with `head`, by as many further bits as it takes."""
    number, bits = head, HEAD_BITS
    while True:
        weights = exact(bits + MORE_BITS)
        low, high = Fraction(number, 1 << bits), Fraction(number + 1, 1 << bits)
        passed = open_ends = 0
        for place in range(1, len(weights)):
            before, after = _total(weights[:place]), _total(weights[place:])
            # The threshold is before / (before + after).
            if low >= before.high / (before.high + after.low):
                passed += 1
            elif high > before.low / (before.low + after.high):
                open_ends += 1
        if not open_ends:
            return passed
        number, bits = (number << HEAD_BITS) | stream.integer(HEAD_BITS), bits + HEAD_BITS


def _total(weights: Sequence[Enclosure]) -> Enclosure:
    return Enclosure(sum((one.low for one in weights), Fraction(0)), sum((one.high for one in weights), Fraction(0)))


def _check(finer: Fraction | None, unit: Fraction, coarser: Fraction | None, weights: Ints, *values: Ints) -> None:
    if any(part.shape != weights.shape or part.dtype != np.int64 or part.ndim != 1 for part in (weights, *values)):
        raise InvalidInput("each weight needs a value of every level, as 64-bit whole numbers")
    if weights.size == 0 or int(weights.min()) < 1:
        raise InvalidInput("noise weights must be positive, and at least one")
    if not is_served(finer, unit, coarser, weights):
        raise NoiseScaleError("A level between these two is not served: they are out of order or too close together.")


def _distance(fine: Ints, coarse: Ints) -> Ints:
    """How far apart two values are; refused where that does not fit."""
    _fits(int(np.abs(fine).max()) + int(np.abs(coarse).max()) + 1)
    return np.asarray(np.abs(coarse - fine), dtype=np.int64)


def _summed(values: Ints, steps: Ints) -> Ints:
    """The sum, refused where it would not fit; that has less probability than any draw that is refused."""
    _fits(int(np.abs(values).max()) + int(np.abs(steps).max()))
    return values + steps


def _fits(size: int) -> None:
    if size > LARGEST:
        raise TooLarge("A noise draw", size, LARGEST, "Nothing is wrong; ask again.")
