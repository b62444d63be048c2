"""Irregular edges: a grid that holds them all, or cells in which a number meets few of them.

Both lead to the declared bin of every double without a search: an engine works out a small whole number for each row,
and the proxy reads which bin it stands for. Rows of an engine in this process may be placed here themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.model.numbers import Floats, Ints

GRID_LIMIT = 2**14
"""Steps of a grid that holds irregular edges: each may come back as a group."""
CELLS_PER_EDGE = 4
"""Few numbers share a cell with an edge, and engines look edges up in a list that is small enough for their caches."""
FEW_IN_CELL, MOST_IN_CELL = 2, 15
"""Edges in the fullest cell: so few that no further bend is tried, and so many that other ways are faster."""
MOST_CODES = 2**15 - 2
"""Cells, times the edges in the fullest one: such places fit into two bytes."""
AT_ONCE = 2**14
"""Numbers that are placed here at once: so few that all that is made of them stays in the caches of a core."""
MOST_ROOTS = 5
"""Square roots in a row: the fifth bends powers of ten into nearly equal distances."""


@dataclass(frozen=True)
class CommonGrid:
    """Steps of `width / scale` from `start / scale` on, and how many of the edges lie at or below each step."""

    start: int
    width: int
    scale: int
    below: Ints


def common_grid(edges: Sequence[Fraction], largest: int) -> CommonGrid | None:
    """The coarsest grid on which all edges lie; None where it has too many steps or numbers beyond the largest."""
    scale = math.lcm(*(edge.denominator for edge in edges))
    if scale > largest:
        return None
    numbers = [int(edge * scale) for edge in edges]
    width = math.gcd(*(number - numbers[0] for number in numbers))
    count = (numbers[-1] - numbers[0]) // width
    if count > GRID_LIMIT or max(map(abs, numbers)) > largest:
        return None
    places = np.array([(number - numbers[0]) // width for number in numbers], dtype=np.int64)
    return CommonGrid(numbers[0], width, scale, np.searchsorted(places, np.arange(count), side="right"))


@dataclass(frozen=True)
class EdgeCells:
    """Cells of a range, and the edges in each.

    The cell of a number x is the whole part of root(x - start) * factor, with so many square roots in a row. To
    subtract, root and multiply is correctly rounded, so that a larger number never lies in a lower cell: all edges in
    cells before lie below x, all in cells after lie above it, and only those in its own cell need be compared with it.
    """

    start: float
    factor: float
    roots: int
    before: Ints
    """How many edges lie in the cells before each."""
    tables: tuple[Floats, ...]
    """The first edge in each cell, the second, and so on; infinite where there is none."""

    @property
    def count(self) -> int:
        return int(self.before.size)

    def edges_below(self, places: Floats) -> Floats:
        """How many edges lie at or below the numbers at given places; -1 for what lies below the range, NaN stays.

        A place is 0 below the range, else the cell, counted from 1, and the number of all cells more for each edge met;
        turned round where all edges are that a cell can hold; -1 is above all cells.
        """
        is_full = places < 0
        number = np.where(np.isnan(places), 1.0, np.where(is_full, -1 - places, places)).astype(np.int64) - 1
        cell, met = number % self.count, np.where(is_full, len(self.tables), number // self.count)
        below = np.where(number >= 0, self.before[cell] + met, np.where(is_full, math.inf, -1))
        return np.where(np.isnan(places), np.nan, below)

    def tally(self, pieces: Iterable[Floats]) -> tuple[Floats, Ints]:
        """What occurs of all that `edges_below` tells of numbers, and how many numbers each stands for."""
        end = max(table[np.isfinite(table)].max() for table in self.tables)
        below = np.add.outer(self.before, np.arange(len(self.tables) + 1)).ravel()
        counts, beyond = np.zeros(below.size, dtype=np.int64), np.zeros(3, dtype=np.int64)
        for piece in pieces:
            for place in range(0, piece.size, AT_ONCE):
                numbers = piece[place : place + AT_ONCE]
                # The least and the largest are NaN where one number is.
                if not (numbers.min() >= self.start and numbers.max() < end):
                    is_outside = numbers < self.start, numbers >= end, np.isnan(numbers)
                    beyond += [np.count_nonzero(mask) for mask in is_outside]
                    numbers = numbers[~np.logical_or.reduce(is_outside)]
                counts += np.bincount(self._met(numbers), minlength=counts.size)
        numbers, counts = np.concatenate([[-1.0, np.inf, np.nan], below]), np.concatenate([beyond, counts])
        return numbers[counts > 0], counts[counts > 0]

    def _met(self, numbers: Floats) -> Ints:
        """The cells of numbers within the range, each as many places apart as edges can be met in it, and one more."""
        distance = _rooted(numbers - self.start if self.start else numbers, self.roots)
        cells = (distance * self.factor).astype(np.int64)
        places = cells * (len(self.tables) + 1)
        for table in self.tables:
            places += numbers >= table[cells]
        return places


def edge_cells(low: float, later: Floats) -> EdgeCells | None:
    """Cells from the first edge to the last, bent so that few edges share one; None where they are too close."""
    count = 2 ** int(CELLS_PER_EDGE * later.size).bit_length()
    best: tuple[int, int, float, Ints] | None = None
    for roots in range(MOST_ROOTS + 1):
        whole = _rooted(later[-1:] - low, roots)[0]
        factor = float((count - 1) / whole) if math.isfinite(whole) and whole > 0 else 0.0
        if not 1e-300 < factor < 1e300:
            continue
        cells = np.floor(_rooted(later - low, roots) * factor).astype(np.int64)
        most = int(np.bincount(cells).max())
        if best is None or most < best[0]:
            best = most, roots, factor, cells
        if most <= FEW_IN_CELL:
            break
    if best is None or best[0] > MOST_IN_CELL or count * best[0] > MOST_CODES:
        return None
    _, roots, factor, cells = best
    return _tabled(low, factor, roots, count, later, cells)


def _rooted(number: Floats, roots: int) -> Floats:
    for _ in range(roots):
        number = np.sqrt(number)
    return number


def _tabled(low: float, factor: float, roots: int, count: int, later: Floats, cells: Ints) -> EdgeCells:
    before = np.searchsorted(cells, np.arange(count), side="left")
    place = np.arange(later.size) - before[cells]
    tables = []
    for number in range(int(place.max(initial=0)) + 1):
        table = np.full(count, np.inf)
        table[cells[place == number]] = later[place == number]
        tables.append(table)
    return EdgeCells(low, factor, roots, before, tuple(tables))
