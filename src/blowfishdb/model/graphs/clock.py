"""Thresholds on timestamps in a zone whose clock changes: near in time, or near as written.

Proof note: docs/proofs/projection.md, "Clocks that change".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Ints
from blowfishdb.model.clock import Readings

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
