"""Compiled loops of the baselines; imported on first use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

FLOOR = 1e-100
LARGEST_STEP = 50.0
ROUNDED = 1e-9
"""A part of the total that rounding may have changed."""


@njit(cache=True)
def reweigh(cells: Any, low: Any, high: Any, measured: Any, total: float, times: int) -> None:
    """Multiplicative updates towards every measured range in turn, `times` over, keeping the total.

    One number stands for the common factor of all cells, so that an update touches its range only. Cells have a floor,
    because arithmetic on vanishing numbers is a hundred times slower. A total that noise has made small would make
    updates overflow: each has a bound, and the common factor is multiplied out while it is a number.
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
            grown = (max(total - inside, 0.0) + factor * inside) / total
            common /= grown
            if grown < ROUNDED or not FLOOR < common < 1.0 / FLOOR or query == low.size - 1:
                # By the sum itself, which rounding may have moved.
                common = total / max(cells.sum(), FLOOR)
                for place in range(cells.size):
                    cells[place] = max(cells[place] * common, FLOOR)
                common = 1.0


@njit(cache=True)
def deviations_of_heads(counts: Any) -> Any:
    """For each length the sum of |count - mean| over the first that many counts."""
    sums = np.zeros(counts.size)
    running = 0.0
    for last in range(counts.size):
        running += counts[last]
        mean = running / (last + 1)
        summed = 0.0
        for place in range(last + 1):
            summed += abs(counts[place] - mean)
        sums[last] = summed
    return sums


@njit(cache=True)
def best_heads(sums: Any, squares: Any, buckets: int) -> Any:
    """The least summed squared deviation of the first `end` cells in bucket + 1 buckets, at [bucket, end]."""
    size = sums.size - 1
    least_of = np.full((buckets, size + 1), np.iinfo(np.int64).max // 4)
    spread = np.empty(size, dtype=np.int64)
    for end in range(1, size + 1):
        for start in range(end):
            inside = sums[end] - sums[start]
            spread[start] = squares[end] - squares[start] - inside * inside // (end - start)
        least_of[0, end] = spread[0]
        for bucket in range(1, min(buckets, end)):
            above = least_of[bucket - 1]
            least = least_of[bucket, end]
            for start in range(bucket, end):
                least = min(least, above[start] + spread[start])
            least_of[bucket, end] = least
    return least_of


SHORT = 32
"""Windows up to this long are read cell by cell; longer ones through running counts and sums by rank."""


@njit(cache=True)
def on_grid(total: int, length: int, below: int, below_sum: int, grid: int) -> int:
    """grid times the sum of |x - mean|, rounded half up, from the cells below the mean: their number and their sum.

    The sum is 2 (below x mean - below_sum); whole and fractional part of the mean apart keep products small.
    """
    whole, part = total // length, total % length
    return 2 * grid * (below * whole - below_sum) + (4 * grid * below * part + length) // (2 * length)


@njit(cache=True)
def add(counts: Any, sums: Any, rank: int, one: int, value: int) -> None:
    """Adds a cell to the running counts and sums by rank (Fenwick trees), or with one = -1 takes it away."""
    place = rank + 1
    while place < counts.size:
        counts[place] += one
        sums[place] += value
        place += place & -place


@njit(cache=True)
def before(counts: Any, sums: Any, ranks: int) -> Any:
    """How many cells have one of the first `ranks` ranks, and their sum."""
    count, total = 0, 0
    place = ranks
    while place > 0:
        count += counts[place]
        total += sums[place]
        place -= place & -place
    return count, total


@njit(cache=True)
def ranks_below(values: Any, total: int, length: int) -> int:
    """How many of the sorted distinct values are below total / length."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] * length < total:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def short_costs(cells: Any, length: int, step: int, grid: int, out: Any) -> None:
    """The costs of windows of a short length that start at multiples of the step."""
    for item in range(out.size):
        start = item * step
        total = 0
        for cell in range(start, start + length):
            total += cells[cell]
        below, below_sum = 0, 0
        for cell in range(start, start + length):
            if cells[cell] * length < total:
                below += 1
                below_sum += cells[cell]
        out[item] = on_grid(total, length, below, below_sum, grid)


@njit(cache=True)
def sliding_costs(cells: Any, rank: Any, values: Any, length: int, step: int, grid: int, out: Any) -> None:
    """The costs of windows of any length that start at multiples of the step, O(log n) for each cell they pass."""
    counts = np.zeros(values.size + 1, dtype=np.int64)
    sums = np.zeros(values.size + 1, dtype=np.int64)
    total, first, last = 0, 0, 0
    for item in range(out.size):
        start = item * step
        while last < start + length:
            add(counts, sums, rank[last], 1, cells[last])
            total += cells[last]
            last += 1
        while first < start:
            add(counts, sums, rank[first], -1, -cells[first])
            total -= cells[first]
            first += 1
        below, below_sum = before(counts, sums, ranks_below(values, total, length))
        out[item] = on_grid(total, length, below, below_sum, grid)


@njit(cache=True)
def fill_costs(cells: Any, rank: Any, values: Any, lengths: Any, steps: Any, offsets: Any, grid: int, out: Any) -> None:
    """The costs of all windows of the given lengths and steps, one length after the other."""
    for place in range(lengths.size):
        part = out[offsets[place] : offsets[place + 1]]
        if lengths[place] == 1:
            part[:] = 0
        elif lengths[place] <= SHORT:
            short_costs(cells, lengths[place], steps[place], grid, part)
        else:
            sliding_costs(cells, rank, values, lengths[place], steps[place], grid, part)


@njit(cache=True)
def fill_all_costs(cells: Any, rank: Any, values: Any, offsets: Any, grid: int, out: Any) -> None:
    """The costs of all intervals: those of length L from offsets[L - 1] on, by their first cell."""
    size = cells.size
    for start in range(size):
        counts = np.zeros(values.size + 1, dtype=np.int64)
        sums = np.zeros(values.size + 1, dtype=np.int64)
        total = 0
        for last in range(start, size):
            add(counts, sums, rank[last], 1, cells[last])
            total += cells[last]
            length = last - start + 1
            below, below_sum = before(counts, sums, ranks_below(values, total, length))
            out[offsets[length - 1] + start] = on_grid(total, length, below, below_sum, grid)


@njit(cache=True)
def least_partition(size: int, lengths: Any, steps: Any, offsets: Any, scores: Any) -> Any:
    """The first cells of the buckets of the least total score; ties go to the shortest last bucket."""
    best = np.empty(size + 1, dtype=np.int64)
    last = np.empty(size + 1, dtype=np.int64)
    best[0] = 0
    for end in range(1, size + 1):
        best[end] = best[end - 1] + scores[offsets[0] + end - 1]
        last[end] = 1
        for place in range(1, lengths.size):
            length = lengths[place]
            if length > end:
                break
            start = end - length
            if start % steps[place] == 0:
                score = best[start] + scores[offsets[place] + start // steps[place]]
                if score < best[end]:
                    best[end] = score
                    last[end] = length
    is_start = np.zeros(size, dtype=np.bool_)
    end = size
    while end > 0:
        end -= last[end]
        is_start[end] = True
    return np.flatnonzero(is_start)
