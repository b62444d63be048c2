"""AHP (Zhang, Chen, Xu, Meng, Xie 2014): cells are grouped by their noisy counts, then the groups are counted."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.reproduce.baselines.drawing import noisy

GROUPING_SHARE = Fraction(17, 20)
SMALL = 0.35
"""Noisy counts below SMALL log(cells) / epsilon are taken as 0 before grouping."""


def ahp(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """Most of epsilon finds the groups, the rest counts them; cells of a group need not be neighbours."""
    first = epsilon * GROUPING_SHARE
    rough = noisy(counts, 1 / first)
    rough[rough <= SMALL * math.log(counts.size) / float(first)] = 0.0
    order = np.argsort(rough, kind="stable")
    starts = _groups(rough[order], float(epsilon - first))
    lengths = np.diff(np.append(starts, counts.size))
    totals = noisy(np.add.reduceat(counts[order], starts), 1 / (epsilon - first))
    cells = np.empty(counts.size)
    cells[order] = np.repeat(totals / lengths, lengths)
    return np.asarray(workload.dot(cells))


def _groups(rising: Floats, epsilon: float) -> Ints:
    """Starts of groups of sorted counts: one is closed where the next count does better in a group of its own."""
    sums = np.concatenate([[0.0], np.cumsum(rising)])
    squares = np.concatenate([[0.0], np.cumsum(rising**2)])
    size = np.arange(1, rising.size + 1)
    noise = 2.0 / epsilon**2

    def error(low: int, high: int) -> float:
        spread = squares[high] - squares[low] - (sums[high] - sums[low]) ** 2 / (high - low)
        return float(spread + noise / (high - low))

    starts = [0]
    for place in range(1, rising.size):
        ahead = size[: rising.size - place]
        means = (sums[place + 1 :] - sums[place]) / ahead
        alone = float(np.min((rising[place] - means) ** 2 + noise / ahead**2))
        if error(starts[-1], place + 1) >= error(starts[-1], place) + alone:
            starts.append(place)
    return np.array(starts, dtype=np.int64)
