"""Thresholds on timestamps against instants, second by second, around every kind of change of the clock."""

from __future__ import annotations

import datetime
import itertools
import zoneinfo
from dataclasses import dataclass

import numpy as np
import pytest

from blowfishdb.model import policy as families
from blowfishdb.model.calendar import MARGIN, SECONDS, Readings, Timestamps, timestamps, zone_changes
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.distance import CLOCK_LIMIT, stretch, value_distance
from blowfishdb.model.domain import domain
from blowfishdb.model.explain import explain
from blowfishdb.model.graphs import WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import (
    ClockWindow,
    Policy,
    StepWindow,
    ValueWindow,
    line,
    partition,
    public,
    threshold,
    value_graph,
)
from blowfishdb.model.predicate import col

UTC = datetime.UTC


@dataclass(frozen=True)
class Change:
    """A change of a zone's clock, in UTC."""

    zone: str
    at: datetime.datetime

    def column(self, hours: int, by: str, outside: str = "clamp") -> Timestamps:
        """Periods of the wall clock for so many hours before the change and after it."""
        clock, away = zoneinfo.ZoneInfo(self.zone), datetime.timedelta(hours=hours)
        ends = [(self.at.replace(tzinfo=UTC) + part).astimezone(clock).replace(tzinfo=None) for part in (-away, away)]
        return timestamps(min(ends), max(ends), by, zone=self.zone, outside=outside, null=min(ends))

    def instants(self, hours: int, every: int) -> list[datetime.datetime]:
        """Instants around the change, at whole steps of so many seconds and one second before each."""
        whole = range(-hours * 3600, hours * 3600 + 1, every)
        seconds = sorted({*whole, *(second - 1 for second in whole)})
        return [self.at.replace(tzinfo=UTC) + datetime.timedelta(seconds=second) for second in seconds]


CHANGES = {
    "Berlin, spring": Change("Europe/Berlin", datetime.datetime(2024, 3, 31, 1)),
    "Berlin, autumn": Change("Europe/Berlin", datetime.datetime(2024, 10, 27, 1)),
    "New York, spring": Change("America/New_York", datetime.datetime(2024, 3, 10, 7)),
    "New York, autumn": Change("America/New_York", datetime.datetime(2024, 11, 3, 6)),
    "Lord Howe, spring": Change("Australia/Lord_Howe", datetime.datetime(2024, 10, 5, 15, 30)),
    "Lord Howe, autumn": Change("Australia/Lord_Howe", datetime.datetime(2024, 4, 6, 15)),
    "Apia, a day left out": Change("Pacific/Apia", datetime.datetime(2011, 12, 30, 10)),
    "Kwajalein, a day twice": Change("Pacific/Kwajalein", datetime.datetime(1969, 9, 30, 13)),
}
# Periods, hours around the change (a day is left out or comes twice in two of the zones), seconds between instants.
WIDTHS = [("minute", 3, 60), ("minute", 3, 77), ("hour", 60, 600), ("day", 24 * 6, 3600)]
SPANS = {
    "minute": ("1 minute", "10 minutes", "45 minutes", "2 hours"),
    "hour": ("10 minutes", "1 hour", "90 minutes", "5 hours", "1 day"),
    "day": ("1 hour", "1 day", "30 hours", "2 days"),
}
EVERY_CHANGE = pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=name, marks=[pytest.mark.nightly] if name.startswith("New York") else [])
        for name, change in CHANGES.items()
    ],
)


def window(column: Timestamps, theta: object) -> ValueWindow:
    graph = value_graph(threshold(theta), column)
    assert isinstance(graph, ValueWindow)
    return graph


def missing(column: Timestamps, graph: ValueWindow, instants: list[datetime.datetime], seconds: int) -> int:
    """How many pairs of instants at most so many seconds apart lie in values that no edge joins."""
    values = np.empty(len(instants), dtype=object)
    values[:] = instants
    place = column.encode(values)
    reach = graph.reach(np.arange(column.size))
    moments = np.array([int(instant.timestamp()) for instant in instants])
    count = 0
    for number in range(len(instants)):
        near = place[np.abs(moments - moments[number]) <= seconds]
        low, high = np.minimum(near, place[number]), np.maximum(near, place[number])
        count += int(np.count_nonzero(high > reach[low]))
    return count


def span_seconds(theta: str) -> int:
    amount, unit = theta.split()
    return int(amount) * SECONDS[unit.removesuffix("s")]


