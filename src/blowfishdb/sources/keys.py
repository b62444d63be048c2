"""What one attribute contributes to the GROUP BY, and how what comes back becomes value codes.

Here are listed values, dates and timestamps (seconds of the declared zone's wall clock, worked out the same way on
every engine); numbers are in number_keys.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from blowfishdb.model.calendar import (
    DAY,
    EPOCH,
    FIRST_SECOND,
    LAST_SECOND,
    MARGIN,
    SECONDS,
    Dates,
    Timestamps,
    zone_changes,
)
from blowfishdb.model.domain import Attribute, Categorical
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import LARGEST, Floats, Ints
from blowfishdb.sources.base import ColumnType, Engine, Expr, Kind, function


def floor(number: Expr) -> Expr:
    """The double rounded down, still a double: Ibis' own floor casts, and a cast may fail."""
    return function("floor", "float64")(number)


def null_flag(value: Expr) -> Expr:
    """1 where the value is NULL, else 0; not every engine can cast a truth value."""
    import ibis

    return ibis.cases((value.isnull(), ibis.literal(1, "int64")), else_=ibis.literal(0, "int64"))


def whole_double(number: int) -> Expr:
    """A whole number up to 2^53 as a double; as an integer it is read exactly by every parser."""
    import ibis

    return ibis.literal(number, "int64").cast("float64")


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


def choice(number: Expr, edges: Sequence[Expr], values: Sequence[int]) -> Expr:
    """values[i], where i of the increasing edges lie at or below the number; compares log2 times."""
    import ibis

    if not edges:
        return ibis.literal(values[0], "int64")
    middle = len(edges) // 2
    low = choice(number, edges[:middle], values[: middle + 1])
    high = choice(number, edges[middle + 1 :], values[middle + 1 :])
    return ibis.cases((number < edges[middle], low), else_=high)


Fetched: TypeAlias = Sequence[Sequence[object]]
Work: TypeAlias = Callable[[Sequence[Expr]], tuple[Expr, ...]]
CHOICE_LIMIT = 256
"""Edges that are compared one by one; a choice of 256 is eight comparisons deep."""
STEP_LIMIT = 2**16
"""Steps beyond which fewer, compared segments are grouped rather than the steps themselves."""
NUMBERS = {int, float, Decimal, type(None)}
"""What drivers give for numbers; numpy reads None as NaN."""


@dataclass(frozen=True)
class Line:
    """A column that compares like its declared values: the edge at each index, and whether it can be NaN."""

    value: Expr
    edge: Callable[[int], Expr]
    nan: bool = False


@dataclass(frozen=True)
class Key:
    """Columns of rows, what they are grouped by, what is made of the groups, and their reading in the proxy.

    `place` makes what the rows are grouped by, the columns themselves where it is None; its inputs are worked out once.
    `finish` runs on groups, not on rows: it keeps values beyond the declared ones from travelling.
    """

    columns: tuple[Expr, ...]
    decode: Callable[[Fetched], Ints]
    finish: Work | None = None
    fetched: int = 1
    """How many columns come back."""
    place: Work | None = None


def raw_key(attribute: Attribute, column: Expr) -> Key:
    """Groups by the values as they are; the proxy reads them."""
    return Key((column,), lambda fetched: attribute.encode(as_objects(fetched[0])))


