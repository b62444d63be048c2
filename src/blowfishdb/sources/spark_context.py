"""The Spark driver of this process: whether it and its cluster are there, and a new one where ours is gone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOST_SECONDS = 20.0
"""Seconds without an executor after which a cluster is given up that had some, or whose master does not answer."""
LOOK = 2.0
"""Seconds between two looks at a cluster while it counts."""
KNOCK = 2.0
"""Seconds in which a master answers that is there."""
STOP_SECONDS = 10.0
"""Seconds that a driver may take to stop before its process is killed."""
PAUSE = 10.0
"""Seconds after a session could not be started in which no other is tried."""
STANDALONE = "spark://"


class SparkLost(RuntimeError):
    """A Spark whose driver or cluster is gone and that is not ours to start, or did not start a moment ago."""


@dataclass(eq=False)
class Driver:
    """What this process knows of its one Spark context."""

    turn: threading.RLock = field(default_factory=threading.RLock)
    """Held while a session is looked for or started."""
    _own: Any = None
    """The context that was started here, and may be stopped."""
    _with_executors: Any = None
    """The context that was last seen with executors."""
    _failed: float | None = None
    """When a session did not start."""

    def running(self, start: Callable[[], SparkSession]) -> SparkSession:
        """The running session, or one that is started where none is, or where ours is gone."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        with self.turn:
            context = SparkContext._active_spark_context
            if context is not None and self._is_gone(context):
                self._forget(context)
            elif context is not None and self.lost(context):
                if context is not self._own:
                    raise SparkLost("the cluster of the running Spark session is gone; start the session anew")
                self._forget(context)
            session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
            if session is not None and session._sc._jsc is not None:
                return session
            if self._failed is not None and time.monotonic() - self._failed < PAUSE:
                raise SparkLost("Spark did not start a moment ago; ask again in some seconds")
            try:
                session = start()
            except BaseException:
                self._failed = time.monotonic()
                raise
            self._own, self._failed = session.sparkContext, None
            return session

    def lost(self, context: Any) -> bool:
        """Whether the cluster stays without an executor; waits for one for a while."""
        since = time.monotonic()
        while self._lacks_executors(context):
            if time.monotonic() - since > LOST_SECONDS:
                return True
            time.sleep(LOOK)
        return False

    @contextmanager
    def watched(self, context: Any, cancel: Callable[[], object]) -> Iterator[None]:
        """Cancels what runs once the cluster is lost: Spark itself would wait for another one without an end."""
        if not context.master.startswith(STANDALONE):
            yield
            return
        is_over = threading.Event()

        def watch() -> None:
            since = time.monotonic()
            while not is_over.wait(LOOK):
                with suppress(Exception):
                    if not self._lacks_executors(context):
                        since = time.monotonic()
                    elif time.monotonic() - since > LOST_SECONDS:
                        cancel()
                        return

        watching = threading.Thread(target=watch, name="watch of a cluster", daemon=True)
        watching.start()
        try:
            yield
        finally:
            is_over.set()

    def _lacks_executors(self, context: Any) -> bool:
        """Whether a standalone cluster has none though it had some, or though its master does not answer."""
        if not context.master.startswith(STANDALONE):
            return False
        # The driver is one of those that are listed.
        if context._jsc.sc().getExecutorMemoryStatus().size() > 1:
            self._with_executors = context
            return False
        is_elastic = context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true"
        return (context is self._with_executors and not is_elastic) or not answers(context.master)

    def _is_gone(self, context: Any) -> bool:
        """Whether the context was stopped, or the process of its driver has died."""
        if getattr(context, "_jsc", None) is None:
            return True
        process = getattr(context._gateway, "proc", None)
        if process is not None and process.poll() is not None:
            return True
        try:
            return bool(context._jsc.sc().isStopped())
        except Exception:  # noqa: BLE001  # a gateway without anybody behind it says so in many ways
            return True

    def _forget(self, context: Any) -> None:
        """Stops the context, and its process where that does not help, so that another can be started."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        process = getattr(context._gateway, "proc", None)
        if process is None or process.poll() is None:
            stopping = threading.Thread(target=_quietly, args=(context.stop,), daemon=True)
            stopping.start()
            stopping.join(STOP_SECONDS)
            if stopping.is_alive() and process is not None:
                process.kill()
                process.wait()
        SparkSession._instantiatedSession = None
        SparkSession._activeSession = None
        SparkContext._active_spark_context = None
        if process is not None and process.poll() is not None:
            with suppress(Exception):
                context._gateway.shutdown()
            SparkContext._gateway = SparkContext._jvm = None
        self._own = self._with_executors = None


def _quietly(work: Callable[[], object]) -> None:
    with suppress(Exception):
        work()


def answers(master: str) -> bool:
    """Whether one of the masters of an address such as spark://one:7077,two:7077 lets somebody in."""
    return any(_lets_in(place) for place in master.removeprefix(STANDALONE).split(","))


def _lets_in(place: str) -> bool:
    where = urlsplit(f"//{place}")
    with suppress(OSError), socket.create_connection((where.hostname or "", where.port or 7077), KNOCK):
        return True
    return False


driver_here = Driver()
"""One for the process, as Spark's own context is."""
