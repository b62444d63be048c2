"""Dates and timestamps: calendar units, the attributes made of them, and the changes of a zone's clock."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import DomainError, InvalidInput
from blowfishdb.model.arguments import checked
from blowfishdb.model.domain import CELL, CLAMP, Attribute, Encoded, Value, one_by_one
from blowfishdb.model.numbers import Ints

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
NESTS = {
    "second": ("minute", "hour", "day", "week", "month", "quarter", "year"),
    "minute": ("hour", "day", "week", "month", "quarter", "year"),
    "hour": ("day", "week", "month", "quarter", "year"),
    "day": ("week", "month", "quarter", "year"),
    "week": (),
    "month": ("quarter", "year"),
    "quarter": ("year",),
    "year": (),
}
"""The coarser periods that are made of whole finer ones; weeks begin on Monday and straddle months."""

MONDAY = 3
"""1970-01-01 was a Thursday: day -3 is a Monday."""


@dataclass(frozen=True)
class Duration:
    """A whole number of calendar units."""

    amount: int
    unit: str

    def __str__(self) -> str:
        return f"{self.amount} {self.unit}{'' if self.amount == 1 else 's'}"


def parse_duration(text: str, error: type[InvalidInput]) -> Duration:
    """'7 days', '1 month', '90 minutes' as a value."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", text)
    if match is None or match[2] not in NESTS:
        raise error(f"{text!r} is not a duration; write for example '7 days' or '3 months'")
    return Duration(int(match[1]), match[2])


def periods_of_days(days: Ints, unit: str) -> Ints:
    """The number of the period (since 1970) that holds each day."""
    if unit == "day":
        return days
    if unit == "week":
        return (days + MONDAY) // 7
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return np.asarray(months // {"month": 1, "quarter": 3, "year": 12}[unit], dtype=np.int64)


def first_days(periods: Ints, unit: str) -> Ints:
    """The first day (since 1970) of each period."""
    if unit == "day":
        return periods
    if unit == "week":
        return periods * 7 - MONDAY
    months = periods * {"month": 1, "quarter": 3, "year": 12}[unit]
    return np.asarray(months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64))


def name_of_day(day: int, unit: str) -> str:
    """The period that begins on the given day, in ISO style."""
    text = str(np.datetime64(day, "D"))
    if unit == "year":
        return text[:-6]
    if unit == "month":
        return text[:-3]
    if unit == "quarter":
        return f"{text[:-6]}-Q{(int(text[-5:-3]) + 2) // 3}"
    return text


def whole_period(begin: int, after: int, units: Iterable[str]) -> str | None:
    """The name of the one period, of any of the units, that begins on the first day and ends before the second."""
    for unit in units:
        periods = periods_of_days(np.array([begin, after]), unit)
        if np.array_equal(first_days(periods, unit), [begin, after]) and periods[1] - periods[0] == 1:
            return name_of_day(begin, unit)
    return None


Day = datetime.date
EPOCH_DAY = Day(1970, 1, 1)
DATE_UNITS = ("day", "week", "month", "quarter", "year")
QUARTER = re.compile(r"([0-9]{4})-Q([1-4])")


def as_day(value: object, what: str) -> int:
    """A date, or ISO text such as '2024-02-29', as days since 1970."""
    if isinstance(value, np.datetime64) and not np.isnat(value):
        return int(value.astype("datetime64[D]").astype(np.int64))
    if isinstance(value, datetime.datetime):
        raise DomainError(f"{what} must be a date without a time, not {value!r}")
    if isinstance(value, str):
        try:
            value = Day.fromisoformat(value.strip())
        except ValueError:
            raise DomainError(f"{what} must be a date such as 2024-02-29, not {value!r}") from None
    if not isinstance(value, Day):
        raise DomainError(f"{what} must be a date, not {value!r}")
    return (value - EPOCH_DAY).days


