"""The interval of each answer, as tight as what everybody knows about counts allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Floats


@dataclass(frozen=True, eq=False)
class Bounds:
    """The ends of an interval for each answer."""

    low: Floats
    high: Floats


def around(raw: Floats, widths: Floats | float) -> Bounds:
    """Raw answers plus and minus their half-widths."""
    return Bounds(raw - widths, raw + widths)


def of_counts(bounds: Bounds) -> Bounds:
    """The part of each interval that holds a count; an interval without one stays as it is."""
    return Bounds(np.where(bounds.high >= 0.0, np.maximum(bounds.low, 0.0), bounds.low), bounds.high)


def of_running_counts(bounds: Bounds, plain: int) -> Bounds:
    """Intervals that hold together, cut down to what running counts over the first `plain` answers can be.

    If all intervals hold, a running count is at least every earlier low end and at most every later high end; so the
    cut keeps the truth exactly when the intervals did. Where they contradict each other they stay as they are.
    """
    low, high = bounds.low.copy(), bounds.high.copy()
    low[:plain] = np.maximum.accumulate(low[:plain])
    high[:plain] = np.minimum.accumulate(high[:plain][::-1])[::-1]
    return bounds if np.any(low > high) else Bounds(low, high)
