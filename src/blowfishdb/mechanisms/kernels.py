"""Compiled loops of the mechanisms; imported on first use, because the compiler takes a second to load."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

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


@njit(cache=True)
def decide(gains: Any) -> Any:
    """How far ahead each bucket's partner is, 0 where it is single or already taken.

    gains[i, k] is what joining bucket i with i + k + 1 gains, far below 0 where that is no candidate. best[t] is the
    greatest gain from bucket i on when t tells which of the buckets i, i + 1, ... are taken; the first of the equal
    choices stays.
    """
    buckets, near = gains.shape
    states = 1 << near
    following = np.zeros(states, dtype=np.int64)
    best = np.empty(states, dtype=np.int64)
    choice = np.zeros((buckets, states), dtype=np.int8)
    for bucket in range(buckets - 1, -1, -1):
        for taken in range(states):
            after = taken >> 1
            found, chosen = following[after], 0
            if not taken & 1:
                for ahead in range(1, near + 1):
                    bit = 1 << (ahead - 1)
                    if not after & bit:
                        total = gains[bucket, ahead - 1] + following[after | bit]
                        if total > found:
                            found, chosen = total, ahead
            best[taken], choice[bucket, taken] = found, chosen
        following, best = best, following
    steps = np.zeros(buckets, dtype=np.int64)
    taken = 0
    for bucket in range(buckets):
        ahead = choice[bucket, taken]
        steps[bucket] = ahead
        taken >>= 1
        if ahead:
            taken |= 1 << (ahead - 1)
    return steps
