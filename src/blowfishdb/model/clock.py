"""Changes of a zone's clock, and the instants that a reading of the clock can stand for."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain.timestamps import EPOCH, find_zone

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
        found = np.minimum(reading, self.ends[last]) - self.offsets[last]
        for back in range(1, self.starts.size):
            earlier = last - back
            # Going back, ends and bounds fall: nothing earlier can count once the bound does not.
            if not np.any((earlier >= 0) & (bound[earlier] > found)):
                break
            earlier = np.maximum(earlier, 0)
            found = np.maximum(found, np.minimum(reading, self.ends[earlier]) - self.offsets[earlier])
        return found

    def latest(self, instant: Ints) -> Ints:
        """The last whole second that the clock may show at the instant or before it; it never decreases."""
        firsts = np.minimum.accumulate((self.starts - self.offsets)[::-1])[::-1]
        last = np.searchsorted(firsts, instant, side="right") - 1
        found = np.minimum(instant + self.offsets[last], self.ends[last] - 1)
        for back in range(1, self.starts.size):
            earlier = last - back
            if not np.any((earlier >= 0) & (self.ends[earlier] - 1 > found)):
                break
            earlier = np.maximum(earlier, 0)
            found = np.maximum(found, np.minimum(instant + self.offsets[earlier], self.ends[earlier] - 1))
        return np.asarray(found, dtype=np.int64)
