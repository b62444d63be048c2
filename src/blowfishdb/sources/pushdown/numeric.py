"""Keys of whole numbers and numeric bins: the column itself, arithmetic, a search of the engine, or comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
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

DOUBLE = "float64"
EXACT_DIGITS = 15
"""Decimals of up to this many digits keep their whole part when they become doubles."""


def number_key(attribute: Integers | Bins, cut: Segments, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """The key of a numeric attribute."""
    if not engine.typed:
        return _dynamic_key(attribute, cut, column, engine)
    if kind.kind == Kind.BOOLEAN or _is_read_by_proxy(attribute, kind, engine):
        return raw_key(attribute, column)
    if kind.kind == Kind.INTEGER and isinstance(attribute, Integers) and _by_value(cut):
        return _integer_key(attribute, column)
    if kind.kind == Kind.INTEGER and isinstance(attribute, Integers):
        return _double_key(attribute, cut, _whole(attribute, column), engine)
    return _double_key(attribute, cut, _real(attribute, column.cast("float64"), _may_be_nan(kind, engine)), engine)


def number_line(
    attribute: Integers | Bins, column: Expr, kind: ColumnType, engine: Engine
) -> tuple[Expr, Callable[[int], Expr], bool] | None:
    """What to compare, the edge at each declared index, and whether it can be NaN; None for types read by the proxy."""
    import ibis

    if kind.kind not in (Kind.INTEGER, Kind.REAL, Kind.DECIMAL) or _is_read_by_proxy(attribute, kind, engine):
        return None
    if kind.kind == Kind.INTEGER and isinstance(attribute, Integers):
        low = attribute.low
        return column, lambda index: ibis.literal(low + index, "int64"), False
    return column.cast("float64"), lambda index: exact_double(_edge(attribute, index)), _may_be_nan(kind, engine)


def _may_be_nan(kind: ColumnType, engine: Engine) -> bool:
    return kind.kind == Kind.REAL and engine.has_nan


def _is_read_by_proxy(attribute: Integers | Bins, kind: ColumnType, engine: Engine) -> bool:
    """Whether a decimal has too many digits for the double to lie where the decimal lies."""
    limit = min(EXACT_DIGITS, engine.decimal_digits) if isinstance(attribute, Integers) else engine.decimal_digits
    return kind.kind == Kind.DECIMAL and (kind.digits is None or kind.digits > limit)


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
        found = inside.cast(whole) if whole == DOUBLE else inside.try_cast(whole)
        return ibis.cases(
            # Most rows lie here, so this comes first; no engine finds NaN below a number.
            ((self.compared >= self.low) & (self.compared < self.high), found),
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
    segments = int(cut.starts.size)
    search = engine.bucket(number.value, _edge_doubles(attribute, cut.starts[1:]))
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
    stepped = way.step(number.value)
    if engine.errors_on_overflow:
        return Key((number.guarded(stepped, way.origin, grid.count),), decode)
    whole = engine.whole_type(way.origin - 1, way.origin + grid.count)

    def place(columns: Sequence[Expr]) -> tuple[Expr, ...]:
        value, compared, found = columns
        known = replace(number, value=value, compared=compared)
        return (known.guarded(found, way.origin, grid.count, whole),)

    return Key((number.value, number.compared, stepped), decode, place=place)


def _edge(attribute: Integers | Bins, index: int) -> Fraction:
    """The left edge of a declared value; for whole numbers beyond 2^53 the next double."""
    if isinstance(attribute, Bins):
        return attribute.edge(index)
    number = attribute.low + index
    return Fraction(number if number <= LARGEST else LARGEST + 2)


def _edge_doubles(attribute: Integers | Bins, index: Ints) -> Floats:
    """The left edges of declared values, each the nearest double."""
    if isinstance(attribute, Bins):
        return attribute.edge_doubles(index)
    return (attribute.low + index).astype(np.float64)


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
