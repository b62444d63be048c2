"""How a geometric variable is cut into independent binary digits, and the first bits of each probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from blowfishdb.errors import InvalidInput
from blowfishdb.noise.expansion import digit_expansion, enclose_exp, power_expansion

HEAD_BITS = 16
MAX_DIGITS = 61
# A value of 2^digits or more has probability exp(-2^digits / scale), below exp(-48) < 2^-69.
_CARRY_RATE = 48
# heads_of proves 2^-45; the rest absorbs the roundings of the comparison itself.
_HEAD_ERROR = 2.0**-40

Expansion = Callable[[int], int]


@dataclass(frozen=True, eq=False)
class DigitTable:
    """Digit j of a geometric of scale unit / weights[row] is 1 with a probability that begins heads[j, row].

    The exact probability is 1 / (1 + exp(2^j / scale)); `digit` and `carry` give as many bits of it as asked.
    """

    unit: Fraction
    weights: NDArray[np.int64]
    heads: NDArray[np.uint16]

    def __post_init__(self) -> None:
        if self.unit <= 0 or self.weights.ndim != 1 or self.weights.size == 0 or int(self.weights.min()) < 1:
            raise InvalidInput("A digit table needs a positive unit and at least one positive weight.")
        if self.heads.ndim != 2 or self.heads.shape[1] != self.weights.size:
            raise InvalidInput("A digit table needs one column of heads for each weight.")
        if self.digits > MAX_DIGITS:
            raise InvalidInput(f"A digit table of {self.digits} digits does not fit an int64.")
        if Fraction(2**self.digits) < 2 * HEAD_BITS * self.unit / int(self.weights.min()):
            raise InvalidInput("A digit table needs so many digits that a carry starts with a zero head.")

    @property
    def digits(self) -> int:
        """How many digits come from heads; what lies above is the carry."""
        return int(self.heads.shape[0])

    def digit(self, position: int, row: int) -> Expansion:
        """The expansion of the probability that one digit is 1."""
        return partial(digit_expansion, self._rate(position, row))

    def carry(self, row: int) -> Expansion:
        """The expansion of exp(-2^digits / scale), the chance of one more 2^digits."""
        return partial(power_expansion, self._rate(self.digits, row))

    def _rate(self, position: int, row: int) -> Fraction:
        return Fraction(int(self.weights[row]) << position) / self.unit


def digit_table(unit: Fraction, weights: NDArray[np.int64]) -> DigitTable:
    """The table for distinct positive weights, with digits enough for the largest scale among them."""
    digits = digits_needed(unit / int(weights.min()))
    return DigitTable(unit, weights, heads_of(unit, weights, digits))


def digits_needed(scale: Fraction) -> int:
    """The least J with 2^J >= 48 scale."""
    return (-(-_CARRY_RATE * scale // 1) - 1).bit_length()


def heads_of(unit: Fraction, weights: NDArray[np.int64], digits: int) -> NDArray[np.uint16]:
    """floor(2^16 / (1 + exp(2^j weight / unit))) for every digit j and weight, exact.

    exp(-2^j w / unit) is the product of exp(-2^(i+j) / unit) over the bits i of w. All factors lie in [0, 1],
    so the absolute errors of at most 63 factors and 62 correctly rounded products add up to less than 2^-46,
    and e / (1 + e) stretches no distance. Where that cannot settle the floor, integer arithmetic does.
    """
    width = int(weights.max()).bit_length()
    factors = [_float_exp(Fraction(2**power) / unit) for power in range(width + digits)]
    masks = [(weights >> bit) & 1 == 1 for bit in range(width)]
    heads = np.empty((digits, weights.size), np.uint16)
    for position in range(digits):
        power = np.ones(weights.size)
        for bit, mask in enumerate(masks):
            np.multiply(power, factors[position + bit], out=power, where=mask)
        probability = power / (1.0 + power)
        low = np.floor(np.maximum(probability - _HEAD_ERROR, 0.0) * 2**HEAD_BITS)
        high = np.floor((probability + _HEAD_ERROR) * 2**HEAD_BITS)
        heads[position] = low
        for row in np.flatnonzero(low != high):
            rate = Fraction(int(weights[row]) << position) / unit
            heads[position, row] = digit_expansion(rate, HEAD_BITS)
    return heads


@lru_cache(maxsize=4096)
def _float_exp(rate: Fraction) -> float:
    """exp(-rate) within 2^-53 + 2^-60; a quotient of two integers is rounded correctly."""
    low, _ = enclose_exp(rate, 64)
    return low / 2**64
