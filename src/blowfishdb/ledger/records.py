"""Entries of the hash chain, and the rows of a ledger's tables as values."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from typing import Any

from blowfishdb.errors import InvalidInput, LedgerCorrupt, UnknownAccount
from blowfishdb.ledger.amounts import Balance, ClassLosses, read_losses
from blowfishdb.ledger.values import (
    BROKEN,
    Account,
    AnalystBudget,
    Charge,
    Entry,
    Era,
    Head,
    Link,
    PastLink,
    Receipt,
    Seen,
    Spent,
)

LedgerValue = str | int | bytes | None
LedgerRow = tuple[LedgerValue, ...]
EntryField = str | int | None
StepHook = Callable[[str], None]
"""Called with the name of each step of a write as it is reached; tests kill the process there."""

BEGUN = "begun"
DEBITED = "debited"
APPENDED = "appended"
COMMITTED = "committed"
MARKED = "marked"
STEPS = (BEGUN, DEBITED, APPENDED, COMMITTED, MARKED)


def canonical(fields: Mapping[str, EntryField]) -> str:
    """One way only to write an entry's fields: sorted keys, no spaces, ASCII."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


REMEMBERED = range(2**20, 2**25)
"""The lengths of payloads whose digest is worth the memory of one: of shorter ones it takes a moment."""


def digest(text: str | bytes) -> str:
    """SHA-256 in hexadecimal."""
    if isinstance(text, str):
        return sha256(text.encode()).hexdigest()
    return _long_digest(text) if len(text) in REMEMBERED else sha256(text).hexdigest()


@lru_cache(maxsize=1)
def _long_digest(payload: bytes) -> str:
    """The digest of a long payload; the last one is known, for whoever has the same bytes again.

    An answer is checked when it is stored, when the next look at the ledger meets its entry, and when it is opened. To
    compare all its bytes takes a fifth of the time of the hash.
    """
    return sha256(payload).hexdigest()


def declared(policy: str, domain: str) -> str:
    """The digest of a policy together with its domain."""
    return digest(f"{digest(policy)}:{digest(domain)}")


def link(previous_hash: str, sequence: int, body: str) -> str:
    """The hash of entry number `sequence`. The PostgreSQL store computes the same inside the server."""
    return sha256(f"{previous_hash}:{sequence}:{sha256(body.encode()).hexdigest()}".encode()).hexdigest()


def genesis(ledger: str) -> str:
    """The hash that the first entry of a ledger builds on."""
    return digest(f"blowfishdb ledger {ledger}")


ACCOUNT_COLUMNS = (
    "id, identity, limit_top, limit_bottom, spent_units, spent_grid, analyst_limit_top, analyst_limit_bottom, charges,"
    " policy_version, domain_version, snapshot, accounting"
)
ANALYST_COLUMNS = "account, name, spent_units, spent_grid, limit_top, limit_bottom, is_individual"
ENTRY_COLUMNS = "sequence, kind, account, body, previous_hash, hash"
CHARGE_COLUMNS = "analyst, charge_key, request_digest"


LINK_COLUMNS = "charge, analyst, chain, level, received, mark"
StoredAnswer = tuple[int, str | None]
"""The charge of a stored answer and the SHA-256 of its payload in hexadecimal; None for what is no bytes."""
LinkRow = tuple[int, str, str, str, str, str | None]
"""A row of LINK_COLUMNS, with its amounts as texts."""


def whole(value: LedgerValue) -> int:
    """A stored number, which some databases hand over as text."""
    if isinstance(value, int):
        return value
    try:
        if isinstance(value, str):
            return int(value)
    except ValueError:
        pass
    raise LedgerCorrupt("a stored number is not a number")


def text(value: LedgerValue) -> str:
    """A stored text."""
    if isinstance(value, str):
        return value
    raise LedgerCorrupt("a stored text is not text")


def ratio(top: LedgerValue, bottom: LedgerValue) -> Fraction:
    """A stored fraction."""
    if whole(bottom) == 0:
        raise LedgerCorrupt("a stored amount is not a number")
    return Fraction(whole(top), whole(bottom))


def _optional_ratio(top: LedgerValue, bottom: LedgerValue) -> Fraction | None:
    return None if top is None or bottom is None else ratio(top, bottom)


def limit_values(limit: Fraction | None) -> tuple[str | None, str | None]:
    """A limit as the two values that the tables hold."""
    return (None, None) if limit is None else (str(limit.numerator), str(limit.denominator))


