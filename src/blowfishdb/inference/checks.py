"""Checked input for inference: finite vectors, positive weights, half-widths."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from blowfishdb.errors import InvalidInput
from blowfishdb.model.arrays import Floats


def finite_vector(values: ArrayLike, what: str) -> Floats:
    """The values as a float64 vector."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not np.all(np.isfinite(vector)):
        raise InvalidInput(f"{what} are a vector of finite numbers")
    return vector


def positive_weights(weights: ArrayLike | None, size: int) -> Floats:
    """One positive finite weight for each value; 1 when none are given."""
    if weights is None:
        return np.ones(size)
    vector = spread(weights, size, "weights")
    if not np.all(np.isfinite(vector)) or np.any(vector <= 0.0):
        raise InvalidInput("weights are positive and finite")
    return vector


def half_widths(widths: ArrayLike, size: int) -> Floats:
    """One half-width for each value: 0 for an exact answer, infinite for one without an interval."""
    vector = spread(widths, size, "half-widths")
    if np.any(np.isnan(vector)) or np.any(vector < 0.0):
        raise InvalidInput("half-widths of intervals are not negative")
    return vector


def spread(values: ArrayLike, size: int, what: str) -> Floats:
    """One number for each value, from a vector or one number for all."""
    given = np.asarray(values, dtype=np.float64)
    if given.shape not in ((), (size,)):
        raise InvalidInput(f"{what} are one number or {size} of them, not shape {given.shape}")
    return np.broadcast_to(given, (size,))
