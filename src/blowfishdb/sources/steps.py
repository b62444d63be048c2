"""Steps of equal width: the arithmetic that tells the step of a double, proven at both sides of every edge.

Engines do it for each row, so the cheapest chain of operations is taken that is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from blowfishdb.model.domain import Bins, Integers
from blowfishdb.model.numbers import LARGEST, Bools, Floats, Ints
from blowfishdb.sources.base import Expr, function, ibis


def floor(number: Expr) -> Expr:
    """The double rounded down, still a double: Ibis' own floor casts, and a cast may fail."""
    return function("floor", "float64")(number)


def whole_double(number: int) -> Expr:
    """A whole number up to 2^53 as a double; as an integer it is read exactly by every parser."""
    return ibis().literal(number, "int64").cast("float64")


def exact_double(number: Fraction) -> Expr:
    """The double nearest to the number.

    Parsers of decimal literals do not all round correctly, and some read 0.1 as a decimal. A quotient of two exact
    doubles is correctly rounded by IEEE arithmetic, and so is a product with powers of two.
    """
    if abs(number.numerator) <= LARGEST and number.denominator <= LARGEST:
        whole = whole_double(number.numerator)
        return whole if number.denominator == 1 else whole / whole_double(number.denominator)
    return _scaled(float(number))


def _scaled(number: float) -> Expr:
    mantissa, exponent = math.frexp(number)
    result, exponent = whole_double(int(mantissa * 2**53)), exponent - 53
    while exponent:
        step = min(abs(exponent), 52)
        power = whole_double(2**step)
        result = result * power if exponent > 0 else result / power
        exponent += -step if exponent > 0 else step
    return result


PROOF_LIMIT = 2**20
CORRECTION_LIMIT = 2**50


@dataclass(frozen=True)
class EvenSteps:
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


