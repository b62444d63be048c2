"""The compiled loop of proposals of quantiles; imported on first use, as the compiler loads slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def passed_on(weights: Any, lows: Any, highs: Any, gap: float, rate: float) -> Any:
    """For each interval t the sum over those before it of weights[p] * exp(-rate * distance), by sums alone.

    The distance is that of `gap` from the numbers of records that may lie between positions of p and of t, which are
    from lows[t] - highs[p] to highs[t] - lows[p]. As p grows there are first surely more records than the gap, then
    perhaps as many, then surely fewer. The last sum is kept by halves: from each place before the pivot up to the
    pivot, and from the pivot on.
    """
    count = weights.size
    result = np.zeros(count)
    halves = np.zeros(count + 1)
    far, near, pivot = 0, 0, 0
    more, anchor = 0.0, 0.0
    after = 0.0
    for t in range(1, count):
        while far < t and lows[t] - highs[far] > gap:
            more = more * np.exp(-rate * (highs[far] - anchor)) + weights[far]
            anchor = highs[far]
            far += 1
        total = more * np.exp(-rate * (lows[t] - gap - anchor)) if far > 0 else 0.0
        while near < t and highs[t] - lows[near] >= gap:
            near += 1
        for p in range(far, near):
            total += weights[p]
        if near > pivot or pivot == 0:
            pivot, after = t, 0.0
            halves[t] = 0.0
            for p in range(t - 1, near - 1, -1):
                following = halves[p + 1] * np.exp(-rate * (lows[p + 1] - lows[p])) if p + 1 < t else 0.0
                halves[p] = weights[p] + following
        else:
            after += weights[t - 1] * np.exp(-rate * (lows[t - 1] - lows[pivot]))
        if near < pivot:
            total += halves[near] * np.exp(-rate * (gap - highs[t] + lows[near]))
        if after > 0.0:
            total += after * np.exp(-rate * (gap - highs[t] + lows[pivot]))
        result[t] = total
    return result