def as_objects(values: Sequence[object]) -> object:
    """A column of Python objects."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _doubles(values: Sequence[object]) -> Floats:
    """A column of numbers as doubles; whatever is no number is NaN."""
    if not set(map(type, values)) <= NUMBERS:
        values = [value if isinstance(value, int | float | Decimal) else None for value in values]
    return np.array(values, dtype=np.float64)


def segment_decoder(cut: Segments) -> Callable[[Fetched], Ints]:
    """Reads numbers of segments: -1 lies below the first, the number of segments above the last, NULL is NULL."""
    return step_decoder(cut.attribute, cut.starts, 0)


def step_decoder(attribute: Attribute, firsts: Ints | int, origin: int) -> Callable[[Fetched], Ints]:
    """Reads numbers of steps from `origin` on, given the first value of each step, or how many values each has."""

    def decode(fetched: Fetched) -> Ints:
        steps = _doubles(fetched[0])
        is_null = np.isnan(steps)
        count = -(-attribute.size // firsts) if isinstance(firsts, int) else int(firsts.size)
        clamped = np.clip(np.where(is_null, origin, steps), origin - 1, origin + count)
        number = clamped.astype(np.int64) - origin
        is_outside = ~is_null & ((number < 0) | (number >= count))
        inside = np.clip(number, 0, count - 1)
        index = inside * firsts if isinstance(firsts, int) else firsts[inside]
        index = np.where(number >= count, attribute.size - 1, index)
        return attribute.place((index.astype(np.int64), is_null, is_outside))

    return decode


def common_step(starts: Ints, size: int) -> int:
    """The largest number of declared values that divides every cut; the last step may be cut short by the end."""
    return int(np.gcd.reduce(starts[1:])) if starts.size > 1 else size


LIST_LIMIT = 1024
"""Categories that are listed in the statement."""


def category_key(attribute: Categorical, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """Groups by the values; of the groups only the declared values leave the engine."""
    import ibis

    is_text = kind.kind == Kind.TEXT
    plain = engine.comparable(column, kind.kind)
    if kind.kind not in (Kind.TEXT, Kind.INTEGER):
        return raw_key(attribute, plain)
    if attribute.size > LIST_LIMIT:
        # One more than the longest value: whatever is longer stays longer than every declared value.
        longest = max(len(str(value).encode()) for value in attribute.values)
        return raw_key(attribute, plain.substr(0, longest + 1) if is_text else plain)
    listed = [value if is_text else int(value) for value in attribute.values]
    listed = [value for value in listed if isinstance(value, str) or -(2**63) <= value < 2**63]

    def finish(grouped: Sequence[Expr]) -> tuple[Expr, ...]:
        value = grouped[0]
        nothing = ibis.null("string" if is_text else "int64")
        return ibis.cases((value.isin(listed), value), else_=nothing), null_flag(value)

    def decode(fetched: Fetched) -> Ints:
        index, unlisted, _ = attribute.read(as_objects(fetched[0]))
        is_null = np.array(fetched[1], dtype=np.bool_)
        return attribute.place((index, is_null, unlisted & ~is_null))

    return Key((plain,), decode, finish, fetched=2)


DAYS_LIMIT = 4096
"""Days that are grouped as they are, before they are compared."""


def date_key(attribute: Dates, cut: Segments, column: Expr, kind: ColumnType) -> Key:
    """Groups by the days themselves, or compares them where days would be many more than the segments."""
    import ibis

    first, after = (int(day) for day in attribute.starts(np.array([0, attribute.size])))
    segments = int(cut.starts.size)
    literal = _day if kind.kind == Kind.DATE else _midnight
    by_day = kind.kind == Kind.DATE and after - first <= DAYS_LIMIT

    def place(day: Expr) -> Expr:
        edges = [literal(int(start)) for start in attribute.starts(np.append(cut.starts, attribute.size))]
        return ibis.cases((day.notnull(), choice(day, edges, range(-1, segments + 1))))

    if segments <= CHOICE_LIMIT:
        if by_day:
            return Key((column,), segment_decoder(cut), lambda grouped: (place(grouped[0]),))
        return Key((place(column),), segment_decoder(cut))
    low, high = literal(first - 1), literal(after)
    if kind.kind == Kind.DATE:
        return Key((column,), raw_key(attribute, column).decode, lambda grouped: (_between(grouped[0], low, high),))
    return Key((_between(column, low, high).cast("date"),), raw_key(attribute, column).decode)


def day_literal(attribute: Dates, kind: ColumnType) -> Callable[[int], Expr]:
    """The first day of the declared value at an index, to compare a column of dates or timestamps with."""
    literal = _day if kind.kind == Kind.DATE else _midnight
    return lambda index: literal(int(attribute.starts(np.array([index]))[0]))


def _day(number: int) -> Expr:
    import ibis

    return ibis.literal(_moment(number * DAY).date(), "date")


def _midnight(number: int) -> Expr:
    return _clock(number * DAY)


def _clock(seconds: int) -> Expr:
    import ibis

    return ibis.literal(_moment(seconds), "timestamp")


def _moment(seconds: int) -> datetime.datetime:
    # Beyond the calendar the last day stands for what follows: it only matters to domains that end there.
    return EPOCH + datetime.timedelta(seconds=min(max(seconds, FIRST_SECOND), LAST_SECOND))


def _between(value: Expr, low: Expr, high: Expr) -> Expr:
    import ibis

    return ibis.cases((value <= low, low), (value >= high, high), else_=value)


def timestamp_key(attribute: Timestamps, cut: Segments, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """Groups by whole periods of the declared zone's wall clock."""
    import ibis

    unit = SECONDS[attribute.by]
    begin = attribute.first_period * unit
    end = begin + attribute.size * unit
    moment = column.cast("timestamp") if kind.kind == Kind.DATE else column
    place, decode = _place(attribute, cut)
    if kind.kind != Kind.INSTANT:
        clock = place(engine.seconds(moment, kind.kind).cast("float64"))
        low, high = _clock(begin), _clock(end)
    else:
        clock = place(_wall_seconds(engine.seconds(moment, kind.kind).cast("float64"), attribute.zone, begin, end))
        low, high = _clock(begin - MARGIN), _clock(end + MARGIN)
    below, above = whole_double(-1), whole_double(attribute.size)
    safe = ibis.cases((moment < low, below), (moment >= high, above), (moment >= low, clock))
    return Key((safe,), decode)


def _place(attribute: Timestamps, cut: Segments) -> tuple[Callable[[Expr], Expr], Callable[..., np.ndarray]]:
    """The number of the step or segment of a wall-clock second, and how it is read."""
    import ibis

    unit = SECONDS[attribute.by]
    begin = attribute.first_period * unit
    step = common_step(cut.starts, attribute.size)
    segments = int(cut.starts.size)
    if attribute.size > step * STEP_LIMIT and segments <= CHOICE_LIMIT:
        edges = [whole_double(begin + int(start) * unit) for start in np.append(cut.starts, attribute.size)]
        return (
            lambda second: choice(second, edges, range(-1, segments + 1)).cast("float64"),
            segment_decoder(cut),
        )

    def stepped(second: Expr) -> Expr:
        # Whole numbers below 2^53: a rounded quotient never reaches the next whole number.
        inside = floor((second - whole_double(begin)) / whole_double(step * unit))
        below, above = whole_double(-1), whole_double(attribute.size)
        last = whole_double(begin + attribute.size * unit)
        return ibis.cases((second < whole_double(begin), below), (second >= last, above), else_=inside)

    return stepped, step_decoder(attribute, step, 0)


def _wall_seconds(second: Expr, zone: str, begin: int, end: int) -> Expr:
    """What the zone's clock shows at a second of UTC, from a table of the zone's changes."""
    edges, offsets = zone_changes(zone, begin - MARGIN, end + MARGIN)
    return second + choice(second, [whole_double(edge) for edge in edges], offsets).cast("float64")
