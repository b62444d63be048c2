"""Histories of one ledger that parted: nothing of either is forgotten, and no noise is given away twice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.errors import ChargeClosed
from blowfishdb.ledger import Ledger, accept_restored_ledger
from blowfishdb.ledger.backup import back_up_ledger, restore_ledger
from blowfishdb.ledger.values import Charge, Link, Publication
from tests.ledger.support import Place, charge_of, opened

WHO = {"by": "cora", "reason": "the disk died"}
PARTING = ["accepted", "restored"]
"""The ways in which a copy takes the place of a ledger."""


def linked(charge: Charge, level: str, received: str | None = None) -> Charge:
    return replace(charge, link=Link("rows.1", Fraction(level), Fraction(received or charge.epsilon)))


def rolled_back(place: Place, copy: Path, way: str) -> Ledger:
    """The ledger after a copy took its place."""
    if way == "accepted":
        place.mark.unlink()
        accept_restored_ledger(place.url, mark=place.mark, **WHO)
    else:
        restore_ledger(copy, place.url, mark=place.mark, **WHO, aside=copy.with_name("aside"))
    return place.open()


@pytest.mark.parametrize("way", PARTING)
def test_whatever_takes_a_ledgers_place_ends_its_chains(place: Place, tmp_path: Path, way: str) -> None:
    """A draw that the copy lacks may have gone on from what it has: a second one loses more than the difference."""
    with place.open() as ledger:
        account = opened(ledger, 9)
        receipt = ledger.charge(linked(charge_of(account, "1/4", "coarse"), "1/4"))
        ledger.store_answer(receipt, b"coarse", Publication(frozenset(), "content"))
        back_up_ledger(ledger, tmp_path / "copy")
        assert len(ledger.links(account.id, "rows")) == 1
    with rolled_back(place, tmp_path / "copy", way) as again:
        assert again.links(account.id, "rows") == []
        again.charge(linked(charge_of(account, 1, "fine"), "1"))
        assert again.account(account.id).spent == Fraction(5, 4)
        assert again.verify().is_sound


@pytest.mark.parametrize("way", PARTING)
def test_a_charge_without_an_answer_is_not_answered_after_it(place: Place, tmp_path: Path, way: str) -> None:
    """Its answer may be out: another draw under the same charge would be noise that nobody paid for."""
    with place.open() as ledger:
        account = opened(ledger, 9)
        answered = ledger.charge(charge_of(account, 1, "answered"))
        ledger.store_answer(answered, b"first")
        receipt = ledger.charge(charge_of(account, 1, "open"))
        back_up_ledger(ledger, tmp_path / "copy")
    with rolled_back(place, tmp_path / "copy", way) as again:
        assert again.answer_for(again.charge(answered.charge)) == b"first"
        known = again.receipt_of(account.id, "ana", "open")
        assert known is not None and again.is_closed(known) and not again.is_closed(answered)
        for attempt in (lambda: again.charge(receipt.charge), lambda: again.store_answer(known, b"another draw")):
            with pytest.raises(ChargeClosed):
                attempt()
        later = again.charge(charge_of(account, 1, "later"))
        again.store_answer(later, b"later")
        assert again.verify().is_sound
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("blowfishdb.ledger.records.LedgerCursor.is_restored_since", lambda *_: False)
            again.store_answer(known, b"another draw")
        assert "before the ledger was restored" in str(again.verify().fault)


def test_an_accepted_ledger_is_followed_from_a_checkpoint(place: Place, tmp_path: Path) -> None:
    """What the watch keeps over a restart knows of the charges that are closed."""
    from blowfishdb.ledger.verification import verify_since
    from blowfishdb.ledger.watch import read_checkpoint, write_checkpoint

    with place.open() as ledger:
        account = opened(ledger, 9)
        ledger.charge(charge_of(account, 1, "open"))
        back_up_ledger(ledger, tmp_path / "copy")
    with rolled_back(place, tmp_path / "copy", "accepted") as again:
        with again.store.read() as cursor:
            write_checkpoint(tmp_path / "state", verify_since(cursor, None, None)[1])
        state = read_checkpoint(tmp_path / "state")
        assert state is not None and state.state.restored == again.head().sequence
