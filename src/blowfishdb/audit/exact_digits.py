"""The sampler's digits against probabilities worked out anew, and its ties and carries fed with chosen random bits."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from blowfishdb.noise.digits import DigitTable, digit_table
from blowfishdb.noise.sampler import draw_geometric, draw_laplace

HEAD, FULL = 16, 256
NO = 2**16 - 1
"""A first random number that leaves every digit 0: no digit is 1 with a chance above one half."""
PRECISE = Context(prec=140)
SCALES = (Fraction(1, 1000), Fraction(1, 3), Fraction(2), Fraction(355, 113), Fraction(1000), Fraction(10**9))


class Scripted:
    """Random bits that are chosen: one first number per digit, highest digit first, then the bits that settle ties."""

    def __init__(self, heads: list[int], ties: list[int]) -> None:
        self._heads = list(heads)
        self._ties = list(ties)

    def fill(self, lanes: NDArray[np.uint16]) -> None:
        lanes[...] = self._heads.pop(0) if self._heads else NO

    def integer(self, bits: int) -> int:
        return self._ties.pop(0) if self._ties else 2**bits - 1


def chance(rate: Fraction, *, of_digit: bool) -> int:
    """2^256 times the chance of a digit, 1 / (1 + exp(rate)), or of a carry, exp(-rate), rounded down."""
    power = PRECISE.exp(PRECISE.minus(PRECISE.divide(Decimal(rate.numerator), Decimal(rate.denominator))))
    if of_digit:
        power = PRECISE.divide(power, PRECISE.add(Decimal(1), power))
    return int(PRECISE.multiply(power, Decimal(2**FULL)))


def digit_troubles() -> Iterator[str]:
    """What is wrong with a digit, a tie or a carry at any of the scales."""
    for scale in SCALES:
        table = digit_table(scale, np.ones(1, dtype=np.int64))
        for position in range(table.digits):
            whole = chance(Fraction(2**position) / scale, of_digit=True)
            yield from _digit_troubles(table, position, whole, f"scale {float(scale):g}, digit {position}")
        yield from _carry_troubles(table, chance(Fraction(2**table.digits) / scale, of_digit=False), scale)
        if scale > 1:
            yield from _pair_troubles(table, scale)


def _digit_troubles(table: DigitTable, position: int, whole: int, said: str) -> Iterator[str]:
    head, rest = divmod(whole, 2 ** (FULL - HEAD))
    before = [NO] * (table.digits - 1 - position)
    probes = [(head + 1, [], 0), (head, [rest + 1], 0)]
    probes += [(head - 1, [], 1)] if head else []
    probes += [(head, [rest - 1], 1)] if rest else []
    for first, ties, digit in probes:
        drawn = int(draw_geometric(table, None, 1, Scripted([*before, first], list(ties)))[0])
        if drawn != digit << position:
            yield f"{said}: random bits {first} {ties} give {drawn}, not {digit << position}"


def _carry_troubles(table: DigitTable, whole: int, scale: Fraction) -> Iterator[str]:
    head, rest = divmod(whole, 2 ** (FULL - HEAD))
    if head:
        yield f"scale {float(scale):g}: a carry is likelier than 2^-16"
        return
    before = [NO] * table.digits
    probes = [([rest + 1], 0), ([0, 1], 1)] if rest else []
    probes += [([rest - 1, 1], 1), ([rest - 1, 0, rest - 1, 1], 2)] if rest else []
    for ties, times in probes:
        drawn = int(draw_geometric(table, None, 1, Scripted([*before, 0], list(ties)))[0])
        if drawn != times << table.digits:
            yield f"scale {float(scale):g}: a carry with bits {ties[:1]} gives {drawn}, not {times << table.digits}"


def _pair_troubles(table: DigitTable, scale: Fraction) -> Iterator[str]:
    """Two-sided noise is the difference of two geometrics; equal bits for both must cancel."""
    drawn = draw_laplace(table, None, 4, Scripted([0] * (table.digits - 1), []))
    if drawn.any():
        yield f"scale {float(scale):g}: two equal halves do not cancel"
