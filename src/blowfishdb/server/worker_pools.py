"""How much work of each kind runs at a time: in threads by kind, and what is heavy in processes, people in turn."""

from __future__ import annotations

import asyncio
import copyreg
import math
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter, from_thread, to_thread

from blowfishdb.errors import BlowfishError, RateLimited, TooExpensive, WorkCancelled
from blowfishdb.sources.calls import is_cancelled

if TYPE_CHECKING:
    # The processes for heavy work load this file too, and begin sooner without it.
    from starlette.requests import Request

Result = TypeVar("Result")

QUOTES_AT_ONCE = 64
"""Threads for arithmetic. What is heavy waits in them for a process and uses no processor; what is light ends soon."""
RELEASES_AT_ONCE = 16
"""Releases wait for disks, engines and padding too."""
LOOK_UPS_AT_ONCE = 16
"""Looks at what is stored, and what a tool wants to know before it asks."""


LONGEST_TURN = 0.05
"""Seconds after which the next begins beside whoever still computes."""


@dataclass(eq=False)
class Turn:
    """Whose turn it is to compute: Python runs one thread at a time, and handing it around among many takes long.

    Whoever waits for an engine, a process or a clock gives the turn away meanwhile.
    """

    longest: float = LONGEST_TURN
    _taken: threading.Lock = field(default_factory=threading.Lock)
    _holder: int | None = None
    _since: float = 0.0
    _change: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Waits for the turn of this thread, and ends it with the block."""
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Gives the turn away, if it is this thread's, and waits for another after the block."""
        is_mine = self._give()
        try:
            yield
        finally:
            if is_mine:
                self._take()

    def end_if_long(self) -> None:
        """Ends a turn that lasts too long: slow work holds up nobody, and no two threads wait for each other."""
        with self._change:
            if self._holder is not None and time.monotonic() - self._since > self.longest:
                self._end()

    def _take(self) -> None:
        self._taken.acquire()
        with self._change:
            self._holder, self._since = threading.get_ident(), time.monotonic()

    def _give(self) -> bool:
        with self._change:
            is_mine = self._holder == threading.get_ident()
            if is_mine:
                self._end()
            return is_mine

    def _end(self) -> None:
        self._holder = None
        self._taken.release()


turn = Turn()
"""One for the process, as Python's own lock is."""


