"""The tables of a ledger, their rows as values, and the one way in which an entry is appended to the hash chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from blowfishdb.errors import InvalidInput, LedgerCorrupt, UnknownAccount
from blowfishdb.ledger.values import (
    Account,
    AnalystBudget,
    Balance,
    Charge,
    EdgeBooks,
    Entry,
    Head,
    Receipt,
    read_books,
)

PATIENCE = 30.0
"""Seconds that a write waits for its turn before it gives up."""
Value = str | int | bytes | None
StepHook = Callable[[str], None]
"""Called with the name of each step of a write as it is reached; tests kill the process there."""

BEGUN = "begun"
DEBITED = "debited"
APPENDED = "appended"
COMMITTED = "committed"
MARKED = "marked"
STEPS = (BEGUN, DEBITED, APPENDED, COMMITTED, MARKED)


class Cursor(Protocol):
    """Runs SQL written with `?` for values; names and types are common to all stores."""

    def rows(self, sql: str, *values: Value) -> list[tuple[Value, ...]]:
        """The rows of a statement, none for a change."""
        ...

    def stream(self, sql: str, *values: Value) -> Iterator[tuple[Value, ...]]:
        """The rows of a query, a few at a time."""
        ...


class Store(Protocol):
    """One database that holds one ledger."""

    def write(self) -> AbstractContextManager[Cursor]:
        """A transaction with every other writer kept out; commits durably at the end, or leaves no trace."""
        ...

    def read(self) -> AbstractContextManager[Cursor]:
        """One consistent view of everything committed."""
        ...

    def quick_charge(self, charge: Charge, body: str) -> Receipt | None:
        """A durable charge in one round trip, or None: then a charge inside `write` decides and explains."""
        ...

    def close(self) -> None:
        """Release connections and locks."""
        ...


Field = str | int | None


def canonical(fields: Mapping[str, Field]) -> str:
    """One way only to write an entry's fields: sorted keys, no spaces, ASCII."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(text: str | bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def link(previous_hash: str, sequence: int, body: str) -> str:
    """The hash of entry number `sequence`. The PostgreSQL store computes the same inside the server."""
    return digest(f"{previous_hash}:{sequence}:{digest(body)}")


def genesis(ledger: str) -> str:
    """The hash that the first entry of a ledger builds on."""
    return digest(f"blowfishdb ledger {ledger}")


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


ENTRY_COLUMNS = "sequence, kind, account, body, previous_hash, hash"


def whole(value: Value) -> int:
    """A stored number, which some databases hand over as text."""
    try:
        if isinstance(value, int | str):
            return int(value)
    except ValueError:
        pass
    raise LedgerCorrupt("a stored number is not a number")


def text(value: Value) -> str:
    """A stored text."""
    if isinstance(value, str):
        return value
    raise LedgerCorrupt("a stored text is not text")


def ratio(top: Value, bottom: Value) -> Fraction:
    """A stored fraction."""
    if whole(bottom) == 0:
        raise LedgerCorrupt("a stored amount is not a number")
    return Fraction(whole(top), whole(bottom))


def load_head(cursor: Cursor) -> Head:
    """Where the ledger ends."""
    rows = cursor.rows("SELECT ledger, sequence, hash FROM head")
    if len(rows) != 1:
        raise LedgerCorrupt("the ledger has no single head")
    return Head(text(rows[0][0]), whole(rows[0][1]), text(rows[0][2]))


def load_account(cursor: Cursor, account: str) -> Account:
    """One account; UnknownAccount when there is none."""
    rows = cursor.rows(
        "SELECT id, identity, limit_top, limit_bottom, spent_units, spent_grid, analyst_limit_top,"
        " analyst_limit_bottom, charges, policy_version, domain_version, snapshot, accounting FROM account"
        " WHERE id = ?",
        account,
    )
    if not rows:
        raise UnknownAccount(account)
    row = rows[0]
    names = cursor.rows("SELECT name FROM label WHERE account = ? ORDER BY name", account)
    return Account(
        id=text(row[0]),
        identity=text(row[1]),
        names=tuple(sorted(text(name) for (name,) in names)),
        limit=ratio(row[2], row[3]),
        spent=ratio(row[4], row[5]),
        analyst_limit=_optional_fraction(row[6], row[7]),
        charges=whole(row[8]),
        policy_version=whole(row[9]),
        domain_version=whole(row[10]),
        snapshot=whole(row[11]),
        accounting=text(row[12]),
    )


def load_account_ids(cursor: Cursor) -> list[str]:
    """The ids of all accounts, in order of identity."""
    return [text(row[0]) for row in cursor.rows("SELECT id FROM account ORDER BY identity, id")]


def load_balance(cursor: Cursor, account: str) -> Balance:
    """What an account spent, on its grid."""
    row = cursor.rows("SELECT spent_units, spent_grid FROM account WHERE id = ?", account)[0]
    return Balance(whole(row[0]), whole(row[1]))


def load_analysts(cursor: Cursor, account: str) -> list[AnalystBudget]:
    """Everybody who was charged or given a limit of their own."""
    rows = cursor.rows(
        "SELECT account, name, spent_units, spent_grid, limit_top, limit_bottom, is_individual"
        " FROM analyst WHERE account = ?",
        account,
    )
    return sorted((_analyst(row) for row in rows), key=lambda budget: budget.analyst)


def load_analyst(cursor: Cursor, account: str, name: str) -> AnalystBudget | None:
    """One analyst's budget; None for somebody who never asked."""
    rows = cursor.rows(
        "SELECT account, name, spent_units, spent_grid, limit_top, limit_bottom, is_individual"
        " FROM analyst WHERE account = ? AND name = ?",
        account,
        name,
    )
    return _analyst(rows[0]) if rows else None


