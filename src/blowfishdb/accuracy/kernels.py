"""Compiled loops that draw public noise and decode it; imported on first use, as the compiler loads slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

CELLS, PREFIXES, RANGES = 0, 1, 2

LANES = 16
"""Samples that are worked on side by side, so that the processor's wide registers are used."""
GROUPS = 4
WIDE = LANES * GROUPS
"""Each sample draws from this many generators in turn."""

STEP, HALVE, LOW, FAR, UP, TURN, BACK = (np.uint32(k) for k in (1, 1, 1, 9, 3, 21, 11))
MANTISSA, ONE, EXPONENT, BIAS = (np.int32(k) for k in (0x7FFFFF, 0x3F800000, 23, 127 + 31))
RARE = np.uint32(2**14)
"""A word below this gives a draw far out, and gets more digits."""
HALF, TWO, UNIT, LOG_TWO = (np.float32(x) for x in (0.5, 2.0, 1.0, np.log(2.0)))
WARM_UP = 16
GOLDEN = np.uint32(0x9E3779B9)


def _logarithm(degree: int) -> tuple[np.float32, ...]:
    """The polynomial in m - 3/2 that is log m on [1, 2) up to 10^-8."""
    at = np.cos(np.pi * (np.arange(200) + 0.5) / 200) / 2.0
    fitted = np.polynomial.Chebyshev.fit(at, np.log(at + 1.5), degree, domain=[-0.5, 0.5])
    return tuple(np.float32(c) for c in fitted.convert(kind=np.polynomial.Polynomial).coef)


C0, C1, C2, C3, C4, C5, C6, C7, C8, C9 = _logarithm(9)
CENTRE = np.float32(1.5)


@njit(cache=True)
def advance(a: Any, b: Any, c: Any, count: Any, words: Any) -> None:
    """One word from each generator: Doty-Humphrey's SFC32."""
    for i in range(WIDE):
        word = a[i] + b[i] + count[i]
        count[i] = count[i] + STEP
        a[i] = b[i] ^ (b[i] >> FAR)
        b[i] = c[i] + (c[i] << UP)
        c[i] = ((c[i] << TURN) | (c[i] >> BACK)) + word
        words[i] = word


@njit(cache=True)
def fill_laplace(seeds: Any, out: Any) -> None:
    """Fills `out` (variables in whole groups, by lanes) with standard Laplace draws, one row of seeds for each lane.

    A word has a sign and 31 digits u: the size is -log(u / 2^31), the logarithm by its exponent and a polynomial.
    """
    a, b, c = np.empty(WIDE, np.uint32), np.empty(WIDE, np.uint32), np.empty(WIDE, np.uint32)
    count, words = np.ones(WIDE, np.uint32), np.empty(WIDE, np.uint32)
    for group in range(GROUPS):
        for lane in range(LANES):
            a[group * LANES + lane] = np.uint32(seeds[lane, 0]) ^ (np.uint32(group) * GOLDEN)
            b[group * LANES + lane] = np.uint32(seeds[lane, 1])
            c[group * LANES + lane] = np.uint32(seeds[lane, 2])
    for _ in range(WARM_UP):
        advance(a, b, c, count, words)
    value, part = np.empty(WIDE, np.float32), np.empty(WIDE, np.float32)
    value_bits, part_bits = value.view(np.int32), part.view(np.int32)
    flat = out.reshape(-1)
    for start in range(0, flat.size, WIDE):
        advance(a, b, c, count, words)
        for i in range(WIDE):
            value[i] = np.float32(np.int32(words[i] >> HALVE)) + HALF
        for i in range(WIDE):
            part_bits[i] = (value_bits[i] & MANTISSA) | ONE
        row = flat[start : start + WIDE]
        for i in range(WIDE):
            m = part[i] - CENTRE
            log = C5 + m * (C6 + m * (C7 + m * (C8 + m * C9)))
            log = C0 + m * (C1 + m * (C2 + m * (C3 + m * (C4 + m * log))))
            log += np.float32((value_bits[i] >> EXPONENT) - BIAS) * LOG_TWO
            row[i] = log * (TWO * np.float32(np.int32(words[i] & LOW)) - UNIT)
        least = words[0]
        for i in range(WIDE):
            least = min(least, words[i])
        if least < RARE:
            for i in range(WIDE):
                if words[i] < RARE:
                    extra = a[i] ^ b[i] ^ c[i]
                    u = np.float64(words[i] >> HALVE) + (np.float64(extra) + 0.5) * 2.0**-32
                    row[i] = np.log(u * 2.0**-31) * (2.0 * np.float64(words[i] & LOW) - 1.0)
                    a[i] = a[i] + extra + STEP


@njit(cache=True)
def factor_chain(diagonal: Any, beside: Any) -> Any:
    """Multipliers and inverse pivots of the chain's tridiagonal system."""
    count = diagonal.size
    step, pivot = np.zeros(count), np.empty(count)
    pivot[0] = 1.0 / diagonal[0]
    for i in range(1, count):
        step[i] = beside[i - 1] * pivot[i - 1]
        pivot[i] = 1.0 / (diagonal[i] - step[i] * beside[i - 1])
    return step, pivot