@dataclass(eq=False)
class WorkPlace:
    """The place of a piece of work in its person's line and among the threads of its kind.

    The event loop gives it to others while the work waits for an engine, and the work takes it back after that.
    """

    line: CapacityLimiter
    pool: CapacityLimiter
    _is_waiting: bool = False
    _is_given: bool = False
    _change: threading.Lock = field(default_factory=threading.Lock)

    async def take(self) -> None:
        """Waits for the person's turn, then for a thread."""
        await self.line.acquire_on_behalf_of(self)
        try:
            await self.pool.acquire_on_behalf_of(self)
        except BaseException:
            self.line.release_on_behalf_of(self)
            raise

    def leave(self) -> None:
        """Ends it with the work."""
        with self._change:
            if not self._is_given:
                self._give()

    def give_if_waiting(self) -> None:
        """Gives it to others while the work waits."""
        with self._change:
            if self._is_waiting and not self._is_given:
                self._give()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The work waits within the block, in its own thread."""
        with self._change:
            is_outer, self._is_waiting = not self._is_waiting, True
        try:
            yield
        finally:
            if is_outer:
                with self._change:
                    self._is_waiting = False
                    was_given = self._is_given
                if was_given:
                    from_thread.run(self.take)
                    with self._change:
                        self._is_given = False

    def _give(self) -> None:
        self._is_given = True
        self.line.release_on_behalf_of(self)
        self.pool.release_on_behalf_of(self)


_place: ContextVar[WorkPlace | None] = ContextVar("place", default=None)


@contextmanager
def waiting() -> Iterator[None]:
    """Whoever waits for an engine or a clock in the block holds up nobody: neither those that compute nor a line."""
    place = _place.get()
    with turn.waiting(), nullcontext() if place is None else place.waiting():
        yield


@dataclass(eq=False)
class WorkerPools:
    """Worker threads by kind of work: whoever waits for a slow kind takes no thread from the quick ones.

    One person's questions wait for each other here, so that many of them hold up nobody else, and for nobody who waits
    for an engine; so do one person's look-ups, which do not wait for the questions.
    """

    quotes: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(QUOTES_AT_ONCE))
    releases: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(RELEASES_AT_ONCE))
    look_ups: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(LOOK_UPS_AT_ONCE))
    _lines: dict[tuple[str, bool], CapacityLimiter] = field(default_factory=dict)
    _running: set[WorkPlace] = field(default_factory=set)
    _threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(math.inf))
    """Of all that have a place, or wait for an engine: those are bounded by source and by person."""
    _watch: asyncio.Task[None] | None = None

    async def quote(self, name: str, work: Callable[[], Result], request: Request) -> Result:
        """The result of somebody's work that computes; what is heavy ends when the client goes away."""
        return await self._watched(name, work, self.quotes, request)

    async def release(self, name: str, work: Callable[[], Result], request: Request) -> Result:
        """The result of somebody's work that reads data. Its plan ends with the client; what is charged goes on."""
        return await self._watched(name, work, self.releases, request)

    async def look_up(self, name: str, work: Callable[[], Result], request: Request) -> Result:
        """The result of somebody's look at what is stored, in its turn; it does not wait for what they ask."""
        return await self._watched(name, work, self.look_ups, request)

    async def run(
        self, name: str, work: Callable[[], Result], pool: CapacityLimiter, is_gone: Callable[[], bool]
    ) -> Result:
        """The result of somebody's work in its turn; what may still be stopped ends once nobody waits for it."""
        is_cancelled.set(is_gone)

        def in_turn() -> Result:
            with turn.taken():
                return work()

        place = WorkPlace(self._lines.setdefault((name, pool is self.look_ups), CapacityLimiter(1)), pool)
        await place.take()
        self._running.add(place)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._end_long_turns())
        _place.set(place)
        try:
            return await to_thread.run_sync(in_turn, limiter=self._threads)
        finally:
            self._running.discard(place)
            place.leave()

    async def _end_long_turns(self) -> None:
        while self._running:
            await asyncio.sleep(turn.longest)
            turn.end_if_long()
            for place in self._running:
                place.give_if_waiting()

    async def _watched(self, name: str, work: Callable[[], Result], pool: CapacityLimiter, request: Request) -> Result:
        gone = threading.Event()

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            gone.set()

        watching = asyncio.create_task(watch())
        try:
            return await self.run(name, work, pool, gone.is_set)
        finally:
            watching.cancel()


LIGHT = 300
"""Up to this effort, about a third of a second, work is done in the thread that asks; heavier work in a process."""
AT_ONCE = max(2, (os.cpu_count() or 2) - 1)
"""Processes; one processor is left to everybody else, and one person's work leaves a process to others."""
MOST_WAITING = 8
"""Pieces of heavy work that one person may have waiting."""
WAIT = 30
"""Seconds after which somebody who has that many waiting may ask again."""
LONGEST = 600.0
"""Seconds after which a piece is given up."""
POLL = 0.05
IDLE = 120.0
"""Seconds without work after which a process ends."""
NICE = 15
EASILY_KILLED = b"500"
"""A machine that runs out of memory ends these processes first."""
PASSED_ON = ("HOME", "LANG", "NUMBA_CACHE_DIR", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "TMPDIR", "TZ")
"""Variables that the processes get; passwords of sources and ledgers stay here."""


