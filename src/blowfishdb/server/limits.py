"""How many requests one party may send: a bucket that fills again evenly."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from blowfishdb.errors import RateLimited

MOST_PARTIES = 10_000


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
