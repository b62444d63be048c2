"""What one attribute contributes to the GROUP BY, and how what comes back becomes value codes.

Timestamps are seconds of the declared zone's wall clock, worked out the same way on every engine. Numbers are placed by
arithmetic that is proven at both sides of every edge, or by comparisons.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from blowfishdb.model.domain import Attribute, Bins, Categorical, Integers
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import LARGEST, Floats, Ints
from blowfishdb.sources.base import ColumnKind, ColumnType, Engine, Expr, Fetched, FetchedColumn, function, ibis
from blowfishdb.sources.irregular import (
    DOUBLE,
    RangedNumber,
    cell_of,
    common_steps,
    edge_cells,
    edges_met,
    met_place,
    truncated_cell,
)
from blowfishdb.sources.steps import (
    common_step,
    exact_double,
    floor,
    stepping,
    whole_double,
)


def null_flag(value: Expr) -> Expr:
    """1 where the value is NULL, else 0; not every engine can cast a truth value."""
    return ibis().cases((value.isnull(), ibis().literal(1, "int64")), else_=ibis().literal(0, "int64"))


def choice(number: Expr, edges: Sequence[Expr], values: Sequence[int]) -> Expr:
    """values[i], where i of the increasing edges lie at or below the number; compares log2 times."""
    if not edges:
        return ibis().literal(values[0], "int64")
    middle = len(edges) // 2
    low = choice(number, edges[:middle], values[: middle + 1])
    high = choice(number, edges[middle + 1 :], values[middle + 1 :])
    return ibis().cases((number < edges[middle], low), else_=high)


KeyWork: TypeAlias = Callable[[Sequence[Expr]], tuple[Expr, ...]]
CHOICE_LIMIT = 256
"""Edges that are compared one by one; a choice of 256 is eight comparisons deep."""
CELLS_FROM = 8
"""Segments from which on edges are looked up rather than compared one by one."""
STEP_LIMIT = 2**16
"""Steps beyond which fewer, compared segments are grouped rather than the steps themselves."""
NUMBERS = {int, float, Decimal, type(None)}
"""What drivers give for numbers; numpy reads None as NaN."""


@dataclass(frozen=True)
class OrderedColumn:
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
    finish: KeyWork | None = None
    fetched: int = 1
    """How many columns come back."""
    place: KeyWork | None = None
    is_light: bool = False
    """Whether `finish` only compares with two ends, so that it costs little for each row too."""
    tally: Callable[[Iterable[Floats]], Fetched] | None = None
    """Groups the rows here, where an engine streams them: the groups and how many rows each has."""


def raw_key(attribute: Attribute, column: Expr) -> Key:
    """Groups by the values as they are; the proxy reads them."""
    return Key((column,), lambda fetched: attribute.encode(as_objects(fetched[0])))


def as_objects(values: FetchedColumn) -> object:
    """A column of Python objects; what is an array of numbers already stays one."""
    if isinstance(values, np.ndarray):
        return values
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _doubles(values: FetchedColumn) -> Floats:
    """A column of numbers as doubles; anything else is NaN."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
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


LIST_LIMIT = 1024
"""Categories that are listed in the statement."""


