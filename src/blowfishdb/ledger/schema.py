"""The tables of a ledger, as a list of migrations that every store applies in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Types:
    """How one database names a whole number, an exact amount of any size, and bytes."""

    whole: str
    amount: str
    binary: str


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

_EDGE_BOOKS = (
    "ALTER TABLE account ADD COLUMN accounting TEXT NOT NULL DEFAULT 'sum'",
    "ALTER TABLE account ADD COLUMN edge_books TEXT",
    "ALTER TABLE analyst ADD COLUMN edge_books TEXT",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_TABLES, _STORED_ANSWERS, _EDGE_BOOKS)
"""Migration i brings a ledger from version i to i + 1. Published migrations are never edited, only followed."""

NEWEST = len(MIGRATIONS)


def statements(version: int, types: Types) -> list[str]:
    """The statements that bring a ledger from `version` to the next one."""
    return [text.format(whole=types.whole, amount=types.amount, binary=types.binary) for text in MIGRATIONS[version]]
