"""One database that holds one ledger: its tables, the way from older formats, its transactions; the one in SQLite."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from blowfishdb.errors import LedgerCorrupt, LedgerUnavailable
from blowfishdb.ledger.mark import PATIENCE, in_turn
from blowfishdb.ledger.records import LedgerCursor, LedgerRow, LedgerValue, StoredAnswer, digest, genesis
from blowfishdb.ledger.values import Charge, Receipt
from blowfishdb.sqlite_files import FAILURES, FileConnection, make_file

log = logging.getLogger("blowfishdb.ledger")

_TABLES = (
    """
    CREATE TABLE head (
        id {whole} PRIMARY KEY CHECK (id = 1),
        ledger TEXT NOT NULL,
        sequence {whole} NOT NULL,
        hash TEXT NOT NULL
    )""",
    """
    CREATE TABLE account (
        id TEXT PRIMARY KEY,
        identity TEXT NOT NULL,
        limit_top {amount} NOT NULL,
        limit_bottom {amount} NOT NULL,
        spent_units {amount} NOT NULL,
        spent_grid {amount} NOT NULL,
        analyst_limit_top {amount},
        analyst_limit_bottom {amount},
        charges {whole} NOT NULL,
        policy_version {whole} NOT NULL,
        domain_version {whole} NOT NULL,
        snapshot {whole} NOT NULL
    )""",
    """
    CREATE TABLE label (
        account TEXT NOT NULL REFERENCES account (id),
        name TEXT NOT NULL,
        PRIMARY KEY (account, name)
    )""",
    """
    CREATE TABLE analyst (
        account TEXT NOT NULL REFERENCES account (id),
        name TEXT NOT NULL,
        spent_units {amount} NOT NULL,
        spent_grid {amount} NOT NULL,
        limit_top {amount},
        limit_bottom {amount},
        is_individual {whole} NOT NULL,
        PRIMARY KEY (account, name)
    )""",
    """
    CREATE TABLE entry (
        sequence {whole} PRIMARY KEY,
        kind TEXT NOT NULL,
        account TEXT REFERENCES account (id),
        analyst TEXT,
        charge_key TEXT,
        request_digest TEXT,
        body TEXT NOT NULL,
        previous_hash TEXT NOT NULL,
        hash TEXT NOT NULL,
        UNIQUE (account, analyst, charge_key)
    )""",
    """
    CREATE TABLE version (
        account TEXT NOT NULL REFERENCES account (id),
        kind TEXT NOT NULL,
        number {whole} NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (account, kind, number)
    )""",
)

_STORED_ANSWERS = (
    """
    CREATE TABLE answer (
        charge {whole} PRIMARY KEY REFERENCES entry (sequence),
        entry {whole} NOT NULL REFERENCES entry (sequence),
        payload {binary} NOT NULL
    )""",
    "CREATE INDEX entry_by_request ON entry (account, request_digest)",
)

_CLASS_LOSSES = (
    "ALTER TABLE account ADD COLUMN accounting TEXT NOT NULL DEFAULT 'sum'",
    "ALTER TABLE account ADD COLUMN edge_books TEXT",
    "ALTER TABLE analyst ADD COLUMN edge_books TEXT",
)

_MARKED = ("ALTER TABLE head ADD COLUMN mark TEXT",)

_CHAINS = (
    """
    CREATE TABLE link (
        charge {whole} PRIMARY KEY REFERENCES entry (sequence),
        account TEXT NOT NULL REFERENCES account (id),
        rows TEXT NOT NULL,
        chain TEXT NOT NULL,
        analyst TEXT NOT NULL,
        level TEXT NOT NULL,
        received TEXT NOT NULL,
        mark TEXT
    )""",
    "CREATE INDEX link_by_rows ON link (account, rows)",
)

_LISTS = (
    "CREATE INDEX entry_by_analyst ON entry (account, analyst, sequence)",
    """
    CREATE INDEX entry_by_synopsis ON entry (account, sequence)
    WHERE kind = 'charge' AND body LIKE '%synopsis%: true%'""",
)

_RESTORES = ("CREATE INDEX IF NOT EXISTS entry_by_restore ON entry (sequence) WHERE kind = 'restored'",)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _TABLES,
    _STORED_ANSWERS,
    _CLASS_LOSSES,
    _MARKED,
    _CHAINS,
    _LISTS,
    _RESTORES,
)
"""Migration i brings a ledger from version i to i + 1. Published migrations are never edited, only followed."""

NEWEST = len(MIGRATIONS)


def pending(version: int) -> range:
    """The migrations that a ledger of this format lacks; LedgerUnavailable for a format from the future."""
    if version < 0:
        raise LedgerCorrupt(f"the ledger says that its format is {version}, and none is")
    if version > NEWEST:
        raise LedgerUnavailable(f"this ledger has format {version}, newer than {NEWEST}. Use a newer BlowfishDB.")
    return range(version, NEWEST)


def announce_upgrade(version: int, copy: str) -> None:
    """Says on stderr, or where the log of the program goes, that a ledger is upgraded and where its copy is."""
    log.warning(
        "the ledger is upgraded from format %s to %s; as it was before, it is kept as %s", version, NEWEST, copy
    )


def migrate(cursor: LedgerCursor, version: int, types: Mapping[str, str]) -> None:
    """Brings a ledger from `version` to the next one. `types` names whole numbers, exact amounts and bytes."""
    for statement in MIGRATIONS[version]:
        cursor.rows(statement.format(**types))
    if version == 0:
        ledger = os.urandom(16).hex()
        cursor.rows("INSERT INTO head (id, ledger, sequence, hash) VALUES (1, ?, 0, ?)", ledger, genesis(ledger))


class StoreConnection(Protocol):
    """A connection that commits each statement by itself unless told to begin."""

    def execute(self, sql: str, /) -> object:
        """Runs a statement."""

    def close(self) -> None:
        """Ends the connection."""


C = TypeVar("C", bound=StoreConnection)


@dataclass(eq=False)
class Store(ABC, Generic[C]):
    """An open ledger's database, used in the process that opened it, by one writer at a time."""

    charges_quickly: ClassVar[bool] = False
    """Whether a charge may be tried in one round trip."""
    patience: float
    _writer: C
    _readers: list[C] = field(default_factory=list, kw_only=True)
    _process: int = field(default_factory=os.getpid, kw_only=True)
    _guard: threading.Lock = field(default_factory=threading.Lock, kw_only=True)

    @contextmanager
    def write(self) -> Iterator[LedgerCursor]:
        """A transaction with every other writer kept out; durable when it ends, no trace when anything fails."""
        with self._exclusive(), self._translated():
            self._begin_write()
            try:
                yield self._cursor(self._writer)
                self._writer.execute("COMMIT")
            finally:
                self._roll_back(self._writer)

    @contextmanager
    def read(self) -> Iterator[LedgerCursor]:
        """One consistent view of everything committed, on a connection of its own: long reads hold up nobody."""
        self._check_process()
        with self._translated():
            reader = self._begin_read()
            try:
                yield self._cursor(reader)
            finally:
                self._roll_back(reader)
                self._readers.append(reader)

    def quick_charge(self, charge: Charge, body: str, mark: str) -> Receipt | None:
        """A durable charge in one round trip, or None: then a charge inside `write` decides and explains."""
        del charge, body, mark
        return None

    def close(self) -> None:
        """Closes every connection."""
        self._check_process()
        with self._translated():
            while self._readers:
                self._readers.pop().close()
            self._writer.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keeps other writers of this process out; LedgerUnavailable when that takes too long."""
        self._check_process()
        if not self._guard.acquire(timeout=self.patience):
            raise LedgerUnavailable("the ledger was busy for too long. Nothing was charged; try again.")
        try:
            yield
        finally:
            self._guard.release()

    def _check_process(self) -> None:
        """LedgerUnavailable in a forked child: it would share connections with its parent."""
        if os.getpid() != self._process:
            raise LedgerUnavailable("this ledger was opened before the process forked. Open it again in this process.")

    @staticmethod
    @abstractmethod
    def _cursor(connection: C) -> LedgerCursor:
        """The cursor of a connection."""

    @staticmethod
    @abstractmethod
    def _translated() -> AbstractContextManager[None]:
        """Turns the errors of the database into ours."""

    @abstractmethod
    def _begin_write(self) -> None:
        """Begins a transaction of the writer that keeps every other process from writing."""

    @abstractmethod
    def _begin_read(self) -> C:
        """A connection with a consistent view, an idle one or a new one."""

    @abstractmethod
    def _roll_back(self, connection: C) -> None:
        """Ends a transaction that is still open."""


APPLICATION = 0x424C4F57
"""Marks the file as a ledger of ours, so that another database is never migrated by mistake."""
TYPES = {"whole": "INTEGER", "amount": "TEXT", "binary": "BLOB"}


@dataclass(frozen=True)
class SqliteCursor(LedgerCursor):
    """Runs statements on one connection."""

    connection: FileConnection | sqlite3.Connection

    def rows(self, sql: str, *values: LedgerValue) -> list[LedgerRow]:
        """The rows of a statement, none for a change."""
        return self.connection.execute(sql, values).fetchall()

    def stream(self, sql: str, *values: LedgerValue) -> Iterator[LedgerRow]:
        """The rows of a query, a few at a time."""
        return self.connection.execute(sql, values)

    def stored_answers(self, condition: str, *values: LedgerValue) -> Iterator[tuple[int, StoredAnswer]]:
        """The stored answers that a condition selects, a few at a time, each behind the number of its entry."""
        query = f"SELECT charge, entry, payload FROM answer WHERE {condition}"
        for charge, entry, payload in self.connection.execute(query, values):
            yield entry, (charge, digest(payload) if isinstance(payload, bytes) else None)


@dataclass(eq=False)
class SqliteStore(Store[FileConnection]):
    """The ledger file at `path`, open in this process."""

    path: Path

    @staticmethod
    def _cursor(connection: FileConnection) -> LedgerCursor:
        return SqliteCursor(connection)

    @staticmethod
    @contextmanager
    def _translated() -> Iterator[None]:
        """Turns the errors of SQLite into ours; a half-done transaction is gone by then."""
        try:
            yield
        except FAILURES as problem:
            if type(problem) in (sqlite3.IntegrityError, sqlite3.DatabaseError, UnicodeDecodeError):
                raise LedgerCorrupt(f"the ledger file contradicts itself ({problem})") from None
            raise LedgerUnavailable(
                f"the ledger cannot be written or read now ({problem}). Try again with the same key."
            ) from None

    def __post_init__(self) -> None:
        weakref.finalize(self, _abandon, self._readers, self._writer)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with super()._exclusive(), in_turn(self.path, self.patience):
            yield

    def _begin_write(self) -> None:
        self._writer.execute("BEGIN IMMEDIATE")

    def _begin_read(self) -> FileConnection:
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = FileConnection(self.path, _prepare_reader, patience=self.patience)
        reader.execute("BEGIN")
        return reader

    def _roll_back(self, connection: FileConnection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _abandon(readers: list[FileConnection], writer: FileConnection) -> None:
    """Closes what nobody can reach any more."""
    for connection in [*readers, writer]:
        connection.close()


def open_sqlite(path: Path, patience: float = PATIENCE) -> SqliteStore:
    """The store at `path`, created or migrated where needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make_file(path)
    except OSError as problem:
        raise LedgerUnavailable(f"cannot open the ledger file: {problem.strerror}") from None
    with SqliteStore._translated():
        # A ledger that vanished does not come back empty: a connection makes no file.
        writer = FileConnection(path, _prepare_writer, patience=patience)
        try:
            with in_turn(path, patience):
                _prepare(writer, path)
        except BaseException:
            writer.close()
            raise
        return SqliteStore(patience, writer, path)


def _prepare_writer(handle: sqlite3.Connection) -> None:
    # FULL: with less, a power cut may forget the last charges, and forgotten budget is spent twice.
    handle.execute("PRAGMA synchronous = FULL")
    handle.execute("PRAGMA foreign_keys = ON")


def _prepare_reader(handle: sqlite3.Connection) -> None:
    handle.execute("PRAGMA query_only = ON")


def _prepare(connection: FileConnection, path: Path) -> None:
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


def _keep_copy(connection: FileConnection, place: Path) -> None:
    """A copy of a ledger before it is upgraded, whole or not there."""
    part = place.with_name(f"{place.name}.part")
    part.unlink(missing_ok=True)
    make_file(part)
    connection.copy_to(part)
    os.replace(part, place)
