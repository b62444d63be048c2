"""Certified binary expansions of exp(-r) and of digit probabilities, in integer arithmetic only."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

_GUARD_BITS = 32


def enclose_exp(rate: Fraction, bits: int) -> tuple[int, int]:
    """Integers low, high with low <= 2^bits exp(-rate) <= high, for a rate >= 0.

    The Taylor series is summed at x = rate / 2^halvings <= 2^-8. A computed term, rounded down, is below its
    true value by less than 2, so a sum of m terms is off by less than 2m; the alternating remainder and the
    rounding of x add less than 3. Squaring the interval `halvings` times brings the rate back.
    """
    if rate >= bits:
        return 0, 1
    halvings = int(rate).bit_length() + 8
    precision = bits + halvings + _GUARD_BITS
    x = (rate.numerator << precision) // (rate.denominator << halvings)
    term, total, count = 1 << precision, 0, 0
    while term:
        total += -term if count % 2 else term
        count += 1
        term = ((term * x) >> precision) // count
    slack = 2 * count + 3
    low, high = max(total - slack, 0), total + slack
    for _ in range(halvings):
        low, high = (low * low) >> precision, ((high * high) >> precision) + 1
    surplus = precision - bits
    return low >> surplus, min(-(-high >> surplus), 1 << bits)


@lru_cache(maxsize=8192)
def digit_expansion(rate: Fraction, bits: int) -> int:
    """The first bits of 1 / (1 + exp(rate)), as the integer floor(2^bits / (1 + exp(rate)))."""
    return _certified_floor(rate, bits, lambda low, scale: (low << bits) // ((1 << scale) + low))


@lru_cache(maxsize=8192)
def power_expansion(rate: Fraction, bits: int) -> int:
    """The first bits of exp(-rate), as the integer floor(2^bits exp(-rate))."""
    return _certified_floor(rate, bits, lambda low, scale: (low << bits) >> scale)


def _certified_floor(rate: Fraction, bits: int, floor: Callable[[int, int], int]) -> int:
    """The value on which both ends of a narrowing enclosure agree.

    `floor` does not decrease in its first argument. The loop ends because exp(-rate) is irrational for every
    rational rate > 0, hence no multiple of 2^-bits; callers never pass rate 0.
    """
    precision = bits + _GUARD_BITS
    while True:
        low, high = enclose_exp(rate, precision)
        first, last = floor(low, precision), floor(high, precision)
        if first == last:
            return first
        precision *= 2
