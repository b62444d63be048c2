"""Window graphs: each cell is joined to the cells up to its reach. Full, line, threshold and public are such."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.arrays import Bools, Ints, as_ints
from blowfishdb.model.encoding import encode
from blowfishdb.model.graphs.axis import EDGE_LIMIT


@dataclass(frozen=True, eq=False)
class WindowGraph:
    """Cell i is joined to i+1 .. reach[i] (reach never decreases), and every hub to every other cell.

    Hubs are cells such as NULL that stand beside the order; their own reach is themselves, and no window crosses them.
    """

    reach: Ints
    hubs: Ints

    def __post_init__(self) -> None:
        reach, hubs = as_ints(self.reach), as_ints(self.hubs)
        object.__setattr__(self, "reach", reach)
        object.__setattr__(self, "hubs", hubs)
        index = np.arange(reach.size)
        if reach.size == 0:
            raise PolicyError("a policy graph needs at least one cell")
        if np.any(reach < index) or np.any(reach >= reach.size) or np.any(np.diff(reach) < 0):
            raise PolicyError("reach must be within the axis, at or after each cell, and never decrease")
        if hubs.size and (np.any(np.diff(hubs) <= 0) or hubs[0] < 0 or hubs[-1] >= reach.size):
            raise PolicyError("hubs must be distinct cells of the axis in increasing order")
        if np.any(reach[hubs] != hubs) or np.any((reach[hubs - 1] >= hubs) & (hubs > 0)):
            raise PolicyError("no window may start at, reach or cross a hub")

    @property
    def size(self) -> int:
        return int(self.reach.size)

    @property
    def is_hub(self) -> Bools:
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.hubs] = True
        return mask

    @property
    def edge_count(self) -> int:
        window = int(np.sum(self.reach - np.arange(self.size)))
        plain = self.size - self.hubs.size
        return window + self.hubs.size * plain + self.hubs.size * (self.hubs.size - 1) // 2

    def edges(self) -> Ints:
        if self.edge_count > EDGE_LIMIT:
            raise TooLarge("edges of a policy graph", self.edge_count, EDGE_LIMIT, "Use coarser bins.")
        index = np.arange(self.size)
        count = self.reach - index
        first = np.repeat(index, count)
        offset = np.arange(first.size) - np.repeat(np.cumsum(count) - count, count)
        parts = [np.stack([first, first + 1 + offset], axis=1)]
        mask = self.is_hub
        for hub in self.hubs:
            others = index[~mask | (index > hub)]
            others = others[others != hub]
            parts.append(np.stack([np.minimum(others, hub), np.maximum(others, hub)], axis=1))
        every = np.concatenate(parts)
        return every[np.lexsort((every[:, 1], every[:, 0]))].astype(np.int64)

    def neighbours(self, vertex: int) -> Ints:
        index = np.arange(self.size)
        near = self.joined(np.full(self.size, vertex), index) == 1
        return np.asarray(index[near & (index != vertex)], dtype=np.int64)

    def joined(self, first: Ints, second: Ints) -> Ints:
        low, high = np.minimum(first, second), np.maximum(first, second)
        mask = self.is_hub
        return np.asarray(mask[low] | mask[high] | (high <= self.reach[low]), dtype=np.int64)

    def components(self) -> Ints:
        if self.hubs.size and self.size > 1:
            return np.zeros(self.size, dtype=np.int64)
        starts = np.concatenate([[False], self.reach[:-1] == np.arange(self.size - 1)])
        return np.cumsum(starts).astype(np.int64)

    def distance(self, first: int, second: int) -> int | None:
        low, high = min(first, second), max(first, second)
        direct = 0
        while low < high:
            step = int(self.reach[low])
            if step == low:
                break
            low, direct = step, direct + 1
        through_hub = (first != second) * (1 if self.is_hub[[first, second]].any() else 2)
        if low < high:
            return int(through_hub) if self.hubs.size else None
        return min(direct, int(through_hub)) if self.hubs.size else direct

    def fingerprint(self) -> bytes:
        return encode(("window", self.reach, self.hubs))