def category_key(attribute: Categorical, column: Expr, kind: ColumnType, engine: Engine, *, is_alone: bool) -> Key:
    """Groups by the values; of the groups only the declared values leave the engine.

    Beside other keys, texts are grouped by their places in the list where the engine finds these quickly.
    """
    is_text = kind.kind == ColumnKind.TEXT
    plain = engine.comparable(column, kind.kind)
    if kind.kind not in (ColumnKind.TEXT, ColumnKind.INTEGER):
        return raw_key(attribute, plain)
    if attribute.size > LIST_LIMIT:
        # One more than the longest value: whatever is longer stays longer than every declared value.
        longest = max(len(str(value).encode()) for value in attribute.values)
        return raw_key(attribute, plain.substr(0, longest + 1) if is_text else plain)
    listed = [value if is_text else int(value) for value in attribute.values]
    listed = [value for value in listed if isinstance(value, str) or -(2**63) <= value < 2**63]

    place = engine.place(plain, [str(value) for value in listed]) if is_text and not is_alone else None
    if place is not None:
        number = ibis().cases((plain.notnull(), place), else_=ibis().literal(0, "int8"))
        return Key((number,), _place_decoder(attribute))

    def finish(grouped: Sequence[Expr]) -> tuple[Expr, ...]:
        value = grouped[0]
        nothing = ibis().null("string" if is_text else "int64")
        return ibis().cases((value.isin(listed), value), else_=nothing), null_flag(value)

    def decode(fetched: Fetched) -> Ints:
        index, unlisted, _ = attribute.read(as_objects(fetched[0]))
        is_null = np.array(fetched[1], dtype=np.bool_)
        return attribute.place((index, is_null, unlisted & ~is_null))

    return Key((plain,), decode, finish, fetched=2)


def _place_decoder(attribute: Categorical) -> Callable[[Fetched], Ints]:
    """Reads places in the list of values, from 1 on: 0 is NULL, and NULL is a value that is not listed."""

    def decode(fetched: Fetched) -> Ints:
        places = _doubles(fetched[0])
        is_outside = np.isnan(places)
        index = np.where(is_outside, 1.0, places).astype(np.int64) - 1
        return attribute.place((np.maximum(index, 0), places == 0, is_outside))

    return decode


DAYS_LIMIT = 4096
"""Days that are grouped as they are, before they are compared."""


def date_key(attribute: Dates, cut: Segments, column: Expr, kind: ColumnType, engine: Engine, *, is_alone: bool) -> Key:
    """Groups by the days themselves, or compares them where days would be many more than the segments.

    Beside other keys, whose groups would be multiplied by the days, whole months are grouped by their number, or days
    by their segments where the engine looks these up; days are compared where groups move between machines.
    """
    if kind.kind == ColumnKind.DATE and not is_alone:
        key = _month_key(attribute, cut, column, engine) or _listed_key(attribute, cut, column, engine)
        if key is not None:
            return key
    first, after = (int(day) for day in attribute.starts(np.array([0, attribute.size])))
    segments = int(cut.starts.size)
    literal = _day if kind.kind == ColumnKind.DATE else _midnight
    by_day = kind.kind == ColumnKind.DATE and after - first <= DAYS_LIMIT and (is_alone or not engine.shuffles)

    def place(day: Expr) -> Expr:
        edges = [literal(int(start)) for start in attribute.starts(np.append(cut.starts, attribute.size))]
        return ibis().cases((day.notnull(), choice(day, edges, range(-1, segments + 1))))

    if segments <= CHOICE_LIMIT:
        if by_day:
            return Key((column,), segment_decoder(cut), lambda grouped: (place(grouped[0]),))
        return Key((place(column),), segment_decoder(cut))
    low, high = literal(first - 1), literal(after)
    if kind.kind == ColumnKind.DATE:
        return Key(
            (column,), _day_decoder(attribute), lambda grouped: (_between(grouped[0], low, high),), is_light=True
        )
    return Key((_between(column, low, high).cast("date"),), _day_decoder(attribute))


def _month_key(attribute: Dates, cut: Segments, column: Expr, engine: Engine) -> Key | None:
    """The number of the month since the first declared one, where months are cut nowhere and the engine tells them."""
    days = attribute.starts(np.append(cut.starts, attribute.size))
    months = days.astype("datetime64[D]").astype("datetime64[M]")
    number = engine.month(column)
    if number is None or not np.array_equal(months.astype("datetime64[D]").astype(np.int64), days):
        return None
    edges = months.astype(np.int64) - int(months[0].astype(np.int64))
    count = int(edges[-1])
    whole = engine.whole_type(-1, count)
    if whole == DOUBLE:
        return None
    first = 12 * 1970 + int(months[0].astype(np.int64))
    inside = engine.as_whole(number - ibis().literal(first, "int64"), whole)
    key = _declared_days(column, int(days[0]), int(days[-1]), inside, (-1, count), whole)
    firsts = cut.starts[np.searchsorted(edges[:-1], np.arange(count), side="right") - 1]
    return Key((key,), step_decoder(attribute, firsts, 0))


