"""Hilbert order of a grid: the path, and boxes as runs on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Bools, Ints, consecutive, distinct
from blowfishdb.model.workload import Rectangles

JUMPS_AT_ONCE = 2**22


@dataclass(frozen=True)
class HilbertCurve:
    """The order of the cells of a grid with two axes.

    Squares whose side is a power of two stand one behind the other along the longer axis, each filled by a Hilbert
    curve that ends beside the start of the next; cells beyond the grid are left out. Where both sides fill whole
    squares every step leads to a neighbour.
    """

    shape: tuple[int, int]

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise PlanError("a Hilbert curve fills a grid with two axes")

    @property
    def cells(self) -> int:
        return self.shape[0] * self.shape[1]

    @cached_property
    def positions(self) -> Ints:
        """For each cell, row-major, its place on the curve."""
        first, second = np.divmod(np.arange(self.cells), self.shape[1])
        along, across = (first, second) if self.shape[0] >= self.shape[1] else (second, first)
        order = (min(self.shape) - 1).bit_length()
        square, within = along >> order, along & ((1 << order) - 1)
        key = (square << (2 * order)) + square_positions(order, within, across)
        positions = np.empty(self.cells, dtype=np.int64)
        positions[np.argsort(key, kind="stable")] = np.arange(self.cells)
        return positions

    @cached_property
    def cell_at(self) -> Ints:
        """The cell at each place of the curve."""
        cells = np.empty(self.cells, dtype=np.int64)
        cells[self.positions] = np.arange(self.cells)
        return cells

    def runs(self, boxes: Rectangles) -> tuple[Ints, Ints, Ints]:
        """The places that each box covers, as runs: the box, the first place, and one past the last place of each run.

        Runs are ordered by box and place, with gaps between those of one box. They begin and end at the border of the
        box, or where the curve makes a jump, so that only those cells are looked at.
        """
        query, place = self._border(boxes)
        queries, places = self._jumps(boxes)
        span = self.cells + 1
        key = distinct(np.concatenate([query * span + place, queries * span + places]))
        query, place = np.divmod(key, span)
        is_first = (place == 0) | ~self._inside(boxes, query, place - 1)
        is_last = (place == self.cells - 1) | ~self._inside(boxes, query, np.minimum(place + 1, self.cells - 1))
        return query[is_first], place[is_first], place[is_last] + 1

    def cover(self, boxes: Rectangles) -> Callable[[Ints, Ints, Ints], Ints]:
        """How many cells a box counts between two places; takes arrays of boxes, first places and ends."""
        query, low, high = self.runs(boxes)
        span, lengths = self.cells + 1, high - low
        starts, before = query * span + low, np.cumsum(lengths) - lengths

        def up_to(place: Ints) -> Ints:
            """How many cells all runs of all boxes count before the given places."""
            if not starts.size:
                return np.zeros_like(place)
            run = np.maximum(np.searchsorted(starts, place, side="right") - 1, 0)
            return np.asarray(before[run] + np.clip(place - starts[run], 0, lengths[run]))

        return lambda queries, first, last: up_to(queries * span + last) - up_to(queries * span + first)

    def _inside(self, boxes: Rectangles, query: Ints, place: Ints) -> Bools:
        first, second = np.divmod(self.cell_at[place], self.shape[1])
        low, high = boxes.low[query], boxes.high[query]
        return np.asarray((low[:, 0] <= first) & (first < high[:, 0]) & (low[:, 1] <= second) & (second < high[:, 1]))

    def _border(self, boxes: Rectangles) -> tuple[Ints, Ints]:
        """The cells along the four sides of each box, corners more than once."""
        filled = np.flatnonzero(np.all(boxes.low < boxes.high, axis=1))
        queries, places = [], []
        for axis in (0, 1):
            length = (boxes.high - boxes.low)[filled, axis]
            query = np.repeat(filled, length)
            running = consecutive(boxes.low[filled, axis], length)
            for fixed in (boxes.low[query, 1 - axis], boxes.high[query, 1 - axis] - 1):
                first, second = (running, fixed) if axis == 0 else (fixed, running)
                queries.append(query)
                places.append(self.positions[first * self.shape[1] + second])
        return np.concatenate(queries), np.concatenate(places)

    def _jumps(self, boxes: Rectangles) -> tuple[Ints, Ints]:
        """The places on both sides of each jump of the curve, for every box that they lie in."""
        first, second = np.divmod(self.cell_at, self.shape[1])
        step = np.abs(np.diff(first)) + np.abs(np.diff(second))
        jumps = np.flatnonzero(step > 1)
        sides = distinct(np.concatenate([jumps, jumps + 1]))
        queries, places = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        portion = max(1, JUMPS_AT_ONCE // max(sides.size, 1))
        for start in range(0, boxes.shape[0] if sides.size else 0, portion):
            query = np.repeat(np.arange(start, min(start + portion, boxes.shape[0])), sides.size)
            place = np.tile(sides, query.size // sides.size)
            is_inside = self._inside(boxes, query, place)
            queries.append(query[is_inside])
            places.append(place[is_inside])
        return np.concatenate(queries), np.concatenate(places)


def square_positions(order: int, first: Ints, second: Ints) -> Ints:
    """The places of cells on the Hilbert curve of a square of side 2^order; it starts at (0, 0), ends at (side - 1, 0).

    From the largest quarters down: which quarter in the order of the curve, then its coordinates turned so that the
    curve inside looks like the whole one.
    """
    place = np.zeros_like(first)
    one, two = first.copy(), second.copy()
    for bit in reversed(range(order)):
        side = 1 << bit
        upper, right = (one & side) > 0, (two & side) > 0
        place += (side * side) * np.where(upper, np.where(right, 2, 3), np.where(right, 1, 0))
        one, two = one & (side - 1), two & (side - 1)
        flipped = upper & ~right
        one, two = np.where(flipped, side - 1 - one, one), np.where(flipped, side - 1 - two, two)
        turned = ~right
        one, two = np.where(turned, two, one), np.where(turned, one, two)
    return place
