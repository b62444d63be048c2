"""The database of users, what they may do and what they did: one SQLite file, or PostgreSQL for several servers."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from blowfishdb.errors import AccountsUnavailable, InvalidInput
from blowfishdb.sqlite_files import FAILURES, FileConnection, make_file

AuthValue: TypeAlias = str | int | None
AuthRow: TypeAlias = dict[str, Any]

TABLES = (
    """CREATE TABLE IF NOT EXISTS users (
        name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT, disabled BIGINT NOT NULL DEFAULT 0,
        must_change BIGINT NOT NULL DEFAULT 0, created TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS login_session (
        secret_hash TEXT PRIMARY KEY, name TEXT NOT NULL, csrf_token TEXT NOT NULL, seen BIGINT NOT NULL,
        ends BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS token (
        id TEXT PRIMARY KEY, secret_hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL, label TEXT NOT NULL,
        scopes TEXT NOT NULL, created TEXT NOT NULL, ends BIGINT NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS token_cap (id TEXT PRIMARY KEY, epsilon TEXT NOT NULL, spent TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS token_verifier (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, stored_key TEXT NOT NULL, server_key TEXT NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS failure (who TEXT PRIMARY KEY, times BIGINT NOT NULL, until BIGINT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS pause (
        dataset TEXT PRIMARY KEY, who TEXT NOT NULL, at TEXT NOT NULL, reason TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS dataset_grant (
        dataset TEXT NOT NULL, holder TEXT NOT NULL, role TEXT NOT NULL, given_by TEXT NOT NULL, at TEXT NOT NULL,
        epsilon TEXT, PRIMARY KEY (dataset, holder, role))""",
    "CREATE TABLE IF NOT EXISTS user_group (name TEXT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (name, member))",
    "CREATE TABLE IF NOT EXISTS grants_since (at TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS approval_rule (dataset TEXT PRIMARY KEY, epsilon TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS approval (
        dataset TEXT NOT NULL, number BIGINT NOT NULL, analyst TEXT NOT NULL, digest TEXT NOT NULL,
        question TEXT NOT NULL, epsilon TEXT NOT NULL, state TEXT NOT NULL, at TEXT NOT NULL, ends BIGINT NOT NULL,
        decided_by TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (dataset, number))""",
    """CREATE TABLE IF NOT EXISTS draft (
        name TEXT NOT NULL, page TEXT NOT NULL, body TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (name, page))""",
    """CREATE TABLE IF NOT EXISTS dashboard (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, title TEXT NOT NULL, tiles TEXT NOT NULL, access TEXT NOT NULL,
        changed TEXT NOT NULL, published TEXT)""",
    """CREATE TABLE IF NOT EXISTS audit_log (
        number BIGINT PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)""",
)
TABLE_NAMES = tuple(table.split()[5] for table in TABLES)
BEFORE = ("users", "grants_since")
"""Tables that are empty in a new database alone."""
PATIENCE = 30.0
"""Seconds that a change of a file waits for another one."""
TAKE_TURNS = "SELECT pg_advisory_xact_lock(5204417093)"
"""Waits for other servers on the same database, as SQLite's BEGIN IMMEDIATE does; the number is ours alone."""


class Outcome(Protocol):
    """The result of a statement; one without a description has no rows."""

    @property
    def description(self) -> Sequence[Sequence[Any]] | None: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...


class AuthConnection(Protocol):
    """A connection of either driver, as far as it is used here."""

    def execute(self, sql: str, values: Sequence[AuthValue], /) -> Outcome: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class AuthCursor:
    """Statements over one connection, written with `?` for values."""

    connection: AuthConnection
    mark: str

    def rows(self, sql: str, *values: AuthValue) -> list[AuthRow]:
        """The rows of a statement by column, none for a change."""
        # PostgreSQL keeps no such text, and its refusal would look like a database that is gone.
        if any(isinstance(value, str) and "\0" in value for value in values):
            raise InvalidInput("a name or a text holds no NUL character")
        outcome = self.connection.execute(sql.replace("?", self.mark), values)
        if not outcome.description:
            return []
        columns = [column[0] for column in outcome.description]
        return [dict(zip(columns, row, strict=True)) for row in outcome.fetchall()]

    def row(self, sql: str, *values: AuthValue) -> AuthRow | None:
        """The first row of a statement, if it has one."""
        return next(iter(self.rows(sql, *values)), None)

    def insert(self, table: str, row: Mapping[str, AuthValue]) -> None:
        """Adds a row to a table."""
        self.rows(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", *row.values())


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


@dataclass(eq=False)
class Database:
    """Two connections, one to write and one to read, each used in turn; a lost one is made anew."""

    connect: Callable[[threading.RLock], AuthConnection]
    """Opens a connection that is used under this lock alone."""
    mark: str
    errors: tuple[type[Exception], ...]
    clock: Clock
    _open: dict[str, AuthConnection] = field(default_factory=dict)
    _writing: threading.RLock = field(default_factory=threading.RLock)
    _reading: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_quick(self) -> bool:
        """Whether a short look-up may be made without a thread: in a file, where writers hold up no reader."""
        is_free = self.mark == "?" and self._reading.acquire(blocking=False)
        if is_free:
            self._reading.release()
        return is_free

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[AuthCursor]:
        """One transaction, kept when the block ends well and undone when it does not.

        One that is not `durable` is there for everybody at once, and survives whatever happens to this process; it is
        on disk with the next durable one, and until then a power failure may undo it.
        """
        is_sqlite = self.mark == "?"
        with self._writing, self._connection("writer", self._writing) as connection:
            if is_sqlite:
                connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}", ())
            connection.execute("BEGIN IMMEDIATE" if is_sqlite else "BEGIN", ())
            try:
                if not is_sqlite and not durable:
                    connection.execute("SET LOCAL synchronous_commit = off", ())
                # Both databases let one writer in at a time: a line of the log has one line before it.
                if not is_sqlite:
                    connection.execute(TAKE_TURNS, ())
                yield AuthCursor(connection, self.mark)
                connection.execute("COMMIT", ())
            except BaseException:
                connection.execute("ROLLBACK", ())
                raise

    @contextmanager
    def read(self) -> Iterator[AuthCursor]:
        """What is committed, each statement by itself: whoever reads does not wait until a line is safely on disk."""
        with self._reading, self._connection("reader", self._reading) as connection:
            yield AuthCursor(connection, self.mark)

    def rows(self, sql: str, *values: AuthValue) -> list[AuthRow]:
        """The rows of one statement that only reads."""
        with self.read() as cursor:
            return cursor.rows(sql, *values)

    def row(self, sql: str, *values: AuthValue) -> AuthRow | None:
        """The first row of one statement that only reads, if it has one."""
        return next(iter(self.rows(sql, *values)), None)

    def change(self, sql: str, *values: AuthValue) -> None:
        """One statement as a transaction of its own."""
        with self.write() as cursor:
            cursor.rows(sql, *values)

    def copy(self, target: Database) -> None:
        """Puts all rows in the place of those of another database: as they were at one moment, all of them or none."""
        with self.write(durable=False) as source, target.write() as cursor:
            for table in TABLE_NAMES:
                cursor.rows(f"DELETE FROM {table}")
                for row in source.rows(f"SELECT * FROM {table}"):
                    cursor.insert(table, row)

    def content(self) -> dict[str, list[list[str]]]:
        """All rows by table, as they were at one moment."""
        with self.write(durable=False) as cursor:
            return {
                table: sorted([*map(str, row.values())] for row in cursor.rows(f"SELECT * FROM {table}"))
                for table in TABLE_NAMES
            }

    def close(self) -> None:
        """Lets go of the connections."""
        with self._writing:
            self._forget("writer")
        with self._reading:
            self._forget("reader")

    @contextmanager
    def _connection(self, use: str, in_use: threading.RLock) -> Iterator[AuthConnection]:
        """The open connection for this use; AccountsUnavailable when the database does not answer on it."""
        try:
            if use not in self._open:
                connection = self.connect(in_use)
                for table in TABLES:
                    connection.execute(table, ())
                # Users who were there before mean an installation from before there were grants.
                if not any(connection.execute(f"SELECT 1 FROM {one} LIMIT 1", ()).fetchall() for one in BEFORE):
                    AuthCursor(connection, self.mark).insert("grants_since", {"at": self.clock.text()})
                self._open[use] = connection
            yield self._open[use]
        except self.errors:
            self._forget(use)
            raise AccountsUnavailable from None

    def _forget(self, use: str) -> None:
        connection = self._open.pop(use, None)
        if connection is not None:
            with suppress(*self.errors):
                connection.close()


def open_database(url: str, clock: Clock | None = None) -> Database:
    """The database at `sqlite:///path` or `postgresql://...`; made at first use."""
    if url.startswith("sqlite:///"):
        path = Path(url.removeprefix("sqlite:///"))
        return Database(partial(_sqlite, path), "?", (*FAILURES, OSError), clock or Clock())
    if url.startswith(("postgresql://", "postgres://")):
        try:
            import psycopg
        except ImportError:
            raise InvalidInput("users in PostgreSQL need psycopg: pip install blowfishdb[postgres]") from None
        return Database(lambda _: _postgres(url), "%s", (psycopg.Error, OSError), clock or Clock())
    raise InvalidInput("users are kept at sqlite:///path or postgresql://user@host/database")


def _sqlite(path: Path, in_use: threading.RLock) -> AuthConnection:
    path.parent.mkdir(parents=True, exist_ok=True)
    make_file(path)
    return FileConnection(path, _keep_log, patience=PATIENCE, in_use=in_use)


def _keep_log(handle: sqlite3.Connection) -> None:
    handle.execute("PRAGMA journal_mode = WAL")


def _postgres(url: str) -> AuthConnection:
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE SCHEMA IF NOT EXISTS blowfish_users")
    connection.execute("SET search_path TO blowfish_users")
    return connection