class LedgerCursor(ABC):
    """One transaction: SQL written with `?` for values, common to all stores, and what its rows say."""

    @abstractmethod
    def rows(self, sql: str, *values: LedgerValue) -> list[LedgerRow]:
        """The rows of a statement, none for a change."""

    @abstractmethod
    def stream(self, sql: str, *values: LedgerValue) -> Iterator[LedgerRow]:
        """The rows of a query, a few at a time."""

    @abstractmethod
    def stored_answers(self, condition: str, *values: LedgerValue) -> Iterator[tuple[int, StoredAnswer]]:
        """The stored answers that a condition selects, a few at a time, each behind the number of its entry."""

    def only(self, sql: str, *values: LedgerValue) -> LedgerRow:
        """The row of a query that a sound ledger has one row for; LedgerCorrupt without it."""
        rows = self.rows(sql, *values)
        if not rows:
            raise LedgerCorrupt("a row that others name is missing")
        return rows[0]

    def head(self) -> Head:
        """Where the ledger ends."""
        return self.guarded_head()[0]

    def guard(self) -> str | None:
        """The name of the one high-water mark that guards the ledger; None until the first one does."""
        return self.guarded_head()[1]

    def guarded_head(self) -> tuple[Head, str | None]:
        """Where the ledger ends, and the name of the mark that guards it."""
        rows = self.rows("SELECT ledger, sequence, hash, mark FROM head")
        if len(rows) != 1:
            raise LedgerCorrupt("the ledger has no single head")
        ledger, sequence, chained, mark = rows[0]
        return Head(text(ledger), whole(sequence), text(chained)), None if mark is None else text(mark)

    def set_guard(self, mark: str) -> None:
        """Lets the mark of this name guard the ledger, and no other."""
        self.rows("UPDATE head SET mark = ? WHERE id = 1", mark)

    def seen(self, declarations: dict[tuple[LedgerValue, ...], str], past: tuple[Era, ...] | None = None) -> Seen:
        """The head, what every account ever charged has lost, and the eras.

        Digests of declarations are looked up once, and past eras only where they are not known.
        """
        columns = "id, policy_version, domain_version, spent_units, spent_grid"
        spending = {}
        for *version, units, grid in self.rows(f"SELECT {columns} FROM account WHERE charges > 0"):
            place = tuple(version)
            if place not in declarations:
                declarations[place] = self.declaration(*version)
            spending[text(version[0])] = Spent(ratio(units, grid), declarations[place])
        head, guard = self.guarded_head()
        past = self.past_eras() if past is None else past
        return Seen(head, spending, past if guard is None else (*past, Era(guard, head.sequence)))

    def past_eras(self) -> tuple[Era, ...]:
        """The eras of marks that guarded the ledger before a copy was put in its place."""
        restores = [(entry.sequence, entry.fields["guard"]) for entry in self.restores()]
        return tuple(Era(guard, sequence - 1) for sequence, guard in restores if guard is not None)

    def restores(self) -> list[Entry]:
        """The entries that accepted a copy, oldest first."""
        return self.entries("kind = 'restored' ORDER BY sequence")

    def declaration(self, account: LedgerValue, policy: LedgerValue, domain: LedgerValue) -> str:
        """The digest of the policy and the domain of these versions."""
        query = "SELECT document FROM version WHERE account = ? AND kind = ? AND number = ?"
        versions = (("policy", policy), ("domain", domain))
        return declared(*(text(self.only(query, account, kind, number)[0]) for kind, number in versions))

    def account(self, account: str) -> Account:
        """One account; UnknownAccount when there is none."""
        joined = "account LEFT JOIN label ON label.account = account.id"
        rows = self.rows(f"SELECT {ACCOUNT_COLUMNS}, label.name FROM {joined} WHERE id = ?", account)
        if not rows:
            raise UnknownAccount(account)
        row = rows[0]
        return Account(
            id=text(row[0]),
            identity=text(row[1]),
            names=tuple(sorted(text(name) for *_, name in rows if name is not None)),
            limit=ratio(row[2], row[3]),
            spent=ratio(row[4], row[5]),
            analyst_limit=_optional_ratio(row[6], row[7]),
            charges=whole(row[8]),
            policy_version=whole(row[9]),
            domain_version=whole(row[10]),
            snapshot=whole(row[11]),
            accounting=text(row[12]),
        )

    def account_ids(self) -> list[str]:
        """The ids of all accounts, in order of identity."""
        return [text(row[0]) for row in self.rows("SELECT id FROM account ORDER BY identity, id")]

    def analysts(self, account: str) -> list[AnalystBudget]:
        """Everybody who was charged or given an individual limit."""
        rows = self.rows(f"SELECT {ANALYST_COLUMNS} FROM analyst WHERE account = ?", account)
        return sorted(map(_analyst, rows), key=lambda budget: budget.analyst)

    def analyst(self, account: str, name: str) -> AnalystBudget | None:
        """One analyst's budget; None for somebody who never asked."""
        rows = self.rows(f"SELECT {ANALYST_COLUMNS} FROM analyst WHERE account = ? AND name = ?", account, name)
        return _analyst(rows[0]) if rows else None

    def balance(self, account: str, analyst: str | None = None) -> Balance:
        """What an account, or one known analyst there, spent, on its grid."""
        table, condition, values = _spender(account, analyst)
        row = self.only(f"SELECT spent_units, spent_grid FROM {table} WHERE {condition}", *values)
        return Balance(whole(row[0]), whole(row[1]))

    def save_balance(self, spent: Balance, account: str, analyst: str | None = None) -> None:
        """Stores what an account, or one analyst there, spent."""
        table, condition, values = _spender(account, analyst)
        change = f"UPDATE {table} SET spent_units = ?, spent_grid = ? WHERE {condition}"
        self.rows(change, str(spent.units), str(spent.grid), *values)

    def losses(self, account: str, analyst: str | None = None) -> ClassLosses | None:
        """What each class of edges lost, in all or to one analyst; None where the account counts sums."""
        table, condition, values = _spender(account, analyst)
        rows = self.rows(f"SELECT edge_books FROM {table} WHERE {condition}", *values)
        return None if not rows or rows[0][0] is None else read_losses(text(rows[0][0]))

    def save_losses(self, losses: ClassLosses | None, account: str, analyst: str | None = None) -> None:
        """Stores what each class of edges lost."""
        table, condition, values = _spender(account, analyst)
        document = None if losses is None else losses.to_json()
        self.rows(f"UPDATE {table} SET edge_books = ? WHERE {condition}", document, *values)

    def link_rows(self, account: str) -> list[LedgerRow]:
        """The charges of all chains of an account, oldest first, as they are stored."""
        return self.rows(f"SELECT {LINK_COLUMNS} FROM link WHERE account = ? ORDER BY charge", account)

    def links(self, account: str, rows: str) -> list[PastLink]:
        """The charges of all chains over the same rows, oldest first."""
        query = f"SELECT {LINK_COLUMNS} FROM link WHERE account = ? AND rows = ? ORDER BY charge"
        return [*map(past_link, self.rows(query, account, rows))]

    def chain(self, account: str, link: Link) -> list[PastLink]:
        """The charges of the chain of a link, oldest first."""
        return [past for past in self.links(account, link.rows) if past.link.chain == link.chain]

    def chain_marks(self, account: str, link: Link) -> dict[int, str | None]:
        """The charges of the chain of a link, each with the mark of its answer; None without one."""
        query = "SELECT charge, mark FROM link WHERE account = ? AND rows = ? AND chain = ?"
        rows = self.rows(query, account, link.rows, link.chain)
        return {whole(charge): None if mark is None else text(mark) for charge, mark in rows}

    def published_levels(self, account: str, analyst: str) -> list[tuple[Fraction, list[tuple[int, str]]]]:
        """Entry and chain of an analyst's published answers that share their noise, by level, the finest first."""
        condition = "account = ? AND analyst = ? AND mark IS NOT NULL AND mark <> ?"
        rows = self.rows(f"SELECT level, charge, chain FROM link WHERE {condition}", account, analyst, BROKEN)
        # Many entries have few levels: their texts are compared, and few numbers.
        by_text: dict[str, list[tuple[int, str]]] = {}
        for level, charge, chain in rows:
            by_text.setdefault(text(level), []).append((whole(charge), text(chain)))
        by_level: dict[Fraction, list[tuple[int, str]]] = {}
        for level, entries in by_text.items():
            by_level.setdefault(Fraction(level), []).extend(entries)
        return sorted(by_level.items(), reverse=True)

    def add_link(self, charge: Charge, sequence: int) -> None:
        """Notes a charge in its chain."""
        if charge.link is not None:
            link = charge.link
            self.rows(
                f"INSERT INTO link ({LINK_COLUMNS}, account, rows) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                *(sequence, charge.analyst, link.chain, str(link.level), str(link.received), None),
                *(charge.account, link.rows),
            )

    def end_chains(self, account: str) -> None:
        """Forgets all chains of an account: what is released from now on has nothing in common with them."""
        self.rows("DELETE FROM link WHERE account = ?", account)

    def entries(self, condition: str, *values: LedgerValue) -> list[Entry]:
        """The entries that a condition selects."""
        return [entry_of(row) for row in self.rows(f"SELECT {ENTRY_COLUMNS} FROM entry WHERE {condition}", *values)]

    def entry(self, sequence: int) -> Entry | None:
        """The entry with that number; None when there is none."""
        return next(iter(self.entries("sequence = ?", sequence)), None)

    def is_restored_since(self, sequence: int) -> bool:
        """Whether a copy was put in this ledger's place after that entry."""
        query = "SELECT 1 FROM entry WHERE kind = 'restored' AND sequence > ? LIMIT 1"
        return bool(self.rows(query, sequence))

    def hash_at(self, sequence: int) -> str | None:
        """The hash of the entry with that number; None when there is none."""
        rows = self.rows("SELECT hash FROM entry WHERE sequence = ?", sequence)
        return text(rows[0][0]) if rows else None

    def append(self, kind: str, account: str | None, fields: dict[str, EntryField]) -> Entry:
        """Appends an entry with these fields to the chain."""
        return self.append_body(kind, account, canonical({**fields, "kind": kind, "account": account}))

    def append_body(self, kind: str, account: str | None, body: str, charge: Charge | None = None) -> Entry:
        """Appends an entry whose body is JSON already."""
        head = self.head()
        sequence = head.sequence + 1
        entry = Entry(sequence, kind, account, body, head.hash, link(head.hash, sequence, body))
        searched = (charge.analyst, charge.key, charge.request_digest) if charge is not None else (None, None, None)
        self.rows(
            f"INSERT INTO entry ({ENTRY_COLUMNS}, {CHARGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(sequence, kind, account, body, entry.previous_hash, entry.hash),
            *searched,
        )
        self.rows("UPDATE head SET sequence = ?, hash = ? WHERE id = 1", sequence, entry.hash)
        return entry


