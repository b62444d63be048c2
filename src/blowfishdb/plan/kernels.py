"""The compiled kernel of the window sweep; imported on first use, because the compiler takes a second to load."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def add(top: Any, lazy: Any, leaves: int, low: int, high: int, amount: int) -> None:
    """Adds to the entries low..high-1 of a max tree that keeps pending additions at inner nodes."""
    left, right = low + leaves, high + leaves
    first, last = left, right - 1
    while left < right:
        if left & 1:
            top[left] += amount
            lazy[left] += amount
            left += 1
        if right & 1:
            right -= 1
            top[right] += amount
            lazy[right] += amount
        left >>= 1
        right >>= 1
    for node in (first, last):
        node >>= 1
        while node:
            top[node] = max(top[2 * node], top[2 * node + 1]) + lazy[node]
            node >>= 1


@njit(cache=True)
def largest(top: Any, lazy: Any, leaves: int, low: int, high: int) -> Any:
    """The maximum over the entries low..high-1, climbing so that each pending addition counts once."""
    left, right = low + leaves, high - 1 + leaves
    best_left, best_right = top[left], top[right]
    while left >> 1 != right >> 1:
        if not left & 1:
            best_left = max(best_left, top[left + 1])
        if right & 1:
            best_right = max(best_right, top[right - 1])
        left >>= 1
        right >>= 1
        best_left += lazy[left]
        best_right += lazy[right]
    best = max(best_left, best_right)
    left >>= 1
    while left:
        best += lazy[left]
        left >>= 1
    return best


@njit(cache=True)
def sweep(cover: Any, reach: Any, low: Any, high: Any, weight: Any, by_start: Any, by_end: Any) -> Any:
    size = cover.size
    leaves = 1
    while leaves < size:
        leaves *= 2
    top = np.full(2 * leaves, -(2**61), dtype=np.int64)
    lazy = np.zeros(2 * leaves, dtype=np.int64)
    top[leaves : leaves + size] = cover
    for node in range(leaves - 1, 0, -1):
        top[node] = max(top[2 * node], top[2 * node + 1])
    best, best_cell = -1, -1
    window_start, next_start, next_end = 0, 0, 0
    for cell in range(size):
        while next_end < low.size and high[by_end[next_end]] <= cell:
            gone = by_end[next_end]
            add(top, lazy, leaves, low[gone], high[gone], 2 * weight[gone])
            next_end += 1
        while next_start < low.size and low[by_start[next_start]] <= cell:
            new = by_start[next_start]
            add(top, lazy, leaves, low[new], high[new], -2 * weight[new])
            next_start += 1
        while reach[window_start] < cell and window_start < cell:
            window_start += 1
        if window_start < cell:
            loss = cover[cell] + largest(top, lazy, leaves, window_start, cell)
            if loss > best:
                best, best_cell = loss, cell
    return best, best_cell