@EVERY_CHANGE
@pytest.mark.parametrize("outside", ["clamp", "cell"])
@pytest.mark.sampled(5)
def test_instants_within_theta_are_in_the_same_or_joined_values(change: Change, outside: str) -> None:
    for by, hours, every in WIDTHS:
        column = change.column(hours, by, outside)
        # Instants beyond the ends are clamped to them, and must be hidden there as well.
        instants = change.instants(hours + (24 if outside == "clamp" and by != "minute" else 1), every)
        if outside == "cell":
            instants = [instant for instant in instants if int(column.encode([instant])[0]) < column.size]
        for theta in SPANS[by]:
            assert missing(column, window(column, theta), instants, span_seconds(theta)) == 0, (by, theta)


@EVERY_CHANGE
@pytest.mark.sampled(3)
def test_steps_of_the_wall_clock_alone_are_found_to_miss_instants(change: Change) -> None:
    found = 0
    for by, hours, every in WIDTHS:
        column = change.column(hours, by)
        for theta in SPANS[by]:
            graph = window(column, theta)
            by_wall_clock = StepWindow(column.size, graph.step)  # type: ignore[union-attr]
            found += missing(column, by_wall_clock, change.instants(hours, every), span_seconds(theta))
    assert found > 0


def test_one_minute_apart_across_the_start_of_summer_time() -> None:
    column = CHANGES["Berlin, spring"].column(3, "minute")
    table, policy = domain({"at": column}), Policy({"at": threshold("10 minutes")})
    before, after = "2024-03-31T01:59", "2024-03-31T03:00"
    assert value_distance(table, policy, "at", before, after) == 1
    cells = compile_cells(table, policy, ["at"])
    codes = [column.locate(value) for value in (before, after)]
    assert int(cells.graph.factors[0].joined(np.array(codes[:1]), np.array(codes[1:]))[0]) == 1  # type: ignore[union-attr]


def test_minutes_of_the_hour_that_comes_twice() -> None:
    column = CHANGES["Berlin, autumn"].column(3, "minute")
    table, policy = domain({"at": column}), Policy({"at": threshold("10 minutes")})
    # 02:59 in summer time and 02:00 in winter time follow each other.
    assert value_distance(table, policy, "at", "2024-10-27T02:00", "2024-10-27T02:59") == 1
    assert value_distance(table, policy, "at", "2024-10-27T01:45", "2024-10-27T03:15") == 5


@EVERY_CHANGE
def test_readings_as_written_are_joined_too_and_windows_are_in_order(change: Change) -> None:
    for (by, hours, _), theta in itertools.product(WIDTHS, ("7 minutes", "1 hour", "1 day")):
        column = change.column(hours, by)
        graph = window(column, theta)
        index = np.arange(column.size)
        reach = WindowGraph(graph.reach(index), np.empty(0, dtype=np.int64)).reach
        steps = 1 + (span_seconds(theta) - theta.rstrip("s").endswith(by)) // SECONDS[by]
        assert np.all(reach >= np.minimum(index + steps, column.size - 1))


def readings(zone: str, second: int) -> set[int]:
    """The instants a reading stands for, by the rules of Python's zones for both of its folds."""
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=second)
    clock = zoneinfo.ZoneInfo(zone)
    return {int(moment.replace(tzinfo=clock, fold=fold).timestamp()) for fold in (0, 1)}


@EVERY_CHANGE
@pytest.mark.sampled(3)
def test_a_reading_that_occurs_twice_or_never_stands_for_both_of_its_instants(change: Change) -> None:
    column = change.column(30, "minute")
    for theta in ("10 minutes", "2 hours"):
        graph = window(column, theta)
        reach = graph.reach(np.arange(column.size))
        begin = column.first_period * 60
        some = range(0, column.size, 13)
        instants = [readings(change.zone, begin + index * 60) for index in some]
        for (i, ones), (j, twos) in itertools.combinations(zip(some, instants, strict=True), 2):
            if any(abs(one - two) <= span_seconds(theta) for one in ones for two in twos):
                assert j <= reach[i]


def test_zones_whose_clock_stands_still_keep_their_graph() -> None:
    for zone in ("UTC", "Asia/Tokyo"):
        column = timestamps("2024-03-30", "2024-04-02", "minute", zone=zone)
        for theta, step in (("10 minutes", 10), ("1 hour", 61), (10, 10), ("90 seconds", 2)):
            assert value_graph(threshold(theta), column) == StepWindow(column.size, step)
    summer = timestamps("2024-05-01", "2024-09-01", "minute", zone="Europe/Berlin")
    assert isinstance(value_graph(threshold("1 day"), summer), StepWindow)


