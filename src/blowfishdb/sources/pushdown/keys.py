"""What one attribute contributes to the GROUP BY, and how what comes back becomes value codes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from blowfishdb.model.domain import Attribute
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import LARGEST, Floats, Ints
from blowfishdb.sources.base import Expr, function


def floor(number: Expr) -> Expr:
    """The double rounded down, still a double: Ibis' own floor casts, and a cast may fail."""
    return function("floor", "float64")(number)


def null_flag(value: Expr) -> Expr:
    """1 where the value is NULL, else 0; not every engine can cast a truth value."""
    import ibis

    return ibis.cases((value.isnull(), ibis.literal(1, "int64")), else_=ibis.literal(0, "int64"))


def whole_double(number: int) -> Expr:
    """A whole number up to 2^53 as a double; as an integer it is read exactly by every parser."""
    import ibis

    return ibis.literal(number, "int64").cast("float64")


def exact_double(number: Fraction) -> Expr:
    """The double nearest to the number.

    Parsers of decimal literals do not all round correctly, and some read 0.1 as a decimal. A quotient of two exact
    doubles is correctly rounded by IEEE arithmetic, and so is a product with powers of two.
    """
    if abs(number.numerator) <= LARGEST and number.denominator <= LARGEST:
        whole = whole_double(number.numerator)
        return whole if number.denominator == 1 else whole / whole_double(number.denominator)
    return _scaled(float(number))


def _scaled(number: float) -> Expr:
    mantissa, exponent = math.frexp(number)
    result, exponent = whole_double(int(mantissa * 2**53)), exponent - 53
    while exponent:
        step = min(abs(exponent), 52)
        power = whole_double(2**step)
        result = result * power if exponent > 0 else result / power
        exponent += -step if exponent > 0 else step
    return result


def choice(number: Expr, edges: Sequence[Expr], values: Sequence[int]) -> Expr:
    """values[i], where i of the increasing edges lie at or below the number; compares log2 times."""
    import ibis

    if not edges:
        return ibis.literal(values[0], "int64")
    middle = len(edges) // 2
    low = choice(number, edges[:middle], values[: middle + 1])
    high = choice(number, edges[middle + 1 :], values[middle + 1 :])
    return ibis.cases((number < edges[middle], low), else_=high)


Fetched: TypeAlias = Sequence[Sequence[object]]
Work: TypeAlias = Callable[[Sequence[Expr]], tuple[Expr, ...]]
CHOICE_LIMIT = 256
"""Edges that are compared one by one; a choice of 256 is eight comparisons deep."""
STEP_LIMIT = 2**16
"""Steps beyond which fewer, compared segments are grouped rather than the steps themselves."""
NUMBERS = {int, float, Decimal, type(None)}
"""What drivers give for numbers; numpy reads None as NaN."""


@dataclass(frozen=True)
class Line:
    """A column that compares like its declared values: the edge at each index, and whether it can be NaN."""

    value: Expr
    edge: Callable[[int], Expr]
    nan: bool = False


@dataclass(frozen=True)
class Key:
    """Columns of rows, what they are grouped by, what is made of the groups, and their reading in the proxy.

    `place` makes what the rows are grouped by, the columns themselves where it is None; its inputs are worked out once.
    `finish` runs on groups, not on rows: it keeps values beyond the declared ones from travelling.
    """

    columns: tuple[Expr, ...]
    decode: Callable[[Fetched], Ints]
    finish: Work | None = None
    fetched: int = 1
    """How many columns come back."""
    place: Work | None = None


def raw_key(attribute: Attribute, column: Expr) -> Key:
    """Groups by the values as they are; the proxy reads them."""
    return Key((column,), lambda fetched: attribute.encode(as_objects(fetched[0])))


def as_objects(values: Sequence[object]) -> object:
    """A column of Python objects."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _doubles(values: Sequence[object]) -> Floats:
    """A column of numbers as doubles; whatever is no number is NaN."""
    if not set(map(type, values)) <= NUMBERS:
        values = [value if isinstance(value, int | float | Decimal) else None for value in values]
    return np.array(values, dtype=np.float64)


def segment_decoder(cut: Segments) -> Callable[[Fetched], Ints]:
    """Reads numbers of segments: -1 lies below the first, the number of segments above the last, NULL is NULL."""
    return step_decoder(cut.attribute, cut.starts, 0)


def step_decoder(attribute: Attribute, firsts: Ints | int, origin: int) -> Callable[[Fetched], Ints]:
    """Reads numbers of steps from `origin` on, given the first value of each step, or how many values each has."""

    def decode(fetched: Fetched) -> Ints:
        steps = _doubles(fetched[0])
        is_null = np.isnan(steps)
        count = -(-attribute.size // firsts) if isinstance(firsts, int) else int(firsts.size)
        clamped = np.clip(np.where(is_null, origin, steps), origin - 1, origin + count)
        number = clamped.astype(np.int64) - origin
        is_outside = ~is_null & ((number < 0) | (number >= count))
        inside = np.clip(number, 0, count - 1)
        index = inside * firsts if isinstance(firsts, int) else firsts[inside]
        index = np.where(number >= count, attribute.size - 1, index)
        return attribute.place((index.astype(np.int64), is_null, is_outside))

    return decode
