"""The compiled completion of a lattice to its Graver basis; imported on first use, as the compiler loads slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def signs(vector: Any, width: int) -> Any:
    """The places of the positive and of the negative entries among the first ones, as bits."""
    up, down = 0, 0
    for i in range(width):
        if vector[i] > 0:
            up |= 1 << i
        elif vector[i] < 0:
            down |= 1 << i
    return up, down


@njit(cache=True)
def fits(element: Any, vector: Any, width: int) -> bool:
    """Whether no entry of the element, among the first ones, is larger than the vector's."""
    for i in range(width):  # noqa: SIM110 - the compiler knows no all() of a generator
        if abs(element[i]) > abs(vector[i]):
            return False
    return True


@njit(cache=True)
def subtract(vector: Any, basis: Any, plus: Any, minus: Any, count: int) -> int:
    """Subtracts elements that lie inside the vector, sign by sign, until none does; returns the elements looked at."""
    width = vector.size
    looked_at = 0
    while True:
        up, down = signs(vector, width)
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
            if sign != 0 and fits(basis[j], vector, width):
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
            basis[count] = vector
            plus[count], minus[count] = signs(vector, width)
            count += 1
    return basis[:count], work


@njit(cache=True)
def same_or_free(table: Any, basis: Any, vector: Any) -> int:
    """The slot that holds the vector, after its first entry other than 0 was made positive; or the free slot for it."""
    lead = 0
    for i in range(vector.size):
        if lead == 0 and vector[i] != 0:
            lead = 1 if vector[i] > 0 else -1
        vector[i] *= lead
    key = 0
    for i in range(vector.size):
        key = (key * 131 + int(vector[i]) + 64) % 2_147_483_629
    slot = key % table.size
    while table[slot] >= 0:
        same = True
        for i in range(vector.size):
            if basis[table[slot], i] != vector[i]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) % table.size
    return int(slot)


LARGEST = 63
"""Entries of elements; the sum of two then fits in 8 bits."""


@njit(cache=True)
def lifted(start: Any, most_elements: int, most_work: int) -> Any:
    """The Graver basis of the lattice that the rows (identity, then more) span; and the work, -1 if too much.

    One entry after the other: `start` is the basis in the first entries, and pairs of elements that agree in sign there
    and differ in the next entry lead to the basis with that entry (proof: docs/proofs/constraints.md).
    """
    count, width = start.shape
    basis = np.zeros((most_elements, width), dtype=np.int8)
    plus, minus = np.zeros(most_elements, dtype=np.int64), np.zeros(most_elements, dtype=np.int64)
    table = np.zeros(4 * most_elements, dtype=np.int64)
    # Elements that lay inside a sum lately come first: they often lie inside the next one.
    lately = np.zeros(64, dtype=np.int64)
    basis[:count] = start
    vector = np.zeros(width, dtype=np.int8)
    work = 0
    for place in range(count, width):
        norms = np.zeros(count, dtype=np.int64)
        for i in range(place):
            norms += np.abs(basis[:count, i])
        order = np.argsort(norms, kind="mergesort")
        basis[:count] = basis[:count][order]
        highest = norms[order[-1]]
        for element in range(count):
            plus[element], minus[element] = signs(basis[element], place + 1)
        # Elements of norm n: the lifted ones from given[n] to given[n + 1], the new ones from fresh[n] to fresh[n + 1].
        lifts, longest = count, LARGEST * width
        given, fresh = np.zeros(longest + 2, dtype=np.int64), np.full(longest + 2, count, dtype=np.int64)
        for element in range(count):
            given[norms[element] + 1] += 1
        given = np.cumsum(given)
        table[:] = -1
        for element in range(count):
            table[same_or_free(table, basis, basis[element])] = element
        lately[:] = 0
        bit = 1 << place
        norm = 2
        while norm <= 2 * highest:
            fresh[norm] = count
            half = norm // 2
            for shorter in range(1, half + 1):
                longer = norm - shorter
                for pairing in range(4):
                    one, two = (given, fresh)[pairing // 2], (given, fresh)[pairing % 2]
                    for first in range(one[shorter], one[shorter + 1]):
                        if (plus[first] | minus[first]) & bit == 0:
                            continue
                        begin = max(two[longer], first + 1) if shorter == longer else two[longer]
                        work += two[longer + 1] - begin
                        for second in range(begin, two[longer + 1]):
                            across = (plus[first] & minus[second]) | (minus[first] & plus[second])
                            along = (plus[first] & plus[second]) | (minus[first] & minus[second])
                            if across == bit:
                                sign = 1
                            elif along == bit:
                                sign = -1
                            else:
                                continue
                            for i in range(width):
                                vector[i] = basis[first, i] + sign * basis[second, i]
                                if abs(vector[i]) > LARGEST:
                                    return basis[:count], -1
                            up, down = signs(vector, place + 1)
                            inside = False
                            for turn in range(lately.size):
                                work += 1
                                element = lately[turn]
                                same = (plus[element] & ~up) | (minus[element] & ~down)
                                other = (minus[element] & ~up) | (plus[element] & ~down)
                                if (same == 0 or other == 0) and fits(basis[element], vector, place + 1):
                                    inside = True
                                    lately[turn], lately[turn // 2] = lately[turn // 2], element
                                    break
                            for part in range(2):
                                if inside:
                                    break
                                for element in range((0, lifts)[part], (given[half + 1], fresh[half + 1])[part]):
                                    work += 1
                                    same = (plus[element] & ~up) | (minus[element] & ~down)
                                    other = (minus[element] & ~up) | (plus[element] & ~down)
                                    if (same == 0 or other == 0) and fits(basis[element], vector, place + 1):
                                        inside = True
                                        lately[lately.size - 1] = element
                                        break
                            if inside:
                                continue
                            if count == most_elements:
                                return basis[:count], -1
                            slot = same_or_free(table, basis, vector)
                            if table[slot] >= 0:
                                continue
                            table[slot] = count
                            basis[count] = vector
                            plus[count], minus[count] = signs(basis[count], place + 1)
                            count += 1
                            highest = max(highest, norm)
                        if work > most_work:
                            return basis[:count], -1
            fresh[norm + 1] = count
            norm += 1
    return basis[:count], work
