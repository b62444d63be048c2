"""The ledger's tables in PostgreSQL, the function that charges, and migrations that one process applies at a time."""

from __future__ import annotations

import os

import psycopg

from blowfishdb.errors import LedgerUnavailable
from blowfishdb.ledger.base import Value
from blowfishdb.ledger.chain import genesis
from blowfishdb.ledger.schema import NEWEST, Types, statements

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
    (found,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{SCHEMA}.format",)).fetchone() or (False,)
    if not found:
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