BYTE = range(256)


def _listed_key(attribute: Dates, cut: Segments, column: Expr, engine: Engine) -> Key | None:
    """The segment of a day, where they are few and the engine looks the day up in a list of them."""
    days = attribute.starts(np.append(cut.starts, attribute.size))
    first, after, segments = int(days[0]), int(days[-1]), int(cut.starts.size)
    if after - first > DAYS_LIMIT or segments - 1 not in BYTE:
        return None
    numbers = np.searchsorted(days, np.arange(first, after), side="right") - 1
    inside = engine.day_entry(numbers.astype(np.uint8).tobytes(), _day(first), column)
    if inside is None:
        return None
    return Key((_declared_days(column, first, after, inside, (-1, segments), "int32"),), segment_decoder(cut))


def _declared_days(column: Expr, first: int, after: int, inside: Expr, beyond: tuple[int, int], whole: str) -> Expr:
    """`inside` serves the days from the first on, two numbers of the same type those before and after; NULL is NULL."""
    low, high = _day(first), _day(after)
    below, above = (ibis().literal(number, "int64").cast(whole) for number in beyond)
    # Infinite dates have no month and no place, and fall to a side like all that is not declared.
    return ibis().cases(((column >= low) & (column < high), inside), (column < low, below), (column >= high, above))


def _day_decoder(attribute: Dates) -> Callable[[Fetched], Ints]:
    """Reads days; where drivers give dates, all at once."""

    def decode(fetched: Fetched) -> Ints:
        is_plain = set(map(type, fetched[0])) <= {datetime.date, type(None)}
        return attribute.encode(np.array(fetched[0], dtype="datetime64[D]") if is_plain else as_objects(fetched[0]))

    return decode


def day_literal(attribute: Dates, kind: ColumnType) -> Callable[[int], Expr]:
    """The first day of the declared value at an index, to compare a column of dates or timestamps with."""
    literal = _day if kind.kind == ColumnKind.DATE else _midnight
    return lambda index: literal(int(attribute.starts(np.array([index]))[0]))


def _day(number: int) -> Expr:
    return ibis().literal(_moment(number * DAY).date(), "date")


def _midnight(number: int) -> Expr:
    return _clock(number * DAY)


def _clock(seconds: int) -> Expr:
    return ibis().literal(_moment(seconds), "timestamp")


def _moment(seconds: int) -> datetime.datetime:
    # Beyond the calendar its last day stands for what follows, which `check_type` lets nobody notice.
    return EPOCH + datetime.timedelta(seconds=min(max(seconds, FIRST_SECOND), LAST_SECOND))


def _between(value: Expr, low: Expr, high: Expr) -> Expr:
    return ibis().cases((value <= low, low), (value >= high, high), else_=value)


