"""Keys of whole numbers and numeric bins: the column itself, arithmetic, a search of the engine, or comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Bins, Integers
from blowfishdb.model.numbers import LARGEST
from blowfishdb.model.segments import Segments
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.engine import Engine, Expr
from blowfishdb.sources.pushdown.expressions import choice, exact_double, function, whole_double
from blowfishdb.sources.pushdown.grid import common_step, grid_of, stepping
from blowfishdb.sources.pushdown.keys import (
    CHOICE_LIMIT,
    STEP_LIMIT,
    Fetched,
    Key,
    raw_key,
    segment_decoder,
    step_decoder,
)

EXACT_DIGITS = 15
"""Decimals of up to this many digits keep their whole part when they become doubles."""


def number_key(attribute: Integers | Bins, cut: Segments, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """The key of a numeric attribute."""
    if not engine.typed:
        return _dynamic_key(attribute, cut, column, engine)
    if kind.kind == Kind.BOOLEAN:
        return raw_key(attribute, column)
    if kind.kind == Kind.DECIMAL:
        limit = min(EXACT_DIGITS, engine.decimal_digits) if isinstance(attribute, Integers) else engine.decimal_digits
        if kind.digits is None or kind.digits > limit:
            return raw_key(attribute, column)
    if kind.kind == Kind.INTEGER and isinstance(attribute, Integers) and _by_value(cut):
        return _integer_key(attribute, column)
    return _double_key(attribute, cut, column.cast("float64"), engine, can_be_nan=kind.kind == Kind.REAL)


def _by_value(cut: Segments) -> bool:
    size, segments = cut.attribute.size, int(cut.starts.size)
    return size <= STEP_LIMIT and (size <= 1024 or size <= 4 * segments)


def _integer_key(attribute: Integers, column: Expr) -> Key:
    """Groups by the whole numbers themselves; of the groups those beyond the ends are put together."""
    import ibis

    def finish(grouped: Sequence[Expr]) -> tuple[Expr, ...]:
        value = grouped[0]
        below, above = ibis.literal(attribute.low - 1, "int64"), ibis.literal(attribute.high + 1, "int64")
        return (ibis.cases((value <= below, below), (value >= above, above), else_=value),)

    key = raw_key(attribute, column)
    return Key(key.columns, key.decode, finish)


def _double_key(attribute: Integers | Bins, cut: Segments, number: Expr, engine: Engine, can_be_nan: bool) -> Key:
    segments = int(cut.starts.size)
    ends = _edge(attribute, 0), _edge(attribute, attribute.size)
    nan = can_be_nan and engine.has_nan

    def guarded(inside: Expr, first: int, count: int) -> Expr:
        return _guarded(number, inside, ends, (first - 1, first + count), nan)

    search = engine.bucket(number, [float(_edge(attribute, int(start))) for start in cut.starts[1:]])
    if search is not None:
        return Key((guarded(search, 0, segments),), segment_decoder(cut))
    by_steps = _step_key(attribute, cut, number, engine, nan, guarded)
    if by_steps is not None:
        return by_steps
    if segments <= CHOICE_LIMIT:
        edges = [exact_double(_edge(attribute, int(start))) for start in cut.starts[1:]]
        inside = choice(number, edges, range(segments))
        return Key((guarded(inside, 0, segments),), segment_decoder(cut))
    return raw_key(attribute, number)


def _step_key(
    attribute: Integers | Bins,
    cut: Segments,
    number: Expr,
    engine: Engine,
    nan: bool,
    guarded: Callable[[Expr, int, int], Expr],
) -> Key | None:
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
    whole = attribute.size % step == 0
    if engine.errors_on_overflow or not whole:
        return Key((guarded(way.step(number), way.origin, grid.count),), decode)
    return Key((way.step(number),), decode, _clamp(way.origin, grid.count, nan))


def _clamp(first: int, count: int, nan: bool) -> Callable[[Sequence[Expr]], tuple[Expr, ...]]:
    """Puts together the groups below the first step and those above the last; NaN is NULL."""
    import ibis

    def finish(grouped: Sequence[Expr]) -> tuple[Expr, ...]:
        value = grouped[0]
        below, last = whole_double(first - 1), whole_double(first + count - 1)
        unknown = [(value.isnan(), ibis.null("float64"))] if nan else []
        above = whole_double(first + count)
        return (ibis.cases(*unknown, (value <= below, below), (value > last, above), else_=value),)

    return finish


def _guarded(number: Expr, inside: Expr, ends: tuple[Fraction, Fraction], codes: tuple[int, int], nan: bool) -> Expr:
    """The number's place: `inside` is only worked out between the ends, beyond them the codes stand, NaN is NULL."""
    import ibis

    low, high = exact_double(ends[0]), exact_double(ends[1])
    unknown = [(number.isnan(), ibis.null("float64"))] if nan else []
    return ibis.cases(
        *unknown,
        (number < low, whole_double(codes[0])),
        (number >= high, whole_double(codes[1])),
        (number >= low, inside.cast("float64")),
    )


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
    number = ibis.cases((stored.isin(["integer", "real"]), column.cast("float64")))
    text = ibis.cases((stored == "text", engine.text(column.cast("string"))))
    numbers = _double_key(attribute, cut, number, engine, can_be_nan=False)
    texts = raw_key(attribute, text)

    def decode(fetched: Fetched) -> Ints:
        codes, others = numbers.decode(fetched[:1]), texts.decode(fetched[1:])
        for row, value in enumerate(fetched[1]):
            if value is not None:
                codes[row] = others[row]
        return codes

    return Key((*numbers.columns, *texts.columns), decode, fetched=2)
