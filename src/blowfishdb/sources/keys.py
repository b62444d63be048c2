"""What one attribute contributes to the GROUP BY, and how what comes back becomes value codes.

Timestamps are seconds of the declared zone's wall clock, worked out the same way on every engine. Numbers are placed by
arithmetic that is proven at both sides of every edge, or by comparisons.
"""

from __future__ import annotations

import datetime
import math
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
from blowfishdb.sources.irregular import EdgeCells, common_grid, edge_cells


def floor(number: Expr) -> Expr:
    """The double rounded down, still a double: Ibis' own floor casts, and a cast may fail."""
    return function("floor", "float64")(number)


def null_flag(value: Expr) -> Expr:
    """1 where the value is NULL, else 0; not every engine can cast a truth value."""
    return ibis().cases((value.isnull(), ibis().literal(1, "int64")), else_=ibis().literal(0, "int64"))


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


def common_step(starts: Ints, size: int) -> int:
    """The largest number of declared values that divides every cut; the last step may be cut short by the end."""
    return int(np.gcd.reduce(starts[1:])) if starts.size > 1 else size


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

    Beside other keys, whose groups would be multiplied by the days, whole months are grouped by their number, and days
    are compared where groups move between machines.
    """
    by_month = None if is_alone or kind.kind != ColumnKind.DATE else _month_key(attribute, cut, column, engine)
    if by_month is not None:
        return by_month
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
    low, high = _day(int(days[0])), _day(int(days[-1]))
    below, above = (ibis().literal(code, "int64").cast(whole) for code in (-1, count))
    # Infinite dates have no month, and fall to a side like all that is not declared.
    key = ibis().cases(((column >= low) & (column < high), inside), (column < low, below), (column >= high, above))
    firsts = cut.starts[np.searchsorted(edges[:-1], np.arange(count), side="right") - 1]
    return Key((key,), step_decoder(attribute, firsts, 0))


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
    # Beyond the calendar the last day stands for what follows: it only matters to domains that end there.
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
    safe = ibis().cases((moment < low, below), (moment >= high, above), (moment >= low, clock))
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


FloatFormula = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Stepping:
    """An expression for the step of a double, the number it gives to step 0, and whether it may underflow near zero."""

    step: Callable[[Expr], Expr]
    origin: int = 0
    underflows: bool = False


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
                shifted = numbers + candidate.origin
                if np.array_equal(formula(edges), shifted) and np.array_equal(formula(before), shifted - 1):
                    return candidate
            if furthest <= CORRECTION_LIMIT:
                for formula, place in _nearly(grid):
                    if _is_never_low(grid, formula, edges):
                        return _corrected(grid, place)
    half = exact_double(Fraction(1, 2))
    return _corrected(grid, lambda x: _place(grid, x) + half) if furthest <= CORRECTION_LIMIT else None


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

    def step(x: Expr) -> Expr:
        whole = floor(x if grid.scale == 1 else x * whole_double(grid.scale))
        whole = whole if aligned or grid.start == 0 else whole - whole_double(grid.start)
        return whole if grid.width == 1 else floor(whole / whole_double(grid.width))

    return Stepping(step, grid.start // grid.width if aligned else 0)


def _candidates(grid: EvenSteps) -> list[tuple[FloatFormula, Stepping]]:
    choices: list[tuple[FloatFormula, Stepping]] = []
    width, scale = float(grid.width), float(grid.scale)
    if _is_aligned(grid):
        way = Stepping(lambda x: floor(_multiple(grid, x)), _origin(grid), grid.width > 1)
        choices.append((lambda x: np.floor(x * scale / width), way))
    low, step = grid.edge(0), Fraction(grid.width, grid.scale)
    way = Stepping(lambda x: floor(_quotient(grid, x)), underflows=step > 1)
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

    def step(x: Expr) -> Expr:
        near = floor(place(x))
        edge = near if grid.width == 1 else near * whole_double(grid.width)
        edge = edge if aligned else whole_double(grid.start) + edge
        edge = edge if grid.scale == 1 else edge / whole_double(grid.scale)
        below = floor(x - edge)
        return near + (below if power == 1 else floor(below / whole_double(power)))

    return Stepping(step, _origin(grid), grid.width > (1 if aligned else grid.scale))


DOUBLE = "float64"
EXACT_DIGITS = 15
"""Decimals of up to this many digits keep their whole part when they become doubles."""


def number_key(
    attribute: Integers | Bins, cut: Segments, column: Expr, kind: ColumnType, engine: Engine, *, is_alone: bool
) -> Key:
    """The key of a numeric attribute."""
    if not engine.typed:
        # As a double, the whole number next to the largest exact one is that one.
        if isinstance(attribute, Integers) and max(-attribute.low, attribute.high) == LARGEST:
            return raw_key(attribute, column)
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

    def guarded(self, inside: Expr, first: int, count: int, whole: str = DOUBLE) -> Expr:
        """The number of a step: `inside`, of the whole type if one is named, serves declared values; NaN is NULL."""
        unknown = [(self.value.isnan(), ibis().null(whole))] if self.nan else []
        step = inside.cast(DOUBLE) if whole == DOUBLE else inside
        return ibis().cases(
            # Most rows lie here, so this comes first; no engine finds NaN below a number.
            ((self.compared >= self.low) & (self.compared < self.high), step),
            *unknown,
            (self.compared < self.low, whole_double(first - 1).cast(whole)),
            (self.compared >= self.high, whole_double(first + count).cast(whole)),
        )


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
        return Key((number.guarded(inside, 0, segments),), segment_decoder(cut))
    return raw_key(attribute, number.value)


def _search_key(attribute: Integers | Bins, cut: Segments, number: RangedNumber, engine: Engine) -> Key | None:
    """The number of edges at or below, by the engine's own search; the ends are edges too, so nothing else is asked.

    An engine that searches holds NaN to be the largest number: a last edge of NaN parts it from what lies above.
    """
    segments = int(cut.starts.size)
    edges = _edge_doubles(attribute, np.append(cut.starts, attribute.size))
    if number.compared is not number.value:
        search = engine.bucket(number.value, edges[1:-1])
        return None if search is None else Key((number.guarded(search, 0, segments),), segment_decoder(cut))
    search = engine.bucket(number.value, np.append(edges, np.nan) if number.nan else edges)
    decode, nan = step_decoder(attribute, cut.starts, 1), segments + 2

    def without_nan(fetched: Fetched) -> Ints:
        places = _doubles(fetched[0])
        return decode([np.where(places == nan, np.nan, places)])

    return None if search is None else Key((search,), without_nan)


def _step_key(attribute: Integers | Bins, cut: Segments, number: RangedNumber, engine: Engine, most: int) -> Key | None:
    """Arithmetic, where the edges lie on a grid of equal widths and there are not far too many steps."""
    grid, firsts = _common_steps(attribute, cut)
    if grid is None or (grid.count > most and (cut.starts.size <= CHOICE_LIMIT or most < STEP_LIMIT)):
        return None
    way = stepping(grid)
    if way is None or (way.underflows and engine.errors_on_underflow):
        return None
    decode = step_decoder(attribute, firsts, way.origin)
    stepped = way.step(number.value)
    whole = engine.whole_type(way.origin - 1, way.origin + grid.count)
    if engine.errors_on_overflow:
        return Key((number.guarded(engine.as_whole(stepped, whole), way.origin, grid.count, whole),), decode)

    def place(columns: Sequence[Expr]) -> tuple[Expr, ...]:
        value, compared, stepped_column = columns
        known = replace(number, value=value, compared=compared)
        return (known.guarded(engine.as_whole(stepped_column, whole), way.origin, grid.count, whole),)

    return Key((number.value, number.compared, stepped), decode, place=place)


def _common_steps(attribute: Integers | Bins, cut: Segments) -> tuple[EvenSteps | None, Ints | int]:
    """The grid of the cuts, and the first value of each step or how many values each has."""
    if not isinstance(attribute, Bins) or attribute.width is not None:
        step = common_step(cut.starts, attribute.size)
        return grid_of(attribute, step), step
    common = common_grid([attribute.edge(int(start)) for start in cut.starts] + [attribute.edges[-1]], CORRECTION_LIMIT)
    if common is None:
        return None, 1
    return EvenSteps(common.start, common.width, common.scale, common.below.size), cut.starts[common.below - 1]


def _cell_key(
    attribute: Integers | Bins, cut: Segments, number: RangedNumber, engine: Engine, *, is_streamed: bool
) -> Key | None:
    """Cells of equal width, in each of which the number is compared with the edges that an engine looks up."""
    is_found = isinstance(attribute, Bins) and engine.entry(np.zeros(1), number.value) is not None
    if not isinstance(attribute, Bins) or not is_found or cut.starts.size < CELLS_FROM:
        return None
    low, *later = attribute.edge_doubles(np.append(cut.starts, attribute.size)).tolist()
    cells = edge_cells(low, np.array(later))
    if cells is None:
        return None
    bins = step_decoder(attribute, cut.starts, 0)
    if is_streamed:
        return Key((number.value,), bins, tally=cells.tally)
    known = cells
    whole = engine.whole_type(~known.count, known.count * len(known.tables))

    def place(columns: Sequence[Expr]) -> tuple[Expr, ...]:
        value, cell = columns
        return (_met(known, replace(number, value=value, compared=value), cell, whole, engine),)

    def decode(fetched: Fetched) -> Ints:
        return bins([known.edges_below(_doubles(fetched[0]))])

    cell = _cell(known, number.value)
    # What does not fit has no place in the list: the number itself is then looked at last.
    return Key((number.value, engine.as_whole(cell, whole)), decode, place=place)


def _cell(cells: EdgeCells, number: Expr) -> Expr:
    """The cell of a number, from 1 on; numbers beyond the ends get any, but no error."""
    distance = number - exact_double(Fraction(cells.start)) if cells.start else number
    for root in range(cells.roots):
        distance = function("sqrt", "float64")(function("abs", "float64")(distance) if root == 0 else distance)
    return floor(distance * exact_double(Fraction(cells.factor))) + whole_double(1)


def _met(cells: EdgeCells, number: RangedNumber, cell: Expr, whole: str, engine: Engine) -> Expr:
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
