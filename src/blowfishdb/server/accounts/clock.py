"""The time, for expiry and for the record; tests move it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """Seconds since 1970."""

    seconds: Callable[[], float] = time.time

    def now(self) -> int:
        """Whole seconds."""
        return int(self.seconds())

    def text(self) -> str:
        """The time as people read it."""
        return datetime.fromtimestamp(self.seconds(), UTC).isoformat(timespec="seconds")
