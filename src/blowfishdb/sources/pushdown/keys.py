"""What one attribute contributes to the GROUP BY, and how what comes back becomes value codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.domain import Attribute
from blowfishdb.model.segments import Segments
from blowfishdb.sources.engine import Expr

Fetched: TypeAlias = Sequence[Sequence[object]]
Work: TypeAlias = Callable[[Sequence[Expr]], tuple[Expr, ...]]
CHOICE_LIMIT = 256
"""Edges that are compared one by one; a choice of 256 is eight comparisons deep."""
STEP_LIMIT = 2**16
"""Steps beyond which fewer, compared segments are grouped rather than the steps themselves."""
NUMBERS = {int, float, Decimal, type(None)}
"""What drivers give for numbers; numpy reads None as NaN."""


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
        found = _doubles(fetched[0])
        is_null = np.isnan(found)
        count = -(-attribute.size // firsts) if isinstance(firsts, int) else int(firsts.size)
        clamped = np.clip(np.where(is_null, origin, found), origin - 1, origin + count)
        number = clamped.astype(np.int64) - origin
        is_outside = ~is_null & ((number < 0) | (number >= count))
        inside = np.clip(number, 0, count - 1)
        index = inside * firsts if isinstance(firsts, int) else firsts[inside]
        index = np.where(number >= count, attribute.size - 1, index)
        return attribute.place((index.astype(np.int64), is_null, is_outside))

    return decode