@dataclass(frozen=True, kw_only=True)
class Dates(Attribute):
    """The periods from the one that holds `start` to the one that holds `end`."""

    start: Day
    end: Day
    by: str = "day"

    def __post_init__(self) -> None:
        if self.by not in DATE_UNITS:
            raise DomainError(f"dates are grouped by {', '.join(DATE_UNITS)}, not by {self.by!r}")
        if self.start > self.end:
            raise DomainError(f"the start {self.start} must not be after the end {self.end}")
        self.check()

    def _period(self, day: int) -> int:
        return int(periods_of_days(np.array([day]), self.by)[0])

    @property
    def first_period(self) -> int:
        """The number of the first declared period since 1970."""
        return self._period((self.start - EPOCH_DAY).days)

    @property
    def size(self) -> int:
        return self._period((self.end - EPOCH_DAY).days) - self.first_period + 1

    def starts(self, index: Ints) -> Ints:
        """The first day of each value, as days since 1970; index `size` gives the day after the end."""
        return first_days(np.asarray(index) + self.first_period, self.by)

    def locate(self, value: Value) -> int:
        named = self._named_period(value)
        index = (self._period(as_day(value, "the value")) if named is None else named) - self.first_period
        if not 0 <= index < self.size:
            raise DomainError(f"{value} is not between {self.start} and {self.end}")
        return index

    def _named_period(self, value: Value) -> int | None:
        """The period that text such as '2024', '2024-Q2' or '2024-03' names, when the column goes by it."""
        quarter = QUARTER.fullmatch(value) if self.by == "quarter" and isinstance(value, str) else None
        if quarter is not None:
            return self._period(as_day(f"{quarter[1]}-{3 * int(quarter[2]) - 2:02d}-01", "the value"))
        if self.by == "year" and isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:04d}"
        length = {"year": 4, "month": 7}.get(self.by)
        if not isinstance(value, str) or len(value) != length:
            return None
        return self._period(as_day(f"{value}-01-01" if self.by == "year" else f"{value}-01", "the value"))

    def index_of(self, value: Value) -> int:
        if self.by != "day" and self._named_period(value) is None:
            raise DomainError(f"{value} is one day of a {self.by}; ask for a range of whole {self.by}s")
        return self.locate(value)

    def below(self, value: Value) -> int:
        named = self._named_period(value)
        return self._clip(named) if named is not None else self._cut(as_day(value, "the value"))

    def up_to(self, value: Value) -> int:
        named = self._named_period(value)
        return self._clip(named + 1) if named is not None else self._cut(as_day(value, "the value") + 1)

    def _clip(self, period: int) -> int:
        return min(max(period - self.first_period, 0), self.size)

    def _cut(self, day: int) -> int:
        period = self._period(day)
        if period < self.first_period or period >= self.first_period + self.size:
            return self._clip(period)
        around = first_days(np.array([period, period + 1]), self.by)
        if int(around[0]) != day:
            near = " and ".join(name_of_day(int(edge), "day") for edge in around)
            raise DomainError(f"a {self.by} would be cut in two; its first day and the next one's are {near}")
        return self._clip(period)

    def read(self, values: object) -> Encoded:
        column = np.asarray(values).reshape(-1)
        last = self.first_period + self.size - 1
        if column.dtype.kind != "M":
            return one_by_one(values, self._read_one, self.first_period, last)
        is_null = np.isnat(column)
        days = np.where(is_null, np.datetime64(0, "D"), column).astype("datetime64[D]").astype(np.int64)
        ends = self.starts(np.array([0, self.size]))
        is_outside = ~is_null & ((days < ends[0]) | (days >= ends[1]))
        inside = np.clip(days, ends[0], ends[1] - 1)
        return periods_of_days(inside, self.by) - self.first_period, is_null, is_outside

    def _read_one(self, value: object) -> int | None:
        if isinstance(value, datetime.datetime):
            value = value.date()
        elif isinstance(value, str):
            value = value.strip()[:10]
        try:
            return self._period(as_day(value, "the value"))
        except DomainError:
            return None

    def run_label(self, first: int, last: int) -> str:
        begin, after = (int(day) for day in self.starts(np.array([first, last + 1])))
        named = whole_period(begin, after, (self.by, *NESTS[self.by]))
        return named or f"{name_of_day(begin, 'day')} .. {name_of_day(after - 1, 'day')}"

    def run_labels(self, firsts: Ints, lasts: Ints) -> Iterable[str]:
        if self.by in ("day", "week") and np.array_equal(firsts, lasts):
            # Each is one declared period, whose name is its first day: all are written at once.
            labels: list[str] = np.datetime_as_string(self.starts(firsts).astype("datetime64[D]")).tolist()
            return labels
        return super().run_labels(firsts, lasts)


