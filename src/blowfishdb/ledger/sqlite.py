"""A ledger in one SQLite file: write-ahead log, full synchronisation, writers in turn."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from blowfishdb.errors import LedgerCorrupt, LedgerUnavailable
from blowfishdb.ledger.mark import in_turn
from blowfishdb.ledger.records import LedgerCursor, LedgerRow, LedgerValue, digest
from blowfishdb.ledger.store import NEWEST, PATIENCE, Store, announce_upgrade, migrate, pending

APPLICATION = 0x424C4F57
"""Marks the file as a ledger of ours, so that another database is never migrated by mistake."""
TYPES = {"whole": "INTEGER", "amount": "TEXT", "binary": "BLOB"}


@dataclass(frozen=True)
class SqliteCursor(LedgerCursor):
    """Runs statements on one connection."""

    payload_digest: ClassVar[str] = "payload_digest(payload)"
    connection: sqlite3.Connection

    def rows(self, sql: str, *values: LedgerValue) -> list[LedgerRow]:
        """The rows of a statement, none for a change."""
        return self.connection.execute(sql, values).fetchall()

    def stream(self, sql: str, *values: LedgerValue) -> Iterator[LedgerRow]:
        """The rows of a query, a few at a time."""
        return self.connection.execute(sql, values)


@dataclass(eq=False)
class SqliteStore(Store[sqlite3.Connection]):
    """The ledger file at `path`, open in this process."""

    path: Path

    @staticmethod
    def _cursor(connection: sqlite3.Connection) -> LedgerCursor:
        return SqliteCursor(connection)

    @staticmethod
    @contextmanager
    def _translated() -> Iterator[None]:
        """Turns the errors of SQLite into ours; a half-done transaction is gone by then."""
        try:
            yield
        except sqlite3.Error as problem:
            if type(problem) in (sqlite3.IntegrityError, sqlite3.DatabaseError):
                raise LedgerCorrupt(f"the ledger file contradicts itself ({problem})") from None
            raise LedgerUnavailable(
                f"the ledger cannot be written or read now ({problem}). Try again with the same key."
            ) from None

    def __post_init__(self) -> None:
        weakref.finalize(self, _abandon, self._process, self._readers, self._writer)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with super()._exclusive(), in_turn(self.path, self.patience):
            yield

    def _begin_write(self) -> None:
        self._writer.execute("BEGIN IMMEDIATE")

    def _begin_read(self) -> sqlite3.Connection:
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = _connect(self.path, self.patience)
            reader.execute("PRAGMA query_only = ON")
        reader.execute("BEGIN")
        return reader

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _abandon(process: int, readers: list[sqlite3.Connection], writer: sqlite3.Connection) -> None:
    """Closes what nobody can reach any more; a forked child must not touch connections of its parent."""
    if os.getpid() == process:
        for connection in [*readers, writer]:
            connection.close()


def open_sqlite(path: Path, patience: float = PATIENCE) -> SqliteStore:
    """The store at `path`, created or migrated where needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as problem:
        raise LedgerUnavailable(f"cannot open the ledger file: {problem.strerror}") from None
    with SqliteStore._translated(), in_turn(path, patience):
        writer = _connect(path, patience)
        try:
            _prepare(writer, path)
        except BaseException:
            writer.close()
            raise
        return SqliteStore(patience, writer, path)


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    # mode=rw: a ledger that vanished must not come back empty.
    address = f"{path.as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)
    # FULL: with less, a power cut may forget the last charges, and forgotten budget is spent twice.
    connection.execute("PRAGMA synchronous = FULL")
    connection.create_function("payload_digest", 1, _payload_digest, deterministic=True)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _payload_digest(payload: object) -> str | None:
    return digest(payload) if isinstance(payload, bytes) else None


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Creates the tables of a new file, or applies the migrations that an old one lacks."""
    (application,), (version,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION:
        raise LedgerCorrupt("this SQLite file is not a ledger")
    steps = pending(version)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise LedgerUnavailable("this file system cannot hold a write-ahead log. Put the ledger on a local disk.")
    if not steps:
        return
    if version > 0:
        _keep_copy(connection, path.with_name(f"{path.name}.format-{version}"))
        announce_upgrade(version, f"{path.name}.format-{version}, beside it")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in steps:
            migrate(SqliteCursor(connection), step, TYPES)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {NEWEST}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _keep_copy(connection: sqlite3.Connection, place: Path) -> None:
    """A copy of a ledger before it is upgraded, whole or not there."""
    part = place.with_name(f"{place.name}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    with closing(sqlite3.connect(part)) as copy:
        connection.backup(copy)
    os.replace(part, place)