@dataclass(eq=False)
class FairQueue:
    """At most `slots` pieces of work at a time: one of each person, and people in turn.

    Its lock is held for the look at the lines alone, never while somebody works.
    """

    slots: int
    most_waiting: int = MOST_WAITING
    _lines: OrderedDict[str, deque[object]] = field(default_factory=OrderedDict)
    _running: set[str] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def turn(self, person: str, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Waits for the person's turn; WorkCancelled when nobody waits any more, RateLimited with many waiting."""
        ticket = object()
        with self._changed:
            line = self._lines.setdefault(person, deque())
            if len(line) > self.most_waiting:
                raise RateLimited(WAIT)
            line.append(ticket)
            try:
                while not self._is_next(person, ticket):
                    if cancelled():
                        raise WorkCancelled
                    self._changed.wait(POLL)
            except BaseException:
                self._leave(person, ticket)
                raise
            self._running.add(person)
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(person)
                self._lines.move_to_end(person)
                self._leave(person, ticket)

    def _is_next(self, person: str, ticket: object) -> bool:
        if len(self._running) >= self.slots or self._lines[person][0] is not ticket:
            return False
        return next(name for name in self._lines if name not in self._running) == person

    def _leave(self, person: str, ticket: object) -> None:
        line = self._lines[person]
        line.remove(ticket)
        if not line:
            del self._lines[person]
        self._changed.notify_all()


@dataclass(eq=False)
class HeavyWork:
    """The processes of one server, started when there is work for them."""

    queue: FairQueue = field(default_factory=lambda: FairQueue(AT_ONCE))
    light: int = LIGHT
    longest: float = LONGEST
    idle: float = IDLE
    _idle: list[Worker] = field(default_factory=list)

    def compute(
        self, person: str, effort: Callable[[], int], function: Callable[..., Result], *arguments: object
    ) -> Result:
        """The result of a piece of somebody's work, done here where it is light, and else in a process in its turn."""
        if effort() <= self.light:
            return function(*arguments)
        cancelled = is_cancelled.get()
        with turn.waiting(), self.queue.turn(person, cancelled):
            try:
                worker = self._idle.pop()
            except IndexError:
                worker = Worker.started()
            try:
                kind, content = worker.done((function, arguments), cancelled, self.longest)
            except BaseException:
                worker.kill()
                raise
            self._rest(worker)
        if kind == ERROR:
            raise _rebuilt(*content)
        if kind == FAULT:
            raise RuntimeError(content)
        result: Result = content
        return result

    def close(self) -> None:
        """Ends the processes."""
        while self._idle:
            self._idle.pop().kill()

    def _rest(self, worker: Worker) -> None:
        """Keeps a process for the next piece of work, for a while."""
        self._idle.append(worker)
        timer = threading.Timer(self.idle, self._retire, [worker])
        timer.daemon = True
        timer.start()

    def _retire(self, worker: Worker) -> None:
        # Whoever takes a process out of the list has it alone. One that worked meanwhile goes a little early.
        with suppress(ValueError):
            self._idle.remove(worker)
            worker.kill()


def _fixed(content: dict[object, object]) -> MappingProxyType[object, object]:
    return MappingProxyType(content)


# Domains and policies hold mappings that nobody can change, which travel as their content.
copyreg.pickle(MappingProxyType, lambda mapping: (_fixed, (dict(mapping),)))
DONE, ERROR, FAULT = "done", "error", "fault"
CODE = "from blowfishdb.server.worker_pools import serve; serve({})"


@dataclass(frozen=True, eq=False)
class Worker:
    """One process that takes functions of the package and values, and gives back what they return."""

    process: subprocess.Popen[bytes]
    pipe: Connection

    @staticmethod
    def started() -> Worker:
        """A new process. It gets no file, no connection and no secret of the server."""
        here, there = Pipe()
        with there:
            environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
            process = subprocess.Popen(
                [sys.executable, "-c", CODE.format(there.fileno())],
                pass_fds=[there.fileno()],
                env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return Worker(process, here)

    def done(self, work: object, cancelled: Callable[[], bool], seconds: float) -> tuple[str, Any]:
        """How the work ended and what it gave; WorkCancelled or TooExpensive when it did not end in time."""
        until = time.monotonic() + seconds
        try:
            self.pipe.send(work)
            while not self.pipe.poll(POLL):
                if cancelled():
                    raise WorkCancelled
                if time.monotonic() > until:
                    raise TooExpensive(f"given up after {seconds:g} seconds of arithmetic. Ask for fewer cells.")
            outcome: tuple[str, Any] = self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionError):
            raise TooExpensive("the arithmetic needed more memory than the machine has. Ask for fewer cells.") from None
        return outcome

    def kill(self) -> None:
        """Ends the process and whatever it works on."""
        self.process.kill()
        self.process.wait()
        self.pipe.close()


def _rebuilt(kind: type[BlowfishError], message: tuple[object, ...], fields: dict[str, object]) -> BlowfishError:
    """An error of ours as it was raised in a process."""
    error = kind.__new__(kind)
    error.args = message
    vars(error).update(fields)
    return error


def serve(descriptor: int) -> None:
    """The main loop of a process: works until its pipe closes."""
    os.nice(NICE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "wb") as file:
        file.write(EASILY_KILLED)
    pipe = Connection(descriptor)
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send_bytes(_outcome(pipe.recv_bytes()))


def _outcome(work: bytes) -> bytes:
    """How the work ended and what it gave, pickled; work or a result that cannot travel is a fault like any other."""
    try:
        function, arguments = pickle.loads(work)
        try:
            outcome = DONE, function(*arguments)
        except BlowfishError as error:
            outcome = ERROR, (type(error), error.args, vars(error))
        return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001  # told to the server, which gives it an incident number
        return pickle.dumps((FAULT, traceback.format_exc()))
