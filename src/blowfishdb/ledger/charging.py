"""A charge inside an exclusive write: known key, versions in force, both limits, debit, entry."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors import BudgetExceeded, KeyReused, LedgerCorrupt, StaleVersion
from blowfishdb.ledger.amounts import NOTHING, Balance
from blowfishdb.ledger.base import APPENDED, DEBITED, Cursor, StepHook
from blowfishdb.ledger.edge_books import SUM, EdgeBooks, in_classes
from blowfishdb.ledger.records import (
    ENTRY_COLUMNS,
    append_body,
    entry_of,
    load_account,
    load_analyst,
    load_analyst_balance,
    load_balance,
    load_edge_books,
    receipt_of,
    save_edge_books,
)
from blowfishdb.ledger.values import Account, AnalystBudget, Charge, Receipt


def post_charge(cursor: Cursor, charge: Charge, body: str, reached: StepHook) -> Receipt:
    """The receipt of the charge: the one on record for its key, or a new one. Refusals leave no trace."""
    known = find_by_key(cursor, charge)
    if known is not None:
        return known
    account = load_account(cursor, charge.account)
    _check_versions(account, charge)
    analyst = ensure_analyst(cursor, account, charge.analyst)
    spent, own = _balances(cursor, account, charge)
    is_own_limit_passed = charge.epsilon > 0 and analyst.limit is not None and own.value > analyst.limit
    if spent.value > account.limit or is_own_limit_passed:
        raise BudgetExceeded(charge.epsilon, account.remaining, analyst.remaining)
    _debit(cursor, charge, spent, own)
    reached(DEBITED)
    entry = append_body(cursor, "charge", charge.account, body, charge)
    reached(APPENDED)
    return Receipt(entry.sequence, charge, entry.previous_hash, entry.hash)


def _balances(cursor: Cursor, account: Account, charge: Charge) -> tuple[Balance, Balance]:
    """What the account and the analyst will have spent; where classes of edges are told apart, the worst of them."""
    if account.accounting == SUM:
        spent = load_balance(cursor, charge.account).plus(charge.epsilon)
        return spent, load_analyst_balance(cursor, charge.account, charge.analyst).plus(charge.epsilon)
    found, losses = [], in_classes(account.accounting, charge.losses)
    for analyst in (None, charge.analyst):
        before = load_edge_books(cursor, charge.account, analyst) or EdgeBooks()
        books = before.plus(charge.epsilon, losses)
        save_edge_books(cursor, books, charge.account, analyst)
        found.append(NOTHING.plus(books.worst))
    return found[0], found[1]


def find_by_key(cursor: Cursor, charge: Charge) -> Receipt | None:
    """The receipt that this key already has; KeyReused when it paid for another request."""
    rows = cursor.rows(
        f"SELECT {ENTRY_COLUMNS} FROM entry WHERE account = ? AND analyst = ? AND charge_key = ?",
        charge.account,
        charge.analyst,
        charge.key,
    )
    if not rows:
        return None
    receipt = receipt_of(entry_of(rows[0]))
    if receipt.charge.request_digest != charge.request_digest:
        raise KeyReused(charge.key)
    return receipt


def ensure_analyst(cursor: Cursor, account: Account, name: str) -> AnalystBudget:
    """The analyst's budget on the account, opened with the default limit at the first question."""
    known = load_analyst(cursor, account.id, name)
    if known is not None:
        return known
    if cursor.rows("SELECT 1 FROM entry WHERE account = ? AND analyst = ? LIMIT 1", account.id, name):
        raise LedgerCorrupt("an analyst who was charged has no balance any more")
    cursor.rows(
        "INSERT INTO analyst (account, name, spent_units, spent_grid, limit_top, limit_bottom, is_individual)"
        " VALUES (?, ?, ?, ?, ?, ?, 0)",
        account.id,
        name,
        str(NOTHING.units),
        str(NOTHING.grid),
        *limit_values(account.analyst_limit),
    )
    return AnalystBudget(account.id, name, Fraction(0), account.analyst_limit, is_individual=False)


def limit_values(limit: Fraction | None) -> tuple[str | None, str | None]:
    """A limit as the two values that the tables hold."""
    return (None, None) if limit is None else (str(limit.numerator), str(limit.denominator))


def _check_versions(account: Account, charge: Charge) -> None:
    pairs = (
        ("policy version", charge.policy_version, account.policy_version),
        ("domain version", charge.domain_version, account.domain_version),
        ("snapshot", charge.snapshot, account.snapshot),
    )
    for what, quoted, current in pairs:
        if quoted != current:
            raise StaleVersion(what, quoted, current)


def _debit(cursor: Cursor, charge: Charge, spent: Balance, own: Balance) -> None:
    cursor.rows(
        "UPDATE account SET spent_units = ?, spent_grid = ?, charges = charges + 1 WHERE id = ?",
        str(spent.units),
        str(spent.grid),
        charge.account,
    )
    cursor.rows(
        "UPDATE analyst SET spent_units = ?, spent_grid = ? WHERE account = ? AND name = ?",
        str(own.units),
        str(own.grid),
        charge.account,
        charge.analyst,
    )
