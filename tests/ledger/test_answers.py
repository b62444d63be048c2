"""Stored answers: only for receipts on record, one per receipt, replayed for free."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from blowfishdb.errors import DigestMismatch, LedgerCorrupt, TooLarge
from blowfishdb.ledger import Ledger, charges
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


def test_a_changed_answer_is_not_replayed(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    receipt = ledger.charge(charge_of(account, 1, "a", request="same"))
    ledger.store_answer(receipt, b"noisy")
    with ledger.store.write() as cursor:
        cursor.rows("UPDATE answer SET payload = ?", b"other")
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
