"""Stored answers: only for receipts on record, one per receipt, replayed for free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from blowfishdb.errors import DigestMismatch, InvalidInput, LedgerCorrupt, TooLarge
from blowfishdb.ledger import Ledger, charges
from blowfishdb.ledger.records import REMEMBERED, LedgerCursor, receipt_of
from tests.ledger.support import charge_of, opened


def test_an_answer_replays_for_free(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    receipt = ledger.charge(charge_of(account, 1, "a", request="same"))
    assert ledger.replay(account.id, "same") is None
    assert ledger.answer_for(receipt) is None
    assert ledger.store_answer(receipt, b"\x00noisy\xff") == b"\x00noisy\xff"
    found = ledger.replay(account.id, "same")
    assert found is not None
    assert (found.receipt, found.payload) == (receipt, b"\x00noisy\xff")
    assert ledger.answer_for(receipt) == b"\x00noisy\xff"
    assert ledger.replay(account.id, "other") is None
    assert ledger.replay(account.id, "same", analyst="bob") is None
    assert ledger.replay(account.id, "same", analyst="ana") == found
    assert ledger.account(account.id).spent == 1


def test_the_answers_of_others_to_the_same_request_are_not_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = opened(ledger, 1)
    for name in ("ana", "ben", "cleo"):
        paid = ledger.charge(charge_of(account, "1/10", name, analyst=name, request="same"))
        ledger.store_answer(paid, name.encode())
    seen = list[str]()
    monkeypatch.setattr(charges, "receipt_of", lambda entry: seen.append(entry.who) or receipt_of(entry))
    replay = ledger.replay(account.id, "same", analyst="ana")
    assert replay is not None
    assert (replay.payload, seen) == (b"ana", ["ana"])
    assert ledger.replay(account.id, "same", analyst="dora") is None
    assert seen == ["ana"]


def test_the_first_answer_wins_so_one_charge_never_shows_two_draws(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    receipt = ledger.charge(charge_of(account, 1, "a"))
    again = ledger.charge(charge_of(account, 1, "a"))
    assert ledger.store_answer(receipt, b"first draw") == b"first draw"
    assert ledger.store_answer(again, b"second draw") == b"first draw"
    assert ledger.answer_for(again) == b"first draw"
    assert [entry.kind for entry in ledger.entries()].count("answer") == 1


def test_forged_receipts_are_refused(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    receipt = ledger.charge(charge_of(account, "1/10", "a"))
    forged = [
        replace(receipt, sequence=99),
        replace(receipt, sequence=1),
        replace(receipt, hash="0" * 64),
        replace(receipt, previous_hash="0" * 64),
        replace(receipt, charge=replace(receipt.charge, program_digest="a dearer plan")),
        replace(receipt, charge=replace(receipt.charge, epsilon=Fraction(9, 10))),
        replace(receipt, charge=replace(receipt.charge, analyst="bob")),
        replace(receipt, charge=replace(receipt.charge, snapshot=2)),
    ]
    for wrong in forged:
        with pytest.raises(DigestMismatch):
            ledger.store_answer(wrong, b"answer")
        with pytest.raises(DigestMismatch):
            ledger.answer_for(wrong)
    assert ledger.answer_for(receipt) is None


def test_answers_of_old_versions_and_snapshots_do_not_replay(ledger: Ledger) -> None:
    account = opened(ledger, 9)
    receipt = ledger.charge(charge_of(account, 1, "a", request="same"))
    ledger.store_answer(receipt, b"of April")
    ledger.new_snapshot(account, "May", by="cora")
    assert ledger.replay(account.id, "same") is None
    newer = ledger.charge(charge_of(ledger.account(account.id), 1, "b", request="same"))
    ledger.store_answer(newer, b"of May")
    found = ledger.replay(account.id, "same")
    assert found is not None
    assert found.payload == b"of May"
    ledger.new_version(ledger.account(account.id), "policy", "[1]", Fraction(1), by="cora", reason="wider")
    assert ledger.replay(account.id, "same") is None
    assert ledger.answer_for(receipt) == b"of April"


def test_a_late_answer_may_still_be_stored_after_the_policy_changed(ledger: Ledger) -> None:
    account = opened(ledger, 9)
    receipt = ledger.charge(charge_of(account, 1, "a"))
    ledger.new_version(ledger.account(account.id), "policy", "[1]", Fraction(2), by="cora", reason="wider")
    assert ledger.store_answer(receipt, b"late") == b"late"
    assert ledger.account(account.id).spent == 2


@pytest.mark.parametrize(
    ("noisy", "other"),
    [(b"noisy", b"other"), (bytes(REMEMBERED.start), bytes(REMEMBERED.start - 1) + b"1")],
    ids=["short", "long"],
)
def test_a_changed_answer_is_not_replayed(ledger: Ledger, noisy: bytes, other: bytes) -> None:
    account = opened(ledger, 1)
    receipt = ledger.charge(charge_of(account, 1, "a", request="same"))
    ledger.store_answer(receipt, noisy)
    assert ledger.answer_for(receipt) == noisy
    with ledger.store.write() as cursor:
        cursor.rows("UPDATE answer SET payload = ?", other)
    for look in (lambda: ledger.answer_for(receipt), lambda: ledger.replay(account.id, "same")):
        with pytest.raises(LedgerCorrupt):
            look()


def test_a_deleted_answer_is_noticed_and_never_drawn_again(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    receipt = ledger.charge(charge_of(account, "1/2", "a"))
    other = ledger.charge(charge_of(account, "1/2", "b"))
    ledger.store_answer(receipt, b"noisy")
    with ledger.store.write() as cursor:
        cursor.rows("DELETE FROM answer")
    for look in (lambda: ledger.answer_for(receipt), lambda: ledger.store_answer(receipt, b"second draw")):
        with pytest.raises(LedgerCorrupt):
            look()
    assert ledger.answer_for(other) is None


def test_huge_answers_are_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charges, "LARGEST_ANSWER", 10)
    receipt = ledger.charge(charge_of(opened(ledger, 1), 1, "a"))
    with pytest.raises(TooLarge):
        ledger.store_answer(receipt, b"x" * 11)


def past_charges(ledger: Ledger) -> str:
    """Six charges of ana with keys of two plans, one of bob; each third of hers published a synopsis."""
    account = opened(ledger, 10)
    for place in range(7):
        charge = charge_of(account, "1/10", f"plan{place % 2} {place}", analyst="bob" if place == 3 else "ana")
        words = '{"question": "a synopsis, they say: true"}' if place % 3 else '{"question": "all", "synopsis": true}'
        receipt = ledger.charge(replace(charge, certificate=words))
        # The last one is not answered yet.
        if place < 6:
            ledger.store_answer(receipt, b"noisy")
    return account.id


def test_past_charges_are_listed_in_parts_newest_first(ledger: Ledger) -> None:
    account = past_charges(ledger)
    whole = [receipt.sequence for receipt, _ in ledger.charges_of(account, "ana")]
    assert whole == sorted(whole, reverse=True)
    assert len(whole) == 6
    first = [receipt.sequence for receipt, _ in ledger.charges_of(account, "ana", 4)]
    rest = [receipt.sequence for receipt, _ in ledger.charges_of(account, "ana", 4, first[-1])]
    assert (first, rest) == (whole[:4], whole[4:])
    assert ledger.charges_of(account, "ana", 4, whole[-1]) == []
    keys = [receipt.charge.key for receipt, _ in ledger.charges_of(account, "ana", key="plan0")]
    assert keys == ["plan0 6", "plan0 4", "plan0 2", "plan0 0"]
    assert ledger.charges_of(account, "ana", key="plan") == []
    (others,) = (receipt.sequence for receipt, _ in ledger.charges_of(account, "bob"))
    assert ledger.charged_to(account, "ana", [*whole, others, 1, 99]) == set(whole)
    assert ledger.charged_to(account, "ana", []) == set()
    assert [receipt.charge.key for receipt, _ in ledger.synopses(account)] == ["plan1 3", "plan0 0"]
    assert [receipt.charge.key for receipt, _ in ledger.synopses(account, 1)] == ["plan1 3"]
    assert [receipt.charge.key for receipt, _ in ledger.synopses(account, 1, others)] == ["plan0 0"]
    newest = list(ledger.entries(newest_first=True))
    assert newest == list(ledger.entries())[::-1]
    for wrong in (0, -1, True):
        with pytest.raises(InvalidInput):
            ledger.charges_of(account, "ana", 4, wrong)


def test_lists_read_an_index_and_not_the_whole_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    account, asked = past_charges(ledger), list[tuple[str, tuple[Any, ...]]]()
    with ledger.store.read() as cursor:
        kind = type(cursor)
    stream = kind.stream

    def recorded(self: LedgerCursor, sql: str, *values: Any) -> Iterator[Any]:
        asked.append((sql, values))
        return stream(self, sql, *values)

    monkeypatch.setattr(kind, "stream", recorded)
    ledger.charges_of(account, "ana", 2, 9)
    ledger.synopses(account, 2, 9)
    with ledger.store.read() as cursor:
        is_sqlite = "Sqlite" in kind.__name__
        for setting in () if is_sqlite else ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
            cursor.rows(f"SET LOCAL {setting} = off")
        explain = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
        plans = [str(cursor.rows(f"{explain} {sql}", *values)) for sql, values in asked]
    for plan, index in zip(plans, ("entry_by_analyst", "entry_by_synopsis"), strict=True):
        assert index in plan
        assert "SORT" not in plan.upper() and "TEMP B-TREE" not in plan
