"""MWEM (Hardt, Ligett, McSherry 2012) with a private total: the worst range of each round, measured and fitted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Intervals, Rectangles
from blowfishdb.reproduce.baselines.drawing import least, noisy

TOTAL_SHARE = Fraction(1, 20)
"""Part of epsilon for the number of records, which the published code takes without noise."""
UPDATES = 100
BOX_UPDATES = 20
"""Passes over what is measured, for intervals and for boxes."""


def mwem(counts: Ints, epsilon: Fraction, workload: Intervals | Rectangles, rounds: int = 10) -> Floats:
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
        _fit(cells, workload, chosen, measured, total)
    return np.asarray(workload.dot(cells))


def _fit(
    cells: Floats, workload: Intervals | Rectangles, chosen: list[int], measured: list[float], total: float
) -> None:
    if isinstance(workload, Rectangles):
        grid = cells.reshape(workload.grid)
        boxes = [
            tuple(slice(low, high) for low, high in zip(workload.low[one], workload.high[one], strict=True))
            for one in chosen
        ]
        for _ in range(BOX_UPDATES):
            for box, value in zip(boxes, measured, strict=True):
                grid[box] *= np.exp((value - grid[box].sum()) / (2.0 * total))
                grid *= total / grid.sum()
        return
    from blowfishdb.reproduce.baselines.kernels import reweigh

    low, high = np.array(workload.low[chosen]), np.array(workload.high[chosen])
    reweigh(cells, low, high, np.array(measured), total, UPDATES)
