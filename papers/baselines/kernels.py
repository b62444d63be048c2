"""Compiled loops of the baselines; imported on first use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

FLOOR = 1e-100
LARGEST_STEP = 50.0


@njit(cache=True)
def reweigh(cells: Any, low: Any, high: Any, measured: Any, total: float, times: int) -> None:
    """Multiplicative updates towards every measured range in turn, `times` over, keeping the total.

    One number stands for the common factor of all cells, so that an update touches its range only. Cells have a floor,
    because arithmetic on vanishing numbers is a hundred times slower, and one update a bound, because a total that
    noise has made small would make it overflow.
    """
    for _ in range(times):
        common = 1.0
        for query in range(low.size):
            inside = 0.0
            for place in range(low[query], high[query]):
                inside += cells[place]
            inside *= common
            factor = np.exp(min(max((measured[query] - inside) / (2.0 * total), -LARGEST_STEP), LARGEST_STEP))
            for place in range(low[query], high[query]):
                cells[place] *= factor
            common *= total / (total + (factor - 1.0) * inside)
        for place in range(cells.size):
            cells[place] = max(cells[place] * common, FLOOR)


@njit(cache=True)
def deviations_of_heads(counts: Any) -> Any:
    """For each length the sum of |count - mean| over the first that many counts."""
    found = np.zeros(counts.size)
    running = 0.0
    for last in range(counts.size):
        running += counts[last]
        mean = running / (last + 1)
        summed = 0.0
        for place in range(last + 1):
            summed += abs(counts[place] - mean)
        found[last] = summed
    return found


@njit(cache=True)
def best_heads(sums: Any, squares: Any, buckets: int) -> Any:
    """The least summed squared deviation of the first `end` cells in bucket + 1 buckets, at [bucket, end]."""
    size = sums.size - 1
    found = np.full((buckets, size + 1), np.iinfo(np.int64).max // 4)
    spread = np.empty(size, dtype=np.int64)
    for end in range(1, size + 1):
        for start in range(end):
            inside = sums[end] - sums[start]
            spread[start] = squares[end] - squares[start] - inside * inside // (end - start)
        found[0, end] = spread[0]
        for bucket in range(1, min(buckets, end)):
            above = found[bucket - 1]
            least = found[bucket, end]
            for start in range(bucket, end):
                least = min(least, above[start] + spread[start])
            found[bucket, end] = least
    return found
