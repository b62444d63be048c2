"""The compiled loop along a chain; imported on first use, because the compiler takes a second to load."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def filter_and_smooth(own: Any, hold: Any, opens: Any, pinned: Any, links: Any) -> Any:
    """Variances of the running sums along a chain, and how much of each one the next one explains."""
    count = own.size
    filtered = np.empty(count)
    before = 0.0
    for i in range(count):
        ahead = own[i] if opens[i] else before + own[i]
        before = 0.0 if pinned[i] else ahead / (1.0 + ahead * hold[i])
        filtered[i] = before
    variance, gain = filtered.copy(), np.ones(count)
    for i in range(count - 2, -1, -1):
        if links[i]:
            gain[i] = filtered[i] / (filtered[i] + own[i + 1])
            variance[i] = filtered[i] * (1.0 - gain[i]) + gain[i] ** 2 * variance[i + 1]
    return variance, gain
