"""Keys of whole numbers and numeric bins: arithmetic that is proven at both sides of every edge, or comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.model.domain import Bins, Integers
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import LARGEST, Floats, Ints
from blowfishdb.sources.base import ColumnType, Engine, Expr, Kind, function
from blowfishdb.sources.keys import (
    CHOICE_LIMIT,
    STEP_LIMIT,
    Fetched,
    Key,
    Line,
    choice,
    common_step,
    exact_double,
    floor,
    raw_key,
    segment_decoder,
    step_decoder,
    whole_double,
)

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
    choices: list[tuple[Formula, Callable[[Expr], Expr]]] = [(_candidates(grid)[0][0], lambda x: _place(grid, x))]
    if _is_aligned(grid):
        more, width = math.nextafter(float(grid.scale), math.inf), grid.width
        factor = exact_double(Fraction(more))
        choices.append((lambda x: np.floor(x * more / width), lambda x: _divided(x * factor, width)))
    return choices


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
    choices: list[tuple[Formula, Stepping]] = []
    width, scale = float(grid.width), float(grid.scale)
    if _is_aligned(grid):
        way = Stepping(lambda x: floor(_multiple(grid, x)), _origin(grid))
        choices.append((lambda x: np.floor(x * scale / width), way))
    low, step = grid.edge(0), Fraction(grid.width, grid.scale)
    choices.append((lambda x: np.floor((x - float(low)) / float(step)), Stepping(lambda x: floor(_quotient(grid, x)))))
    return choices


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


DOUBLE = "float64"
EXACT_DIGITS = 15
"""Decimals of up to this many digits keep their whole part when they become doubles."""


def number_key(attribute: Integers | Bins, cut: Segments, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """The key of a numeric attribute."""
    if not engine.typed:
        return _dynamic_key(attribute, cut, column, engine)
    if kind.kind == Kind.BOOLEAN or _is_read_by_proxy(attribute, kind, engine):
        return raw_key(attribute, column)
    if kind.kind == Kind.INTEGER and isinstance(attribute, Integers):
        few = min(STEP_LIMIT, max(1024, 4 * int(cut.starts.size)))
        if attribute.size <= few:
            return _integer_key(attribute, column)
        return _double_key(attribute, cut, _whole(attribute, column), engine)
    return _double_key(attribute, cut, _real(attribute, column.cast("float64"), _may_be_nan(kind, engine)), engine)


def number_line(attribute: Integers | Bins, column: Expr, kind: ColumnType, engine: Engine) -> Line | None:
    """The numbers as they are compared; None for types that the proxy reads."""
    import ibis

    if kind.kind not in (Kind.INTEGER, Kind.REAL, Kind.DECIMAL) or _is_read_by_proxy(attribute, kind, engine):
        return None
    if kind.kind == Kind.INTEGER and isinstance(attribute, Integers):
        low = attribute.low
        return Line(column, lambda index: ibis.literal(low + index, "int64"))
    return Line(column.cast("float64"), lambda index: exact_double(_edge(attribute, index)), _may_be_nan(kind, engine))


def _may_be_nan(kind: ColumnType, engine: Engine) -> bool:
    return kind.kind == Kind.REAL and engine.has_nan


def _is_read_by_proxy(attribute: Integers | Bins, kind: ColumnType, engine: Engine) -> bool:
    """Whether a decimal has too many digits for the double to lie where the decimal lies."""
    limit = min(EXACT_DIGITS, engine.decimal_digits) if isinstance(attribute, Integers) else engine.decimal_digits
    return kind.kind == Kind.DECIMAL and (kind.digits is None or kind.digits > limit)


def _integer_key(attribute: Integers, column: Expr) -> Key:
    """Groups by the whole numbers themselves; of the groups those beyond the ends are put together."""
    import ibis

    def finish(grouped: Sequence[Expr]) -> tuple[Expr, ...]:
        value = grouped[0]
        below, above = ibis.literal(attribute.low - 1, "int64"), ibis.literal(attribute.high + 1, "int64")
        return (ibis.cases((value <= below, below), (value >= above, above), else_=value),)

    key = raw_key(attribute, column)
    return Key(key.columns, key.decode, finish)


@dataclass(frozen=True)
class Number:
    """A double, how to tell whether it lies at or above the first edge and below the last, and whether it can be NaN.

    `compared` is what the edges are compared with; for large whole numbers the double does not decide.
    """

    value: Expr
    compared: Expr
    low: Expr
    high: Expr
    nan: bool

    def guarded(self, inside: Expr, first: int, count: int, whole: str = DOUBLE) -> Expr:
        """The number of a step: `inside` is only worked out for declared values, NaN is NULL."""
        import ibis

        unknown = [(self.value.isnan(), ibis.null(whole))] if self.nan else []
        # A cast to a small type must not fail, even if an engine works it out for other rows too.
        step = inside.cast(whole) if whole == DOUBLE else inside.try_cast(whole)
        return ibis.cases(
            # Most rows lie here, so this comes first; no engine finds NaN below a number.
            ((self.compared >= self.low) & (self.compared < self.high), step),
            *unknown,
            (self.compared < self.low, whole_double(first - 1).cast(whole)),
            (self.compared >= self.high, whole_double(first + count).cast(whole)),
        )


def _real(attribute: Integers | Bins, value: Expr, nan: bool) -> Number:
    return Number(value, value, exact_double(_edge(attribute, 0)), exact_double(_edge(attribute, attribute.size)), nan)


def _whole(attribute: Integers, column: Expr) -> Number:
    """A whole number; next to 2^53 its double no longer tells whether it is declared."""
    import ibis

    low, high = ibis.literal(attribute.low, "int64"), ibis.literal(attribute.high + 1, "int64")
    return Number(column.cast("float64"), column, low, high, False)


def _double_key(attribute: Integers | Bins, cut: Segments, number: Number, engine: Engine) -> Key:
    segments, inner = int(cut.starts.size), cut.starts[1:]
    doubles = attribute.edge_doubles(inner) if isinstance(attribute, Bins) else attribute.low + inner
    search = engine.bucket(number.value, doubles.astype(np.float64))
    if search is not None:
        return Key((number.guarded(search, 0, segments),), segment_decoder(cut))
    by_steps = _step_key(attribute, cut, number, engine)
    if by_steps is not None:
        return by_steps
    if segments <= CHOICE_LIMIT:
        edges = [exact_double(_edge(attribute, int(start))) for start in inner]
        inside = choice(number.value, edges, range(segments))
        return Key((number.guarded(inside, 0, segments),), segment_decoder(cut))
    return raw_key(attribute, number.value)


def _step_key(attribute: Integers | Bins, cut: Segments, number: Number, engine: Engine) -> Key | None:
    """Arithmetic, where the declared values have equal widths and there are not far too many steps."""
    if isinstance(attribute, Bins) and attribute.width is None:
        return None
    step = common_step(cut.starts, attribute.size)
    grid = grid_of(attribute, step)
    if grid.count > STEP_LIMIT and cut.starts.size <= CHOICE_LIMIT:
        return None
    way = stepping(grid)
    if way is None:
        return None
    decode = step_decoder(attribute, step, way.origin)
    stepped = way.step(number.value)
    if engine.errors_on_overflow:
        return Key((number.guarded(stepped, way.origin, grid.count),), decode)
    whole = engine.whole_type(way.origin - 1, way.origin + grid.count)

    def place(columns: Sequence[Expr]) -> tuple[Expr, ...]:
        value, compared, stepped_column = columns
        known = replace(number, value=value, compared=compared)
        return (known.guarded(stepped_column, way.origin, grid.count, whole),)

    return Key((number.value, number.compared, stepped), decode, place=place)


def _edge(attribute: Integers | Bins, index: int) -> Fraction:
    """The left edge of a declared value; for whole numbers beyond 2^53 the next double."""
    if isinstance(attribute, Bins):
        return attribute.edge(index)
    number = attribute.low + index
    return Fraction(number if number <= LARGEST else LARGEST + 2)


def _dynamic_key(attribute: Integers | Bins, cut: Segments, column: Expr, engine: Engine) -> Key:
    """Numbers by arithmetic, and texts that stand in a numeric column as they are."""
    import ibis

    stored = function("typeof", "string")(column)
    number = ibis.cases((stored.isin(["integer", "real"]), column))
    text = ibis.cases((stored == "text", engine.comparable(column.cast("string"), Kind.TEXT)))
    if isinstance(attribute, Integers):
        numbers = _double_key(attribute, cut, _whole(attribute, number), engine)
    else:
        numbers = _double_key(attribute, cut, _real(attribute, number.cast("float64"), nan=False), engine)
    texts = raw_key(attribute, text)

    def decode(fetched: Fetched) -> Ints:
        codes, others = numbers.decode(fetched[:1]), texts.decode(fetched[1:])
        return np.where([value is None for value in fetched[1]], codes, others)

    return Key((*numbers.columns, *texts.columns), decode, fetched=2)
