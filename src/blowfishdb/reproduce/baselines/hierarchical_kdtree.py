"""Hierarchical kd-tree (Inan, Kantarcioglu, Ghinita, Bertino 2010): every cut is a noisy median of its own.

The partitioning paper compares with it: each level asks for noisy counts of the slices of all boxes again, so the
levels share the budget that the paper's own kd-tree spends once, on the cells.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.spatial.kd_cuts import median_cut
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Rectangles
from blowfishdb.reproduce.baselines.drawing import noisy

HEIGHT = 8


def hierarchical_kdtree(counts: Ints, epsilon: Fraction, boxes: Rectangles) -> Floats:
    """Half of epsilon for the medians of all levels, half for the boxes at the end."""
    grid = counts.reshape(boxes.grid)
    pieces: list[tuple[slice, ...]] = [tuple(slice(0, size) for size in boxes.grid)]
    scale = 2 * HEIGHT / epsilon
    for _ in range(HEIGHT):
        pieces = [part for piece in pieces for part in _cut(grid, piece, scale)]
    cells = np.empty(grid.shape)
    totals = noisy(np.array([grid[piece].sum() for piece in pieces]), 2 / epsilon)
    for piece, count in zip(pieces, totals, strict=True):
        cells[piece] = count / grid[piece].size
    return np.asarray(boxes.dot(cells.reshape(-1)))


def _cut(grid: Ints, piece: tuple[slice, ...], scale: Fraction) -> list[tuple[slice, ...]]:
    inner = grid[piece]
    axis = int(np.argmax(inner.shape))
    if inner.shape[axis] == 1:
        return [piece]
    slices = inner.sum(axis=tuple(other for other in range(inner.ndim) if other != axis))
    place = piece[axis].start + median_cut(np.maximum(noisy(slices, scale), 0.0))
    ends = slice(piece[axis].start, place), slice(place, piece[axis].stop)
    return [(*piece[:axis], end, *piece[axis + 1 :]) for end in ends]
