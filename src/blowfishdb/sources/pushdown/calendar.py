"""Keys of dates and timestamps: seconds of the declared zone's wall clock, worked out the same way everywhere."""

from __future__ import annotations

import datetime
from collections.abc import Callable

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
from blowfishdb.model.groups import Segments
from blowfishdb.sources.base import ColumnType, Engine, Expr, Kind
from blowfishdb.sources.pushdown.keys import (
    CHOICE_LIMIT,
    STEP_LIMIT,
    Key,
    choice,
    floor,
    raw_key,
    segment_decoder,
    step_decoder,
    whole_double,
)
from blowfishdb.sources.pushdown.numeric import common_step

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
