"""Calls to an engine: each in a thread of its own, ended when its time is over or nobody waits any more.

A driver may hang beyond every limit of its own, in a network that swallows packets or in a lock of a dead program. So
nobody waits for a driver: whoever asked goes on when the call is ended, and its thread is left behind until it ends.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from blowfishdb.errors import SourceBusy, WorkCancelled

Result = TypeVar("Result")

is_cancelled: ContextVar[Callable[[], bool]] = ContextVar("is_cancelled", default=lambda: False)
"""Whether nobody waits any more for what this request, page or command asked; asked often, by any thread."""
MOST_CALLS = 16
"""Calls to one source that have not ended, those left behind included."""
ROOM_SECONDS = 10.0
"""How long a call waits for room among them."""
PAUSE = 2.0
"""Seconds after a call without an answer in which a source is not asked again."""
POLL = 0.05
GRACE = 1.0
"""Seconds in which a call that was ended may still end its thread, so that mostly nothing is left behind."""
CONNECTING, STOPPING = 10, 3
"""Seconds that a server may take to let somebody in, and to stop a statement before its connection is cut."""


class CallEnded(Exception):
    """Within the thread of a call: it was ended, so that what it would begin is not begun."""


@contextmanager
def cancelled_at_steps(step: float) -> Iterator[None]:
    """Work that is cancelled at whole steps after its beginning alone, whenever somebody leaves.

    So when somebody leaves tells nothing of how long the work takes beyond the number of steps.
    """
    cancelled, began, looked = is_cancelled.get(), time.monotonic(), 0

    def at_steps() -> bool:
        nonlocal looked
        passed = math.floor((time.monotonic() - began) / step)
        is_due, looked = passed > looked, passed
        return is_due and cancelled()

    token = is_cancelled.set(at_steps)
    try:
        yield
    finally:
        is_cancelled.reset(token)


@dataclass(eq=False)
class EngineStop:
    """What stops an engine's work. It is called while that work runs, and never afterwards."""

    work: Callable[[], object]
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _is_over: bool = False

    def call(self) -> None:
        """Stops the work; a failure to do so changes nothing, as nobody waits for it."""
        with self._turn, suppress(Exception):
            if not self._is_over:
                self.work()

    def over(self) -> None:
        """The work is done."""
        with self._turn:
            self._is_over = True


@dataclass(eq=False)
class Call(Generic[Result]):
    """One call, as its own thread and whoever waits for it see it."""

    work: Callable[[], Result]
    left: Callable[[], None]
    """Told when the thread ends."""
    done: threading.Event = field(default_factory=threading.Event)
    results: list[Result] = field(default_factory=list)
    error: BaseException | None = None
    _stops: list[EngineStop] = field(default_factory=list)
    is_ended: bool = False
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begins the thread of the call."""
        # What is known of whoever asks goes with the work.
        run = partial(copy_context().run, self._run)
        try:
            threading.Thread(target=run, name="call of a source", daemon=True).start()
        except RuntimeError:
            self.left()
            raise

    def _run(self) -> None:
        _here.call = self
        try:
            self.results.append(self.work())
        except BaseException as error:  # noqa: BLE001  # raised where somebody waits
            self.error = error
        finally:
            self.left()
            self.done.set()

    def begin(self, stop: EngineStop) -> None:
        """Notes what stops the work from now on."""
        with self._turn:
            if self.is_ended:
                raise CallEnded
            self._stops.append(stop)

    def end(self) -> None:
        """Stops the work as well as its engine can, and waits for nothing."""
        with self._turn:
            self.is_ended = True
            stops = self._stops[:]
        for stop in stops:
            threading.Thread(target=stop.call, name="end of a call", daemon=True).start()

    def result(self) -> Result:
        """What the work gave, or the error that it raised."""
        if self.error is not None:
            raise self.error
        return self.results[0]


_here = threading.local()


@contextmanager
def stopped_by(work: Callable[[], object]) -> Iterator[None]:
    """Lets whoever ends the call of this thread stop what the engine does within the block."""
    call: Call[Any] | None = getattr(_here, "call", None)
    if call is None:
        yield
        return
    stop = EngineStop(work)
    call.begin(stop)
    try:
        yield
    finally:
        stop.over()


@contextmanager
def severed(descriptor: int) -> Iterator[Callable[[], None]]:
    """What cuts a connection, so that a driver that waits for a silent server goes on at once.

    The connection may be closed meanwhile and its number given to another one, so it is cut by a number of our own.
    """
    with socket.socket(fileno=os.dup(descriptor)) as own:

        def sever() -> None:
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)

        yield sever


@dataclass(eq=False)
class Calls:
    """The calls to one source. Those that have not ended are bounded; beyond that the source refuses for a while."""

    most: int = MOST_CALLS
    room: float = ROOM_SECONDS
    pause: float = PAUSE
    _open: set[Call[Any]] = field(default_factory=set)
    _rests_until: float = 0.0
    _is_closed: bool = False
    _change: threading.Condition = field(default_factory=threading.Condition)

    def run(self, work: Callable[[], Result], seconds: float | None) -> Result:
        """What the work gives; TimeoutError after so many seconds, WorkCancelled when nobody waits any more.

        SourceBusy where too many calls have not ended, or where the last one had no answer a moment ago.
        """
        cancelled = is_cancelled.get()
        until = math.inf if seconds is None else time.monotonic() + max(seconds, 0.0)
        call = self._admitted(work, cancelled)
        try:
            call.start()
            while not call.done.wait(min(POLL, max(0.0, until - time.monotonic()))):
                if self._is_closed or cancelled():
                    raise WorkCancelled
                if time.monotonic() >= until:
                    self._rests_until = time.monotonic() + self.pause
                    raise TimeoutError(f"no answer within {seconds:g} s")
        except BaseException:
            # KeyboardInterrupt, too.
            call.end()
            call.done.wait(GRACE)
            raise
        if call.is_ended:
            # The source was closed, and the engine heard of it first.
            raise WorkCancelled
        return call.result()

    def close(self) -> None:
        """Ends all calls, and begins no more."""
        with self._change:
            self._is_closed = True
            calls = list(self._open)
            self._change.notify_all()
        for call in calls:
            call.end()

    def _admitted(self, work: Callable[[], Result], cancelled: Callable[[], bool]) -> Call[Result]:
        """A new call once there is room."""
        until = time.monotonic() + self.room
        with self._change:
            while len(self._open) >= self.most or time.monotonic() < self._rests_until:
                if self._is_closed or cancelled():
                    raise WorkCancelled
                if time.monotonic() >= until:
                    raise SourceBusy(len(self._open))
                self._change.wait(POLL)
            if self._is_closed:
                raise WorkCancelled
            call = Call(work, lambda: self._left(call))
            self._open.add(call)
        return call

    def _left(self, call: Call[Any]) -> None:
        with self._change:
            self._open.discard(call)
            self._change.notify_all()
