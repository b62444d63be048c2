"""Exact numbers from what people write, the array types every room speaks, and guards against overflow."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blowfishdb.errors import InvalidInput, TooLarge

LARGEST = 2**53
"""Whole numbers up to here are exact as floats, so that binning never rounds."""
LARGEST_EXPONENT = 400
"""Powers of ten beyond this are refused: a few characters such as 1e999999999 would fill the memory as a fraction."""


def exact(value: object, what: str, error: type[InvalidInput] = InvalidInput) -> Fraction:
    """The number as a fraction; text such as '1/3' and '0.1' is welcome, NaN and infinity are not."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or not isinstance(plain, int | float | str | Decimal | Fraction):
        raise error(f"{what} must be a number, not {value!r}")
    if isinstance(plain, str | Decimal) and _is_vast(plain):
        raise error(f"{what} must be a number below 1e{LARGEST_EXPONENT} in size")
    try:
        return Fraction(repr(plain)) if isinstance(plain, float) else Fraction(plain)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise error(f"{what} must be a finite number, not {value!r}") from None


def _is_vast(number: str | Decimal) -> bool:
    try:
        return abs(Decimal(number).adjusted()) > LARGEST_EXPONENT
    except InvalidOperation:
        # No plain decimal: perhaps a fraction such as 1/3, whose digits are all written out.
        return False


def whole(value: object, what: str, error: type[InvalidInput] = InvalidInput) -> int:
    """The number as an int; refuses fractions."""
    if type(value) is int:
        return value
    number = exact(value, what, error)
    if number.denominator != 1:
        raise error(f"{what} must be a whole number, not {show(number)}")
    return int(number)


def show(number: Fraction) -> str:
    """The shortest exact way to write the number: a decimal where one exists."""
    numerator, denominator = number.numerator, number.denominator
    places = _decimal_places(denominator)
    if places is None:
        return str(number)
    digits = f"{abs(numerator) * 10**places // denominator:0{places + 1}d}"
    sign = "-" if numerator < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else f"{sign}{digits}"


@functools.lru_cache(maxsize=1024)
def _decimal_places(denominator: int) -> int | None:
    """How many decimal places a fraction needs; None for more than 18. Many numbers share few denominators."""
    rest, twos, fives = denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    places = max(twos, fives)
    return places if rest == 1 and places <= 18 else None


def suggest(wrong: object, known: Iterable[object]) -> str:
    """A half-sentence that names the nearest known names, or lists a few."""
    names = {str(name): repr(name) if isinstance(name, str) else str(name) for name in known}
    near = difflib.get_close_matches(str(wrong), names, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(names[name] for name in near)}?"
    few = ", ".join([*names.values()][:8])
    return f"known are {few}{', ...' if len(names) > 8 else ''}" if few else "none is known"


Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[Any]

SAFE_SUM = 2**60
"""Totals of absolute values stay below this, so that no sum of a few such totals can wrap around in int64."""


def as_ints(values: object) -> Ints:
    """An int64 copy that nobody can write to; refuses anything that is not a whole number."""
    raw = np.asarray(values)
    if raw.size and raw.dtype.kind not in "iu":
        raise InvalidInput(f"whole numbers expected, not {raw.dtype}")
    array = np.array(raw, dtype=np.int64)
    array.setflags(write=False)
    return array


def total_weight(weights: Ints) -> int:
    """The sum of positive whole weights; refused where int64 arithmetic could not hold it."""
    if weights.size and int(weights.max()) * weights.size >= SAFE_SUM:
        check_sum("sum of weights", sum(weights.tolist()))
    return int(weights.sum())


def check_sum(what: str, total: int) -> None:
    """Refuses a total of absolute values that int64 arithmetic could not hold."""
    if total >= SAFE_SUM:
        raise TooLarge(what, total, SAFE_SUM, "Use smaller weights or fewer rows.")


def distinct(values: Ints) -> Ints:
    """The different values in increasing order; np.unique hashes, which takes many times as long here."""
    ordered = np.sort(np.asarray(values, dtype=np.int64), axis=None)
    return np.asarray(ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0], dtype=np.int64)


def row_major(places: Iterable[Ints], sizes: Iterable[int]) -> Ints:
    """The flat place of each combination of places along several axes; arrays broadcast, and without axes it is 0."""
    flat = np.zeros((), dtype=np.int64)
    for place, size in zip(places, sizes, strict=True):
        flat = flat * size + place
    return flat


def consecutive(starts: Ints | int, lengths: Ints) -> Ints:
    """start, start + 1, ... for each start as many numbers as its length says, one after the other."""
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths - starts, lengths)


def product_ends(numbers: list[Ints]) -> tuple[int, int]:
    """The least and the greatest product of one number from each list."""
    low, high = 1, 1
    for each in numbers:
        corners = [end * other for end in (low, high) for other in (int(each.min()), int(each.max()))]
        low, high = min(corners), max(corners)
    return low, high
