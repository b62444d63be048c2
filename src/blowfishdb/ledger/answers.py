"""Stored answers: one per receipt, the first one wins, and it replays for free."""

from __future__ import annotations

from blowfishdb.errors import DigestMismatch, LedgerCorrupt, TooLarge
from blowfishdb.ledger.base import Cursor
from blowfishdb.ledger.chain import Field, digest
from blowfishdb.ledger.records import ENTRY_COLUMNS, append, entry_of, load_account, load_entry, receipt_of, whole
from blowfishdb.ledger.values import Receipt, Replay

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
