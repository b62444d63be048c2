"""The tables of a ledger, their rows as values, and the one way in which an entry is appended to the hash chain."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from blowfishdb.errors import InvalidInput, LedgerCorrupt, LedgerUnavailable, UnknownAccount
from blowfishdb.ledger.values import (
    Account,
    AnalystBudget,
    Balance,
    Charge,
    ClassLosses,
    Entry,
    Head,
    Receipt,
    read_losses,
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


@dataclass(eq=False)
class OneProcess:
    """What every open store checks: it is used in the process that opened it, by one writer at a time."""

    patience: float
    _process: int = field(default_factory=os.getpid, kw_only=True)
    _guard: threading.Lock = field(default_factory=threading.Lock, kw_only=True)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keeps the other threads of this process from writing; LedgerUnavailable when that takes too long."""
        self.check_process()
        if not self._guard.acquire(timeout=self.patience):
            raise LedgerUnavailable("the ledger was busy for too long. Nothing was charged; try again.")
        try:
            yield
        finally:
            self._guard.release()

    def check_process(self) -> None:
        """LedgerUnavailable in a forked child: it would share connections with its parent."""
        if os.getpid() != self._process:
            raise LedgerUnavailable("this ledger was opened before the process forked. Open it again in this process.")


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

_CLASS_LOSSES = (
    "ALTER TABLE account ADD COLUMN accounting TEXT NOT NULL DEFAULT 'sum'",
    "ALTER TABLE account ADD COLUMN edge_books TEXT",
    "ALTER TABLE analyst ADD COLUMN edge_books TEXT",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_TABLES, _STORED_ANSWERS, _CLASS_LOSSES)
"""Migration i brings a ledger from version i to i + 1. Published migrations are never edited, only followed."""

NEWEST = len(MIGRATIONS)


def statements(version: int, types: Types) -> list[str]:
    """The statements that bring a ledger from `version` to the next one."""
    return [text.format(whole=types.whole, amount=types.amount, binary=types.binary) for text in MIGRATIONS[version]]


ACCOUNT_COLUMNS = (
    "id, identity, limit_top, limit_bottom, spent_units, spent_grid, analyst_limit_top, analyst_limit_bottom, charges,"
    " policy_version, domain_version, snapshot, accounting"
)
ANALYST_COLUMNS = "account, name, spent_units, spent_grid, limit_top, limit_bottom, is_individual"
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
    rows = cursor.rows(f"SELECT {ACCOUNT_COLUMNS} FROM account WHERE id = ?", account)
    if not rows:
        raise UnknownAccount(account)
    row = rows[0]
    names = cursor.rows("SELECT name FROM label WHERE account = ?", account)
    return Account(
        id=text(row[0]),
        identity=text(row[1]),
        names=tuple(sorted(text(name) for (name,) in names)),
        limit=ratio(row[2], row[3]),
        spent=ratio(row[4], row[5]),
        analyst_limit=_optional_ratio(row[6], row[7]),
        charges=whole(row[8]),
        policy_version=whole(row[9]),
        domain_version=whole(row[10]),
        snapshot=whole(row[11]),
        accounting=text(row[12]),
    )


def load_account_ids(cursor: Cursor) -> list[str]:
    """The ids of all accounts, in order of identity."""
    return [text(row[0]) for row in cursor.rows("SELECT id FROM account ORDER BY identity, id")]


def load_analysts(cursor: Cursor, account: str) -> list[AnalystBudget]:
    """Everybody who was charged or given an individual limit."""
    rows = cursor.rows(f"SELECT {ANALYST_COLUMNS} FROM analyst WHERE account = ?", account)
    return sorted((_analyst(row) for row in rows), key=lambda budget: budget.analyst)


def load_analyst(cursor: Cursor, account: str, name: str) -> AnalystBudget | None:
    """One analyst's budget; None for somebody who never asked."""
    rows = cursor.rows(f"SELECT {ANALYST_COLUMNS} FROM analyst WHERE account = ? AND name = ?", account, name)
    return _analyst(rows[0]) if rows else None


def _analyst(row: tuple[Value, ...]) -> AnalystBudget:
    return AnalystBudget(
        account=text(row[0]),
        analyst=text(row[1]),
        spent=ratio(row[2], row[3]),
        limit=_optional_ratio(row[4], row[5]),
        is_individual=bool(whole(row[6])),
    )


def _optional_ratio(top: Value, bottom: Value) -> Fraction | None:
    return None if top is None or bottom is None else ratio(top, bottom)


def limit_values(limit: Fraction | None) -> tuple[str | None, str | None]:
    """A limit as the two values that the tables hold."""
    return (None, None) if limit is None else (str(limit.numerator), str(limit.denominator))


