"""The epsilons that quotes may name: decimal fractions with three significant digits, at most one percent apart."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction

MANTISSAS = (*range(100, 200), *range(200, 500, 2), *range(500, 1000, 5))


def point(index: int) -> Fraction:
    """The grid's epsilon with this number; larger numbers are larger epsilons."""
    decade, place = divmod(index, len(MANTISSAS))
    return Fraction(MANTISSAS[place]) * _power_of_ten(decade - 2)


def index_at_least(epsilon: Fraction) -> int:
    """The number of the least grid point that is not below a positive epsilon."""
    decade = 0
    while epsilon >= _power_of_ten(decade + 1):
        decade += 1
    while epsilon < _power_of_ten(decade):
        decade -= 1
    return decade * len(MANTISSAS) + bisect_left(MANTISSAS, epsilon * _power_of_ten(2 - decade))


def round_up(epsilon: Fraction) -> Fraction:
    """The least grid point that is not below a positive epsilon."""
    return point(index_at_least(epsilon))


def least_passing(passes: Callable[[Fraction], bool], guess: Fraction) -> Fraction:
    """The least grid point that passes, for a test that every larger epsilon passes too."""
    high = index_at_least(guess)
    step = 1
    while not passes(point(high)):
        high, step = high + step, 2 * step
    low, step = high - 1, 1
    while passes(point(low)):
        high, low, step = low, low - step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if passes(point(middle)):
            high = middle
        else:
            low = middle
    return point(high)


def first_passing(passes: Callable[[Fraction], bool], start: Fraction, limit: Fraction | None) -> Fraction | None:
    """The first grid point from `start` on that passes; None when there is none up to `limit`."""
    index = index_at_least(start)
    while limit is None or point(index) <= limit:
        if passes(point(index)):
            return point(index)
        index += 1
    return None


def _power_of_ten(exponent: int) -> Fraction:
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)
