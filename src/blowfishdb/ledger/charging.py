"""A charge inside an exclusive write, and the stored answer of its receipt: the first one wins and replays for free."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors import BudgetExceeded, DigestMismatch, KeyReused, LedgerCorrupt, StaleVersion, TooLarge
from blowfishdb.ledger.records import (
    APPENDED,
    DEBITED,
    ENTRY_COLUMNS,
    Cursor,
    Field,
    StepHook,
    append,
    append_body,
    digest,
    entry_of,
    load_account,
    load_analyst,
    load_analyst_balance,
    load_balance,
    load_edge_books,
    load_entry,
    receipt_of,
    save_edge_books,
    whole,
)
from blowfishdb.ledger.values import (
    NOTHING,
    SUM,
    Account,
    AnalystBudget,
    Balance,
    Charge,
    EdgeBooks,
    Receipt,
    Replay,
    in_classes,
)


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


LARGEST_ANSWER = 256 * 2**20


def store_answer(cursor: Cursor, receipt: Receipt, payload: bytes, stamp: dict[str, Field]) -> bytes:
    """The answer on record for the receipt: this one, or the one that was stored before.

    A receipt pays for one draw of noise. Two runs with one key may both measure, so whoever comes second gets the
    first answer back and must return that one; its own draw is never seen.
    """
    if len(payload) > LARGEST_ANSWER:
        raise TooLarge("bytes of an answer", len(payload), LARGEST_ANSWER, "Ask for fewer cells.")
    check_receipt(cursor, receipt)
    stored = _load(cursor, receipt.sequence)
    if stored is not None:
        return stored
    fields: dict[str, Field] = {
        "charge": receipt.sequence,
        "charge_hash": receipt.hash,
        "payload_digest": digest(payload),
    }
    entry = append(cursor, "answer", receipt.charge.account, {**stamp, **fields})
    cursor.rows(
        "INSERT INTO answer (charge, entry, payload) VALUES (?, ?, ?)", receipt.sequence, entry.sequence, payload
    )
    return payload


def answer_for(cursor: Cursor, receipt: Receipt) -> bytes | None:
    """The stored answer of an authentic receipt; None when none was stored."""
    check_receipt(cursor, receipt)
    return _load(cursor, receipt.sequence)


def replay(cursor: Cursor, account: str, request_digest: str, analyst: str | None) -> Replay | None:
    """The newest stored answer to this request under the versions and snapshot in force, of one analyst or of any."""
    known = load_account(cursor, account)
    in_force = (known.policy_version, known.domain_version, known.snapshot)
    rows = cursor.rows(
        f"SELECT {ENTRY_COLUMNS} FROM entry WHERE account = ? AND request_digest = ? AND kind = 'charge'"
        " AND EXISTS (SELECT 1 FROM answer WHERE answer.charge = entry.sequence) ORDER BY sequence DESC",
        account,
        request_digest,
    )
    for row in rows:
        receipt = receipt_of(entry_of(row))
        charge = receipt.charge
        is_current = (charge.policy_version, charge.domain_version, charge.snapshot) == in_force
        payload = _load(cursor, receipt.sequence) if is_current and analyst in (None, charge.analyst) else None
        if payload is not None:
            return Replay(receipt, payload)
    return None


def charges_of(cursor: Cursor, account: str, analyst: str, most: int) -> list[tuple[Receipt, str]]:
    """The newest charges of one analyst on one account with the time of each, newest first."""
    rows = cursor.rows(
        f"SELECT {ENTRY_COLUMNS} FROM entry WHERE account = ? AND analyst = ? AND kind = 'charge'"
        " ORDER BY sequence DESC LIMIT ?",
        account,
        analyst,
        most,
    )
    entries = [entry_of(row) for row in rows]
    return [(receipt_of(entry), str(entry.fields["at"])) for entry in entries]


def answered_charges(cursor: Cursor, account: str, most: int) -> list[tuple[Receipt, str]]:
    """The newest charges on one account whose answer is stored, of all analysts, newest first."""
    rows = cursor.rows(
        f"SELECT {ENTRY_COLUMNS} FROM entry WHERE account = ? AND kind = 'charge'"
        " AND EXISTS (SELECT 1 FROM answer WHERE answer.charge = entry.sequence) ORDER BY sequence DESC LIMIT ?",
        account,
        most,
    )
    entries = [entry_of(row) for row in rows]
    return [(receipt_of(entry), str(entry.fields["at"])) for entry in entries]


def receipt_at(cursor: Cursor, sequence: int) -> Receipt | None:
    """The receipt of the charge with this number; None when that entry is none."""
    entry = load_entry(cursor, sequence)
    return None if entry is None or entry.kind != "charge" else receipt_of(entry)


def check_receipt(cursor: Cursor, receipt: Receipt) -> None:
    """DigestMismatch unless every field of the receipt is what the chain has on record."""
    entry = load_entry(cursor, receipt.sequence)
    if entry is None or entry.kind != "charge" or receipt_of(entry) != receipt:
        raise DigestMismatch("this receipt is not on record. Charge first, and use the receipt that comes back.")


def _load(cursor: Cursor, charge: int) -> bytes | None:
    rows = cursor.rows("SELECT entry, payload FROM answer WHERE charge = ?", charge)
    if not rows:
        _check_none_was_recorded(cursor, charge)
        return None
    sequence, payload = whole(rows[0][0]), rows[0][1]
    entry = load_entry(cursor, sequence)
    if not isinstance(payload, bytes) or entry is None or entry.fields.get("payload_digest") != digest(payload):
        raise LedgerCorrupt("a stored answer is not the one that was recorded", sequence=charge)
    return payload


def _check_none_was_recorded(cursor: Cursor, charge: int) -> None:
    """LedgerCorrupt when the chain knows an answer that is gone: measuring again would publish a second draw."""
    later = cursor.rows(f"SELECT {ENTRY_COLUMNS} FROM entry WHERE kind = 'answer' AND sequence > ?", charge)
    if any(entry_of(row).fields.get("charge") == charge for row in later):
        raise LedgerCorrupt("a stored answer is missing", sequence=charge)
