"""Date columns by day, week, month, quarter or year."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import DomainError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.calendar import NESTS, first_days, name_of_day, periods_of_days, whole_period
from blowfishdb.model.domain.base import CELL, CLAMP, Attribute, Encoded, Value, one_by_one

Day = datetime.date
EPOCH = Day(1970, 1, 1)
UNITS = ("day", "week", "month", "quarter", "year")
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
    return (value - EPOCH).days


@dataclass(frozen=True, kw_only=True)
class Dates(Attribute):
    """The periods from the one that holds `start` to the one that holds `end`."""

    start: Day
    end: Day
    by: str = "day"

    def __post_init__(self) -> None:
        if self.by not in UNITS:
            raise DomainError(f"dates go by {', '.join(UNITS)}, not by {self.by!r}")
        if self.start > self.end:
            raise DomainError(f"the start {self.start} must not be after the end {self.end}")
        self.check()

    def _period(self, day: int) -> int:
        return int(periods_of_days(np.array([day]), self.by)[0])

    @property
    def first_period(self) -> int:
        """The number of the first declared period since 1970."""
        return self._period((self.start - EPOCH).days)

    @property
    def size(self) -> int:
        return self._period((self.end - EPOCH).days) - self.first_period + 1

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
    first, last = as_day(start, "the start"), as_day(end, "the end")
    return Dates(
        start=EPOCH + datetime.timedelta(days=first),
        end=EPOCH + datetime.timedelta(days=last),
        by=by,
        null=null,
        outside=outside,
        null_public=null_public,
        outside_public=outside_public,
    )
