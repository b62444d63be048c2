"""Rows of the tables as values, and the one way in which an entry is appended to the chain."""

from __future__ import annotations

import json
from fractions import Fraction

from blowfishdb.errors import InvalidInput, LedgerCorrupt, UnknownAccount
from blowfishdb.ledger.amounts import Balance
from blowfishdb.ledger.base import Cursor, Value
from blowfishdb.ledger.chain import Field, canonical, link
from blowfishdb.ledger.edge_books import EdgeBooks, read_books
from blowfishdb.ledger.values import Account, AnalystBudget, Charge, Entry, Head, Receipt

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
