"""Values that never decrease, nearest to noisy prefix sums: isotonic regression, free or inside a band."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from blowfishdb.errors import InvalidInput
from blowfishdb.inference.checks import finite_vector, positive_weights, spread
from blowfishdb.inference.pooling import pool
from blowfishdb.model.arrays import Floats

COMPILE_ABOVE = 200_000
"""Values from which compiling the pooling loop (about a second, once) pays."""


def isotonic(values: ArrayLike, weights: ArrayLike | None = None, low: float = -np.inf, high: float = np.inf) -> Floats:
    """The nearest values (weighted squares) that never decrease, all between low and high.

    With the same bounds for all values, clipping the free solution is optimal.
    """
    vector = finite_vector(values, "values")
    if not low <= high:
        raise InvalidInput(f"the lower bound {low} is above the upper bound {high}")
    if vector.size == 0:
        return vector.copy()
    free: Floats = isotonic_regression(vector, weights=positive_weights(weights, vector.size)).x
    return np.clip(free, low, high)


def isotonic_in_band(values: ArrayLike, low: ArrayLike, high: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """The nearest values that never decrease with low <= value <= high, the bounds themselves never decreasing.

    Here clipping the free solution would not be optimal; see docs/proofs/consistency.md.
    """
    vector = finite_vector(values, "values")
    weight = positive_weights(weights, vector.size)
    floor, ceiling = spread(low, vector.size, "lower bounds"), spread(high, vector.size, "upper bounds")
    if not np.all(floor <= ceiling) or not (_never_decreases(floor) and _never_decreases(ceiling)):
        raise InvalidInput("the bounds of a band never decrease, and the lower one is never above the upper one")
    free = isotonic(vector, weight)
    if np.all(free >= floor) and np.all(free <= ceiling):
        return free
    work = _compiled_pool() if vector.size > COMPILE_ABOVE else pool
    return np.clip(work(vector, weight, floor, ceiling), floor, ceiling)


def _never_decreases(bounds: Floats) -> bool:
    return bool(np.all(bounds[1:] >= bounds[:-1]))


@cache
def _compiled_pool() -> Callable[[Floats, Floats, Floats, Floats], Floats]:
    from numba import njit

    compiled: Callable[[Floats, Floats, Floats, Floats], Floats] = njit(cache=True)(pool)
    return compiled
