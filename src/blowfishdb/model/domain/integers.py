"""Columns of whole numbers between two ends; a million million of them cost nothing to declare."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np

from blowfishdb.errors import DomainError
from blowfishdb.model.arrays import Ints, check_sum
from blowfishdb.model.domain.base import CELL, CLAMP, Attribute, Encoded, Value, one_by_one
from blowfishdb.model.numbers import LARGEST, exact, whole


@dataclass(frozen=True, kw_only=True)
class Integers(Attribute):
    """The whole numbers low .. high, both included; raw fractions are rounded down."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise DomainError(f"low ({self.low}) must not be above high ({self.high})")
        if max(abs(self.low), abs(self.high)) > LARGEST:
            raise DomainError(f"whole numbers beyond {LARGEST:,} in size are not exact on every engine; use bins")
        self.check()

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def index_of(self, value: Value) -> int:
        number = whole(value, "the value", DomainError)
        if not self.low <= number <= self.high:
            raise DomainError(f"{number} is not between {self.low} and {self.high}")
        return number - self.low

    def below(self, value: Value) -> int:
        return self._clip(math.ceil(exact(value, "the value", DomainError)))

    def up_to(self, value: Value) -> int:
        return self._clip(math.floor(exact(value, "the value", DomainError)) + 1)

    def _clip(self, number: int) -> int:
        return min(max(number - self.low, 0), self.size)

    @property
    def denominator(self) -> int:
        """A whole number that makes every position whole."""
        return 1

    def spans(self, first: Ints, last: Ints, scale: int) -> tuple[Ints, Ints]:
        """The lowest and highest positions of runs of values, times the scale."""
        check_sum("positions of a joint threshold", max(abs(self.low), abs(self.high)) * scale)
        return (self.low + first) * scale, (self.low + last) * scale

    def read(self, values: object) -> Encoded:
        column = np.asarray(values).reshape(-1)
        if column.dtype.kind == "f":
            is_null = np.isnan(column)
            number = np.floor(np.where(is_null, self.low, column))
        elif column.dtype.kind in "iub":
            is_null = np.zeros(column.size, dtype=np.bool_)
            number = column.astype(np.int64) if column.dtype.kind == "b" else column
        else:
            return one_by_one(column, read_whole, self.low, self.high)
        is_outside = (number < self.low) | (number > self.high)
        inside = np.where(is_outside, 0, number).astype(np.int64)
        clamped = np.where(number < self.low, self.low, np.where(is_outside, self.high, inside))
        return clamped.astype(np.int64) - self.low, is_null, is_outside & ~is_null

    def value_at(self, index: int) -> Value:
        return self.low + index

    def run_label(self, first: int, last: int) -> str:
        return str(self.low + first) if first == last else f"{self.low + first}-{self.low + last}"

    def run_labels(self, firsts: Ints, lasts: Ints) -> Iterable[str]:
        if np.array_equal(firsts, lasts):
            return map(str, (self.low + firsts).tolist())
        return super().run_labels(firsts, lasts)


def read_number(value: object) -> Fraction | float | None:
    """A raw entry as a number; None for NULL, NaN and whatever is no number; infinities stay floats."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str):
        try:
            plain = Decimal(plain.strip())
        except InvalidOperation:
            return None
    if isinstance(plain, Decimal):
        if plain.is_nan():
            return None
        if plain.adjusted() > 400 or plain.adjusted() < -400 or plain.is_infinite():
            return float(plain)
    if isinstance(plain, float) and (math.isnan(plain) or math.isinf(plain)):
        return None if math.isnan(plain) else plain
    return Fraction(plain) if isinstance(plain, int | float | Decimal | Fraction) else None


def read_whole(value: object) -> int | None:
    """A raw entry rounded down; infinities become numbers beyond every domain."""
    number = read_number(value)
    if number is None:
        return None
    if isinstance(number, float):
        return 0 if number == 0 else int(math.copysign(4 * LARGEST, number))
    return math.floor(number)


def integers(
    low: int,
    high: int,
    *,
    null: Value = CELL,
    outside: str = CLAMP,
    null_public: bool = False,
    outside_public: bool = False,
) -> Integers:
    """A column of whole numbers from low to high, both included."""
    return Integers(
        low=whole(low, "low", DomainError),
        high=whole(high, "high", DomainError),
        null=null,
        outside=outside,
        null_public=null_public,
        outside_public=outside_public,
    )
