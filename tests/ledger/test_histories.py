"""Histories of one ledger that parted: nothing of either is forgotten, and no noise is given away twice."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.errors import BackupRefused, ChargeClosed, DrillCopy, LedgerRolledBack
from blowfishdb.ledger import Ledger, accept_restored_ledger
from blowfishdb.ledger.backup import Restored, back_up_ledger, restore_ledger
from blowfishdb.ledger.ledger import open_store
from blowfishdb.ledger.mark import read_checkpoint_file, sign_checkpoint
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


@dataclass(frozen=True)
class Machine:
    """A machine with a ledger of its own and a mark of its own; a backup of it, and the loss of its disk."""

    place: Place
    folder: Path
    name: str

    @property
    def copy(self) -> Path:
        return self.folder / f"copy of {self.name}"

    def back_up(self) -> None:
        self.copy.unlink(missing_ok=True)
        with self.place.open() as ledger:
            back_up_ledger(ledger, self.copy)

    def spend(self, epsilon: str | Fraction, key: str = "") -> None:
        with self.place.open() as ledger:
            account = ledger.accounts()[0]
            ledger.charge(charge_of(account, epsilon, key or f"{self.name} {ledger.head().sequence}"))

    def restore(self, other: Machine, *, accept: bool = False) -> Restored:
        stamp = len(list(self.folder.glob("aside*")))
        aside = self.folder / f"aside {stamp}"
        return restore_ledger(other.copy, self.place.url, mark=self.place.mark, **WHO, accept=accept, aside=aside)

    def lose(self) -> None:
        """The ledger is gone, and the mark is not."""
        drop(self.place)

    @property
    def spent(self) -> Fraction:
        with self.place.open() as ledger:
            assert ledger.verify().is_sound
            return ledger.accounts()[0].spent


def drop(place: Place) -> None:
    if place.is_sqlite:
        for file in Path(place.url.removeprefix("sqlite:///")).parent.iterdir():
            file.unlink()
    else:
        import psycopg

        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA blowfish_ledger CASCADE")


@pytest.fixture
def machines(place: Place, tmp_path: Path) -> tuple[Machine, Machine]:
    """One machine of each store with 1/2 spent and a backup of that; and another one, in SQLite, with nothing."""
    one = Machine(place, tmp_path, "one")
    two = Machine(Place(f"sqlite:///{tmp_path}/two/ledger.db", tmp_path / "two's mark"), tmp_path, "two")
    with place.open() as ledger:
        opened(ledger, 9)
    one.spend("1/2")
    one.back_up()
    return one, two


@pytest.mark.parametrize("first, second", [("3", "1/4"), ("1/4", "3"), ("3", "3")])
@pytest.mark.parametrize("is_lost", [False, True], ids=["ledger here", "mark alone"])
def test_two_branches_are_refused_and_accepted_with_the_sum_of_both(
    machines: tuple[Machine, Machine], first: str, second: str, is_lost: bool
) -> None:
    """Whichever of them is longer, and whether the entries of the other are still here or its mark alone is."""
    one, two = machines
    two.restore(one, accept=True)
    for part in range(6 if first == "3" else 1):
        one.spend(Fraction(first) / (6 if first == "3" else 1), f"part {part}")
    two.spend(second)
    two.back_up()
    if is_lost:
        one.lose()
    with pytest.raises(BackupRefused, match=r"another history .* parted after entry 3.*together they have lost more"):
        one.restore(two)
    done = one.restore(two, accept=True)
    total = Fraction(1, 2) + Fraction(first) + Fraction(second)
    assert [spent.amount for spent in done.counted.values()] == [total]
    assert one.spent == total
    # What was counted once is not counted again, by whatever way it comes back.
    one.back_up()
    two.restore(one, accept=True)
    assert two.spent == total
    two.spend("1/8")
    two.back_up()
    one.lose()
    one.restore(two)
    assert one.spent == total + Fraction(1, 8)


def test_a_copy_of_a_machine_that_went_on_beside_it_is_a_branch_too(machines: tuple[Machine, Machine]) -> None:
    """Ledger and mark were copied together, so both went on under one mark; each made the same noise more accurate."""
    one, two = machines
    with one.place.open() as ledger:
        account = ledger.accounts()[0]
        receipt = ledger.charge(linked(charge_of(account, "1/4", "coarse"), "1/4"))
        ledger.store_answer(receipt, b"coarse", Publication(frozenset(), "content"))
        back_up_ledger(ledger, Path(two.place.url.removeprefix("sqlite:///")))
        shutil.copy(one.place.mark, two.place.mark)
    for machine in (one, two):
        with machine.place.open() as ledger:
            fine = linked(charge_of(account, "3/4", "fine"), "1")
            ledger.store_answer(ledger.charge(fine), b"fine", Publication(frozenset({receipt.sequence}), "content"))
    two.spend("1/8")
    two.back_up()
    with pytest.raises(BackupRefused, match="parted after entry 5"):
        one.restore(two)
    one.restore(two, accept=True)
    # Given the coarse value, the second fine one loses up to 1 + 1/4 and not the 3/4 that were charged.
    assert one.spent == Fraction(1, 2) + Fraction(1, 4) + Fraction(3, 4) + Fraction(5, 4) + Fraction(1, 8)


def test_copies_without_a_chain_in_common_are_added_up_as_they_are(machines: tuple[Machine, Machine]) -> None:
    one, two = machines
    with one.place.open() as ledger:
        back_up_ledger(ledger, Path(two.place.url.removeprefix("sqlite:///")))
        shutil.copy(one.place.mark, two.place.mark)
    one.spend("1")
    two.spend("2")
    two.back_up()
    one.restore(two, accept=True)
    assert one.spent == Fraction(7, 2)


def test_branches_under_different_policies_are_never_added_up(machines: tuple[Machine, Machine]) -> None:
    one, two = machines
    two.restore(one, accept=True)
    one.spend("1")
    two.spend("1")
    with two.place.open() as ledger:
        account = ledger.accounts()[0]
        ledger.new_version(account, "policy", '{"new": 1}', Fraction(1), by="cora", reason="other secrets")
    two.back_up()
    with pytest.raises(BackupRefused, match="differs between the two"):
        one.restore(two, accept=True)


def test_a_policy_that_changed_before_anything_was_charged_is_not_the_copys(place: Place, tmp_path: Path) -> None:
    """The copy's account was never charged, and has the old policy; what was lost since is about another one."""
    one = Machine(place, tmp_path, "one")
    with place.open() as ledger:
        account = opened(ledger, 6)
        back_up_ledger(ledger, one.copy)
        ledger.new_version(account, "policy", '{"new": 1}', None, by="cora", reason="before the first question")
        ledger.charge(charge_of(ledger.accounts()[0], 1, "a"))
    with pytest.raises(BackupRefused, match="policy or the domain of a dataset was changed"):
        one.restore(one)


