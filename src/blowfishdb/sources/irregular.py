"""Irregular edges: a grid that holds them all, or cells in which a number meets few of them.

Both lead to the declared bin of every double without a search: an engine works out a small whole number for each row,
and the proxy reads which bin it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.model.numbers import Floats, Ints

GRID_LIMIT = 2**14
"""Steps of a grid that holds irregular edges: each may come back as a group."""
CELLS_PER_EDGE = 8
"""So few numbers share a cell with an edge."""
MOST_IN_CELL = 15
MOST_CODES = 2**15 - 2
"""Cells, times one more than the edges in the fullest one: they and both sides beyond fit into two bytes."""
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


def edge_cells(low: float, inner: Floats, high: float) -> EdgeCells | None:
    """Cells between the ends, bent as little as parts the edges; None where edges are too close to part."""
    count = 2 ** int(CELLS_PER_EDGE * inner.size).bit_length()
    for roots in range(MOST_ROOTS + 1):
        whole = _rooted(np.array([high]) - low, roots)[0]
        factor = (count - 1) / whole if math.isfinite(whole) and whole > 0 else 0.0
        if not 1e-300 < factor < 1e300:
            continue
        cells = np.floor(_rooted(inner - low, roots) * factor).astype(np.int64)
        most = int(np.bincount(cells).max())
        if most <= MOST_IN_CELL and count * (most + 1) <= MOST_CODES:
            return _tabled(low, factor, roots, count, inner, cells)
    return None


def _rooted(number: Floats, roots: int) -> Floats:
    for _ in range(roots):
        number = np.sqrt(number)
    return number


def _tabled(low: float, factor: float, roots: int, count: int, inner: Floats, cells: Ints) -> EdgeCells:
    before = np.searchsorted(cells, np.arange(count), side="left")
    place = np.arange(inner.size) - before[cells]
    tables = []
    for number in range(int(place.max(initial=0)) + 1):
        table = np.full(count, np.inf)
        table[cells[place == number]] = inner[place == number]
        tables.append(table)
    return EdgeCells(low, factor, roots, before, tuple(tables))
