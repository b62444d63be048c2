"""Privelet (Xiao, Wang, Gehrke 2010): noise on the Haar wavelet of the counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.reproduce.baselines.drawing import noisy


def privelet(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """A record is in the total and in one difference of halves per level: each gets (levels + 1) / epsilon."""
    levels = max(1, (counts.size - 1).bit_length())
    sums = np.zeros(2**levels, dtype=np.int64)
    sums[: counts.size] = counts
    differences = []
    while sums.size > 1:
        differences.append(sums[::2] - sums[1::2])
        sums = sums[::2] + sums[1::2]
    scale = (levels + 1) / epsilon
    cells = noisy(sums, scale)
    for difference in reversed(differences):
        bent = noisy(difference, scale)
        cells = np.stack([cells + bent, cells - bent], axis=1).reshape(-1) / 2
    return np.asarray(workload.dot(cells[: counts.size]))
