"""Exact numbers from what people write: 0.1 means one tenth, whether it comes as text, float or Decimal."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from blowfishdb.errors import InvalidInput

LARGEST = 2**53
"""Whole numbers up to here are exact as floats, so that binning never rounds."""
LARGEST_EXPONENT = 400
"""Powers of ten beyond this are refused: a few characters such as 1e999999999 would fill the memory as a fraction."""


def exact(value: object, what: str, error: type[InvalidInput] = InvalidInput) -> Fraction:
    """The number as a fraction; text such as '1/3' and '0.1' is welcome, NaN and infinity are not."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, bool) or not isinstance(plain, int | float | str | Decimal | Fraction):
        raise error(f"{what} must be a number, not {value!r}")
    if isinstance(plain, str | Decimal) and _is_vast(plain):
        raise error(f"{what} must be a number below 1e{LARGEST_EXPONENT} in size")
    try:
        return Fraction(repr(plain)) if isinstance(plain, float) else Fraction(plain)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise error(f"{what} must be a finite number, not {value!r}") from None


def _is_vast(written: str | Decimal) -> bool:
    try:
        return abs(Decimal(written).adjusted()) > LARGEST_EXPONENT
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
    rest, twos, fives = number.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    places = max(twos, fives)
    if rest != 1 or places > 18:
        return str(number)
    digits = f"{abs(number.numerator) * 10**places // number.denominator:0{places + 1}d}"
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else f"{sign}{digits}"


def common_denominator(numbers: Iterable[Fraction]) -> int:
    """The least whole number that makes all of them whole."""
    return math.lcm(*(number.denominator for number in numbers))


def suggest(wrong: object, known: Iterable[object]) -> str:
    """A half-sentence that names the nearest known names, or lists a few."""
    names = [str(name) for name in known]
    near = difflib.get_close_matches(str(wrong), names, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    few = ", ".join(repr(name) for name in names[:8])
    return f"known are {few}{', ...' if len(names) > 8 else ''}" if few else "none is known"
