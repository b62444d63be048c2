"""The compiled loops that draw public noise and decode it; imported on first use, as the compiler takes a second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

CELLS, PREFIXES, RANGES = 0, 1, 2

LAYERS = 256
TAIL = 7.69711747013104972
AREA = 0.0039496598225815571993
"""The exponential density cut into layers of equal area: where the tail starts, and the area of each."""


def _layers() -> Any:
    edges = np.zeros(LAYERS + 1)
    edges[0], edges[1] = AREA * np.exp(TAIL), TAIL
    for i in range(1, LAYERS - 1):
        edges[i + 1] = -np.log(AREA / edges[i] + np.exp(-edges[i]))
    return edges


EDGES = _layers()
HEIGHTS = np.exp(-EDGES)
STEP = np.uint64(1)
FAR, UP, TURN, BACK = np.uint64(11), np.uint64(3), np.uint64(24), np.uint64(40)
LAYER, SIGN, FRACTION = np.uint64(LAYERS - 1), np.uint64(LAYERS), np.uint64(12)
UNIT = 2.0**-52


@njit(cache=True)
def fill_laplace(seed: Any, out: Any) -> None:
    """Fills `out` with standard Laplace draws: layers of the exponential density, a sign, and a small fast generator.

    The generator is Doty-Humphrey's SFC64; each sample has a seed of its own.
    """
    a, b, c, count = seed[0], seed[1], seed[2], STEP
    for place in range(-12, out.size):
        size = -1.0
        word = STEP
        while size < 0.0:
            word = a + b + count
            count += STEP
            a = b ^ (b >> FAR)
            b = c + (c << UP)
            c = ((c << TURN) | (c >> BACK)) + word
            layer = np.int64(word & LAYER)
            size = np.float64(word >> FRACTION) * UNIT * EDGES[layer]
            if size >= EDGES[layer + 1]:
                again = a + b + count
                count += STEP
                a = b ^ (b >> FAR)
                b = c + (c << UP)
                c = ((c << TURN) | (c >> BACK)) + again
                chance = (np.float64(again >> FRACTION) + 0.5) * UNIT
                if layer == 0:
                    size = TAIL - np.log(chance)
                elif HEIGHTS[layer] + chance * (HEIGHTS[layer + 1] - HEIGHTS[layer]) >= np.exp(-size):
                    size = -1.0
        if place >= 0:
            out[place] = size if word & SIGN else -size


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
    count = own.size
    for i in range(count):
        right = 0.0
        if free[i]:
            right = pull[i] * own[i]
            if linked[i]:
                right -= pull[i + 1] * own[i + 1]
            if sum_variable[i] >= 0:
                right += hold[i] * draw[sum_variable[i]] * sum_scale[i]
        if i > 0:
            right -= step[i] * final[i - 1]
        final[i] = right
    final[count - 1] *= pivot[count - 1]
    for i in range(count - 2, -1, -1):
        final[i] = (final[i] - beside[i] * final[i + 1]) * pivot[i]
    for i in range(count - 1, 0, -1):
        if linked[i - 1]:
            final[i] -= final[i - 1]


@njit(cache=True)
def decode_largest(
    draw: Any, kind: Any, cells: Any, levels: Any, first: Any, nodes: Any, chain: Any, sum_variable: Any, work: Any
) -> Any:
    """The largest error that one vector of standard draws makes: a pass up, along the blocks, and down.

    `cells` holds the cells with noise (none: all of them), scale and pull of each cell; `nodes` the variable (or -1),
    scale, trust and pull of each node.
    """
    noisy, cell_scale, cell_pull = cells
    node_variable, node_scale, trust, node_pull = nodes
    sums, own, final, spread = work
    top = levels.size - 2
    values = draw
    if noisy.size:
        for i in range(noisy.size):
            spread[noisy[i]] = draw[i]
        values = spread
    for level in range(top + 1):
        for node in range(levels[level], levels[level + 1]):
            whole = 0.0
            at = node + level
            if level == 0:
                for child in range(first[at], first[at + 1]):
                    whole += values[child] * cell_scale[child]
            else:
                for child in range(levels[level - 1] + first[at], levels[level - 1] + first[at + 1]):
                    whole += own[child]
            sums[node] = whole
            if node_variable[node] >= 0:
                whole += trust[node] * (draw[node_variable[node]] * node_scale[node] - whole)
            own[node] = whole
    solve_blocks(own[levels[top] :], draw, chain, sum_variable, final[levels[top] :])
    for level in range(top, 0, -1):
        for node in range(levels[level], levels[level + 1]):
            gap = final[node] - sums[node]
            at = node + level
            for child in range(levels[level - 1] + first[at], levels[level - 1] + first[at + 1]):
                final[child] = own[child] + node_pull[child] * gap
    most, least, prefix = 0.0, 0.0, 0.0
    for node in range(levels[1]):
        gap = final[node] - sums[node]
        for child in range(first[node], first[node + 1]):
            value = values[child] * cell_scale[child] + cell_pull[child] * gap
            prefix = value if kind == CELLS else prefix + value
            most, least = max(most, prefix), min(least, prefix)
    return most - least if kind == RANGES else max(most, -least)


@njit(cache=True, nogil=True)
def largest_errors(
    seeds: Any, variables: Any, kind: Any, cells: Any, levels: Any, first: Any, nodes: Any, chain: Any, sums: Any
) -> Any:
    """For each seed the largest error of one sample of the noise."""
    found = np.empty(seeds.shape[0])
    draw = np.empty(variables, dtype=np.float32)
    size = levels[-1]
    work = (np.empty(size), np.empty(size), np.empty(size), np.zeros(cells[1].size, dtype=np.float32))
    for sample in range(seeds.shape[0]):
        fill_laplace(seeds[sample], draw)
        found[sample] = decode_largest(draw, kind, cells, levels, first, nodes, chain, sums, work)
    return found