@njit(cache=True)
def solve_blocks(own: Any, draw: Any, chain: Any, sum_variable: Any, final: Any) -> None:
    """The least-squares totals of the blocks into `final`, free totals being zero."""
    pull, beside, hold, free, linked, step, pivot, sum_scale = chain
    count = pull.size
    for i in range(count):
        variable = sum_variable[i]
        for k in range(LANES):
            right = 0.0
            if free[i]:
                right = pull[i] * own[i, k]
                if linked[i]:
                    right -= pull[i + 1] * own[i + 1, k]
                if variable >= 0:
                    right += hold[i] * draw[variable, k] * sum_scale[i]
            if i > 0:
                right -= step[i] * final[i - 1, k]
            final[i, k] = right
    for i in range(count - 1, -1, -1):
        for k in range(LANES):
            after = beside[i] * final[i + 1, k] if i + 1 < count else 0.0
            final[i, k] = (final[i, k] - after) * pivot[i]
    for i in range(count - 1, 0, -1):
        if linked[i - 1]:
            for k in range(LANES):
                final[i, k] -= final[i - 1, k]


@njit(cache=True)
def decode_largest(
    draw: Any, kind: Any, cells: Any, levels: Any, first: Any, nodes: Any, chain: Any, sum_variable: Any, work: Any
) -> Any:
    """The largest error that each lane of standard draws makes: a pass up, along the blocks, and down.

    `cells` holds the variable (or -1), scale and pull of each cell; `nodes` the same of each node, and its trust.
    """
    cell_variable, cell_scale, _ = cells
    node_variable, node_scale, trust, node_pull = nodes
    sums, own, final = work
    top = levels.size - 2
    whole, part = np.empty(LANES), np.empty(LANES, np.float32)
    for level in range(top + 1):
        for node in range(levels[level], levels[level + 1]):
            at = node + level
            for k in range(LANES):
                whole[k] = 0.0
                part[k] = 0.0
            if level == 0:
                for child in range(first[at], first[at + 1]):
                    variable = cell_variable[child]
                    if variable >= 0:
                        scale = cell_scale[child]
                        for k in range(LANES):
                            part[k] += draw[variable, k] * scale
                for k in range(LANES):
                    whole[k] = part[k]
            else:
                for child in range(levels[level - 1] + first[at], levels[level - 1] + first[at + 1]):
                    for k in range(LANES):
                        whole[k] += own[child, k]
            variable = node_variable[node]
            for k in range(LANES):
                sums[node, k] = whole[k]
                own[node, k] = whole[k]
            if variable >= 0:
                for k in range(LANES):
                    own[node, k] += trust[node] * (draw[variable, k] * node_scale[node] - whole[k])
    solve_blocks(own[levels[top] :], draw, chain, sum_variable, final[levels[top] :])
    for level in range(top, 0, -1):
        for node in range(levels[level], levels[level + 1]):
            at = node + level
            for child in range(levels[level - 1] + first[at], levels[level - 1] + first[at + 1]):
                for k in range(LANES):
                    final[child, k] = own[child, k] + node_pull[child] * (final[node, k] - sums[node, k])
    return largest_prefix(draw, kind, cells, levels[1], first, sums, final)


@njit(cache=True)
def largest_prefix(draw: Any, kind: Any, cells: Any, nodes: Any, first: Any, sums: Any, final: Any) -> Any:
    """The largest error of the cells, of the prefixes or of all ranges, in each lane."""
    cell_variable, cell_scale, cell_pull = cells
    most, least = np.zeros(LANES, np.float32), np.zeros(LANES, np.float32)
    prefix, gap = np.zeros(LANES, np.float32), np.empty(LANES, np.float32)
    before = np.zeros(LANES)
    kept = np.float32(0.0) if kind == CELLS else np.float32(1.0)
    for node in range(nodes):
        for k in range(LANES):
            gap[k] = final[node, k] - sums[node, k]
            prefix[k] = before[k]
            before[k] += kept * final[node, k]
        for child in range(first[node], first[node + 1]):
            variable, scale, pull = cell_variable[child], cell_scale[child], cell_pull[child]
            if variable < 0:
                variable, scale = 0, np.float32(0.0)
            for k in range(LANES):
                now = kept * prefix[k] + draw[variable, k] * scale + pull * gap[k]
                prefix[k] = now
                most[k] = now if now > most[k] else most[k]
                least[k] = now if now < least[k] else least[k]
    for k in range(LANES):
        before[k] = most[k] - least[k] if kind == RANGES else max(most[k], -least[k])
    return before


@njit(cache=True, nogil=True)
def largest_errors(
    seeds: Any, variables: Any, kind: Any, cells: Any, levels: Any, first: Any, nodes: Any, chain: Any, sums: Any
) -> Any:
    """For each row of seeds (whole lanes) the largest error of one sample of the noise."""
    largest = np.empty(seeds.shape[0])
    draw = np.empty((-(-variables // GROUPS) * GROUPS, LANES), dtype=np.float32)
    size = levels[-1]
    work = (np.empty((size, LANES)), np.empty((size, LANES)), np.empty((size, LANES)))
    for sample in range(0, seeds.shape[0], LANES):
        fill_laplace(seeds[sample : sample + LANES], draw)
        errors = decode_largest(draw, kind, cells, levels, first, nodes, chain, sums, work)
        for k in range(LANES):
            largest[sample + k] = errors[k]
    return largest
