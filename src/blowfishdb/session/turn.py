"""The turn of one analyst's questions, which nobody holds who waits for an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from blowfishdb.engine.charge import Waiting
from blowfishdb.errors import RateLimited, WorkCancelled
from blowfishdb.sources.calls import POLL, is_cancelled

MOST_WAITING = 8
"""New releases of one analyst on one dataset: one counts, and the others wait for it."""
WAIT = 5
"""Seconds after which an analyst who has that many may ask again."""


@dataclass(eq=False)
class AnalystTurn:
    """One question of an analyst at a time, and one new release of each dataset.

    Whoever waits for an engine gives the turn away. So a paid answer, a preview and a question to another dataset wait
    for no count; only a new release of the same dataset does.
    """

    _free: threading.Lock = field(default_factory=threading.Lock)
    _holder: int | None = None
    _lines: dict[str, list[int]] = field(default_factory=dict)
    """The threads with a new release of each account, the one at work first."""
    _change: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Waits for the turn of this thread, and ends it with the block."""
        with self._free:
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Gives the turn away, if it is this thread's, and waits for another after the block."""
        if self._holder != threading.get_ident():
            yield
            return
        self._holder = None
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()
            self._holder = threading.get_ident()

    @contextmanager
    def alone(self, account: str, waiting: Waiting) -> Iterator[bool]:
        """Waits until no other new release of the account is under way, which it says; RateLimited where many wait."""
        me, cancelled = threading.get_ident(), is_cancelled.get()
        with self._change:
            line = self._lines.setdefault(account, [])
            is_inner = me in line
            has_waited = bool(line) and not is_inner
            if not is_inner:
                if len(line) >= MOST_WAITING:
                    raise RateLimited(WAIT)
                line.append(me)
        if is_inner:
            # What is counted for its own plan.
            yield False
            return
        try:
            if has_waited:
                with waiting():
                    self._wait_for(line, me, cancelled)
            yield has_waited
        finally:
            with self._change:
                line.remove(me)
                if not line:
                    del self._lines[account]
                self._change.notify_all()

    def close(self) -> None:
        """Waits until whatever runs has ended."""
        with self._change:
            self._change.wait_for(lambda: not self._lines)
        with self._free:
            return

    def _wait_for(self, line: list[int], me: int, cancelled: Callable[[], bool]) -> None:
        with self._change:
            while line[0] != me:
                if cancelled():
                    raise WorkCancelled
                self._change.wait(POLL)