def load_analyst_balance(cursor: Cursor, account: str, name: str) -> Balance:
    """What one known analyst spent, on its grid."""
    row = cursor.rows("SELECT spent_units, spent_grid FROM analyst WHERE account = ? AND name = ?", account, name)[0]
    return Balance(whole(row[0]), whole(row[1]))


def entry_of(row: tuple[Value, ...]) -> Entry:
    """An entry from a row of ENTRY_COLUMNS."""
    account = None if row[2] is None else text(row[2])
    return Entry(whole(row[0]), text(row[1]), account, text(row[3]), text(row[4]), text(row[5]))


def load_entry(cursor: Cursor, sequence: int) -> Entry | None:
    """The entry with that number; None when there is none."""
    rows = cursor.rows(f"SELECT {ENTRY_COLUMNS} FROM entry WHERE sequence = ?", sequence)
    return entry_of(rows[0]) if rows else None


def hash_at(cursor: Cursor, sequence: int) -> str | None:
    """The hash of the entry with that number; None when there is none."""
    entry = load_entry(cursor, sequence)
    return None if entry is None else entry.hash


def append(cursor: Cursor, kind: str, account: str | None, fields: dict[str, Field]) -> Entry:
    """Appends an entry with these fields to the chain, inside the caller's write."""
    return append_body(cursor, kind, account, canonical({**fields, "kind": kind, "account": account}))


def append_body(cursor: Cursor, kind: str, account: str | None, body: str, charge: Charge | None = None) -> Entry:
    """Appends an entry whose body is written already."""
    head = load_head(cursor)
    sequence = head.sequence + 1
    entry = Entry(sequence, kind, account, body, head.hash, link(head.hash, sequence, body))
    own = (charge.analyst, charge.key, charge.request_digest) if charge is not None else (None, None, None)
    cursor.rows(
        "INSERT INTO entry (sequence, kind, account, analyst, charge_key, request_digest, body, previous_hash, hash)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        sequence,
        kind,
        account,
        *own,
        body,
        entry.previous_hash,
        entry.hash,
    )
    cursor.rows("UPDATE head SET sequence = ?, hash = ? WHERE id = 1", sequence, entry.hash)
    return entry


def load_edge_books(cursor: Cursor, account: str, analyst: str | None = None) -> EdgeBooks | None:
    """What each class of edges lost, in all or to one analyst; None where the account counts sums."""
    if analyst is None:
        rows = cursor.rows("SELECT edge_books FROM account WHERE id = ?", account)
    else:
        rows = cursor.rows("SELECT edge_books FROM analyst WHERE account = ? AND name = ?", account, analyst)
    return None if not rows or rows[0][0] is None else read_books(text(rows[0][0]))


def save_edge_books(cursor: Cursor, books: EdgeBooks | None, account: str, analyst: str | None = None) -> None:
    """Writes them."""
    written = None if books is None else books.to_json()
    if analyst is None:
        cursor.rows("UPDATE account SET edge_books = ? WHERE id = ?", written, account)
    else:
        cursor.rows("UPDATE analyst SET edge_books = ? WHERE account = ? AND name = ?", written, account, analyst)


def charge_body(charge: Charge, at: str) -> str:
    """The canonical body of a charge's entry."""
    losses = None if charge.losses is None else {name: str(loss) for name, loss in charge.losses.items()}
    return canonical(
        {
            **({} if losses is None else {"losses": json.dumps(losses, sort_keys=True, ensure_ascii=False)}),
            "kind": "charge",
            "at": at,
            "account": charge.account,
            "analyst": charge.analyst,
            "epsilon": str(charge.epsilon),
            "key": charge.key,
            "request_digest": charge.request_digest,
            "program_digest": charge.program_digest,
            "policy_version": charge.policy_version,
            "domain_version": charge.domain_version,
            "snapshot": charge.snapshot,
            "certificate": charge.certificate,
        }
    )


def receipt_of(entry: Entry) -> Receipt:
    """The receipt of a charge's entry, rebuilt from the body that its hash covers."""
    try:
        fields = json.loads(entry.body)
        charge = Charge(
            account=fields["account"],
            analyst=fields["analyst"],
            epsilon=Fraction(fields["epsilon"]),
            key=fields["key"],
            request_digest=fields["request_digest"],
            program_digest=fields["program_digest"],
            policy_version=fields["policy_version"],
            domain_version=fields["domain_version"],
            snapshot=fields["snapshot"],
            certificate=fields["certificate"],
            losses=_losses(fields.get("losses")),
        )
    except (InvalidInput, ValueError, KeyError, TypeError):
        raise LedgerCorrupt("a charge cannot be read", sequence=entry.sequence) from None
    return Receipt(entry.sequence, charge, entry.previous_hash, entry.hash, is_new=False)


def _losses(written: str | None) -> dict[str, Fraction] | None:
    return None if written is None else {name: Fraction(loss) for name, loss in json.loads(written).items()}


def _analyst(row: tuple[Value, ...]) -> AnalystBudget:
    return AnalystBudget(
        account=text(row[0]),
        analyst=text(row[1]),
        spent=ratio(row[2], row[3]),
        limit=_optional_fraction(row[4], row[5]),
        is_individual=bool(whole(row[6])),
    )


def _optional_fraction(top: Value, bottom: Value) -> Fraction | None:
    return None if top is None or bottom is None else ratio(top, bottom)
