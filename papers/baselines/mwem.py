"""MWEM (Hardt, Ligett, McSherry 2012) with a private total: the worst range of each round, measured and fitted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Intervals, Rectangles
from papers.baselines.noise import least, noisy

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
    """Updates the cells in place.

    No update tells cells apart that every chosen range has both or neither of. They are equal therefore, and are
    fitted as one block.
    """
    if isinstance(workload, Rectangles):
        _fit_boxes(cells.reshape(workload.grid), workload.low[chosen], workload.high[chosen], measured, total)
        return
    from papers.baselines.kernels import reweigh

    low, high = workload.low[chosen], workload.high[chosen]
    cuts = _cuts(low, high, cells.size)
    lengths, sums = np.diff(cuts), np.add.reduceat(cells, cuts[:-1])
    reweigh(sums, np.searchsorted(cuts, low), np.searchsorted(cuts, high), np.array(measured), total, UPDATES)
    cells[:] = np.repeat(sums / lengths, lengths)


def _fit_boxes(grid: Floats, low: Ints, high: Ints, measured: list[float], total: float) -> None:
    from papers.baselines.kernels import FLOOR, LARGEST_STEP

    cuts = [_cuts(low[:, axis], high[:, axis], size) for axis, size in enumerate(grid.shape)]
    first, last = (
        np.stack([np.searchsorted(own, end[:, axis]) for axis, own in enumerate(cuts)], axis=1) for end in (low, high)
    )
    boxes = [tuple(map(slice, *ends)) for ends in zip(first, last, strict=True)]
    blocks = grid
    for axis, own in enumerate(cuts):
        blocks = np.add.reduceat(blocks, own[:-1], axis=axis)
    before = blocks.copy()
    for _ in range(BOX_UPDATES):
        for box, value in zip(boxes, measured, strict=True):
            step = (value - blocks[box].sum()) / (2.0 * total)
            blocks[box] *= np.exp(np.clip(step, -LARGEST_STEP, LARGEST_STEP))
            blocks *= total / blocks.sum()
        np.maximum(blocks, FLOOR, out=blocks)
    factors = blocks / before
    for axis, own in enumerate(cuts):
        factors = np.repeat(factors, np.diff(own), axis=axis)
    grid *= factors


def _cuts(low: Ints, high: Ints, size: int) -> Ints:
    """Where the blocks of one axis begin, and where the last one ends."""
    return np.unique(np.concatenate([[0, size], low, high]))
