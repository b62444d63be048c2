"""The nearest point with a given total inside a box: raise or lower everything by one common level, then clip."""

from __future__ import annotations

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.arrays import Floats

ROUNDING = 1e-12
"""Relative rounding that sums of many floats may carry."""


def reaches(values: Floats, low: Floats, high: Floats, total: float) -> bool:
    """Whether some point between low and high has the given total, up to the rounding of sums."""
    slack = ROUNDING * (float(np.abs(values).sum()) + abs(total))
    return bool(low.sum() - slack <= total <= high.sum() + slack)


def fill_to_total(values: Floats, low: Floats, high: Floats, total: float, weights: Floats) -> Floats:
    """The minimiser of sum weight (x - value)^2 with low <= x <= high and the given sum.

    It is x_i = clip(value_i - level / weight_i), and its sum never grows with the level, so the level is found exactly
    between two neighbouring break points. Bounds may be infinite. Never leaves the box, not even by rounding.
    """
    if np.any(low > high) or not reaches(values, low, high, total):
        raise InvalidInput(f"no point of the box has the total {total}")
    level = _level(values, low, high, total, weights)
    filled = np.clip(values - level / weights, low, high)
    inner = (filled > low) & (filled < high)
    if np.any(inner):
        share = np.where(inner, 1.0 / weights, 0.0)
        filled = np.clip(filled + (total - filled.sum()) * (share / share.sum()), low, high)
    return filled


def _level(values: Floats, low: Floats, high: Floats, total: float, weights: Floats) -> float:
    """Where the clipped sum crosses the total. Cell i moves while level is between its two break points."""
    enter, leave = weights * (values - high), weights * (values - low)
    points = np.concatenate([enter, leave])
    slopes = np.concatenate([-1.0 / weights, 1.0 / weights])
    finite = np.isfinite(points)
    always = float((-1.0 / weights[np.isneginf(enter)]).sum())
    order = np.argsort(points[finite], kind="stable")
    breaks = points[finite][order]
    if breaks.size == 0:
        return float((values.sum() - total) / (1.0 / weights).sum())
    slope = always + np.cumsum(slopes[finite][order])
    first = float(np.clip(values - breaks[0] / weights, low, high).sum())
    sums = first + np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(breaks))])
    if total >= sums[0]:
        return float(breaks[0] + (total - sums[0]) / always) if always < 0.0 else float(breaks[0])
    place = int(np.searchsorted(-sums, -total, side="left"))
    if place == sums.size:
        return float(breaks[-1] + (total - sums[-1]) / slope[-1]) if slope[-1] < 0.0 else float(breaks[-1])
    before = place - 1
    return float(breaks[before] + (total - sums[before]) / slope[before])
