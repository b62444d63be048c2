"""MWEM (Hardt, Ligett, McSherry 2012) with a private total: the worst range of each round, measured and fitted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Intervals
from blowfishdb.reproduce.baselines.drawing import least, noisy

TOTAL_SHARE = Fraction(1, 20)
"""Part of epsilon for the number of records, which the published code takes without noise."""
UPDATES = 100


def mwem(counts: Ints, epsilon: Fraction, workload: Intervals, rounds: int = 10) -> Floats:
    """Each round spends half of its share to pick a range whose estimate is bad, half to measure it."""
    total = max(1.0, float(noisy(counts.sum()[None], 1 / (epsilon * TOTAL_SHARE))[0]))
    share = epsilon * (1 - TOTAL_SHARE) / (2 * rounds)
    cells = np.full(counts.size, total / counts.size)
    left = np.ones(workload.shape[0], dtype=np.bool_)
    chosen: list[int] = []
    measured: list[float] = []
    exact = workload.dot(counts)
    for _ in range(rounds):
        candidates = np.flatnonzero(left)
        off = -np.abs(exact - workload.dot(cells))[candidates]
        place = int(candidates[least(off, 1, share)])
        left[place] = False
        chosen.append(place)
        measured.append(float(noisy(exact[place][None], 1 / share)[0]))
        _fit(cells, workload.low[chosen], workload.high[chosen], np.array(measured), total)
    return np.asarray(workload.dot(cells))


def _fit(cells: Floats, low: Ints, high: Ints, measured: Floats, total: float) -> None:
    from blowfishdb.reproduce.baselines.kernels import reweigh

    reweigh(cells, np.array(low), np.array(high), measured, total, UPDATES)
