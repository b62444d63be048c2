"""Timestamp columns by second, minute, hour or day of the wall clock in a declared zone."""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import DomainError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.calendar import NESTS, SECONDS, whole_period
from blowfishdb.model.domain.base import CELL, CLAMP, Attribute, Encoded, Value, one_by_one

Moment = datetime.datetime
EPOCH = Moment(1970, 1, 1)
UNITS = ("second", "minute", "hour", "day")
DAY = 86_400 * 1_000_000


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
        if self.by not in UNITS:
            raise DomainError(f"timestamps go by {', '.join(UNITS)}, not by {self.by!r}")
        find_zone(self.zone)
        if self.start.tzinfo is not None or self.end.tzinfo is not None:
            raise DomainError("start and end are wall-clock times of the declared zone")
        if self.start >= self.end:
            raise DomainError(f"the start {self.start} must be before the end {self.end}")
        self.check()

    @property
    def step(self) -> int:
        """Microseconds in one period."""
        return SECONDS[self.by] * 1_000_000

    @property
    def first_period(self) -> int:
        """The number of the first declared period since 1970."""
        return _micros(self.start) // self.step

    @property
    def size(self) -> int:
        return -(-_micros(self.end) // self.step) - self.first_period

    def _steps(self, value: Value) -> tuple[int, int]:
        """Whole periods between the first one and the value, and microseconds left over."""
        moment = wall_clock(value, find_zone(self.zone), "the value")
        return divmod(_micros(moment) - self.first_period * self.step, self.step)

    def locate(self, value: Value) -> int:
        index, _ = self._steps(value)
        if not 0 <= index < self.size:
            raise DomainError(f"{value} is not between {self.start} and {self.end}")
        return index

    def index_of(self, value: Value) -> int:
        raise DomainError(f"{value} is one moment of a {self.by}; ask for a range of whole {self.by}s")

    def below(self, value: Value) -> int:
        index, rest = self._steps(value)
        if 0 <= index < self.size and rest:
            near = f"{self.moment(index)} and {self.moment(index + 1)}"
            raise DomainError(f"{value} would cut a {self.by} in two; the nearest edges are {near}")
        return min(max(index, 0), self.size)

    def up_to(self, value: Value) -> int:
        index, _ = self._steps(value)
        if 0 <= index < self.size:
            raise DomainError(f"a {self.by} includes its first moment only: ask for < {self.moment(index + 1)}")
        return min(max(index, 0), self.size)

    def moment(self, index: int) -> str:
        """When the period begins, in ISO style."""
        begin = EPOCH + datetime.timedelta(microseconds=(self.first_period + index) * self.step)
        if self.by == "day":
            return begin.date().isoformat()
        return begin.isoformat(timespec="seconds" if self.by == "second" else "minutes")

    def days(self, index: Ints) -> Ints:
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
        periods = seconds // SECONDS[self.by]
        is_outside = ~is_null & ((periods < self.first_period) | (periods > last))
        return np.clip(periods, self.first_period, last) - self.first_period, is_null, is_outside

    def _read_one(self, value: object) -> int | None:
        try:
            return _micros(wall_clock(value, find_zone(self.zone), "the value")) // self.step
        except DomainError:
            return None

    def run_label(self, first: int, last: int) -> str:
        if first == last:
            return self.moment(first)
        ends = np.array([first, last + 1])
        begin, after = (int(day) for day in self.days(ends))
        at_midnight = not np.any((self.first_period + ends) * self.step % DAY)
        named = whole_period(begin, after, NESTS["hour"]) if at_midnight else None
        return named or f"{self.moment(first)} .. {self.moment(last + 1)}"


def _micros(moment: Moment) -> int:
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


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
    return Timestamps(
        start=wall_clock(start, clock, "the start"),
        end=wall_clock(end, clock, "the end"),
        by=by,
        zone=zone,
        null=null,
        outside=outside,
        null_public=null_public,
        outside_public=outside_public,
    )