@checked(DomainError)
def dates(
    start: object,
    end: object,
    by: str = "day",
    *,
    null: Value = CELL,
    outside: str = CLAMP,
    null_public: bool = False,
    outside_public: bool = False,
) -> Dates:
    """A date column from start to end, both included, by day, week (from Monday), month, quarter or year."""
    days = (as_day(start, "the start"), as_day(end, "the end"))
    first, last = (EPOCH_DAY + datetime.timedelta(days=day) for day in days)
    return Dates(null, outside, null_public, outside_public, start=first, end=last, by=by)


Moment = datetime.datetime
EPOCH = Moment(1970, 1, 1)
TIMESTAMP_UNITS = ("second", "minute", "hour", "day")
DAY = SECONDS["day"]


def find_zone(name: str) -> datetime.tzinfo:
    """The named time zone; UTC needs no database of zones."""
    if name == "UTC":
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise DomainError(f"there is no time zone {name!r}; write for example 'Europe/Zurich' or 'UTC'") from None


def wall_clock(value: object, zone: datetime.tzinfo, what: str) -> Moment:
    """A moment as the wall clock of the zone shows it; without a zone of its own it is taken as such."""
    if isinstance(value, np.datetime64) and not np.isnat(value):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        try:
            value = Moment.fromisoformat(value.strip())
        except ValueError:
            raise DomainError(f"{what} must be a timestamp such as 2024-02-29T13:00, not {value!r}") from None
    if isinstance(value, datetime.date) and not isinstance(value, Moment):
        value = Moment(value.year, value.month, value.day)
    if not isinstance(value, Moment):
        raise DomainError(f"{what} must be a timestamp, not {value!r}")
    if value.tzinfo is None:
        return value
    try:
        return value.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        return value.replace(tzinfo=None)


