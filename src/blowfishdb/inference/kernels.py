"""Loops that callers compile for long inputs: isotonic regression in a band, and variances along a chain."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from blowfishdb.model.numbers import Floats


@cache
def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop through the compiler, which takes about a second to load and once to compile."""
    from numba import njit

    made: Callable[..., Any] = njit(cache=True)(loop)
    return made


def pool(values: Floats, low: Floats, high: Floats) -> Floats:
    """Isotonic regression with bounds that never decrease, by pooling adjacent violators.

    A block's best level is its mean, clipped between the low of its last and the high of its first value: the only
    bounds that matter, since bounds never decrease. Merging keeps that interval non-empty.
    """
    size = values.size
    start = np.empty(size, dtype=np.int64)
    weight, mean, level = np.empty(size), np.empty(size), np.empty(size)
    blocks = 0
    for i in range(size):
        start[blocks] = i
        weight[blocks], mean[blocks] = 1.0, values[i]
        level[blocks] = min(max(values[i], low[i]), high[i])
        while blocks > 0 and level[blocks - 1] > level[blocks]:
            blocks -= 1
            both = weight[blocks] + weight[blocks + 1]
            mean[blocks] += (mean[blocks + 1] - mean[blocks]) * (weight[blocks + 1] / both)
            weight[blocks] = both
            level[blocks] = min(max(mean[blocks], low[i]), high[start[blocks]])
        blocks += 1
    result = np.empty(size)
    for b in range(blocks):
        end = start[b + 1] if b + 1 < blocks else size
        for i in range(start[b], end):
            result[i] = level[b]
    return result


def filter_and_smooth(below: Any, hold: Any, opens: Any, pinned: Any, links: Any, variance: Any, gain: Any) -> None:
    """Variances of the running sums along a chain, and how much of each one the next one explains (from 1s).

    All are lists, which plain Python reads fastest, or arrays, for the compiler.
    """
    before = 0.0
    for i in range(len(below)):
        ahead = (0.0 if opens[i] else before) + below[i]
        before = 0.0 if pinned[i] else ahead / (1.0 + ahead * hold[i])
        variance[i] = before
    for i in range(len(below) - 2, -1, -1):
        if links[i]:
            filtered = variance[i]
            gain[i] = filtered / (filtered + below[i + 1])
            variance[i] = filtered * (1.0 - gain[i]) + gain[i] ** 2 * variance[i + 1]
