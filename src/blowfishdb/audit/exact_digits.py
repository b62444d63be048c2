"""What the sampler draws from chosen random bits, against probabilities worked out anew: digits, ties and carries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from blowfishdb.audit.tape import REAL, replaced
from blowfishdb.noise.digits import digit_table
from blowfishdb.noise.keystream import Keystream

HEAD, FULL = 16, 256
NO = 2**16 - 1
"""A first random number that leaves every digit 0: no digit is 1 with a chance above one half."""
PRECISE = Context(prec=140)
SCALES: tuple[tuple[Fraction, int], ...] = (
    (Fraction(1, 1000), 1),
    (Fraction(1, 3), 1),
    (Fraction(2), 1),
    (Fraction(355, 113), 1),
    (Fraction(1000), 1),
    (Fraction(10**9), 1),
    (Fraction(10**15 + 37, 10**13 + 51), 7),
)
"""Units and weights; the last unit is one that no short fraction and no float is equal to."""
HALVES: dict[str, tuple[tuple[int, int], ...]] = {"sample": ((0, 1), (1, -1)), "sample_geometric": ((0, 1),)}
"""Which half of the random bits counts for the draw, and with which sign."""


class Scripted:
    """Random bits that are chosen: one first number per digit, highest digit first, then the bits that settle ties.

    They go to one half of the draws; the digits of the other half are all 0.
    """

    def write(self, heads: Sequence[int], ties: Sequence[int], half: int) -> None:
        """What comes next."""
        self._heads = list(heads)
        self._ties = list(ties)
        self._half = half

    def opened(self) -> Scripted:
        """Stands for a new keystream."""
        return self

    def fill(self, lanes: NDArray[np.uint16]) -> None:
        lanes[...] = NO
        if self._heads:
            lanes[self._half] = self._heads.pop(0)

    def integer(self, bits: int) -> int:
        return self._ties.pop(0) if self._ties else 2**bits - 1


def chance(rate: Fraction, *, of_digit: bool) -> int:
    """2^256 times the chance of a digit, 1 / (1 + exp(rate)), or of a carry, exp(-rate), rounded down."""
    power = PRECISE.exp(PRECISE.minus(PRECISE.divide(Decimal(rate.numerator), Decimal(rate.denominator))))
    if of_digit:
        power = PRECISE.divide(power, PRECISE.add(Decimal(1), power))
    return int(PRECISE.multiply(power, Decimal(2**FULL)))


def digit_troubles() -> list[str]:
    """What is wrong with a digit, a tie or a carry at any of the scales."""
    bits = Scripted()
    with replaced({Keystream: bits.opened}):
        return list(_all_troubles(bits))


def _all_troubles(bits: Scripted) -> Iterator[str]:
    for unit, weight in SCALES:
        digits = digit_table(unit, np.array([weight])).digits
        scale = unit / weight
        for position in range(digits):
            whole = chance(Fraction(2**position) / scale, of_digit=True)
            before = [NO] * (digits - 1 - position)
            for heads, ties, times in _digit_probes(whole):
                said = f"scale {float(scale):g}, digit {position}"
                yield from _troubles(said, bits, (unit, weight), [*before, *heads], ties, times << position)
        whole = chance(Fraction(2**digits) / scale, of_digit=False)
        if whole >> (FULL - HEAD):
            yield f"scale {float(scale):g}: a carry is likelier than 2^-16"
            continue
        for ties, times in _carry_probes(whole):
            said = f"scale {float(scale):g}, carry"
            yield from _troubles(said, bits, (unit, weight), [*[NO] * digits, 0], ties, times << digits)


def _digit_probes(whole: int) -> Iterator[tuple[list[int], list[int], int]]:
    """First bits and further bits on either side of the chance of a digit, and the digit that must come of them."""
    head, rest = divmod(whole, 2 ** (FULL - HEAD))
    yield [head + 1], [], 0
    yield [head], [rest + 1], 0
    if head:
        yield [head - 1], [], 1
    if rest:
        yield [head], [rest - 1], 1


def _carry_probes(rest: int) -> Iterator[tuple[list[int], int]]:
    """Bits on either side of the chance of a carry, and how many carries must come of them."""
    if rest:
        yield [rest + 1], 0
        yield [0, 1], 1
        yield [rest - 1, 1], 1
        yield [rest - 1, 0, rest - 1, 1], 2


def _troubles(
    said: str, bits: Scripted, law: tuple[Fraction, int], heads: Sequence[int], ties: Sequence[int], wanted: int
) -> Iterator[str]:
    """The sampler itself with these bits for its keystream, one-sided and on either side."""
    for function, halves in HALVES.items():
        for half, sign in halves:
            bits.write(heads, ties, half)
            drawn = int(REAL[function](*law, 1)[0])
            if drawn != sign * wanted:
                yield f"{said}, {function}: chosen random bits give {drawn}, not {sign * wanted}"
