"""Keys of whole numbers and numeric bins: the column itself, arithmetic, a search of the engine, or comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    if kind.kind == Kind.INTEGER and isinstance(attribute, Integers):
        return _double_key(attribute, cut, _whole(attribute, column), engine)
    nan = kind.kind == Kind.REAL and engine.has_nan
    return _double_key(attribute, cut, _real(attribute, column.cast("float64"), nan), engine)


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


@dataclass(frozen=True)
class Number:
    """A double, whether it lies below or above the declared values, and whether it can be NaN.

    `certain`: its place on the double line decides that as well, so that arithmetic may come first.
    """

    value: Expr
    below: Expr
    above: Expr
    nan: bool
    certain: bool

    def guarded(self, inside: Expr, first: int, count: int) -> Expr:
        """The number of a step: `inside` is only worked out for declared values, NaN is NULL."""
        import ibis

        unknown = [(self.value.isnan(), ibis.null("float64"))] if self.nan else []
        return ibis.cases(
            *unknown,
            (self.below, whole_double(first - 1)),
            (self.above, whole_double(first + count)),
            (self.value.notnull(), inside.cast("float64")),
        )


def _real(attribute: Integers | Bins, value: Expr, nan: bool) -> Number:
    low, high = exact_double(_edge(attribute, 0)), exact_double(_edge(attribute, attribute.size))
    return Number(value, value < low, value >= high, nan, certain=True)


def _whole(attribute: Integers, column: Expr) -> Number:
    """A whole number; next to 2^53 its double no longer tells whether it is declared."""
    import ibis

    below = column < ibis.literal(attribute.low, "int64")
    above = column >= ibis.literal(attribute.high + 1, "int64")
    certain = max(abs(attribute.low), abs(attribute.high)) < LARGEST
    return Number(column.cast("float64"), below, above, False, certain)


def _double_key(attribute: Integers | Bins, cut: Segments, number: Number, engine: Engine) -> Key:
    segments = int(cut.starts.size)
    search = engine.bucket(number.value, [float(_edge(attribute, int(start))) for start in cut.starts[1:]])
    if search is not None:
        return Key((number.guarded(search, 0, segments),), segment_decoder(cut))
    by_steps = _step_key(attribute, cut, number, engine)
    if by_steps is not None:
        return by_steps
    if segments <= CHOICE_LIMIT:
        edges = [exact_double(_edge(attribute, int(start))) for start in cut.starts[1:]]
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
    whole = attribute.size % step == 0
    stepped = way.step(number.value)
    if engine.errors_on_overflow or not whole or not number.certain:
        return Key((number.guarded(stepped, way.origin, grid.count),), decode)
    return Key((stepped,), decode, _clamp(way.origin, grid.count, number.nan))


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
    text = ibis.cases((stored == "text", engine.text(column.cast("string"))))
    if isinstance(attribute, Integers):
        numbers = _double_key(attribute, cut, _whole(attribute, number), engine)
    else:
        numbers = _double_key(attribute, cut, _real(attribute, number.cast("float64"), nan=False), engine)
    texts = raw_key(attribute, text)

    def decode(fetched: Fetched) -> Ints:
        codes, others = numbers.decode(fetched[:1]), texts.decode(fetched[1:])
        for row, value in enumerate(fetched[1]):
            if value is not None:
                codes[row] = others[row]
        return codes

    return Key((*numbers.columns, *texts.columns), decode, fetched=2)
