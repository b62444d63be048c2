"""A ledger in PostgreSQL: a charge is one call whose conditional updates decide; all else locks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import errors as pg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from blowfishdb.errors import LedgerCorrupt, LedgerUnavailable
from blowfishdb.ledger.records import NEWEST, PATIENCE, Cursor, OneProcess, Types, Value, digest, genesis, statements
from blowfishdb.ledger.values import FINEST, Charge, Receipt

Connection = psycopg.Connection[tuple[Value, ...]]
SCHEMA = "blowfish_ledger"
TYPES = Types(whole="BIGINT", amount="NUMERIC", binary="BYTEA")
MIGRATION_LOCK = 0x424C4F57
REFUSED = "BF001"
"""The state that the charge function raises; everything that it did is rolled back by then."""

# All amounts are whole numbers over a common denominator, and numeric is exact at any size, so these comparisons are
# exact. The head comes first: whoever has its row lock is the only writer, and all writers lock in this order.
_CHARGE_FUNCTION = """
CREATE OR REPLACE FUNCTION charge(
    the_account TEXT, the_analyst TEXT, top NUMERIC, bottom NUMERIC, the_key TEXT, the_request TEXT,
    the_policy BIGINT, the_domain BIGINT, the_snapshot BIGINT, the_body TEXT, body_digest TEXT, finest NUMERIC,
    OUT charge_sequence BIGINT, OUT charge_previous TEXT, OUT charge_hash TEXT
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT h.hash INTO charge_previous FROM head h WHERE h.id = 1 FOR UPDATE;
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
     WHERE a.id = the_account
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

# Losses per class of edges are added up outside the database, so such accounts are refused here.
_CHARGE_SUMS = _CHARGE_FUNCTION.replace("WHERE a.id = the_account", "WHERE a.id = the_account AND a.accounting = 'sum'")

_NEVER_OVER = "ALTER TABLE account ADD CHECK (spent_units * limit_bottom <= limit_top * spent_grid)"

EXTRAS: dict[int, tuple[str, ...]] = {0: (_NEVER_OVER,), 1: (_CHARGE_FUNCTION,), 2: (_CHARGE_SUMS,)}
"""What a migration adds here beside the common tables."""


def prepare(connection: Connection) -> None:
    """Creates the tables of a new ledger, or applies the migrations that an old one lacks."""
    _check_durable(connection)
    connection.execute("BEGIN")
    try:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        version = _version(connection)
        if version > NEWEST:
            raise LedgerUnavailable(f"this ledger has format {version}, newer than {NEWEST}. Use a newer BlowfishDB.")
        for step in range(version, NEWEST):
            _migrate(connection, step)
        connection.execute("COMMIT")
    except BaseException:
        if not connection.closed:
            connection.execute("ROLLBACK")
        raise


def _version(connection: Connection) -> int:
    (exists,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{SCHEMA}.format",)).fetchone() or (False,)
    if not exists:
        return 0
    (version,) = connection.execute("SELECT version FROM format").fetchone() or (0,)
    return int(version) if isinstance(version, int) else 0


def _migrate(connection: Connection, version: int) -> None:
    if version == 0:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
        connection.execute("CREATE TABLE format (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO format VALUES (0)")
    for statement in (*statements(version, TYPES), *EXTRAS[version]):
        connection.execute(statement.encode())
    if version == 0:
        ledger = os.urandom(16).hex()
        connection.execute("INSERT INTO head VALUES (1, %s, 0, %s)", (ledger, genesis(ledger)))
    connection.execute("UPDATE format SET version = %s", (version + 1,))


def _check_durable(connection: Connection) -> None:
    for setting in ("fsync", "full_page_writes"):
        (value,) = connection.execute("SELECT current_setting(%s)", (setting,)).fetchone() or ("off",)
        if value != "on":
            raise LedgerUnavailable(f"the server runs with {setting} = off and may forget spent budget. Turn it on.")


CHUNK = 256
LOST = (psycopg.OperationalError, psycopg.InterfaceError)


class WholeNumber(Loader):
    """Reads a numeric of any size as an int; the tables hold whole ones only."""

    def load(self, data: Buffer) -> int:
        """The number."""
        return int(bytes(data))


@dataclass(frozen=True)
class PostgresCursor:
    """Runs statements on one connection."""

    connection: Connection

    def rows(self, sql: str, *values: Value) -> list[tuple[Value, ...]]:
        """The rows of a statement, none for a change."""
        cursor = self.connection.execute(_with_placeholders(sql), values)
        return cursor.fetchall() if cursor.description is not None else []

    def stream(self, sql: str, *values: Value) -> Iterator[tuple[Value, ...]]:
        """The rows of a query, a few at a time, from a cursor in the server."""
        with self.connection.cursor(name="blowfish_stream") as cursor:
            cursor.itersize = CHUNK
            cursor.execute(_with_placeholders(sql), values)
            yield from cursor


@dataclass(eq=False)
class PostgresStore(OneProcess):
    """The ledger in one database, open in this process; a lost connection is made anew."""

    url: str
    _writer: Connection
    _readers: list[Connection] = field(default_factory=list)

    @contextmanager
    def write(self) -> Iterator[Cursor]:
        """One transaction that holds the head row, so that no other writer is inside."""
        with self.exclusive(), _translated():
            self._begin()
            try:
                yield PostgresCursor(self._writer)
                self._writer.execute("COMMIT")
            finally:
                _roll_back(self._writer)

    @contextmanager
    def read(self) -> Iterator[Cursor]:
        """One consistent view on a connection of its own."""
        self.check_process()
        with _translated():
            reader = self._reader()
            try:
                yield PostgresCursor(reader)
            finally:
                _roll_back(reader)
                if not reader.closed:
                    self._readers.append(reader)

    def quick_charge(self, charge: Charge, body: str) -> Receipt | None:
        """The whole charge in one round trip; None when it was refused, or when the connection broke meanwhile."""
        with self.exclusive(), _translated():
            try:
                rows = self._writer.execute(
                    "SELECT charge_sequence, charge_previous, charge_hash FROM charge("
                    "%s, %s, %s::numeric, %s::numeric, %s, %s, %s, %s, %s, %s, %s, %s::numeric)",
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
                    ),
                ).fetchall()
            except pg.UniqueViolation:
                return None
            except pg.DatabaseError as problem:
                if problem.sqlstate == REFUSED or self._writer.closed:
                    return None
                raise
        sequence, previous, chained = rows[0]
        if not isinstance(sequence, int) or not isinstance(previous, str) or not isinstance(chained, str):
            raise LedgerCorrupt("the charge came back without its entry")
        return Receipt(sequence, charge, previous, chained)

    def close(self) -> None:
        """Closes every connection."""
        self.check_process()
        while self._readers:
            self._readers.pop().close()
        self._writer.close()

    def _begin(self) -> None:
        """Begins and takes the head row; once more on a new connection when the old one turns out to be dead."""
        for is_last in (False, True):
            try:
                if self._writer.closed:
                    self._writer = _connect_writer(self.url, self.patience)
                self._writer.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                self._writer.execute("SELECT sequence FROM head WHERE id = 1 FOR UPDATE")
                return
            except LOST:
                if is_last or not self._writer.closed:
                    _roll_back(self._writer)
                    raise

    def _reader(self) -> Connection:
        while self._readers:
            reader = self._readers.pop()
            try:
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return reader
            except LOST:
                reader.close()
        reader = _connect(self.url, self.patience)
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return reader


def open_postgres(url: str, patience: float = PATIENCE) -> PostgresStore:
    """The store at this address, created or migrated where needed."""
    with _translated():
        writer = _connect_writer(url, patience)
        try:
            prepare(writer)
        except BaseException:
            writer.close()
            raise
        return PostgresStore(patience, url, writer)


def _connect_writer(url: str, patience: float) -> Connection:
    """A connection for writes, which the server ends when its client falls silent inside one.

    A client that froze, or whose network died, would otherwise keep the head row locked for hours; this way those who
    wait for it get their turn before they lose patience.
    """
    return _connect(url, patience, f"-c idle_in_transaction_session_timeout={int(500 * patience)}")


def _connect(url: str, patience: float, more: str = "") -> Connection:
    options = f"-c search_path={SCHEMA} -c synchronous_commit=on -c lock_timeout={int(1000 * patience)} {more}"
    options += r" -c default_transaction_isolation=read\ committed"
    given = conninfo_to_dict(url).get("options")
    info = make_conninfo(url, options=f"{given} {options}" if given else options, application_name="blowfishdb ledger")
    connection = psycopg.connect(info, autocommit=True, connect_timeout=max(2, int(patience)))
    connection.adapters.register_loader("numeric", WholeNumber)
    return connection


def _with_placeholders(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


def _roll_back(connection: Connection) -> None:
    if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        connection.execute("ROLLBACK")


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