def _analyst(row: LedgerRow) -> AnalystBudget:
    return AnalystBudget(
        account=text(row[0]),
        analyst=text(row[1]),
        spent=ratio(row[2], row[3]),
        limit=_optional_ratio(row[4], row[5]),
        is_individual=bool(whole(row[6])),
    )


@lru_cache(maxsize=4096)
def past_link(row: LedgerRow) -> PastLink:
    """A row of LINK_COLUMNS; every release reads those of its chains again."""
    try:
        link = Link(text(row[2]), Fraction(text(row[3])), Fraction(text(row[4])))
    except (InvalidInput, ValueError, ZeroDivisionError):
        raise LedgerCorrupt("a chain cannot be read") from None
    return PastLink(whole(row[0]), text(row[1]), link, None if row[5] is None else text(row[5]))


def _spender(account: str, analyst: str | None) -> tuple[str, str, tuple[str, ...]]:
    """The table, condition and values that find an account (analyst None), or one analyst's part of it."""
    if analyst is None:
        return "account", "id = ?", (account,)
    return "analyst", "account = ? AND name = ?", (account, analyst)


def entry_of(row: LedgerRow) -> Entry:
    """An entry from a row of ENTRY_COLUMNS."""
    sequence, kind, account, body, previous_hash, chained = row[:6]
    if not (isinstance(kind, str) and isinstance(body, str) and (account is None or isinstance(account, str))):
        raise LedgerCorrupt("a stored text is not text")
    if not (isinstance(previous_hash, str) and isinstance(chained, str)):
        raise LedgerCorrupt("a stored hash is not text")
    return Entry(whole(sequence), kind, account, body, previous_hash, chained)


