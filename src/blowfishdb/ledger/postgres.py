"""A ledger, or the high-water mark of one, in PostgreSQL: a charge is one call whose conditional updates decide."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import psycopg
from psycopg import errors as pg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from blowfishdb.errors import LedgerCorrupt, LedgerUnavailable
from blowfishdb.ledger.amounts import FINEST
from blowfishdb.ledger.mark import PATIENCE, HighWaterMark, is_known, new_identity, newest_of
from blowfishdb.ledger.records import LedgerCursor, LedgerRow, LedgerValue, StoredAnswer, digest, text, whole
from blowfishdb.ledger.store import Store, announce_upgrade, migrate, pending
from blowfishdb.ledger.values import Charge, Era, Head, Receipt, Seen, Spending, seen_at, spending_text

PostgresConnection = psycopg.Connection[LedgerRow]
SCHEMA = "blowfish_ledger"
TYPES = {"whole": "BIGINT", "amount": "NUMERIC", "binary": "BYTEA"}
MIGRATION_LOCK = 0x424C4F57
LOST = (psycopg.OperationalError, psycopg.InterfaceError)
CHUNK = 256
STREAMS = itertools.count()
"""Numbers of streams: several of one connection may be open at a time."""
REFUSED = "BF001"
"""The state that the charge function raises; everything that it did is rolled back by then."""

# All amounts are whole numbers over a common denominator, and numeric is exact at any size, so these comparisons are
# exact. The head comes first: whoever has its row lock is the only writer, and all writers lock in this order.
# Losses per class of edges are added up outside the database, so accounts that count them are refused here.
CHARGE_FUNCTION = """
CREATE OR REPLACE FUNCTION charge(
    the_account TEXT, the_analyst TEXT, top NUMERIC, bottom NUMERIC, the_key TEXT, the_request TEXT,
    the_policy BIGINT, the_domain BIGINT, the_snapshot BIGINT, the_body TEXT, body_digest TEXT, finest NUMERIC,
    {guard}OUT charge_sequence BIGINT, OUT charge_previous TEXT, OUT charge_hash TEXT
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT h.hash INTO charge_previous FROM head h WHERE h.id = 1{is_guarded} FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'refused' USING ERRCODE = 'BF001';
    END IF;
    UPDATE head h
       SET sequence = h.sequence + 1,
           hash = encode(sha256(convert_to(h.hash || ':' || (h.sequence + 1) || ':' || body_digest, 'UTF8')), 'hex')
     WHERE h.id = 1
    RETURNING h.sequence, h.hash INTO charge_sequence, charge_hash;

    UPDATE account a
       SET spent_units = a.spent_units * div(lcm(a.spent_grid, bottom), a.spent_grid)
                         + top * div(lcm(a.spent_grid, bottom), bottom),
           spent_grid = lcm(a.spent_grid, bottom),
           charges = a.charges + 1
     WHERE a.id = the_account AND a.accounting = 'sum'
       AND a.policy_version = the_policy AND a.domain_version = the_domain AND a.snapshot = the_snapshot
       AND lcm(a.spent_grid, bottom) <= finest
       AND (a.spent_units * bottom + top * a.spent_grid) * a.limit_bottom <= a.limit_top * a.spent_grid * bottom;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'refused' USING ERRCODE = 'BF001';
    END IF;

    UPDATE analyst a
       SET spent_units = a.spent_units * div(lcm(a.spent_grid, bottom), a.spent_grid)
                         + top * div(lcm(a.spent_grid, bottom), bottom),
           spent_grid = lcm(a.spent_grid, bottom)
     WHERE a.account = the_account AND a.name = the_analyst
       AND lcm(a.spent_grid, bottom) <= finest
       AND (top = 0 OR a.limit_top IS NULL OR
            (a.spent_units * bottom + top * a.spent_grid) * a.limit_bottom <= a.limit_top * a.spent_grid * bottom);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'refused' USING ERRCODE = 'BF001';
    END IF;

    INSERT INTO entry (sequence, kind, account, analyst, charge_key, request_digest, body, previous_hash, hash)
    VALUES (charge_sequence, 'charge', the_account, the_analyst, the_key, the_request, the_body, charge_previous,
            charge_hash);
END $$
"""
NEVER_OVER = "ALTER TABLE account ADD CHECK (spent_units * limit_bottom <= limit_top * spent_grid)"
EXTRAS = {
    0: (NEVER_OVER,),
    2: (CHARGE_FUNCTION.format(guard="", is_guarded=""),),
    # A server of an older version, which does not name its mark, finds no function to call.
    3: (
        f"DROP FUNCTION {SCHEMA}.charge",
        CHARGE_FUNCTION.format(guard="the_mark TEXT, ", is_guarded=" AND h.mark = the_mark"),
    ),
}
"""What a migration adds here beside the common tables."""


class WholeNumber(Loader):
    """Reads a numeric of any size as an int; the tables hold whole ones only."""

    def load(self, data: Buffer) -> int:
        """The number."""
        return int(bytes(data))


@dataclass(frozen=True)
class PostgresCursor(LedgerCursor):
    """Runs statements on one connection."""

    connection: PostgresConnection

    def rows(self, sql: str, *values: LedgerValue) -> list[LedgerRow]:
        """The rows of a statement, none for a change."""
        cursor = self.connection.execute(_with_placeholders(sql), values)
        return cursor.fetchall() if cursor.description is not None else []

    def stream(self, sql: str, *values: LedgerValue) -> Iterator[LedgerRow]:
        """The rows of a query, a few at a time, from a cursor in the server."""
        with self.connection.cursor(name=f"stream_{next(STREAMS)}") as cursor:
            cursor.itersize = CHUNK
            cursor.execute(_with_placeholders(sql), values)
            yield from cursor

    def stored_answers(self, condition: str, *values: LedgerValue) -> Iterator[tuple[int, StoredAnswer]]:
        """The stored answers that a condition selects, a few at a time, each behind the number of its entry."""
        of_payload = "pg_catalog.encode(pg_catalog.sha256(payload), 'hex')"
        for row in self.stream(f"SELECT charge, entry, {of_payload} FROM answer WHERE {condition}", *values):
            yield whole(row[1]), (whole(row[0]), text(row[2]))


def _with_placeholders(sql: str) -> bytes:
    return sql.replace("%", "%%").replace("?", "%s").encode()


@dataclass(eq=False)
class PostgresStore(Store[PostgresConnection]):
    """The ledger in one database, open in this process; a lost connection is made anew."""

    charges_quickly: ClassVar[bool] = True
    url: str

    @staticmethod
    def _cursor(connection: PostgresConnection) -> LedgerCursor:
        return PostgresCursor(connection)

    @staticmethod
    @contextmanager
    def _translated() -> Iterator[None]:
        """Turns the errors of the server into ours; its text may hold addresses, so only the class is told."""
        try:
            yield
        except (pg.IntegrityError, pg.DataError) as problem:
            raise LedgerCorrupt(f"the ledger refused a row ({type(problem).__name__})") from None
        except psycopg.Error as problem:
            raise LedgerUnavailable(
                f"the ledger's server cannot be used now ({type(problem).__name__}). Try again with the same key."
            ) from None

    def quick_charge(self, charge: Charge, body: str, mark: str) -> Receipt | None:
        """The whole charge in one round trip; None when it was refused, or when the connection broke meanwhile."""
        with self._exclusive(), self._translated():
            try:
                rows = self._writer.execute(
                    "SELECT charge_sequence, charge_previous, charge_hash FROM charge("
                    "%s, %s, %s::numeric, %s::numeric, %s, %s, %s, %s, %s, %s, %s, %s::numeric, %s)",
                    (
                        charge.account,
                        charge.analyst,
                        str(charge.epsilon.numerator),
                        str(charge.epsilon.denominator),
                        charge.key,
                        charge.request_digest,
                        charge.policy_version,
                        charge.domain_version,
                        charge.snapshot,
                        body,
                        digest(body),
                        str(FINEST),
                        mark,
                    ),
                ).fetchall()
            except pg.UniqueViolation:
                return None
            except pg.DatabaseError as problem:
                if problem.sqlstate == REFUSED or self._writer.closed:
                    return None
                raise
        sequence, previous, chained = rows[0]
        return Receipt(whole(sequence), charge, text(previous), text(chained))

    def _begin_write(self) -> None:
        """Takes the head row, so that no other writer is inside; on a new connection when the old one is dead."""
        for is_last in (False, True):
            try:
                if self._writer.closed:
                    self._writer = _connect_writer(self.url, self.patience)
                self._writer.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                self._writer.execute("SELECT sequence FROM head WHERE id = 1 FOR UPDATE")
                return
            except LOST:
                if is_last or not self._writer.closed:
                    self._roll_back(self._writer)
                    raise

    def _begin_read(self) -> PostgresConnection:
        while True:
            try:
                reader, is_new = self._readers.pop(), False
            except IndexError:
                reader, is_new = connect(self.url, self.patience), True
            try:
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return reader
            except LOST:
                reader.close()
                if is_new:
                    raise

    def _roll_back(self, connection: PostgresConnection) -> None:
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")


def open_postgres(url: str, patience: float = PATIENCE) -> PostgresStore:
    """The store at this address, created or migrated where needed."""
    with PostgresStore._translated():
        writer = _connect_writer(url, patience)
        try:
            with writer.transaction():
                _prepare(PostgresCursor(writer))
        except BaseException:
            writer.close()
            raise
        return PostgresStore(patience, writer, url)


def _connect_writer(url: str, patience: float) -> PostgresConnection:
    """A connection for writes to a server that forgets nothing, which ends it when its client falls silent inside one.

    A client that froze, or whose network died, would otherwise keep the head row locked for hours; this way those who
    wait for it get their turn before they lose patience.
    """
    connection = connect(url, patience, more=f"-c idle_in_transaction_session_timeout={int(500 * patience)}")
    try:
        check_durable(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect(url: str, patience: float, schema: str = SCHEMA, more: str = "") -> PostgresConnection:
    """A connection to a schema of ours whose commits are durable."""
    options = f"-c search_path={schema} -c synchronous_commit=on -c lock_timeout={int(1000 * patience)} {more}"
    options += r" -c default_transaction_isolation=read\ committed"
    given = conninfo_to_dict(url).get("options")
    info = make_conninfo(url, options=f"{given} {options}" if given else options, application_name="blowfishdb ledger")
    connection = psycopg.connect(info, autocommit=True, connect_timeout=max(2, int(patience)))
    connection.adapters.register_loader("numeric", WholeNumber)
    return connection


def check_durable(connection: PostgresConnection) -> None:
    """LedgerUnavailable for a server that may forget what it committed."""
    for setting in ("fsync", "full_page_writes"):
        (value,) = connection.execute("SELECT current_setting(%s)", (setting,)).fetchone() or ("off",)
        if value != "on":
            raise LedgerUnavailable(f"the server runs with {setting} = off and may forget spent budget. Turn it on.")


def _prepare(cursor: LedgerCursor) -> None:
    """Creates the tables of a new ledger, or applies the migrations that an old one lacks."""
    cursor.rows("SELECT pg_advisory_xact_lock(?)", MIGRATION_LOCK)
    if cursor.rows("SELECT to_regclass(?) IS NULL", f"{SCHEMA}.format")[0][0]:
        cursor.rows(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        cursor.rows("CREATE TABLE format (version BIGINT NOT NULL)")
        cursor.rows("INSERT INTO format VALUES (0)")
    version = whole(cursor.rows("SELECT version FROM format")[0][0])
    steps = pending(version)
    if version > 0 and steps:
        _keep_copy(cursor, f"{SCHEMA}_format_{version}")
        announce_upgrade(version, f"the schema {SCHEMA}_format_{version} of its database")
    for step in steps:
        migrate(cursor, step, TYPES)
        for statement in EXTRAS.get(step, ()):
            cursor.rows(statement)
        cursor.rows("UPDATE format SET version = ?", step + 1)


def _keep_copy(cursor: LedgerCursor, schema: str) -> None:
    """The rows of a ledger before it is upgraded, in a schema of their own."""
    cursor.rows(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for (name,) in cursor.rows("SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = ?", SCHEMA):
        table = text(name)
        cursor.rows(f"DROP TABLE IF EXISTS {schema}.{table}")
        cursor.rows(f"CREATE TABLE {schema}.{table} AS TABLE {SCHEMA}.{table}")


MARK_SCHEMA = "blowfish_mark"
USUAL_NAME = "ledger"
MARK_LOCK = 0x424C4F58
MARK_TABLE = """
CREATE TABLE IF NOT EXISTS mark (
    name TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    ledger TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    hash TEXT NOT NULL
)"""
WITH_SPENDING = "ALTER TABLE mark ADD COLUMN IF NOT EXISTS spending TEXT"


@dataclass(eq=False)
class PostgresMark(HighWaterMark):
    """The mark called `name` in the database at `url`."""

    url: str
    name: str
    checkpoint_path: Path
    patience: float = PATIENCE
    _connection: PostgresConnection | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> Head | None:
        """The furthest head on record; None when there is no mark yet."""
        with self._transaction() as cursor:
            row = self._row(cursor)
            return None if row is None else _marked_head(row)

    def seen(self) -> Seen | None:
        """The furthest head and what was spent by then; without spending where an older version moved the mark."""
        with self._transaction() as cursor:
            row = self._row(cursor)
            return None if row is None else seen_at(_marked_head(row), str(row[4]))

    def identity(self) -> str | None:
        """The random name that the ledger knows its mark by; None when there is no mark yet."""
        with self._transaction() as cursor:
            row = self._row(cursor)
            return None if row is None else text(row[0])

    def advance(self, head: Head, newest: Callable[[], Seen] | None = None) -> None:
        """Makes sure, durably, that the mark is at least here; refuses a head that contradicts it."""
        with self._transaction() as cursor:
            # All who write marks wait here: a row that does not exist yet cannot be locked.
            cursor.rows("SELECT pg_advisory_xact_lock(?)", MARK_LOCK)
            row = self._row(cursor)
            if row is not None and is_known(_marked_head(row), head):
                return
            self._write(cursor, newest_of(head, newest), new_identity() if row is None else text(row[0]))

    def replace(
        self, head: Head, identity: str | None = None, spending: Spending | None = None, eras: tuple[Era, ...] = ()
    ) -> None:
        """Sets the mark to this head whatever it was: the curator accepted a restored ledger."""
        with self._transaction() as cursor:
            cursor.rows("SELECT pg_advisory_xact_lock(?)", MARK_LOCK)
            row = self._row(cursor)
            name = identity or (new_identity() if row is None else text(row[0]))
            self._write(cursor, Seen(head, spending, eras), name)

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()

    def _row(self, cursor: LedgerCursor) -> LedgerRow | None:
        rows = cursor.rows("SELECT identity, ledger, sequence, hash, spending FROM mark WHERE name = ?", self.name)
        return rows[0] if rows else None

    def _write(self, cursor: LedgerCursor, seen: Seen, identity: str) -> None:
        head = seen.head
        cursor.rows(
            "INSERT INTO mark (name, identity, ledger, sequence, hash, spending) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET identity = EXCLUDED.identity, ledger = EXCLUDED.ledger, "
            "sequence = EXCLUDED.sequence, hash = EXCLUDED.hash, spending = EXCLUDED.spending",
            *(self.name, identity, head.ledger, head.sequence, head.hash, spending_text(seen)),
        )

    @contextmanager
    def _transaction(self) -> Iterator[LedgerCursor]:
        """One durable transaction, on a new connection when the old one is dead; LedgerUnavailable without one."""
        if not self._turn.acquire(timeout=self.patience):
            raise LedgerUnavailable("the high-water mark was busy for too long. Try again with the same key.")
        try:
            with PostgresStore._translated():
                if self._connection is None or not _is_alive(self._connection):
                    self._connection = _connect_mark(self.url, self.patience)
                with self._connection.transaction():
                    yield PostgresCursor(self._connection)
        finally:
            self._turn.release()


def _marked_head(row: LedgerRow) -> Head:
    return Head(text(row[1]), whole(row[2]), text(row[3]))


def _is_alive(connection: PostgresConnection) -> bool:
    try:
        connection.execute("SELECT 1")
    except LOST:
        connection.close()
    return not connection.closed


def _connect_mark(url: str, patience: float) -> PostgresConnection:
    connection = connect(url, patience, MARK_SCHEMA)
    try:
        check_durable(connection)
        with connection.transaction():
            cursor = PostgresCursor(connection)
            cursor.rows("SELECT pg_advisory_xact_lock(?)", MARK_LOCK)
            cursor.rows(f"CREATE SCHEMA IF NOT EXISTS {MARK_SCHEMA}")
            cursor.rows(MARK_TABLE)
            cursor.rows(WITH_SPENDING)
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
