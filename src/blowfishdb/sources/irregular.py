"""Irregular edges: a grid that holds them all, or cells in which a number meets few of them or none.

Both lead to the declared bin of every double without a search: an engine works out a small whole number for each row,
and the proxy reads which bin it stands for. Rows of an engine in this process may be placed here themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.model.domain import Bins, Integers
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.sources.base import Engine, Expr, function, ibis
from blowfishdb.sources.steps import (
    CORRECTION_LIMIT,
    EvenSteps,
    common_step,
    exact_double,
    floor,
    grid_of,
    whole_double,
)

GRID_LIMIT = 2**14
"""Steps of a grid that holds irregular edges: each may come back as a group."""
CELLS_PER_EDGE = 4
"""Few numbers share a cell with an edge, and engines look edges up in a list that is small enough for their caches."""
FEW_IN_CELL, MOST_IN_CELL = 2, 15
"""Edges in the fullest cell: so few that no further bend is tried, and so many that other ways are faster."""
MOST_CODES = 2**15 - 2
"""Cells, times the edges in the fullest one: such places fit into two bytes."""
LISTED_PER_EDGE, MOST_LISTED = 64, 2**16
"""Cells where an engine has a list of them: so many that few numbers are compared, in a list that caches hold."""
ROOTS_PER_COMPARISON = 8
"""Square roots that take as long as a number that is looked up and compared, where most are not."""
AT_ONCE = 2**14
"""Numbers that are placed here at once: so few that all that is made of them stays in the caches of a core."""
MOST_ROOTS = 5
"""Square roots in a row: the fifth bends powers of ten into nearly equal distances."""
BYTE_CELLS = 2**13
"""Cells that have a byte each, for each round of edges: few numbers share one with an edge, and caches hold them."""
ROUND, MOST_ROUNDS = 256, 4
"""Edges after which bytes begin anew, and the most rounds of so many."""
UNTOLD = 255
"""The byte of a cell that does not tell how many edges lie below the numbers in it."""
MOST_UNTOLD = 0.25
"""The largest share of such numbers, if every bin has as many as any other: beyond it a search alone is faster."""
NEAR = 1e-6
"""How far, in cells, an engine's place of a number may lie from ours: far more than any order of operations makes."""
FURTHEST = 1e290
"""Numbers whose differences, times all cells, are finite; no edge that has cells lies further from 0."""


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

    def entries(self) -> Ints:
        """For each cell how many edges lie before it, with all bits turned where numbers in it must be compared.

        That is where it holds an edge, and in the first, to which casts bring what is NaN or lies before the start.
        """
        is_compared = np.isfinite(self.tables[0])
        is_compared[0] = True
        return np.where(is_compared, ~self.before, self.before)

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


