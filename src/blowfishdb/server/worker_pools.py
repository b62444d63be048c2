"""How many requests one party may send, and how much work of each kind runs at a time."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter, Lock, to_thread

from blowfishdb.errors import RateLimited

Result = TypeVar("Result")

MOST_PARTIES = 10_000
QUOTES_AT_ONCE = max(2, os.cpu_count() or 1)
"""Quotes are arithmetic: more of them at a time than there are cores end no sooner, and hold up what is quick."""
RELEASES_AT_ONCE = 16
"""Releases wait for disks, engines and padding too."""


@dataclass(frozen=True, eq=False)
class RateLimit:
    """At most so many requests a minute for each party; the longest silent are forgotten."""

    per_minute: int
    seconds: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def check(self, party: str) -> None:
        """Takes one request from the party's bucket; RateLimited when it is empty."""
        with self._turn:
            now = self.seconds()
            left, seen = self._left.pop(party, (float(self.per_minute), now))
            left = min(float(self.per_minute), left + (now - seen) * self.per_minute / 60)
            self._left[party] = (max(0.0, left - 1), now) if left >= 1 else (left, now)
            while len(self._left) > MOST_PARTIES:
                self._left.popitem(last=False)
        if left < 1:
            raise RateLimited(math.ceil((1 - left) * 60 / self.per_minute))


@dataclass(frozen=True, eq=False)
class WorkerPools:
    """Worker threads by kind of work: whoever waits for a slow kind takes no thread from the quick ones.

    One person's questions take turns anyway. They wait for each other here, so that many of them hold up nobody else.
    """

    quotes: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(QUOTES_AT_ONCE))
    releases: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(RELEASES_AT_ONCE))
    _turns: dict[str, Lock] = field(default_factory=dict)

    async def quote(self, name: str, work: Callable[[], Result]) -> Result:
        """The result of somebody's work that computes."""
        return await self._run(name, work, self.quotes)

    async def release(self, name: str, work: Callable[[], Result]) -> Result:
        """The result of somebody's work that reads data."""
        return await self._run(name, work, self.releases)

    async def _run(self, name: str, work: Callable[[], Result], pool: CapacityLimiter) -> Result:
        async with self._turns.setdefault(name, Lock()):
            return await to_thread.run_sync(work, limiter=pool)