def test_a_number_counts_periods_of_time() -> None:
    column = CHANGES["Berlin, spring"].column(5, "minute")
    index = np.arange(column.size)
    assert np.array_equal(window(column, 10).reach(index), window(column, "10 minutes").reach(index))
    # A day has 24 hours: the Sunday in spring has 23, so that Saturday and Monday are less than a day apart.
    days = CHANGES["Berlin, spring"].column(100, "day")
    sunday = days.locate("2024-03-31")
    assert int(window(days, 1).reach(np.array([sunday - 1]))[0]) == sunday + 1
    assert int(window(days, 1).reach(np.array([sunday]))[0]) == sunday + 1


def distances(reach: Ints, first: int) -> list[int]:
    """Steps from one value to each later one, by going along the windows."""
    found, place, count = [0] * reach.size, first, 0
    while place < reach.size - 1:
        count += 1
        for later in range(place + 1, int(reach[place]) + 1):
            found[later] = count
        place = int(reach[place])
    return found


@EVERY_CHANGE
@pytest.mark.parametrize("theta", ["1 minute", "25 minutes", "3 hours"])
@pytest.mark.sampled(7)
def test_distances_are_those_of_the_windows(change: Change, theta: str) -> None:
    column = change.column(60, "minute")
    graph = window(column, theta)
    reach = graph.reach(np.arange(column.size))
    assert isinstance(graph, ClockWindow)
    assert int(np.max(reach - np.arange(column.size))) <= graph.longest
    for first in (0, 1, 500, column.size // 2, column.size - 30):
        wanted = distances(reach, first)
        for second in range(first, column.size, 97):
            assert graph.distance(first, second) == graph.distance(second, first) == wanted[second]


def test_many_seconds_cost_nothing_to_declare() -> None:
    years = timestamps("2000-01-01", "2030-01-01", "second", zone="Europe/Berlin")
    graph = window(years, "10 minutes")
    assert graph.distance(0, years.size - 1) is not None
    spring, autumn = years.locate("2024-03-31T01:59:59"), years.locate("2024-10-27T02:00:00")
    # In autumn 02:00:00 comes again one second after 02:59:59, the last reading within ten minutes.
    assert graph.reach(np.array([0, spring, autumn])).tolist() == [601, spring + 3601 + 600, autumn + 3599]


def test_a_change_of_policy_counts_old_steps_across_a_change_of_the_clock() -> None:
    column = CHANGES["Berlin, spring"].column(5, "minute")
    ten, hour = threshold("10 minutes"), threshold("1 hour")
    assert stretch(column, ten, ten) == 1
    assert stretch(column, ten, public()) == 0
    index = np.arange(column.size)
    ends = window(column, "1 hour").reach(index)
    wanted = max(distances(window(column, "10 minutes").reach(index), i)[int(ends[i])] for i in index)
    assert stretch(column, ten, hour) == wanted
    assert stretch(column, hour, ten) == 1
    # Steps of the line are minutes as written: the hour that is left out lies between two minutes of time.
    assert stretch(column, line(), ten) == 70
    assert stretch(column, ten, line()) == 1
    assert stretch(column, partition(cuts=["2024-03-31T02:00"]), ten) is None
    assert stretch(column, ten, partition(cuts=["2024-03-31T02:00"])) == wanted_for_blocks(column)


def wanted_for_blocks(column: Timestamps) -> int:
    reach = window(column, "10 minutes").reach(np.arange(column.size))
    cut = column.locate("2024-03-31T02:00")
    return max(distances(reach, 0)[cut - 1], distances(reach, cut)[column.size - 1])


def test_changes_of_policy_on_long_axes_are_never_too_small() -> None:
    column = timestamps("2024-01-01", "2024-12-31", "second", zone="Europe/Berlin", null="2024-01-01")
    assert column.size > CLOCK_LIMIT
    ten, hour = threshold("10 minutes"), threshold("1 hour")
    assert stretch(column, ten, ten) == 1
    assert stretch(column, ten, hour) == 12  # two hours as written; it is 6 or 7 in time
    assert stretch(column, line(), ten) == 601 + 1 + 3600
    assert stretch(column, ten, line()) == 1
    assert stretch(column, partition(cuts=["2024-03-31T02:00:00"]), ten) is None


def test_the_policy_says_what_apart_means() -> None:
    zoned = CHANGES["Berlin, spring"].column(5, "minute")
    said = " ".join(explain(domain({"at": zoned}), Policy({"at": threshold("10 minutes")})))
    assert "Europe/Berlin" in said and "time that passes" in said and "clock shows" in said
    written = timestamps("2024-03-31", "2024-04-01", "minute")
    said = " ".join(explain(domain({"at": written}), Policy({"at": threshold("10 minutes")})))
    assert "UTC" in said and "local times" in said


def test_groups_and_filters_keep_the_edges() -> None:
    column = CHANGES["Berlin, spring"].column(5, "minute", "cell")
    table, policy = domain({"at": column}), Policy({"at": threshold("10 minutes")})
    cells = compile_cells(table, policy, [col("at").by("hour")])
    graph = cells.graph.factors[0]
    assert isinstance(graph, WindowGraph)
    at = column.locate("2024-03-31T01:00") // 60 + (1 if column.first_period % 60 else 0)
    assert graph.joined(np.array([at]), np.array([at + 2]))[0] == 1


@EVERY_CHANGE
@pytest.mark.parametrize("minutes", [10, 45])
@pytest.mark.sampled(7)
def test_instants_within_theta_are_in_the_same_or_joined_groups(change: Change, minutes: int) -> None:
    column = change.column(4, "minute")
    instants = change.instants(5, 60)
    values = np.empty(len(instants), dtype=object)
    values[:] = instants
    for theta in SPANS["minute"]:
        policy = Policy({"at": threshold(theta)})
        cells = compile_cells(domain({"at": column}), policy, [col("at").bins(minutes)])
        place = cells.cell_of({"at": column.encode(values)})
        graph = cells.graph.factors[0]
        assert isinstance(graph, WindowGraph)
        for gap in range(1, span_seconds(theta) // 60 + 1):
            # Two instants stand for each minute: its first second, and the second before.
            assert np.all(graph.joined(place[2 * gap :], place[: -2 * gap])), (theta, gap)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza"])
def test_no_clock_jumps_twice_within_a_few_days(zone: str) -> None:
    edges, offsets = zone_changes(zone, 0, 2**32)
    assert len(offsets) == len(edges) + 1 > 50
    assert min(np.diff(edges)) > MARGIN
    clock = zoneinfo.ZoneInfo(zone)
    for edge, before, after in zip(edges, offsets[:-1], offsets[1:], strict=True):
        shown = [datetime.datetime.fromtimestamp(edge + away, clock).utcoffset() for away in (-1, 0)]
        assert shown == [datetime.timedelta(seconds=offset) for offset in (before, after)]


def test_jumps_that_lie_close_together_still_lose_no_instant() -> None:
    generator = np.random.default_rng(7)
    for _ in range(200):
        edges = np.sort(generator.choice(40, size=4, replace=False))
        offsets = generator.integers(-12, 13, size=5)
        starts = np.concatenate([[-(10**6)], edges + np.minimum(offsets[:-1], offsets[1:])])
        ends = np.concatenate([edges + np.maximum(offsets[:-1], offsets[1:]), [10**6]])
        starts = np.minimum.accumulate(starts[::-1])[::-1]
        clock = Readings(starts, np.maximum.accumulate(ends), offsets)
        instants = np.arange(-40, 80)
        shown = instants + offsets[np.searchsorted(edges, instants, side="right")]
        graph = ClockWindow(200, 1 + 3 // 2, -60, 2, 3, clock)
        place = (shown + 60) // 2
        reach = graph.reach(np.arange(200))
        assert np.all(np.diff(reach) >= 0)
        for gap in range(4):
            low = np.minimum(place[gap:], place[: place.size - gap])
            high = np.maximum(place[gap:], place[: place.size - gap])
            assert np.all(high <= reach[low])


def test_the_family_uses_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The companion: without the zone's changes the graph loses edges, and the test above notices."""
    change = CHANGES["Berlin, spring"]
    column = change.column(3, "minute")
    still = Readings(np.array([-(2**60)]), np.array([2**60]), np.array([3600]))
    monkeypatch.setattr(families.Readings, "of", staticmethod(lambda zone, begin, end: still))
    assert missing(column, window(column, "10 minutes"), change.instants(3, 60), 600) > 0