exact = lru_cache(maxsize=4096)(Fraction)
"""The fraction that a text says; a ledger says few of them, again and again."""
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
    if charge.link is not None:
        link = charge.link
        fields |= {"chain": link.chain, "level": str(link.level), "received": str(link.received)}
    return canonical({**fields, "kind": "charge", "at": at, "epsilon": str(charge.epsilon)})


def charge_of(fields: Mapping[str, Any]) -> Charge:
    """The charge that the fields of an entry describe; raises whatever is wrong with them."""
    losses = None
    if fields.get("losses") is not None:
        losses = {name: exact(loss) for name, loss in json.loads(fields["losses"]).items()}
    link = None
    if fields.get("chain") is not None:
        link = Link(fields["chain"], exact(fields["level"]), exact(fields["received"]))
    plain = {name: fields[name] for name in PLAIN_FIELDS}
    return Charge(**plain, epsilon=exact(fields["epsilon"]), losses=losses, link=link)


@lru_cache(maxsize=64)
def receipt_of(entry: Entry) -> Receipt:
    """The receipt of a charge's entry, rebuilt from the body that its hash covers; a release needs it several times."""
    try:
        charge = charge_of(entry.fields)
    except (InvalidInput, ValueError, KeyError, TypeError):
        raise LedgerCorrupt("a charge cannot be read", sequence=entry.sequence) from None
    return Receipt(entry.sequence, charge, entry.previous_hash, entry.hash, is_new=False)