def timestamp_key(attribute: Timestamps, cut: Segments, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """Groups by whole periods of the declared zone's wall clock."""
    unit = SECONDS[attribute.by]
    begin = attribute.first_period * unit
    end = begin + attribute.size * unit
    moment = column.cast("timestamp") if kind.kind == ColumnKind.DATE else column
    place, decode = _clock_place(attribute, cut)
    if kind.kind != ColumnKind.INSTANT:
        clock = place(engine.seconds(moment, kind.kind).cast("float64"))
        low, high = _clock(begin), _clock(end)
    else:
        clock = place(_wall_seconds(engine.seconds(moment, kind.kind).cast("float64"), attribute.zone, begin, end))
        low, high = _clock(begin - MARGIN), _clock(end + MARGIN)
    below, above = whole_double(-1), whole_double(attribute.size)
    compared = moment
    if kind.kind == ColumnKind.DATE:
        # A day may lie where there are no more moments: only declared days become one.
        compared, low, high = column, _day(-(-begin // DAY)), _day(-(-end // DAY))
    safe = ibis().cases((compared < low, below), (compared >= high, above), (compared >= low, clock))
    return Key((safe,), decode)


def _clock_place(attribute: Timestamps, cut: Segments) -> tuple[Callable[[Expr], Expr], Callable[..., np.ndarray]]:
    """The number of the step or segment of a wall-clock second, and how it is read."""
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
        return ibis().cases((second < whole_double(begin), below), (second >= last, above), else_=inside)

    return stepped, step_decoder(attribute, step, 0)


def _wall_seconds(second: Expr, zone: str, begin: int, end: int) -> Expr:
    """What the zone's clock shows at a second of UTC, from a table of the zone's changes."""
    edges, offsets = zone_changes(zone, begin - MARGIN, end + MARGIN)
    return second + choice(second, [whole_double(edge) for edge in edges], offsets).cast("float64")


EXACT_DIGITS = 15
"""Decimals of up to this many digits keep their whole part when they become doubles."""


def number_key(
    attribute: Integers | Bins, cut: Segments, column: Expr, kind: ColumnType, engine: Engine, *, is_alone: bool
) -> Key:
    """The key of a numeric attribute."""
    if not engine.typed:
        # As a double, the whole number next to the largest exact one is that one.
        if isinstance(attribute, Integers) and max(-attribute.low, attribute.high) == LARGEST:
            return raw_key(attribute, engine.comparable(column, kind.kind))
        return _dynamic_key(attribute, cut, column, engine)
    if kind.kind == ColumnKind.BOOLEAN or _is_read_by_proxy(attribute, kind, engine):
        return raw_key(attribute, column)
    if kind.kind == ColumnKind.INTEGER and isinstance(attribute, Integers):
        few = min(STEP_LIMIT, max(1024, 4 * int(cut.starts.size)))
        if attribute.size <= few:
            return _integer_key(attribute, column)
        return _double_key(attribute, cut, _whole(attribute, column), engine)
    number = _real(attribute, column.cast("float64"), _may_be_nan(kind, engine))
    return _double_key(attribute, cut, number, engine, is_streamed=is_alone and engine.streams)


def number_line(attribute: Integers | Bins, column: Expr, kind: ColumnType, engine: Engine) -> OrderedColumn | None:
    """The numbers as they are compared; None for types that the proxy reads."""
    if kind.kind not in (ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.DECIMAL) or _is_read_by_proxy(
        attribute, kind, engine
    ):
        return None
    if kind.kind == ColumnKind.INTEGER and isinstance(attribute, Integers):
        low = attribute.low
        return OrderedColumn(column, lambda index: ibis().literal(low + index, "int64"))
    return OrderedColumn(
        column.cast("float64"), lambda index: exact_double(_edge(attribute, index)), _may_be_nan(kind, engine)
    )


def _may_be_nan(kind: ColumnType, engine: Engine) -> bool:
    return kind.kind == ColumnKind.REAL and engine.has_nan


def _is_read_by_proxy(attribute: Integers | Bins, kind: ColumnType, engine: Engine) -> bool:
    """Whether a decimal has too many digits for the double to lie where the decimal lies."""
    limit = min(EXACT_DIGITS, engine.decimal_digits) if isinstance(attribute, Integers) else engine.decimal_digits
    return kind.kind == ColumnKind.DECIMAL and (kind.digits is None or kind.digits > limit)


def _integer_key(attribute: Integers, column: Expr) -> Key:
    """Groups by the whole numbers themselves; of the groups those beyond the ends are put together."""

    def finish(grouped: Sequence[Expr]) -> tuple[Expr, ...]:
        value = grouped[0]
        below, above = ibis().literal(attribute.low - 1, "int64"), ibis().literal(attribute.high + 1, "int64")
        return (ibis().cases((value <= below, below), (value >= above, above), else_=value),)

    return Key((column,), lambda fetched: attribute.encode(_wholes(fetched[0])), finish, is_light=True)


def _wholes(values: FetchedColumn) -> object:
    """A column of whole numbers: an array where every value is one, else Python objects."""
    if isinstance(values, list) and set(map(type, values)) == {int}:
        with suppress(OverflowError):
            return np.array(values, dtype=np.int64)
    return as_objects(values)


def _real(attribute: Integers | Bins, value: Expr, nan: bool) -> RangedNumber:
    return RangedNumber(
        value, value, exact_double(_edge(attribute, 0)), exact_double(_edge(attribute, attribute.size)), nan
    )


def _whole(attribute: Integers, column: Expr) -> RangedNumber:
    """A whole number; next to 2^53 its double no longer tells whether it is declared."""
    low, high = ibis().literal(attribute.low, "int64"), ibis().literal(attribute.high + 1, "int64")
    return RangedNumber(column.cast("float64"), column, low, high, False)


def _double_key(
    attribute: Integers | Bins, cut: Segments, number: RangedNumber, engine: Engine, *, is_streamed: bool = False
) -> Key:
    segments = int(cut.starts.size)
    search = _search_key(attribute, cut, number, engine)
    most = STEP_LIMIT if search is None else min(STEP_LIMIT, 4 * segments)
    key = _step_key(attribute, cut, number, engine, most) or search
    key = key or _cell_key(attribute, cut, number, engine, is_streamed=is_streamed)
    if key is not None:
        return key
    if segments <= CHOICE_LIMIT:
        edges = [exact_double(_edge(attribute, int(start))) for start in cut.starts[1:]]
        inside = choice(number.value, edges, range(segments))
        return Key((number.guarded(inside, -1, segments),), segment_decoder(cut))
    return raw_key(attribute, number.value)


def _search_key(attribute: Integers | Bins, cut: Segments, number: RangedNumber, engine: Engine) -> Key | None:
    """The number of edges at or below, by the engine's own search; the ends are edges too, so nothing else is asked.

    An engine that searches holds NaN to be the largest number: a last edge of NaN parts it from what lies above.
    """
    segments = int(cut.starts.size)
    edges = _edge_doubles(attribute, np.append(cut.starts, attribute.size))
    if number.compared is not number.value:
        search = engine.bucket(number.value, edges[1:-1])
        return None if search is None else Key((number.guarded(search, -1, segments),), segment_decoder(cut))
    search = engine.bucket(number.value, np.append(edges, np.nan) if number.nan else edges)
    decode, nan = step_decoder(attribute, cut.starts, 1), segments + 2

    def without_nan(fetched: Fetched) -> Ints:
        places = _doubles(fetched[0])
        return decode([np.where(places == nan, np.nan, places)])

    return None if search is None else Key((search,), without_nan)


def _step_key(attribute: Integers | Bins, cut: Segments, number: RangedNumber, engine: Engine, most: int) -> Key | None:
    """Arithmetic, where the edges lie on a grid of equal widths and there are not far too many steps."""
    grid, firsts = common_steps(attribute, cut)
    if grid is None or (grid.count > most and (cut.starts.size <= CHOICE_LIMIT or most < STEP_LIMIT)):
        return None
    way = stepping(grid)
    if way is None or (way.underflows and engine.errors_on_underflow):
        return None
    steps = step_decoder(attribute, firsts, 0)

    def decode(fetched: Fetched) -> Ints:
        return steps([way.steps(_doubles(fetched[0]))])

    if engine.floors_to_whole and number.compared is number.value:
        return Key(
            (number.value, way.lead(number.value)),
            decode,
            place=lambda columns: (way.within(*columns, nan=number.nan),),
        )
    whole = engine.whole_type(way.first - 1, way.last)
    stepped = way.number(number.value)
    if engine.errors_on_overflow:
        return Key((number.guarded(engine.as_whole(stepped, whole), way.first - 1, way.last, whole),), decode)

    def place(columns: Sequence[Expr]) -> tuple[Expr, ...]:
        value, compared, stepped_column = columns
        known = replace(number, value=value, compared=compared)
        return (known.guarded(engine.as_whole(stepped_column, whole), way.first - 1, way.last, whole),)

    return Key((number.value, number.compared, stepped), decode, place=place)


def _cell_key(
    attribute: Integers | Bins, cut: Segments, number: RangedNumber, engine: Engine, *, is_streamed: bool
) -> Key | None:
    """Cells of equal width, in each of which the number is compared with the edges that an engine looks up."""
    is_found = isinstance(attribute, Bins) and engine.entry(np.zeros(1), number.value) is not None
    if not isinstance(attribute, Bins) or not is_found or cut.starts.size < CELLS_FROM:
        return None
    edges = attribute.edge_doubles(np.append(cut.starts, attribute.size))
    if engine.floors_to_whole:
        return _entry_key(attribute, cut, number, engine, edges)
    cells = edge_cells(float(edges[0]), edges[1:])
    if cells is None:
        return None
    bins = step_decoder(attribute, cut.starts, 0)
    if is_streamed:
        return Key((number.value,), bins, tally=cells.tally)
    known = cells
    whole = engine.whole_type(~known.count, known.count * len(known.tables))

    def place(columns: Sequence[Expr]) -> tuple[Expr, ...]:
        value, cell = columns
        return (met_place(known, replace(number, value=value, compared=value), cell, whole, engine),)

    def decode(fetched: Fetched) -> Ints:
        return bins([known.edges_below(_doubles(fetched[0]))])

    cell = cell_of(known, number.value)
    # What does not fit has no place in the list: the number itself is then looked at last.
    return Key((number.value, engine.as_whole(cell, whole)), decode, place=place)


def _entry_key(attribute: Bins, cut: Segments, number: RangedNumber, engine: Engine, edges: Floats) -> Key | None:
    """Cells in which the first edge is looked up like all others: no end is compared for itself."""
    cells = edge_cells(float(edges[0]), edges, is_listed=True)
    if cells is None:
        return None
    known = cells

    def place(columns: Sequence[Expr]) -> tuple[Expr, ...]:
        value, entry = columns
        return (edges_met(known, edges, replace(number, value=value, compared=value), entry, engine),)

    entry = engine.entry(known.entries(), truncated_cell(known, number.value) + 1)
    return Key((number.value, entry), step_decoder(attribute, cut.starts, 1), place=place)


def _edge(attribute: Integers | Bins, index: int) -> Fraction:
    """The left edge of a declared value; for whole numbers beyond 2^53 the next double."""
    if isinstance(attribute, Bins):
        return attribute.edge(index)
    number = attribute.low + index
    return Fraction(number if number <= LARGEST else LARGEST + 2)


def _edge_doubles(attribute: Integers | Bins, indices: Ints) -> Floats:
    """The left edges of declared values, each the nearest double."""
    if isinstance(attribute, Bins):
        return attribute.edge_doubles(indices)
    numbers = attribute.low + indices
    return np.where(numbers <= LARGEST, numbers, LARGEST + 2).astype(np.float64)


def _dynamic_key(attribute: Integers | Bins, cut: Segments, column: Expr, engine: Engine) -> Key:
    """Numbers by arithmetic, and texts that stand in a numeric column as they are."""
    stored = function("typeof", "string")(column)
    number = ibis().cases((stored.isin(["integer", "real"]), column))
    text = ibis().cases((stored == "text", engine.comparable(column.cast("string"), ColumnKind.TEXT)))
    if isinstance(attribute, Integers):
        numbers = _double_key(attribute, cut, _whole(attribute, number), engine)
    else:
        numbers = _double_key(attribute, cut, _real(attribute, number.cast("float64"), nan=False), engine)
    texts = raw_key(attribute, text)

    def decode(fetched: Fetched) -> Ints:
        codes, others = numbers.decode(fetched[:1]), texts.decode(fetched[1:])
        return np.where([value is None for value in fetched[1]], codes, others)

    return Key((*numbers.columns, *texts.columns), decode, fetched=2)
