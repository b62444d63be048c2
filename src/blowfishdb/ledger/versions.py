"""New policy and domain versions: past loss is carried over by the largest stretch, or the change is refused."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors import ChangeRefused, InvalidInput
from blowfishdb.ledger.amounts import Balance
from blowfishdb.ledger.base import Cursor
from blowfishdb.ledger.chain import Field, digest
from blowfishdb.ledger.curation import check_as_seen, load_document
from blowfishdb.ledger.records import (
    append,
    load_account,
    load_analyst_balance,
    load_analysts,
    load_balance,
    load_edge_books,
    save_edge_books,
)
from blowfishdb.ledger.values import VERSION_KINDS, Account, VersionChange, VersionKind, check_document
from blowfishdb.model.numbers import show


def what_would_change(
    cursor: Cursor, account: str, kind: VersionKind, document: str, stretch: Fraction | None
) -> VersionChange:
    """What a new version would do; changes nothing.

    `stretch` is the largest distance, in the graph in force, between two values that the new graph joins; None when
    it is infinite. Loss on such an edge is at most stretch times the loss so far, so multiplying covers the past.
    """
    _check_request(kind, document, stretch)
    known = load_account(cursor, account)
    after = None if stretch is None else load_balance(cursor, account).times(stretch)
    if known.charges == 0:
        after = load_balance(cursor, account)
    analysts = {
        budget.analyst: load_analyst_balance(cursor, account, budget.analyst).times(stretch or Fraction(1)).value
        for budget in load_analysts(cursor, account)
    }
    current = _current(known, kind)
    return VersionChange(
        account=account,
        kind=kind,
        current_version=current,
        next_version=current + 1,
        stretch=stretch,
        charges=known.charges,
        limit=known.limit,
        spent_before=known.spent,
        spent_after=None if after is None else after.value,
        analysts_after=analysts if after is not None else {},
        refusal=_refusal(cursor, known, kind, document, after),
    )


def new_version(
    cursor: Cursor, seen: Account, kind: VersionKind, document: str, stretch: Fraction | None, stamp: dict[str, Field]
) -> VersionChange:
    """Puts the version in force and multiplies past loss; ChangeRefused with the reason when it may not be done.

    The stretch was worked out for the versions that the account had when it was `seen`. What was released under others
    in between would be carried over by the wrong factor, so StaleVersion when they are not in force any more.
    """
    account = seen.id
    check_as_seen(cursor, seen)
    change = what_would_change(cursor, account, kind, document, stretch)
    if change.refusal is not None:
        raise ChangeRefused(change.refusal)
    if stretch is not None:
        _carry_over(cursor, account, stretch)
    column = "policy_version" if kind == "policy" else "domain_version"
    cursor.rows(f"UPDATE account SET {column} = ? WHERE id = ?", change.next_version, account)
    cursor.rows(
        "INSERT INTO version (account, kind, number, document) VALUES (?, ?, ?, ?)",
        account,
        kind,
        change.next_version,
        document,
    )
    fields: dict[str, Field] = {
        "what": kind,
        "version": change.next_version,
        "document": document,
        "document_digest": digest(document),
        "stretch": None if stretch is None else str(stretch),
    }
    append(cursor, "version", account, {**stamp, **fields})
    return change


def _carry_over(cursor: Cursor, account: str, stretch: Fraction) -> None:
    spent = load_balance(cursor, account).times(stretch)
    cursor.rows(
        "UPDATE account SET spent_units = ?, spent_grid = ? WHERE id = ?", str(spent.units), str(spent.grid), account
    )
    _collapse(cursor, account, None, stretch)
    for budget in load_analysts(cursor, account):
        _collapse(cursor, account, budget.analyst, stretch)
        own = load_analyst_balance(cursor, account, budget.analyst).times(stretch)
        cursor.rows(
            "UPDATE analyst SET spent_units = ?, spent_grid = ? WHERE account = ? AND name = ?",
            str(own.units),
            str(own.grid),
            account,
            budget.analyst,
        )


def _collapse(cursor: Cursor, account: str, analyst: str | None, stretch: Fraction) -> None:
    books = load_edge_books(cursor, account, analyst)
    if books is not None:
        save_edge_books(cursor, books.times(stretch), account, analyst)


def _refusal(cursor: Cursor, known: Account, kind: VersionKind, document: str, after: Balance | None) -> str | None:
    if load_document(cursor, known.id, kind, _current(known, kind)) == document:
        return f"this {kind} is the one in force"
    if after is None:
        return (
            f"the new {kind} joins values that the one in force leaves apart, and {known.charges} releases (exact "
            "ones included) may have told them apart already. No budget covers that: choose another policy."
        )
    if after.value > known.limit:
        return (
            f"past loss would count as {show(after.value)} under the new {kind}, more than the limit of "
            f"{show(known.limit)}. Renew the budget first, or choose another policy."
        )
    return None


def _current(known: Account, kind: VersionKind) -> int:
    return known.policy_version if kind == "policy" else known.domain_version


def _check_request(kind: VersionKind, document: str, stretch: Fraction | None) -> None:
    if kind not in VERSION_KINDS:
        raise InvalidInput("a version is of the policy or of the domain")
    check_document(document, f"a {kind} document")
    if stretch is not None and (not isinstance(stretch, Fraction) or stretch < 1):
        raise InvalidInput("a stretch is an exact Fraction of at least 1, or None when it is infinite")
