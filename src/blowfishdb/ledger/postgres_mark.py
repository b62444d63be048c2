"""A high-water mark in a PostgreSQL database of its own, which every server of one ledger reaches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from blowfishdb.errors import LedgerUnavailable
from blowfishdb.ledger.mark import HighWaterMark, check_same_history, new_identity
from blowfishdb.ledger.postgres import LOST, Connection, PostgresCursor, PostgresStore, check_durable, connect
from blowfishdb.ledger.records import Cursor, Row, text, whole
from blowfishdb.ledger.store import PATIENCE
from blowfishdb.ledger.values import Head

SCHEMA = "blowfish_mark"
USUAL_NAME = "ledger"
MARK_LOCK = 0x424C4F58
TABLE = """
CREATE TABLE IF NOT EXISTS mark (
    name TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    ledger TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    hash TEXT NOT NULL
)"""


@dataclass(eq=False)
class PostgresMark(HighWaterMark):
    """The mark called `name` in the database at `url`."""

    url: str
    name: str
    checkpoint_path: Path
    patience: float = PATIENCE
    _connection: Connection | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> Head | None:
        """The furthest head on record; None when there is no mark yet."""
        with self._transaction() as cursor:
            row = self._row(cursor)
            return None if row is None else _head(row)

    def identity(self) -> str | None:
        """The random name that the ledger knows its mark by; None when there is no mark yet."""
        with self._transaction() as cursor:
            row = self._row(cursor)
            return None if row is None else text(row[0])

    def advance(self, head: Head, newest: Callable[[], Head] | None = None) -> None:
        """Makes sure, durably, that the mark is at least here; refuses a head that contradicts it."""
        del newest
        with self._transaction() as cursor:
            # All who write marks wait here: a row that does not exist yet cannot be locked.
            cursor.rows("SELECT pg_advisory_xact_lock(?)", MARK_LOCK)
            row = self._row(cursor)
            if row is not None:
                known = _head(row)
                check_same_history(known, head)
                if head.sequence <= known.sequence:
                    return
            self._write(cursor, head, new_identity() if row is None else text(row[0]))

    def replace(self, head: Head, identity: str | None = None) -> None:
        """Sets the mark to this head whatever it was: the curator accepted a restored ledger."""
        with self._transaction() as cursor:
            cursor.rows("SELECT pg_advisory_xact_lock(?)", MARK_LOCK)
            row = self._row(cursor)
            self._write(cursor, head, identity or (new_identity() if row is None else text(row[0])))

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()

    def _row(self, cursor: Cursor) -> Row | None:
        rows = cursor.rows("SELECT identity, ledger, sequence, hash FROM mark WHERE name = ?", self.name)
        return rows[0] if rows else None

    def _write(self, cursor: Cursor, head: Head, identity: str) -> None:
        cursor.rows(
            "INSERT INTO mark VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET identity = EXCLUDED.identity, "
            "ledger = EXCLUDED.ledger, sequence = EXCLUDED.sequence, hash = EXCLUDED.hash",
            *(self.name, identity, head.ledger, head.sequence, head.hash),
        )

    @contextmanager
    def _transaction(self) -> Iterator[Cursor]:
        """One durable transaction, on a new connection when the old one is dead; LedgerUnavailable without one."""
        if not self._turn.acquire(timeout=self.patience):
            raise LedgerUnavailable("the high-water mark was busy for too long. Try again with the same key.")
        try:
            with PostgresStore._translated():
                if self._connection is None or not _is_alive(self._connection):
                    self._connection = _connected(self.url, self.patience)
                with self._connection.transaction():
                    yield PostgresCursor(self._connection)
        finally:
            self._turn.release()


def _head(row: Row) -> Head:
    return Head(text(row[1]), whole(row[2]), text(row[3]))


def _is_alive(connection: Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except LOST:
        connection.close()
    return not connection.closed


def _connected(url: str, patience: float) -> Connection:
    connection = connect(url, patience, SCHEMA)
    try:
        check_durable(connection)
        with connection.transaction():
            cursor = PostgresCursor(connection)
            cursor.rows("SELECT pg_advisory_xact_lock(?)", MARK_LOCK)
            cursor.rows(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            cursor.rows(TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


def open_postgres_mark(url: str, checkpoint_path: Path) -> PostgresMark:
    """The mark at `postgresql://user@host/database#name`; several ledgers may have theirs in one database."""
    address, _, name = url.partition("#")
    mark = PostgresMark(address, name or USUAL_NAME, checkpoint_path)
    mark.read()
    return mark
