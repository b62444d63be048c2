"""How many requests one party may send, and how much work of each kind runs at a time."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, Lock, create_task_group, to_thread
from starlette.requests import Request

from blowfishdb.errors import RateLimited
from blowfishdb.server.heavy_work import is_cancelled

Result = TypeVar("Result")

MOST_PARTIES = 10_000
QUOTES_AT_ONCE = 64
"""Threads for arithmetic. What is heavy waits in them for a process of its own (heavy_work.py) and uses none of the
processor; what is light ends soon."""
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

    async def quote(self, name: str, work: Callable[[], Result], request: Request) -> Result:
        """The result of somebody's work that computes; what is heavy ends when the client goes away."""
        return await self.run(name, work, self.quotes, partial(_disconnected, request))

    async def release(self, name: str, work: Callable[[], Result], request: Request) -> Result:
        """The result of somebody's work that reads data. Its plan ends with the client; what is charged goes on."""
        return await self.run(name, work, self.releases, partial(_disconnected, request))

    async def run(
        self, name: str, work: Callable[[], Result], pool: CapacityLimiter, left: Callable[[], Awaitable[object]]
    ) -> Result:
        """The result of somebody's work in its turn; what may still be stopped ends once `left` comes back."""
        gone = threading.Event()
        is_cancelled.set(gone.is_set)

        async def watch() -> None:
            await left()
            gone.set()

        try:
            async with create_task_group() as group:
                group.start_soon(watch)
                async with self._turns.setdefault(name, Lock()):
                    result = await to_thread.run_sync(work, limiter=pool)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as failed:
            # The work alone can fail, and its error is told as it is.
            raise failed.exceptions[0] from None
        return result


async def _disconnected(request: Request) -> None:
    """Waits until the client of a request goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