def edge_cells(low: float, later: Floats, *, is_listed: bool = False) -> EdgeCells | None:
    """Cells from the first edge to the last, bent so that few edges share one; None where they are too close.

    Where the engine has a list of them all, they may be many more, and only numbers in cells with an edge are compared:
    they are bent where that spares more comparisons than it takes, if every bin has as many numbers as any other.
    """
    count = 2 ** int((LISTED_PER_EDGE if is_listed else CELLS_PER_EDGE) * later.size).bit_length()
    count = min(count, MOST_LISTED) if is_listed else count
    most_in_cell = min(MOST_IN_CELL, MOST_CODES // (later.size if is_listed else count))
    best: tuple[float, int, float, Ints] | None = None
    for roots in range(MOST_ROOTS + 1):
        whole = _rooted(later[-1:] - low, roots)[0]
        factor = float((count - 1) / whole) if math.isfinite(whole) and whole > 0 else 0.0
        if not 1e-300 < factor < 1e300:
            continue
        cells = np.floor(_rooted(later - low, roots) * factor).astype(np.int64)
        most = int(np.bincount(cells).max())
        compared = float(np.mean(1 / np.maximum(np.diff(cells), 1)))
        cost = ROOTS_PER_COMPARISON * compared + roots if is_listed else most
        if most <= most_in_cell and (best is None or cost < best[0]):
            best = cost, roots, factor, cells
        if not is_listed and most <= FEW_IN_CELL:
            break
    if best is None:
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


@dataclass(frozen=True)
class ByteCells:
    """Cells of equal width from one number to another, counted from 1 on, and a byte for each.

    Cell 0 and the one after the last hold what lies beyond. The byte tells how many edges lie at or below all numbers
    in the cell, or that this is to be searched for, because an edge lies in it or next to its end. Bytes begin anew at
    some edges: how many of `rounds` lie at or below a number, times `ROUND`, is to be added.
    """

    low: float
    high: float
    numbers: bytes
    rounds: Floats

    @property
    def count(self) -> int:
        return len(self.numbers) - 2


def byte_cells(edges: Floats) -> ByteCells | None:
    """Cells of a thousand edges or fewer, for every engine that never gives a larger number a lower cell.

    The ends lie a cell away from the edges, so that all that lies further has a byte that tells, unless it is that of
    the cells to be searched for. None where so many edges are close together that too many numbers would be.
    """
    rounds = edges[ROUND - 1 :: ROUND]
    count = BYTE_CELLS * (rounds.size + 1)
    if edges.size < 2 or rounds.size >= MOST_ROUNDS or max(abs(edges[0]), abs(edges[-1])) > FURTHEST:
        return None
    spare = float(edges[-1] - edges[0]) / (count - 2)
    if spare < 1 / FURTHEST:
        return None
    low, high = float(edges[0]) - spare, float(edges[-1]) + spare
    place = (edges - low) / (high - low) * count + 1
    first, last = (np.floor(place + near).astype(np.int64) for near in (-NEAR, NEAR))
    if np.mean(1 / np.maximum(np.diff(first), 1)) > MOST_UNTOLD:
        return None
    below = np.searchsorted(first, np.arange(count + 2), side="left") % ROUND
    below[first] = below[last] = UNTOLD
    return ByteCells(low, high, below.astype(np.uint8).tobytes(), rounds)


def common_steps(attribute: Integers | Bins, cut: Segments) -> tuple[EvenSteps | None, Ints | int]:
    """The grid of the cuts, and the first value of each step or how many values each has."""
    if not isinstance(attribute, Bins) or attribute.width is not None:
        step = common_step(cut.starts, attribute.size)
        return grid_of(attribute, step), step
    common = common_grid([attribute.edge(int(start)) for start in cut.starts] + [attribute.edges[-1]], CORRECTION_LIMIT)
    if common is None:
        return None, 1
    return EvenSteps(common.start, common.width, common.scale, common.below.size), cut.starts[common.below - 1]


DOUBLE = "float64"


@dataclass(frozen=True)
class RangedNumber:
    """A double, how to tell whether it lies at or above the first edge and below the last, and whether it can be NaN.

    `compared` is what the edges are compared with; for large whole numbers the double does not decide.
    """

    value: Expr
    compared: Expr
    low: Expr
    high: Expr
    nan: bool

    def guarded(self, inside: Expr, below: int, above: int, whole: str = DOUBLE) -> Expr:
        """`inside`, of the whole type if one is named, serves declared values, numbers those beyond; NaN is NULL."""
        unknown = [(self.value.isnan(), ibis().null(whole))] if self.nan else []
        step = inside.cast(DOUBLE) if whole == DOUBLE else inside
        return ibis().cases(
            # Most rows lie here, so this comes first; no engine finds NaN below a number.
            ((self.compared >= self.low) & (self.compared < self.high), step),
            *unknown,
            (self.compared < self.low, whole_double(below).cast(whole)),
            (self.compared >= self.high, whole_double(above).cast(whole)),
        )


def cell_of(cells: EdgeCells, number: Expr) -> Expr:
    """The cell of a number, from 1 on; numbers beyond the ends get any, but no error."""
    distance = number - exact_double(Fraction(cells.start)) if cells.start else number
    for root in range(cells.roots):
        distance = function("sqrt", "float64")(function("abs", "float64")(distance) if root == 0 else distance)
    return floor(distance * exact_double(Fraction(cells.factor))) + whole_double(1)


def met_place(cells: EdgeCells, number: RangedNumber, cell: Expr, whole: str, engine: Engine) -> Expr:
    """The cell, moved on by the number of all cells for each edge in it that lies at or below the number.

    Where all edges of a fullest cell do, all bits of the cell are turned: no sum can then be too large. Most cells hold
    no edge, so that one comparison decides. What has no cell comes last: NULL, NaN, and what lies far above.
    """
    value = number.value
    below, above = (ibis().literal(code, "int64").cast(whole) for code in (0, -1))
    places = [(value < number.low, below)]
    for place, table in enumerate(cells.tables):
        moved = (cell + ibis().literal(place * cells.count, whole)).cast(whole) if place else cell
        places.append((value < engine.entry(table, cell), moved))
    is_cell, is_above = cell <= ibis().literal(cells.count, whole), value >= number.high
    if number.nan:
        # Engines that give NaN a cell hold it to be larger than the edges there.
        is_cell, is_above = is_cell & ~value.isnan(), is_above & ~value.isnan()
    return ibis().coalesce(ibis().cases(*places, (is_cell, ~cell)), ibis().cases((is_above, above)))


def truncated_cell(cells: EdgeCells, number: Expr) -> Expr:
    """The cell of a number, from 0 on, where a cast ends at the largest whole number and makes 0 of NaN.

    What lies before the start has a negative cell, or the first.
    """
    distance = number - exact_double(Fraction(cells.start)) if cells.start else number
    for _ in range(cells.roots):
        distance = function("sqrt", "float64")(distance)
    return (distance * exact_double(Fraction(cells.factor))).cast("int32")


def edges_met(cells: EdgeCells, edges: Floats, number: RangedNumber, entry: Expr, engine: Engine) -> Expr:
    """How many of the edges lie at or below the number, given the entry of its cell; NULL for NULL and NaN.

    Most entries tell it at once. What has none lies beyond an end. Conditions of two ends are compiled into faster code
    than lists of them.
    """
    value, most = number.value, len(cells.tables)
    before, padded = ~entry, np.append(edges, np.full(most, np.inf))
    met = before + most
    for place in reversed(range(most)):
        met = (value < engine.entry(padded, before + (place + 1))).ifelse(before + place, met)
    beyond = (value < number.low).ifelse(ibis().literal(0, "int32"), ibis().literal(edges.size, "int32"))
    unknown = value.isnull() | value.isnan() if number.nan else value.isnull()
    compared = unknown.ifelse(ibis().null("int32"), entry.isnull().ifelse(beyond, met.cast("int32")))
    return (entry >= 0).ifelse(entry.cast("int32"), compared)
