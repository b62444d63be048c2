"""Histograms without negative counts, their total kept."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from blowfishdb.errors import InvalidInput
from blowfishdb.inference.checks import finite_vector
from blowfishdb.inference.water_filling import fill_to_total
from blowfishdb.model.arrays import Floats


def nonnegative(values: ArrayLike, total: float | None = None) -> Floats:
    """The nearest counts >= 0 with the given total; without one, with the values' own total.

    A negative sum of values has no such counts; the total is then taken as 0. This projection knows no intervals and
    can double the largest error: for answers with a guarantee use `consistent_histogram`.
    """
    vector = finite_vector(values, "counts")
    aim = max(0.0, float(vector.sum())) if total is None else float(total)
    if not math.isfinite(aim) or aim < 0.0:
        raise InvalidInput(f"the total of counts is finite and not negative, not {aim}")
    if vector.size == 0:
        if aim != 0.0:
            raise InvalidInput("no counts can only have the total 0")
        return vector.copy()
    none, ones = np.zeros(vector.size), np.ones(vector.size)
    return fill_to_total(vector, none, np.inf * ones, aim, ones)
