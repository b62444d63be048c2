"""A charge inside an exclusive write, and the stored answer of its receipt: the first one wins and replays for free."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors import BudgetExceeded, DigestMismatch, KeyReused, LedgerCorrupt, StaleVersion, TooLarge
from blowfishdb.ledger.records import (
    ANALYST_COLUMNS,
    APPENDED,
    DEBITED,
    Cursor,
    Field,
    StepHook,
    Value,
    append,
    append_body,
    digest,
    limit_values,
    load_account,
    load_analyst,
    load_balance,
    load_entries,
    load_entry,
    load_losses,
    receipt_of,
    save_balance,
    save_losses,
    whole,
)
from blowfishdb.ledger.values import (
    NOTHING,
    SUM,
    Account,
    AnalystBudget,
    Balance,
    Charge,
    ClassLosses,
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
    spent, by_analyst = _balances(cursor, account, charge)
    is_analyst_over = charge.epsilon > 0 and analyst.limit is not None and by_analyst.value > analyst.limit
    if spent.value > account.limit or is_analyst_over:
        raise BudgetExceeded(charge.epsilon, account.remaining, analyst.remaining)
    save_balance(cursor, spent, charge.account)
    save_balance(cursor, by_analyst, charge.account, charge.analyst)
    cursor.rows("UPDATE account SET charges = charges + 1 WHERE id = ?", charge.account)
    reached(DEBITED)
    entry = append_body(cursor, "charge", charge.account, body, charge)
    reached(APPENDED)
    return Receipt(entry.sequence, charge, entry.previous_hash, entry.hash)


def _balances(cursor: Cursor, account: Account, charge: Charge) -> list[Balance]:
    """What the account and the analyst will have spent; where classes of edges are told apart, the worst of them."""
    spenders = (None, charge.analyst)
    if account.accounting == SUM:
        return [load_balance(cursor, account.id, analyst).plus(charge.epsilon) for analyst in spenders]
    balances, losses = [], in_classes(account.accounting, charge.losses)
    for analyst in spenders:
        before = load_losses(cursor, account.id, analyst) or ClassLosses()
        after = before.plus(charge.epsilon, losses)
        save_losses(cursor, after, account.id, analyst)
        balances.append(NOTHING.plus(after.worst))
    return balances


def find_by_key(cursor: Cursor, charge: Charge) -> Receipt | None:
    """The receipt that this key already has; KeyReused when it paid for another request."""
    condition = "account = ? AND analyst = ? AND charge_key = ?"
    entries = load_entries(cursor, condition, charge.account, charge.analyst, charge.key)
    if not entries:
        return None
    receipt = receipt_of(entries[0])
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
        f"INSERT INTO analyst ({ANALYST_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0)",
        account.id,
        name,
        str(NOTHING.units),
        str(NOTHING.grid),
        *limit_values(account.analyst_limit),
    )
    return AnalystBudget(account.id, name, Fraction(0), account.analyst_limit, is_individual=False)


def _check_versions(account: Account, charge: Charge) -> None:
    pairs = (
        ("policy version", charge.policy_version, account.policy_version),
        ("domain version", charge.domain_version, account.domain_version),
        ("snapshot", charge.snapshot, account.snapshot),
    )
    for what, quoted, current in pairs:
        if quoted != current:
            raise StaleVersion(what, quoted, current)


LARGEST_ANSWER = 256 * 2**20
CHARGED = "kind = 'charge'"
ANSWERED = f"{CHARGED} AND EXISTS (SELECT 1 FROM answer WHERE answer.charge = entry.sequence)"


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
    condition = f"account = ? AND request_digest = ? AND {ANSWERED} ORDER BY sequence DESC"
    for entry in load_entries(cursor, condition, account, request_digest):
        receipt = receipt_of(entry)
        charge = receipt.charge
        is_current = (charge.policy_version, charge.domain_version, charge.snapshot) == in_force
        payload = _load(cursor, receipt.sequence) if is_current and analyst in (None, charge.analyst) else None
        if payload is not None:
            return Replay(receipt, payload)
    return None


def past_charges(cursor: Cursor, condition: str, *values: Value) -> list[tuple[Receipt, str]]:
    """The newest charges under a condition that ends in a limit, each with its time, newest first."""
    entries = load_entries(cursor, f"{condition} ORDER BY sequence DESC LIMIT ?", *values)
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
    later = load_entries(cursor, "kind = 'answer' AND sequence > ?", charge)
    if any(entry.fields.get("charge") == charge for entry in later):
        raise LedgerCorrupt("a stored answer is missing", sequence=charge)