def _spender(account: str, analyst: str | None) -> tuple[str, str, tuple[str, ...]]:
    """The table, condition and values that find an account (analyst None), or one analyst's part of it."""
    if analyst is None:
        return "account", "id = ?", (account,)
    return "analyst", "account = ? AND name = ?", (account, analyst)


def load_balance(cursor: Cursor, account: str, analyst: str | None = None) -> Balance:
    """What an account, or one known analyst there, spent, on its grid."""
    table, condition, values = _spender(account, analyst)
    row = cursor.rows(f"SELECT spent_units, spent_grid FROM {table} WHERE {condition}", *values)[0]
    return Balance(whole(row[0]), whole(row[1]))


def save_balance(cursor: Cursor, spent: Balance, account: str, analyst: str | None = None) -> None:
    """Stores what an account, or one analyst there, spent."""
    table, condition, values = _spender(account, analyst)
    change = f"UPDATE {table} SET spent_units = ?, spent_grid = ? WHERE {condition}"
    cursor.rows(change, str(spent.units), str(spent.grid), *values)


def load_losses(cursor: Cursor, account: str, analyst: str | None = None) -> ClassLosses | None:
    """What each class of edges lost, in all or to one analyst; None where the account counts sums."""
    table, condition, values = _spender(account, analyst)
    rows = cursor.rows(f"SELECT edge_books FROM {table} WHERE {condition}", *values)
    return None if not rows or rows[0][0] is None else read_losses(text(rows[0][0]))


def save_losses(cursor: Cursor, losses: ClassLosses | None, account: str, analyst: str | None = None) -> None:
    """Stores what each class of edges lost."""
    table, condition, values = _spender(account, analyst)
    document = None if losses is None else losses.to_json()
    cursor.rows(f"UPDATE {table} SET edge_books = ? WHERE {condition}", document, *values)


def entry_of(row: tuple[Value, ...]) -> Entry:
    """An entry from a row of ENTRY_COLUMNS."""
    account = None if row[2] is None else text(row[2])
    return Entry(whole(row[0]), text(row[1]), account, text(row[3]), text(row[4]), text(row[5]))


def load_entries(cursor: Cursor, condition: str, *values: Value) -> list[Entry]:
    """The entries that a condition selects."""
    return [entry_of(row) for row in cursor.rows(f"SELECT {ENTRY_COLUMNS} FROM entry WHERE {condition}", *values)]


def load_entry(cursor: Cursor, sequence: int) -> Entry | None:
    """The entry with that number; None when there is none."""
    return next(iter(load_entries(cursor, "sequence = ?", sequence)), None)


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
    columns = (charge.analyst, charge.key, charge.request_digest) if charge is not None else (None, None, None)
    cursor.rows(
        "INSERT INTO entry (sequence, kind, account, analyst, charge_key, request_digest, body, previous_hash, hash)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        sequence,
        kind,
        account,
        *columns,
        body,
        entry.previous_hash,
        entry.hash,
    )
    cursor.rows("UPDATE head SET sequence = ?, hash = ? WHERE id = 1", sequence, entry.hash)
    return entry


PLAIN_FIELDS = (
    "account",
    "analyst",
    "key",
    "request_digest",
    "program_digest",
    "policy_version",
    "domain_version",
    "snapshot",
    "certificate",
)
"""The fields of a charge that its entry holds as they are."""


def charge_body(charge: Charge, at: str) -> str:
    """The canonical body of a charge's entry."""
    fields = {name: getattr(charge, name) for name in PLAIN_FIELDS}
    if charge.losses is not None:
        losses = {name: str(loss) for name, loss in charge.losses.items()}
        fields["losses"] = json.dumps(losses, sort_keys=True, ensure_ascii=False)
    return canonical({**fields, "kind": "charge", "at": at, "epsilon": str(charge.epsilon)})


def receipt_of(entry: Entry) -> Receipt:
    """The receipt of a charge's entry, rebuilt from the body that its hash covers."""
    try:
        fields = json.loads(entry.body)
        losses = None
        if fields.get("losses") is not None:
            losses = {name: Fraction(loss) for name, loss in json.loads(fields["losses"]).items()}
        plain = {name: fields[name] for name in PLAIN_FIELDS}
        charge = Charge(**plain, epsilon=Fraction(fields["epsilon"]), losses=losses)
    except (InvalidInput, ValueError, KeyError, TypeError):
        raise LedgerCorrupt("a charge cannot be read", sequence=entry.sequence) from None
    return Receipt(entry.sequence, charge, entry.previous_hash, entry.hash, is_new=False)
