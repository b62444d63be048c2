"""The DuckDB of this process: which databases it has open, and connections to them that are used again."""

from __future__ import annotations

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from blowfishdb.sources.base import driver
from blowfishdb.sources.location import Stamp, stamp_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SWITCHED_OFF = ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_file_cache")
"""Nothing is fetched or loaded because a table asks for it, and no old bytes of a file that was rewritten."""
IDLE_CONNECTIONS = 16
ARRAY_BITS = 18
"""Groups by small types are counted in an array of up to two to this many places."""


class OpenFiles:
    """The databases that this process has open: until the last user is done with one, all are given the same file.

    That is so even where another file was put in its place meanwhile, whose digest is not that of what is counted.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[Stamp | None, int]] = {}
        self._turn = threading.Lock()

    @contextmanager
    def using(self, path: str) -> Iterator[None]:
        """Notes a user of the file, and what the file was when its first user opened it."""
        with self._turn:
            known, users = self._open.get(path) or (stamp_of(path), 0)
            self._open[path] = known, users + 1
        try:
            yield
        finally:
            with self._turn:
                known, users = self._open.pop(path)
                if users > 1:
                    self._open[path] = known, users - 1

    def is_replaced(self, path: str) -> bool:
        """Whether the file is open and was changed, or another one put in its place, since it was opened."""
        with self._turn:
            return path in self._open and self._open[path][0] != stamp_of(path)


opened_files = OpenFiles()


def connection_to(duckdb: ModuleType, path: str, *, read_only: bool) -> DuckDBPyConnection:
    """A connection to a database of its own."""
    connection: DuckDBPyConnection = duckdb.connect(path, read_only=read_only)
    # Set afterwards: a database that this process has open already wants the settings it was opened with.
    for setting in SWITCHED_OFF:
        connection.execute(f"SET {setting} = false")
    connection.execute(f"SET perfect_ht_threshold = {ARRAY_BITS}")
    return connection


class DuckDBInstance:
    """A DuckDB that stays open in memory: to attach a database takes a tenth of the time to open it on its own."""

    def __init__(self, spill: str, threads: int | None = None) -> None:
        self._base = connection_to(driver("duckdb", "duckdb", "duckdb"), ":memory:", read_only=False)
        # Of all connections, not of this one alone.
        self._base.execute(f"SET GLOBAL perfect_ht_threshold = {ARRAY_BITS}")
        if spill:
            self._base.execute(f"SET temp_directory = {quoted(spill)}")
        if threads is not None:
            self._base.execute(f"SET threads = {threads}")
        self._users = Counter[tuple[str, str]]()
        self._idle: defaultdict[str, list[DuckDBPyConnection]] = defaultdict(list)
        """Connections that look for their tables in the database of a name, whichever file is attached by it."""
        self._turn = threading.Lock()
        self._numbers = itertools.count(1)

    def attach(self, path: str, name: str) -> AbstractContextManager[DuckDBPyConnection]:
        """A connection to the database alone, which is let go of when its last user is."""
        with self._turn:
            if not self._users[path, name]:
                self._base.execute(f"ATTACH {quoted(path)} AS {identifier(name)} (READ_ONLY)")
            self._users[path, name] += 1
        return self._used(path, name, self._idle[name])

    def empty(self) -> AbstractContextManager[DuckDBPyConnection]:
        """A connection to an empty database in memory."""
        path, name = ":memory:", f"empty {next(self._numbers)}"
        with self._turn:
            self._base.execute(f"ATTACH ':memory:' AS {identifier(name)}")
            self._users[path, name] = 1
        return self._used(path, name)

    @contextmanager
    def _used(self, path: str, name: str, idle: list[DuckDBPyConnection] | None = None) -> Iterator[DuckDBPyConnection]:
        """An idle connection or a new one, idle again after its work: once all rows are fetched it holds no file."""
        try:
            connection = self._idle_or_new(name, idle)
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            if idle is None or len(idle) >= IDLE_CONNECTIONS:
                connection.close()
            else:
                idle.append(connection)
        finally:
            with self._turn:
                self._users[path, name] -= 1
                if not self._users[path, name]:
                    del self._users[path, name]
                    self._base.execute(f"DETACH {identifier(name)}")

    def _idle_or_new(self, name: str, idle: list[DuckDBPyConnection] | None) -> DuckDBPyConnection:
        with suppress(IndexError):
            if idle is not None:
                return idle.pop()
        connection = self._base.cursor()
        connection.execute(f"USE {identifier(name)}")
        return connection


@cache
def instance_of(process: int, spill: str = "", threads: int | None = None) -> DuckDBInstance:
    """The instance of this process that spills to a folder; one that was forked cannot use its parent's."""
    del process
    return DuckDBInstance(spill, threads)


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
