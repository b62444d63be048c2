"""SQLite files as this process has them open: by SQLite alone, and by no handle that crosses a fork.

POSIX takes away every lock that a process has on a file when the process closes any descriptor of it, and SQLite stands
on these locks: without them another process takes itself for the last one, and removes the log that this one writes to.
So nothing but SQLite opens a file that may be in use. A fork leaves the child without the locks, and its SQLite in the
belief that it has them, so handles are closed before one.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

PAUSE = 2.0
"""Seconds that a fork waits for the transactions of other threads."""
CHECKED = ("BEGIN IMMEDIATE", "COMMIT")
"""Before something is written, and before anybody hears of it, the log must be the one that has a name."""

FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises. Its message may quote a damaged file, and bytes that are no text become the second kind."""

FileId = tuple[int, int]
"""Device and inode."""
_turn = threading.Lock()
"""Held while a file is made, while a handle is opened, and while the process forks."""
_connections: weakref.WeakSet[FileConnection] = weakref.WeakSet()
_untrusted: dict[FileId, list[sqlite3.Connection]] = {}
"""Files of which no lock of this process can be trusted, with handles that came over a fork: to close one uses it."""


class LocksLost(sqlite3.OperationalError):
    """A file that this process must not use: it was forked in the middle of that, or its log is another one now."""

    def __init__(self) -> None:
        super().__init__(
            "this process lost its locks on the file, by a fork while it was in use or by other code that opened and "
            "closed it; use it in a process that is started anew"
        )


def make_file(path: Path) -> None:
    """An empty file that its owner alone can read, unless there is a file; SQLite makes some that others can read."""
    # In turn with all handles, so that none of this process is open to the file that is closed here.
    with _turn, suppress(FileExistsError):
        os.close(os.open(path.resolve(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


class FileConnection:
    """A connection to a file that is there, for one thread at a time; closed for a fork, and opened again after it.

    Each statement commits by itself unless a transaction was begun. Who reads rows outside of one holds `in_use`.
    """

    def __init__(
        self,
        path: Path,
        prepare: Callable[[sqlite3.Connection], None],
        *,
        patience: float,
        mode: str = "rw",
        in_use: threading.RLock | None = None,
    ) -> None:
        self._address, self._patience, self._prepare = f"{path.absolute().as_uri()}?mode={mode}", patience, prepare
        self._path, self._log_path = path, path.with_name(f"{path.name}-wal")
        self._process, self._is_writer = os.getpid(), mode == "rw"
        self._in_use = threading.RLock() if in_use is None else in_use
        self._handle: sqlite3.Connection | None = None
        self._file: FileId | None = None
        self._log: FileId | None = None
        self._is_closed = False
        with self._in_use:
            self._opened()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and has not ended."""
        return self._handle is not None and self._handle.in_transaction

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """The rows of a statement, none for a change."""
        with self._in_use:
            handle = self._opened()
            outcome = handle.execute(sql, values)
            if sql in CHECKED:
                self._check_log(handle)
            return outcome

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement at once."""
        with self._in_use:
            return self._opened().execute(sql, values).fetchall()

    def interrupt(self) -> None:
        """Ends the statement that another thread runs."""
        handle = self._handle
        if handle is not None:
            handle.interrupt()

    def copy_to(self, file: Path) -> None:
        """Writes everything to a file that nobody has open, as it is at one moment."""
        with self._in_use, closing(sqlite3.connect(file)) as copy:
            self._opened().backup(copy)

    def close(self) -> None:
        """Lets go of the file for good."""
        self._is_closed = True
        if os.getpid() == self._process and self._handle is not None:
            self._handle.close()
            self._handle = None

    def _opened(self) -> sqlite3.Connection:
        """The handle, opened where there is none; the parent's is never used."""
        if os.getpid() != self._process:
            raise LocksLost
        if self._is_closed:
            raise sqlite3.ProgrammingError("the connection is closed")
        if self._handle is None:
            with _turn:
                self._handle = self._open()
                _connections.add(self)
            # Not in turn: this may wait for a transaction, of a thread that opens another handle in it.
            self._prepare_handle(self._handle)
        return self._handle

    def _open(self) -> sqlite3.Connection:
        self._file, self._log = _identity(self._path), None
        if self._file in _untrusted:
            raise LocksLost
        return sqlite3.connect(
            self._address, uri=True, timeout=self._patience, isolation_level=None, check_same_thread=False
        )

    def _prepare_handle(self, handle: sqlite3.Connection) -> None:
        try:
            self._prepare(handle)
            if self._is_writer:
                # Whoever has read once keeps the log from being taken away.
                handle.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
                self._check_log(handle)
        except BaseException:
            self._handle = None
            handle.close()
            raise

    def _check_log(self, handle: sqlite3.Connection) -> None:
        """LocksLost where the write-ahead log is not the one that every handle of this process writes to.

        While the locks last nobody can take it away. What is committed to a log without a name is lost.
        """
        found = _identity(self._log_path)
        if self._log is None:
            self._log = found
        for one in list(_connections):
            if one._file == self._file and one._handle is not None and one._log not in (None, found):
                _untrusted.setdefault(one._file or (0, 0), [])
                if handle.in_transaction:
                    handle.execute("ROLLBACK")
                raise LocksLost

    def let_go(self, until: float) -> None:
        """Closes the handle before a fork, once nobody uses it; at a deadline it stays open."""
        while self._handle is not None:
            if self._in_use.acquire(timeout=max(0.0, until - time.monotonic())):
                try:
                    if self._handle is not None and not self._handle.in_transaction:
                        self._handle.close()
                        self._handle = None
                finally:
                    self._in_use.release()
            if time.monotonic() >= until:
                return
            time.sleep(PAUSE / 400)

    def cross_fork(self) -> None:
        """Keeps the handle that this process inherited, and refuses its file from now on."""
        if self._handle is not None and self._file is not None:
            _untrusted.setdefault(self._file, []).append(self._handle)


def _identity(path: Path) -> FileId | None:
    """What tells a file from others; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _before_fork() -> None:
    _turn.acquire()
    until = time.monotonic() + PAUSE
    for connection in list(_connections):
        connection.let_go(until)


def _in_child() -> None:
    for connection in list(_connections):
        connection.cross_fork()
    _turn.release()


os.register_at_fork(before=_before_fork, after_in_parent=_turn.release, after_in_child=_in_child)