@dataclass(frozen=True, kw_only=True)
class Timestamps(Attribute):
    """The half-open periods from the one that holds `start` until `end`, which is not included.

    Raw arrays without a zone are read as wall-clock time of the declared zone.
    """

    start: Moment
    end: Moment
    by: str = "hour"
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.by not in TIMESTAMP_UNITS:
            raise DomainError(f"timestamps are grouped by {', '.join(TIMESTAMP_UNITS)}, not by {self.by!r}")
        find_zone(self.zone)
        if self.start.tzinfo is not None or self.end.tzinfo is not None:
            raise DomainError("start and end are wall-clock times of the declared zone")
        if self.start >= self.end:
            raise DomainError(f"the start {self.start} must be before the end {self.end}")
        self.check()

    @property
    def step(self) -> int:
        """Seconds in one period."""
        return SECONDS[self.by]

    @property
    def first_period(self) -> int:
        """The number of the first declared period since 1970."""
        return (self.start - EPOCH) // datetime.timedelta(seconds=self.step)

    @property
    def size(self) -> int:
        return -((EPOCH - self.end) // datetime.timedelta(seconds=self.step)) - self.first_period

    def _steps(self, value: Value) -> tuple[int, datetime.timedelta]:
        """Whole periods between the first one and the value, and the time left over."""
        moment = wall_clock(value, find_zone(self.zone), "the value")
        periods, rest = divmod(moment - EPOCH, datetime.timedelta(seconds=self.step))
        return periods - self.first_period, rest

    def locate(self, value: Value) -> int:
        index, _ = self._steps(value)
        if not 0 <= index < self.size:
            raise DomainError(f"{value} is not between {self.start} and {self.end}")
        return index

    def begins_with(self, value: Value) -> int:
        index, rest = self.locate(value), self._steps(value)[1]
        if rest:
            raise DomainError(f"{value} is inside the {self.by} that begins with {self.moment(index)}; name it by that")
        return index

    def index_of(self, value: Value) -> int:
        raise DomainError(f"{value} lies within one {self.by}; ask for a range of whole {self.by}s")

    def below(self, value: Value) -> int:
        index, rest = self._steps(value)
        if 0 <= index < self.size and rest:
            near = f"{self.moment(index)} and {self.moment(index + 1)}"
            raise DomainError(f"{value} would cut one {self.by} in two; the nearest edges are {near}")
        return min(max(index, 0), self.size)

    def up_to(self, value: Value) -> int:
        index, _ = self._steps(value)
        if 0 <= index < self.size:
            edges = f"{self.moment(index)} or {self.moment(index + 1)}"
            raise DomainError(f"each {self.by} is counted as a whole: compare by < or >= with {edges}")
        return min(max(index, 0), self.size)

    def moment(self, index: int) -> str:
        """When the period begins, in ISO style."""
        begin = EPOCH + datetime.timedelta(seconds=(self.first_period + index) * self.step)
        if self.by == "day":
            return begin.date().isoformat()
        return begin.isoformat(timespec="seconds" if self.by == "second" else "minutes")

    def starts(self, index: Ints) -> Ints:
        """The day (since 1970) on which each period begins."""
        return np.asarray((self.first_period + np.asarray(index)) * self.step // DAY, dtype=np.int64)

    def read(self, values: object) -> Encoded:
        column = np.asarray(values).reshape(-1)
        last = self.first_period + self.size - 1
        if column.dtype.kind != "M":
            return one_by_one(values, self._read_one, self.first_period, last)
        is_null = np.isnat(column)
        # Whole seconds first: years far away do not fit into int64 microseconds.
        seconds = np.where(is_null, np.datetime64(0, "s"), column.astype("datetime64[s]")).astype(np.int64)
        periods = seconds // self.step
        is_outside = ~is_null & ((periods < self.first_period) | (periods > last))
        return np.clip(periods, self.first_period, last) - self.first_period, is_null, is_outside

    def _read_one(self, value: object) -> int | None:
        try:
            return self._steps(value)[0] + self.first_period
        except DomainError:
            return None

    def run_label(self, first: int, last: int) -> str:
        if first == last:
            return self.moment(first)
        ends = np.array([first, last + 1])
        begin, after = (int(day) for day in self.starts(ends))
        at_midnight = not np.any((self.first_period + ends) * self.step % DAY)
        named = whole_period(begin, after, NESTS["hour"]) if at_midnight else None
        return named or f"{self.moment(first)} .. {self.moment(last + 1)}"


@checked(DomainError)
def timestamps(
    start: object,
    end: object,
    by: str = "hour",
    *,
    zone: str = "UTC",
    null: Value = CELL,
    outside: str = CLAMP,
    null_public: bool = False,
    outside_public: bool = False,
) -> Timestamps:
    """A timestamp column from start until end (not included), by second, minute, hour or day."""
    clock = find_zone(zone)
    first, last = wall_clock(start, clock, "the start"), wall_clock(end, clock, "the end")
    return Timestamps(null, outside, null_public, outside_public, start=first, end=last, by=by, zone=zone)


FIRST_SECOND = -62_135_596_800
LAST_SECOND = 253_402_214_400
"""The first and the last midnight of the years that Python's calendar knows, 1 to 9999."""
MARGIN = 2 * DAY
"""More than any zone's clock is away from UTC."""
FOREVER = 2**60
"""Seconds beyond every calendar; twice as many fit into 64 bits."""


@functools.lru_cache(maxsize=64)
def zone_changes(zone: str, begin: int, end: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The seconds of UTC between begin and end at which a zone's clock jumps, and its offsets before and after.

    No zone's clock jumps twice on one day (a test looks), so that a look at every midnight finds all jumps.
    """
    clock = find_zone(zone)
    if clock is datetime.UTC:
        return (), (0,)
    first, last = (min(max(second, FIRST_SECOND + MARGIN), LAST_SECOND - MARGIN) for second in (begin, end))
    day = datetime.timedelta(days=1)
    # In UTC, with the zone attached that is to read it.
    moment = (EPOCH + datetime.timedelta(seconds=first)).replace(tzinfo=clock)
    edges, offsets = [], [clock.fromutc(moment).utcoffset()]
    for start in range(first, last, DAY):
        after = clock.fromutc(moment + day).utcoffset()
        if after != offsets[-1]:
            low, high = 0, DAY
            while high - low > 1:
                middle = (low + high) // 2
                shown = clock.fromutc(moment + datetime.timedelta(seconds=middle)).utcoffset()
                low, high = (middle, high) if shown == offsets[-1] else (low, middle)
            edges.append(start + high)
            offsets.append(after)
        moment += day
    return tuple(edges), tuple(int((offset or datetime.timedelta(0)).total_seconds()) for offset in offsets)


@dataclass(frozen=True, eq=False)
class Readings:
    """For each offset of a zone's clock, the readings (starts up to, not including, ends) that it may lie behind.

    Around a jump both offsets may: a reading that occurs twice is one of two instants, and one that was skipped was
    written by a clock that was set too late or too early. The instants of a reading are the reading less its offsets.
    """

    starts: Ints
    ends: Ints
    offsets: Ints

    @staticmethod
    def of(zone: str, begin: int, end: int) -> Readings:
        """The readings of a zone's clock from begin to end, in wall-clock seconds since 1970."""
        edges, offsets = (np.array(part, dtype=np.int64) for part in zone_changes(zone, begin - MARGIN, end + MARGIN))
        starts = np.concatenate([[-FOREVER], edges + np.minimum(offsets[:-1], offsets[1:])])
        ends = np.concatenate([edges + np.maximum(offsets[:-1], offsets[1:]), [FOREVER]])
        # In order, whatever lies close together: a wider range of readings only adds instants.
        starts = np.minimum.accumulate(starts[::-1])[::-1]
        return Readings(starts, np.maximum.accumulate(ends), offsets)

    def before(self, reading: Ints) -> Ints:
        """The end of the instants at which the clock shows less than the reading; it never decreases."""
        ends = np.maximum.accumulate(self.ends - self.offsets)
        last = np.searchsorted(self.starts, reading, side="left") - 1
        return _largest(last, ends, lambda place: np.minimum(reading, self.ends[place]) - self.offsets[place])

    def latest(self, instant: Ints) -> Ints:
        """The last whole second that the clock may show at the instant or before it; it never decreases."""
        firsts = np.minimum.accumulate((self.starts - self.offsets)[::-1])[::-1]
        last, ends = np.searchsorted(firsts, instant, side="right") - 1, self.ends - 1
        return _largest(last, ends, lambda place: np.minimum(instant + self.offsets[place], ends[place]))


def _largest(last: Ints, bounds: Ints, at: Callable[[Ints], Ints]) -> Ints:
    """The largest of what lies at the last place or before it; bounds hold what lies there, and never decrease."""
    largest = at(last)
    for back in range(1, bounds.size):
        earlier = last - back
        if not np.any((earlier >= 0) & (bounds[earlier] > largest)):
            break
        largest = np.maximum(largest, at(np.maximum(earlier, 0)))
    return largest
