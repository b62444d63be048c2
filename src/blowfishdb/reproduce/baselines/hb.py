"""HB (Qardaji, Yang, Li 2013): a tree with the fan-out of least variance, every level alike, made consistent."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.reproduce.baselines.drawing import noisy


def hb(counts: Ints, epsilon: Fraction, workload: Rows, with_root: bool = True) -> Floats:
    """The answers from its cells."""
    return np.asarray(workload.dot(hb_cells(counts, epsilon, with_root)))


def hb_cells(counts: Ints, epsilon: Fraction, with_root: bool = True) -> Floats:
    """A record is in one node of each measured level, each with scale levels / epsilon.

    The published code measures the root; without it the error of random ranges is lower.
    """
    fan_out = best_fan_out(counts.size)
    height = height_for(counts.size, fan_out)
    levels = height + with_root
    level = np.zeros(fan_out**height, dtype=np.int64)
    level[: counts.size] = counts
    measured = [noisy(level, levels / epsilon)]
    for _ in range(levels - 1):
        level = level.reshape(-1, fan_out).sum(axis=1)
        measured.append(noisy(level, levels / epsilon))
    return consistent(measured, fan_out)[: counts.size]


@lru_cache(maxsize=4096)
def best_fan_out(cells: int) -> int:
    """The one with the least average variance of a range by the paper's equation (3)."""

    def variance(fan_out: int) -> float:
        height = height_for(cells, fan_out)
        return (fan_out - 1) * height**3 - 2 * (fan_out + 1) * height**2 / 3

    return min(range(2, max(3, cells + 1)), key=variance)


def height_for(cells: int, fan_out: int) -> int:
    """How many levels below the root the tree needs."""
    return max(1, math.ceil(math.log(cells, fan_out) - 1e-9))


def consistent(measured: list[Floats], fan_out: int) -> Floats:
    """Least-squares leaves from equally noisy levels, leaves first, by one pass up and one down."""
    combined = [measured[0]]
    for depth, own in enumerate(measured[1:], start=2):
        below = combined[-1].reshape(-1, fan_out).sum(axis=1)
        wide, narrow = fan_out**depth, fan_out ** (depth - 1)
        combined.append(((wide - narrow) * own + (narrow - 1) * below) / (wide - 1))
    cells = combined.pop()
    while combined:
        parts = combined.pop().reshape(-1, fan_out)
        cells = (parts + (cells - parts.sum(axis=1))[:, None] / fan_out).reshape(-1)
    return cells
