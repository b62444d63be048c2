"""The array types every room speaks, and exact integer guards."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blowfishdb.errors import InvalidInput, TooLarge

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
