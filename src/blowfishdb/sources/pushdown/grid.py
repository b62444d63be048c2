"""Arithmetic that puts doubles into equal steps exactly as declared: proven at both sides of every edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.domain import Bins, Integers
from blowfishdb.model.numbers import LARGEST
from blowfishdb.sources.engine import Expr
from blowfishdb.sources.pushdown.expressions import exact_double, floor, whole_double

PROOF_LIMIT = 2**20
CORRECTION_LIMIT = 2**50


@dataclass(frozen=True)
class Grid:
    """Steps [start + i * width, start + (i+1) * width) for i = 0 .. count-1, as multiples of 1/scale."""

    start: int
    width: int
    scale: int
    count: int

    def edge(self, index: int) -> Fraction:
        return Fraction(self.start + index * self.width, self.scale)

    def edge_doubles(self) -> Floats:
        """All edges, each the nearest double."""
        return np.array((self.start + np.arange(self.count + 1) * self.width) / self.scale, dtype=np.float64)


def grid_of(attribute: Integers | Bins, step: int) -> Grid:
    """The declared values of an attribute with equal widths, `step` of them together."""
    if isinstance(attribute, Integers):
        return Grid(attribute.low, step, 1, -(-attribute.size // step))
    width = attribute.width if attribute.width is not None else Fraction(1)
    scale = math.lcm(attribute.start.denominator, width.denominator)
    return Grid(int(attribute.start * scale), int(width * scale) * step, scale, -(-attribute.size // step))


def common_step(starts: Ints, size: int) -> int:
    """The largest number of declared values that divides every cut; the last step may be cut short by the end."""
    return int(np.gcd.reduce(starts[1:])) if starts.size > 1 else size


Formula = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Stepping:
    """An expression for the step of a double, and the number it gives to step 0."""

    step: Callable[[Expr], Expr]
    origin: int = 0


def stepping(grid: Grid) -> Stepping | None:
    """The cheapest arithmetic that agrees with the declared edges on every double; None when none is known to.

    Each formula is a chain of correctly rounded operations with positive constants, so it never decreases. It is
    exact if and only if it gives i at edge i and i-1 at the double before, which is checked for every edge.
    """
    furthest = max(abs(grid.start), abs(grid.start + grid.count * grid.width), grid.scale)
    if grid.scale & (grid.scale - 1) == 0 and furthest <= CORRECTION_LIMIT:
        return _whole_numbers(grid)
    if grid.count <= PROOF_LIMIT:
        edges = grid.edge_doubles()
        if np.all(np.diff(edges) > 0):
            before = np.nextafter(edges, -np.inf)
            numbers = np.arange(grid.count + 1)
            for formula, candidate in _candidates(grid):
                shifted = numbers + candidate.origin
                if np.array_equal(formula(edges), shifted) and np.array_equal(formula(before), shifted - 1):
                    return candidate
            if furthest <= CORRECTION_LIMIT:
                for formula, place in _nearly(grid):
                    if _is_never_low(grid, formula, edges):
                        return _corrected(grid, place)
    half = exact_double(Fraction(1, 2))
    return _corrected(grid, lambda x: _place(grid, x) + half) if furthest <= CORRECTION_LIMIT else None


def _nearly(grid: Grid) -> list[tuple[Formula, Callable[[Expr], Expr]]]:
    """Quotients that may be slightly off: as they are, and with a factor that is the next double above."""
    found: list[tuple[Formula, Callable[[Expr], Expr]]] = [(_candidates(grid)[0][0], lambda x: _place(grid, x))]
    if _is_aligned(grid):
        more, width = math.nextafter(float(grid.scale), math.inf), grid.width
        factor = exact_double(Fraction(more))
        found.append((lambda x: np.floor(x * more / width), lambda x: _divided(x * factor, width)))
    return found


def _is_never_low(grid: Grid, formula: Formula, edges: Floats) -> bool:
    """Whether a formula gives i at edge i, and i-1 or i at the double before: so it is everywhere right or one more."""
    shifted = np.arange(edges.size) + _origin(grid)
    early = shifted - formula(np.nextafter(edges, -np.inf))
    return np.array_equal(formula(edges), shifted) and bool(np.all((early == 0) | (early == 1)))


def _whole_numbers(grid: Grid) -> Stepping:
    """Rounds down to multiples of 1/scale, a power of two, and divides whole numbers.

    Doubling is exact, and edges are such multiples, so rounding down crosses none. The quotient of whole numbers below
    2^53, rounded to the nearest double, never reaches a whole number that the true quotient does not reach.
    """
    aligned = grid.start % grid.width == 0

    def step(x: Expr) -> Expr:
        whole = floor(x if grid.scale == 1 else x * whole_double(grid.scale))
        whole = whole if aligned or grid.start == 0 else whole - whole_double(grid.start)
        return whole if grid.width == 1 else floor(whole / whole_double(grid.width))

    return Stepping(step, grid.start // grid.width if aligned else 0)


def _candidates(grid: Grid) -> list[tuple[Formula, Stepping]]:
    found: list[tuple[Formula, Stepping]] = []
    width, scale = float(grid.width), float(grid.scale)
    if _is_aligned(grid):
        way = Stepping(lambda x: floor(_multiple(grid, x)), _origin(grid))
        found.append((lambda x: np.floor(x * scale / width), way))
    low, step = grid.edge(0), Fraction(grid.width, grid.scale)
    found.append((lambda x: np.floor((x - float(low)) / float(step)), Stepping(lambda x: floor(_quotient(grid, x)))))
    return found


def _is_aligned(grid: Grid) -> bool:
    """Whether the edges are multiples of the width, so that nothing need be subtracted."""
    return grid.start % grid.width == 0 and max(grid.width, grid.scale) <= LARGEST


def _origin(grid: Grid) -> int:
    """The number of step 0: where nothing is subtracted, that of its edge among the multiples of the width."""
    return grid.start // grid.width if _is_aligned(grid) else 0


def _place(grid: Grid, x: Expr) -> Expr:
    """The number in steps, not yet rounded down."""
    return _multiple(grid, x) if _is_aligned(grid) else _quotient(grid, x)


def _multiple(grid: Grid, x: Expr) -> Expr:
    return _divided(x if grid.scale == 1 else x * whole_double(grid.scale), grid.width)


def _divided(scaled: Expr, width: int) -> Expr:
    return scaled if width == 1 else scaled / whole_double(width)


def _quotient(grid: Grid, x: Expr) -> Expr:
    return (x - exact_double(grid.edge(0))) / exact_double(Fraction(grid.width, grid.scale))


def _corrected(grid: Grid, place: Callable[[Expr], Expr]) -> Stepping:
    """An edge next to the number by arithmetic, less one where the number lies below it.

    The place was shown never to be low and at most one too high, or it is half a step more: numerators up to 2^50
    keep the rounding errors of the quotient below one half. Either way the edge is one of the two around the number,
    at most a width away. A difference of doubles has the right sign, and its floor, divided by a power of two that is
    not below the width, lies in [-1, 1): its floor is -1 below the edge, else 0. Engines round down faster than they
    compare.
    """
    aligned = _is_aligned(grid)
    power = 2 ** max(0, math.ceil(math.log2(Fraction(grid.width, grid.scale))))

    def step(x: Expr) -> Expr:
        near = floor(place(x))
        edge = near if grid.width == 1 else near * whole_double(grid.width)
        edge = edge if aligned else whole_double(grid.start) + edge
        edge = edge if grid.scale == 1 else edge / whole_double(grid.scale)
        below = floor(x - edge)
        return near + (below if power == 1 else floor(below / whole_double(power)))

    return Stepping(step, _origin(grid))
