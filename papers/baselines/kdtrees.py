"""Two kd-trees of the literature: the partitioning paper's as printed, and the hierarchical one it compares with."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.data_aware.kdtree import along, kd_tree
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Rectangles
from papers.baselines.noise import noisy

# The partitioning paper's kd-tree as it is printed: half of epsilon on the cells, half on the boxes cut from them.
#
# Private for one record more or less. Its answers use the counts of the boxes alone; the cells only show where to cut.


@dataclass(frozen=True)
class KdThresholds:
    """Public thresholds: a box is cut while it seems to hold more records, or to be less even, than this.

    Unevenness is the sum of the absolute deviations of a box's noisy cells from their mean.
    """

    records: float
    unevenness: float

    def __post_init__(self) -> None:
        if not (self.records >= 0 and self.unevenness >= 0):
            raise PlanError("thresholds are not negative")

    def choose(self, cells: Floats) -> tuple[int, int] | None:
        """Cuts the longest axis at the median of the noisy records."""
        uneven = float(np.abs(cells - cells.mean()).sum())
        if cells.size == 1 or not (float(cells.sum()) > self.records or uneven > self.unevenness):
            return None
        axis = int(np.argmax(cells.shape))
        return axis, median_cut(along(np.maximum(cells, 0.0), axis))


def median_cut(counts: Floats) -> int:
    """The place that leaves about half of the counts on either side, with at least one entry each."""
    sums = np.cumsum(counts)
    return int(np.clip(np.searchsorted(sums, sums[-1] / 2.0) + 1, 1, counts.size - 1))


def printed_kdtree(counts: Ints, epsilon: Fraction, boxes: Rectangles, thresholds: KdThresholds) -> Floats:
    """Answers to the boxes, each cell having its share of the noisy count around it."""
    cells = noisy(counts, 2 / epsilon).reshape(boxes.grid)
    labels = kd_tree(cells, thresholds.choose).labels
    inside = np.bincount(labels)
    totals = noisy(np.bincount(labels, weights=counts).astype(np.int64), 2 / epsilon)
    return np.asarray(boxes.dot((totals / inside)[labels]))


# Hierarchical kd-tree (Inan, Kantarcioglu, Ghinita, Bertino 2010): every cut is a noisy median of its own.
#
# The partitioning paper compares with it: each level asks for noisy counts of the slices of all boxes again, so the
# levels share the budget that the paper's own kd-tree spends once, on the cells.

HEIGHT = 8

Piece = tuple[slice, ...]


def hierarchical_kdtree(counts: Ints, epsilon: Fraction, boxes: Rectangles, height: int = HEIGHT) -> Floats:
    """Half of epsilon for the medians of all levels, half for the boxes at the end."""
    grid = counts.reshape(boxes.grid)
    open_pieces: list[Piece] = [tuple(slice(0, size) for size in boxes.grid)]
    single: list[Piece] = []
    for _ in range(height):
        # A piece of one cell has no median: what would be drawn for it is never looked at.
        single += [piece for piece in open_pieces if grid[piece].size == 1]
        open_pieces = _cut(grid, [piece for piece in open_pieces if grid[piece].size > 1], 2 * height / epsilon)
    pieces = [*open_pieces, *single]
    cells = np.empty(grid.shape)
    totals = noisy(np.array([grid[piece].sum() for piece in pieces]), 2 / epsilon)
    for piece, count in zip(pieces, totals, strict=True):
        cells[piece] = count / grid[piece].size
    return np.asarray(boxes.dot(cells.reshape(-1)))


def _cut(grid: Ints, pieces: list[Piece], scale: Fraction) -> list[Piece]:
    """Every piece in two, at a noisy median of its longest axis."""
    if not pieces:
        return []
    axes = [int(np.argmax(grid[piece].shape)) for piece in pieces]
    slices = [_along(grid[piece], axis) for piece, axis in zip(pieces, axes, strict=True)]
    drawn = np.split(noisy(np.concatenate(slices), scale), np.cumsum([own.size for own in slices])[:-1])
    found: list[Piece] = []
    for piece, axis, own in zip(pieces, axes, drawn, strict=True):
        place = piece[axis].start + median_cut(np.maximum(own, 0.0))
        ends = slice(piece[axis].start, place), slice(place, piece[axis].stop)
        found += [(*piece[:axis], end, *piece[axis + 1 :]) for end in ends]
    return found


def _along(cells: Ints, axis: int) -> Ints:
    return np.asarray(cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis)))