def grid_of(attribute: Integers | Bins, step: int) -> EvenSteps:
    """The declared values of an attribute with equal widths, `step` of them together."""
    if isinstance(attribute, Integers):
        return EvenSteps(attribute.low, step, 1, -(-attribute.size // step))
    width = attribute.width if attribute.width is not None else Fraction(1)
    scale = math.lcm(attribute.start.denominator, width.denominator)
    return EvenSteps(int(attribute.start * scale), int(width * scale) * step, scale, -(-attribute.size // step))


def common_step(starts: Ints, size: int) -> int:
    """The largest number of declared values that divides every cut; the last step may be cut short by the end."""
    return int(np.gcd.reduce(starts[1:])) if starts.size > 1 else size


FloatFormula: TypeAlias = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Stepping:
    """A whole number for each double, which never falls where the double grows, and rises at every edge of a grid.

    It is the lead, a number rounded down, and what is added to it. A lead below the lowest shows that the double lies
    below the first edge, one above the highest that it does not lie below the last.
    """

    lead: Callable[[Expr], Expr]
    leads: tuple[int, int]
    """The lowest and the highest."""
    first: int
    """The number at the first edge."""
    last: int
    """The number at the last edge."""
    added: Callable[[Expr, Expr], Expr] | None = None
    """What is added, of the double and its lead."""
    numbers: Ints | None = None
    """The numbers at all edges, where they do not rise by 1 at each."""
    underflows: bool = False
    """Whether it may underflow near zero."""

    def number(self, x: Expr) -> Expr:
        """The number of a double within or near the range."""
        return self.complete(x, self.lead(x))

    def complete(self, x: Expr, lead: Expr) -> Expr:
        """The number of a double whose lead is known."""
        return lead if self.added is None else lead + self.added(x, lead)

    def within(self, x: Expr, lead: Expr, *, nan: bool) -> Expr:
        """The number of any double, by comparisons of whole leads alone; NULL for NaN, which may have any lead."""
        (lowest, highest), unknown = self.leads, [(x.isnan(), ibis().null("int64"))] if nan else []
        below, above = (ibis().literal(number, "int64") for number in (self.first - 1, self.last))
        inside = self.complete(x, lead).cast("int64")
        return ibis().cases(*unknown, (lead < lowest, below), (lead > highest, above), else_=inside)

    def steps(self, numbers: Floats) -> Floats:
        """The steps that numbers stand for, from 0 on; negative below the first, NaN stays."""
        if self.numbers is None:
            return numbers - self.first
        return np.where(np.isnan(numbers), np.nan, np.searchsorted(self.numbers, numbers, side="right") - 1)


def stepping(grid: EvenSteps) -> Stepping | None:
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
                shifted = numbers + candidate.first
                if np.array_equal(formula(edges), shifted) and np.array_equal(formula(before), shifted - 1):
                    return candidate
            pair = _two_roundings(grid, edges, before)
            if pair is not None:
                return pair
            if furthest <= CORRECTION_LIMIT:
                for formula, place in _nearly(grid):
                    if _is_never_low(grid, formula, edges):
                        return _corrected(grid, place)
    half = exact_double(Fraction(1, 2))
    return _corrected(grid, lambda x: _place(grid, x) + half) if furthest <= CORRECTION_LIMIT else None


MOST_PARTS = 5
"""The most parts that a step is cut into."""
PARTS_PER_QUOTIENT = 1.5
"""Parts whose groups cost as much as a quotient does beyond a product."""
MOST_NUMBERS = 2**15 - 2
"""Numbers of two roundings: they fit into two bytes."""


@dataclass(frozen=True)
class Rounding:
    """A multiple of the double, rounded down: it rises at each multiple of a part of the width, or next to it."""

    parts: int
    """How many parts of a width."""
    constant: float
    divides: bool

    def of(self, numbers: Floats) -> Floats:
        return np.floor(numbers / self.constant if self.divides else numbers * self.constant)

    def expression(self, x: Expr) -> Expr:
        constant = exact_double(Fraction(self.constant))
        return floor(x / constant if self.divides else x * constant)

    def added(self, x: Expr, lead: Expr) -> Expr:
        """The rounding beside the lead of another."""
        del lead
        return self.expression(x)

    @property
    def underflows(self) -> bool:
        return self.constant > 1 if self.divides else self.constant < 1

    @property
    def cost(self) -> float:
        return self.parts + PARTS_PER_QUOTIENT * self.divides


def _roundings(grid: EvenSteps) -> Iterator[Rounding]:
    """Products and quotients with the double nearest to the right constant, and with those next to it."""
    for parts in range(1, MOST_PARTS + 1):
        if grid.start * parts % grid.width == 0:
            for divides in (False, True):
                exact = Fraction(parts * grid.scale, grid.width)
                nearest = float(1 / exact if divides else exact)
                for constant in (nearest, math.nextafter(nearest, math.inf), math.nextafter(nearest, 0.0)):
                    yield Rounding(parts, constant, divides)


def _two_roundings(grid: EvenSteps, edges: Floats, before: Floats) -> Stepping | None:
    """The sum of two roundings, of which one or the other rises at every edge.

    A product may have fewer digits left for its fraction than its factor has, so that an edge and the double before
    it are rounded to the same; the next constant, or smaller parts, round others to the same. As neither ever falls,
    the sum at an edge is more than at any double before, and tells on which side of each edge a double lies.
    """
    if 2 * edges.size > MOST_NUMBERS:
        return None
    known: list[tuple[Rounding, Floats, Bools]] = []
    for rounding in _roundings(grid):
        at_edges = rounding.of(edges)
        if np.all(np.abs(at_edges) <= CORRECTION_LIMIT):
            known.append((rounding, at_edges, at_edges > rounding.of(before)))
    pairs = sorted(itertools.combinations(known, 2), key=lambda pair: pair[0][0].cost + pair[1][0].cost)
    for (one, at_one, rises), (other, at_other, other_rises) in pairs:
        numbers = (at_one + at_other).astype(np.int64)
        if np.all(rises | other_rises) and numbers[-1] - numbers[0] <= MOST_NUMBERS:
            return Stepping(
                one.expression,
                (int(at_one[0]), int(at_one[-1])),
                int(numbers[0]),
                int(numbers[-1]),
                other.added,
                numbers,
                one.underflows or other.underflows,
            )
    return None


def _nearly(grid: EvenSteps) -> list[tuple[FloatFormula, Callable[[Expr], Expr]]]:
    """Quotients that may be slightly off: as they are, and with a factor that is the next double above."""
    choices: list[tuple[FloatFormula, Callable[[Expr], Expr]]] = [(_candidates(grid)[0][0], lambda x: _place(grid, x))]
    if _is_aligned(grid):
        more, width = math.nextafter(float(grid.scale), math.inf), grid.width
        factor = exact_double(Fraction(more))
        choices.append((lambda x: np.floor(x * more / width), lambda x: _divided(x * factor, width)))
    return choices


def _is_never_low(grid: EvenSteps, formula: FloatFormula, edges: Floats) -> bool:
    """Whether a formula gives i at edge i, and i-1 or i at the double before: so it is everywhere right or one more."""
    shifted = np.arange(edges.size) + _origin(grid)
    early = shifted - formula(np.nextafter(edges, -np.inf))
    return np.array_equal(formula(edges), shifted) and bool(np.all((early == 0) | (early == 1)))


def _whole_numbers(grid: EvenSteps) -> Stepping:
    """Rounds down to multiples of 1/scale, a power of two, and divides whole numbers.

    Doubling is exact, and edges are such multiples, so rounding down crosses none. The quotient of whole numbers below
    2^53, rounded to the nearest double, never reaches a whole number that the true quotient does not reach.
    """
    aligned = grid.start % grid.width == 0

    def lead(x: Expr) -> Expr:
        whole = floor(x if grid.scale == 1 else x * whole_double(grid.scale))
        whole = whole if aligned or grid.start == 0 else whole - whole_double(grid.start)
        return whole if grid.width == 1 else floor(whole / whole_double(grid.width))

    return _one_by_one(grid, lead, grid.start // grid.width if aligned else 0)


def _one_by_one(
    grid: EvenSteps,
    lead: Callable[[Expr], Expr],
    first: int,
    added: Callable[[Expr, Expr], Expr] | None = None,
    *,
    underflows: bool = False,
) -> Stepping:
    """Numbers that rise by 1 at each edge, of leads that are these numbers or one more."""
    last = first + grid.count
    return Stepping(lead, (first, last), first, last, added, underflows=underflows)


def _candidates(grid: EvenSteps) -> list[tuple[FloatFormula, Stepping]]:
    choices: list[tuple[FloatFormula, Stepping]] = []
    width, scale = float(grid.width), float(grid.scale)
    if _is_aligned(grid):
        way = _one_by_one(grid, lambda x: floor(_multiple(grid, x)), _origin(grid), underflows=grid.width > 1)
        choices.append((lambda x: np.floor(x * scale / width), way))
    low, step = grid.edge(0), Fraction(grid.width, grid.scale)
    way = _one_by_one(grid, lambda x: floor(_quotient(grid, x)), 0, underflows=step > 1)
    choices.append((lambda x: np.floor((x - float(low)) / float(step)), way))
    return choices


def _is_aligned(grid: EvenSteps) -> bool:
    """Whether the edges are multiples of the width, so that nothing need be subtracted."""
    return grid.start % grid.width == 0 and max(grid.width, grid.scale) <= LARGEST


def _origin(grid: EvenSteps) -> int:
    """The number of step 0: where nothing is subtracted, that of its edge among the multiples of the width."""
    return grid.start // grid.width if _is_aligned(grid) else 0


def _place(grid: EvenSteps, x: Expr) -> Expr:
    """The number in steps, not yet rounded down."""
    return _multiple(grid, x) if _is_aligned(grid) else _quotient(grid, x)


def _multiple(grid: EvenSteps, x: Expr) -> Expr:
    return _divided(x if grid.scale == 1 else x * whole_double(grid.scale), grid.width)


def _divided(scaled: Expr, width: int) -> Expr:
    return scaled if width == 1 else scaled / whole_double(width)


def _quotient(grid: EvenSteps, x: Expr) -> Expr:
    return (x - exact_double(grid.edge(0))) / exact_double(Fraction(grid.width, grid.scale))


def _corrected(grid: EvenSteps, place: Callable[[Expr], Expr]) -> Stepping:
    """An edge next to the number by arithmetic, less one where the number lies below it.

    The place was shown never to be low and at most one too high, or it is half a step more: numerators up to 2^50
    keep the rounding errors of the quotient below one half. Either way the edge is one of the two around the number,
    at most a width away. A difference of doubles has the right sign, and its floor, divided by a power of two that is
    not below the width, lies in [-1, 1): its floor is -1 below the edge, else 0. Engines round down faster than they
    compare.
    """
    aligned = _is_aligned(grid)
    power = 2 ** max(0, math.ceil(math.log2(Fraction(grid.width, grid.scale))))

    def added(x: Expr, near: Expr) -> Expr:
        edge = near if grid.width == 1 else near * whole_double(grid.width)
        edge = edge if aligned else whole_double(grid.start) + edge
        edge = edge if grid.scale == 1 else edge / whole_double(grid.scale)
        below = floor(x - edge)
        return below if power == 1 else floor(below / whole_double(power))

    underflows = grid.width > (1 if aligned else grid.scale)
    return _one_by_one(grid, lambda x: floor(place(x)), _origin(grid), added, underflows=underflows)