def test_an_accepted_ledger_counts_what_its_mark_knows(machines: tuple[Machine, Machine]) -> None:
    """A copy that was put in place by hand, behind the mark or beside it."""
    one, two = machines
    with one.place.open() as ledger:
        back_up_ledger(ledger, Path(two.place.url.removeprefix("sqlite:///")))
    one.spend("2")
    shutil.copy(one.place.mark, two.place.mark)
    with pytest.raises(LedgerRolledBack):
        two.place.open()
    accept_restored_ledger(two.place.url, mark=two.place.mark, **WHO)
    assert two.spent == Fraction(5, 2)


def test_a_backup_that_is_put_back_twice_is_no_other_history(machines: tuple[Machine, Machine]) -> None:
    """The mark has begun a new era by then, and knows where."""
    one, _ = machines
    one.spend("1")
    for _ in range(3):
        one.lose()
        one.restore(one)
        one.spend("1/4")
    assert one.spent == Fraction(1, 2) + 1 + 3 * Fraction(1, 4)


def test_a_ledger_that_does_not_add_up_is_replaced_by_its_backup(machines: tuple[Machine, Machine]) -> None:
    """Its entries contradict each other, so they are no other history."""
    one, _ = machines
    one.spend("1")
    with closing(open_store(one.place.url)) as store, store.write() as cursor:
        cursor.rows("UPDATE entry SET hash = ? WHERE sequence = 2", "0" * 64)
    one.restore(one)
    assert one.spent == Fraction(3, 2)


def test_a_drill_releases_nothing_until_a_curator_accepts_it(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    one, two = machines
    with one.place.open() as ledger:
        account = ledger.accounts()[0]
        receipt = ledger.charge(charge_of(account, "1/4", "answered"))
        ledger.store_answer(receipt, b"noisy")
        (tmp_path / "copy of one").unlink()
        back_up_ledger(ledger, one.copy)
    drill = {"mark": two.place.mark, **WHO, "drill": True}
    done = restore_ledger(one.copy, two.place.url, **drill)
    assert done.known_until == done.head.sequence - 1
    with two.place.open() as ledger:
        for charge in (charge_of(account, "1/8", "new"), charge_of(account, 0, "exact"), receipt.charge):
            with pytest.raises(DrillCopy, match="nothing charged"):
                ledger.charge(charge)
            with pytest.raises(DrillCopy):
                ledger.charge_all([charge])
        stored = ledger.replay(account.id, "request-answered", analyst="ana")
        assert stored is not None and stored.payload == b"noisy"
        assert ledger.verify().is_sound
    # Another drill over it, and then it becomes the ledger that counts.
    restore_ledger(one.copy, two.place.url, **drill, aside=tmp_path / "the first drill")
    accept_restored_ledger(two.place.url, mark=two.place.mark, **WHO)
    two.spend("1/8")
    assert two.spent == Fraction(7, 8)
    for place in (one.place, two.place, Place(f"sqlite:///{tmp_path}/third/ledger.db", one.place.mark)):
        with pytest.raises(BackupRefused, match="A drill has a ledger and a mark of its own"):
            restore_ledger(one.copy, place.url, mark=place.mark, **WHO, drill=True, aside=tmp_path / "never")
    one.spend("1/8")


def test_what_is_unknown_after_a_checkpoint_is_on_record(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    """The checkpoint is older than the truth, and nobody can tell; so it says how far it goes."""
    one, two = machines
    one.spend("1/8")
    with one.place.open() as ledger:
        seen = ledger.seen()
        (tmp_path / "signed").write_text(
            sign_checkpoint(seen.head, "now", tmp_path / "key", seen.spending, seen.eras)[0]
        )
        _, key = sign_checkpoint(seen.head, "now", tmp_path / "key")
    one.spend("1")
    signed = read_checkpoint_file(tmp_path / "signed", key)
    done = restore_ledger(one.copy, two.place.url, mark=two.place.mark, **WHO, checkpoint=signed)
    assert (done.known_until, two.spent) == (seen.head.sequence, Fraction(5, 8))
    with two.place.open() as ledger:
        assert [entry.fields["known_until"] for entry in ledger.restores()] == [4]
    one.lose()
    assert one.restore(one).known_until is None
