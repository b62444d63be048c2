"""Exact amounts of privacy loss: sums over one common denominator that is bounded, so no float ever decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.errors import AmountTooFine, InvalidInput

DECIMALS = 10**12
EASY = math.lcm(DECIMALS, *range(1, 31))
"""Every balance counts in parts of this from the start, so decimals of 12 places and small fractions always fit."""
FINEST = 10**60
"""No common denominator grows beyond this; what would need more is refused with a short amount above it."""
LARGEST = 10**9


@dataclass(frozen=True)
class Balance:
    """A sum of amounts as `units` parts of 1/`grid`; the grid only ever grows to a multiple of itself."""

    units: int
    grid: int

    def __post_init__(self) -> None:
        if self.units < 0 or self.grid < 1 or self.grid > FINEST or self.grid % EASY:
            raise InvalidInput("a balance is a non-negative number of parts of a supported grid")

    @property
    def value(self) -> Fraction:
        """The balance as one reduced fraction."""
        return Fraction(self.units, self.grid)

    def plus(self, amount: Fraction) -> Balance:
        """The balance after adding an amount; AmountTooFine when the grid would become too fine."""
        grid = math.lcm(self.grid, amount.denominator)
        if grid > FINEST:
            raise AmountTooFine(amount, nearest_above(amount))
        return Balance(self.units * (grid // self.grid) + amount.numerator * (grid // amount.denominator), grid)

    def times(self, factor: Fraction) -> Balance:
        """The balance multiplied by a factor; AmountTooFine when the grid would become too fine. Whole factors fit."""
        product = self.value * factor
        grid = math.lcm(self.grid, product.denominator)
        if grid > FINEST:
            raise AmountTooFine(factor, Fraction(math.ceil(factor)))
        return Balance(product.numerator * (grid // product.denominator), grid)


NOTHING = Balance(0, EASY)


def nearest_above(amount: Fraction) -> Fraction:
    """The least decimal of 12 places that is not below the amount; every account accepts it."""
    return Fraction(math.ceil(amount * DECIMALS), DECIMALS)


def check_amount(amount: Fraction, what: str) -> None:
    """Refuses anything but an exact fraction from 0 to a billion that the finest grid can carry."""
    if not isinstance(amount, Fraction):
        raise InvalidInput(f"{what} is an exact Fraction, not {type(amount).__name__}")
    if not 0 <= amount <= LARGEST:
        raise InvalidInput(f"{what} lies between 0 and {LARGEST:,}")
    if math.lcm(amount.denominator, EASY) > FINEST:
        raise AmountTooFine(amount, nearest_above(amount))
