"""The compiled completion of a lattice to its Graver basis; imported on first use, as the compiler loads slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def subtract(vector: Any, basis: Any, plus: Any, minus: Any, count: int) -> int:
    """Subtracts elements that lie inside the vector, sign by sign, until none does; returns the elements looked at."""
    width = vector.size
    looked_at = 0
    while True:
        up, down = 0, 0
        for i in range(width):
            if vector[i] > 0:
                up |= 1 << i
            elif vector[i] < 0:
                down |= 1 << i
        if up == 0 and down == 0:
            return looked_at
        is_reduced = False
        for j in range(count):
            looked_at += 1
            sign = 0
            if (plus[j] & ~up) == 0 and (minus[j] & ~down) == 0:
                sign = 1
            elif (minus[j] & ~up) == 0 and (plus[j] & ~down) == 0:
                sign = -1
            if sign == 0:
                continue
            inside = True
            for i in range(width):
                if abs(basis[j, i]) > abs(vector[i]):
                    inside = False
                    break
            if inside:
                for i in range(width):
                    vector[i] -= sign * basis[j, i]
                is_reduced = True
                break
        if not is_reduced:
            return looked_at


@njit(cache=True)
def completed(start: Any, most_elements: int, most_work: int) -> Any:
    """Elements such that every sum of two falls apart into elements, up to sign; and the work, -1 if too much."""
    width = start.shape[1]
    basis = np.zeros((most_elements, width), dtype=np.int64)
    plus, minus = np.zeros(most_elements, dtype=np.int64), np.zeros(most_elements, dtype=np.int64)
    count, work = 0, 0
    vector = np.zeros(width, dtype=np.int64)
    first, second, sign = -start.shape[0], 0, 1
    while first < count:
        # Negative places stand for the given vectors, then come sums and differences of every pair of elements.
        if first < 0:
            vector[:] = start[first + start.shape[0]]
            first += 1
        else:
            if second >= first:
                first, second, sign = first + 1, 0, 1
                continue
            for i in range(width):
                vector[i] = basis[first, i] + sign * basis[second, i]
            if sign == 1:
                sign = -1
            else:
                second, sign = second + 1, 1
        work += 1 + subtract(vector, basis, plus, minus, count)
        if work > most_work:
            return basis[:count], -1
        if np.any(vector):
            if count == most_elements:
                return basis[:count], -1
            for i in range(width):
                basis[count, i] = vector[i]
                if vector[i] > 0:
                    plus[count] |= 1 << i
                elif vector[i] < 0:
                    minus[count] |= 1 << i
            count += 1
    return basis[:count], work
