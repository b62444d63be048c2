"""Changes of a zone's clock: the instants a reading can stand for, and which times a threshold joins."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

import numpy as np

from blowfishdb.model.calendar import EPOCH, find_zone
from blowfishdb.model.numbers import Ints

DAY = 86_400
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
        bound = np.maximum.accumulate(self.ends - self.offsets)
        last = np.searchsorted(self.starts, reading, side="left") - 1
        latest_end = np.minimum(reading, self.ends[last]) - self.offsets[last]
        for back in range(1, self.starts.size):
            earlier = last - back
            # Going back, ends and bounds fall: nothing earlier can count once the bound does not.
            if not np.any((earlier >= 0) & (bound[earlier] > latest_end)):
                break
            earlier = np.maximum(earlier, 0)
            latest_end = np.maximum(latest_end, np.minimum(reading, self.ends[earlier]) - self.offsets[earlier])
        return latest_end

    def latest(self, instant: Ints) -> Ints:
        """The last whole second that the clock may show at the instant or before it; it never decreases."""
        firsts = np.minimum.accumulate((self.starts - self.offsets)[::-1])[::-1]
        last = np.searchsorted(firsts, instant, side="right") - 1
        latest_reading = np.minimum(instant + self.offsets[last], self.ends[last] - 1)
        for back in range(1, self.starts.size):
            earlier = last - back
            if not np.any((earlier >= 0) & (self.ends[earlier] - 1 > latest_reading)):
                break
            earlier = np.maximum(earlier, 0)
            latest_reading = np.maximum(
                latest_reading, np.minimum(instant + self.offsets[earlier], self.ends[earlier] - 1)
            )
        return np.asarray(latest_reading, dtype=np.int64)


LOOKAHEAD = 4096
"""Values around a change of the clock whose windows are worked out at a time."""


@dataclass(frozen=True, eq=False)
class ClockWindow:
    """Value i is joined to the values up to `step` after it, and to those with an instant `within` seconds of one of i.

    Value i is the readings [begin + i * unit, begin + (i + 1) * unit) of the clock.
    """

    size: int
    step: int
    begin: int
    unit: int
    within: int
    clock: Readings

    def reach(self, index: Ints) -> Ints:
        index = np.asarray(index, dtype=np.int64)
        ends = self.clock.before(self.begin + (index + 1) * self.unit)
        near = (self.clock.latest(ends + self.within) - self.begin) // self.unit
        return np.minimum(np.maximum(index + self.step, near), self.size - 1)

    @property
    def longest(self) -> int:
        """At least as many values as any window reaches ahead."""
        spread = int(self.clock.offsets.max() - self.clock.offsets.min())
        return min(self.step + 1 + spread // self.unit, self.size - 1)

    def same(self, other: ClockWindow) -> bool:
        """Whether the other window, on the same values, joins the same ones."""
        return (self.step, self.within) == (other.step, other.within)

    def distance(self, first: int, second: int) -> int:
        """Steps between two values: by equal steps away from changes of the clock, window by window near them."""
        place, last = min(first, second), max(first, second)
        count = 0
        begins, ends = self._near_changes()
        while place < last:
            zone = int(np.searchsorted(ends, place, side="right"))
            following = max(int(begins[zone]), place) if zone < begins.size else last
            even = -(-(min(last, following) - place) // self.step)
            if even:
                # Every one of these steps is an edge, so that no distance is ever said to be too short.
                place, count = place + even * self.step, count + even
                continue
            start = place
            windows = self.reach(np.arange(start, min(start + LOOKAHEAD, self.size))).tolist()
            while place < last and place - start < len(windows):
                place, count = windows[place - start], count + 1
        return count

    def _near_changes(self) -> tuple[Ints, Ints]:
        """Runs of values, in order, outside of which every window has `step` values."""
        lows, highs = self.clock.starts[1:], self.clock.ends[:-1]
        jumps = highs - lows
        begins = (lows - jumps - self.within - self.begin) // self.unit - 2
        ends = (highs + jumps - self.begin) // self.unit + 2
        return np.minimum.accumulate(begins[::-1])[::-1], np.maximum.accumulate(ends)
