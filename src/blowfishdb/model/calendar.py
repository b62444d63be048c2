"""Calendar units: which periods nest in which, where they start, and durations such as '7 days'."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.arrays import Ints

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
        raise error(f"{text!r} is no duration; write for example '7 days' or '3 months'")
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
