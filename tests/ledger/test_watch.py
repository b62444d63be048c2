"""Balances are checked before a ledger is used: damage behind its back stops charges and replays, typed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.errors import LedgerCorrupt, LedgerRolledBack
from blowfishdb.ledger import Account, Ledger
from blowfishdb.ledger.charges import ensure_analyst
from blowfishdb.ledger.values import Head
from blowfishdb.ledger.verification import Checkpoint, LedgerState, verify_since
from blowfishdb.ledger.watch import EVERY, LedgerWatch, read_checkpoint, write_checkpoint
from tests.ledger.support import Place, charge_of, opened
from tests.ledger.test_verification import busy_ledger

DAMAGES = {
    "spent": "UPDATE account SET spent_units = '0'",
    "own": "UPDATE analyst SET spent_units = '0'",
    "limit": "UPDATE account SET limit_top = '50'",
    "middle": "DELETE FROM entry WHERE sequence = 5",
    "hash": "UPDATE entry SET hash = previous_hash WHERE sequence = 4",
}


def damaged(ledger: Ledger, statement: str) -> None:
    with ledger.store.write() as cursor:
        cursor.rows(statement)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_ledger_gives_no_receipt_and_no_stored_answer(place: Place, name: str) -> None:
    with place.open() as ledger:
        account = busy_ledger(ledger)
        damaged(ledger, DAMAGES[name])
    with place.open() as ledger:
        for use in _uses(ledger, account):
            with pytest.raises(LedgerCorrupt):
                use()
        assert not ledger.verify().is_sound
        assert ledger.head().sequence == 9


def _uses(ledger: Ledger, account: Account) -> list[Callable[[], object]]:
    return [
        lambda: ledger.charge(charge_of(account, "1/100", "new")),
        lambda: ledger.charge(charge_of(account, "1/100", "first", analyst="new")),
        lambda: ledger.replay(account.id, "request-a"),
        lambda: ledger.renew(account.id, Fraction(100), by="cora", reason="more"),
    ]


BALANCES = {
    "spent": "UPDATE account SET spent_units = '0'",
    "own": "UPDATE analyst SET spent_units = '0' WHERE name = 'ana'",
    "limit": "UPDATE account SET limit_top = '50'",
    "own limit": "UPDATE analyst SET limit_top = '50', limit_bottom = '1' WHERE name = 'ana'",
    "charges": "UPDATE account SET charges = 0",
    "vanished": "DELETE FROM analyst WHERE name = 'ana'",
}
"""What somebody may change by hand under a running server to have more."""


@pytest.mark.parametrize("name", BALANCES)
def test_a_balance_changed_by_hand_is_noticed_at_the_next_charge(
    place: Place, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever asks is told that, and not what: other people's names and balances are for the curator's log."""
    with place.open() as ledger:
        account = opened(ledger, 1, Fraction(1, 2))
        ledger.store_answer(ledger.charge(charge_of(account, "1/2", "a")), b"noisy")
        damaged(ledger, BALANCES[name])
        with pytest.raises(LedgerCorrupt, match="do not add up") as told:
            ledger.charge(charge_of(account, "1/2", "b"))
        assert account.id not in str(told.value)
        assert not ledger.verify().is_sound
        assert ledger.head().sequence == 4
    assert account.id in caplog.text


def test_damage_elsewhere_is_found_within_a_minute(place: Place) -> None:
    seconds = [0.0]
    with place.open() as first:
        watch = LedgerWatch(Path("nowhere"), clock=lambda: seconds[0])
        ledger = Ledger(first.store, first.mark, first.mark_id, first.id, watch)
        account = opened(ledger, 1)
        ledger.charge(charge_of(account, "1/10", "a", analyst="bob"))
        ledger.charge(charge_of(account, "1/10", "a"))
        damaged(ledger, "UPDATE analyst SET spent_units = '0' WHERE name = 'bob'")
        seconds[0] = EVERY - 1
        ledger.charge(charge_of(account, "1/10", "b"))
        seconds[0] = EVERY
        with pytest.raises(LedgerCorrupt, match="do not add up"):
            ledger.charge(charge_of(account, "1/10", "c"))


@pytest.mark.parametrize("seconds", [0.0, EVERY])
def test_ledger_and_mark_taken_back_together_under_a_running_server_are_noticed(place: Place, seconds: float) -> None:
    """The server itself remembers what it saw."""
    now = [0.0]
    with place.open() as first:
        watch = LedgerWatch(Path("nowhere"), clock=lambda: now[0])
        ledger = Ledger(first.store, first.mark, first.mark_id, first.id, watch)
        account = opened(ledger, 1)
        head = ledger.head()
        ledger.charge(charge_of(account, "1/2", "a", analyst="bob"))
        ledger.charge(charge_of(account, "1/4", "b", analyst="bob"))
        with ledger.store.write() as cursor:
            cursor.rows("DELETE FROM entry WHERE sequence > 2")
            cursor.rows("UPDATE head SET sequence = 2, hash = ?", head.hash)
            cursor.rows("UPDATE account SET charges = 0, spent_units = '0'")
            cursor.rows("DELETE FROM analyst")
        ledger.mark.replace(head)
        assert ledger.verify().is_sound
        now[0] = seconds
        with pytest.raises(LedgerRolledBack):
            ledger.charge(charge_of(account, 1, "c"))


def test_a_missing_balance_is_not_opened_again_at_nothing(ledger: Ledger) -> None:
    """Found by the write itself, after the look before it."""
    account = opened(ledger, 1, Fraction(1, 2))
    ledger.charge(charge_of(account, "1/2", "a"))
    damaged(ledger, "DELETE FROM analyst")
    with ledger.store.write() as cursor, pytest.raises(LedgerCorrupt, match="no balance"):
        ensure_analyst(cursor, account, "ana")


def test_a_ledger_that_regrew_on_another_past_is_refused(place: Place) -> None:
    """An older copy that was written to until it was longer than the mark is still another ledger."""
    with place.open() as ledger:
        account = opened(ledger, 1)
        for key in "abc":
            ledger.charge(charge_of(account, "1/100", key, analyst="bob"))
        mark = place.mark.read_bytes()
        with ledger.store.write() as cursor:
            cursor.rows("DELETE FROM entry WHERE sequence > 3")
            cursor.rows("UPDATE head SET sequence = 3, hash = (SELECT hash FROM entry WHERE sequence = 3)")
            cursor.rows("UPDATE account SET charges = 1, spent_units = spent_units / 3")
            cursor.rows("UPDATE analyst SET spent_units = spent_units / 3")
        place.mark.unlink()
        for number in range(4):
            with pytest.raises(LedgerRolledBack):
                ledger.charge(charge_of(account, "1/100", f"without mark {number}"))
        place.mark.write_bytes(mark)
        for number in range(6):
            with pytest.raises(LedgerRolledBack):
                ledger.charge(charge_of(account, "1/100", f"older {number}"))


def test_a_checkpoint_reads_back_and_saves_the_way(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        account = busy_ledger(ledger)
        ledger.set_accounting(ledger.account(account.id), "per-edge", by="cora", reason="finer")
        with ledger.store.read() as cursor:
            found, reached = verify_since(cursor, None, None)
            assert found.is_sound
            write_checkpoint(tmp_path / "kept", reached)
            again = read_checkpoint(tmp_path / "kept")
            assert again == reached
            # From the checkpoint on there is nothing to replay, and every balance is still compared.
            assert verify_since(cursor, None, again)[0] == found
        with ledger.store.write() as cursor:
            cursor.rows("UPDATE account SET spent_units = '0'")
            fault = verify_since(cursor, None, read_checkpoint(tmp_path / "kept"))[0].fault
            assert fault is not None
            assert "spent budget" in fault.reason


def test_a_checkpoint_that_was_changed_or_belongs_elsewhere_is_not_believed(ledger: Ledger, tmp_path: Path) -> None:
    opened(ledger, 1)
    path = tmp_path / "kept"
    write_checkpoint(path, Checkpoint(Head(ledger.id, 2, "x"), LedgerState()))
    path.write_text(path.read_text().replace('\\"answers\\": 0', '\\"answers\\": 1'))
    assert read_checkpoint(path) is None
    path.write_text("{}")
    assert read_checkpoint(path) is None
    with ledger.store.read() as cursor:
        fault = verify_since(cursor, None, Checkpoint(Head("another", 1, "x"), LedgerState()))[0].fault
    assert fault is not None
    write_checkpoint(path, Checkpoint(Head(ledger.id, 2, "not its hash"), LedgerState()))
    LedgerWatch(path).check(ledger.store, lambda: None, None, None)
    write_checkpoint(tmp_path / "no folder" / "checkpoint", Checkpoint(ledger.head(), LedgerState()))


def test_a_wrong_checkpoint_stops_no_sound_ledger(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "kept"
    opened(ledger, 1)
    write_checkpoint(path, Checkpoint(ledger.head(), LedgerState()))
    assert path.stat().st_mode & 0o077 == 0
    LedgerWatch(path).check(ledger.store, lambda: None, None, None)
    damaged(ledger, "UPDATE account SET limit_top = '50'")
    with pytest.raises(LedgerCorrupt):
        LedgerWatch(path).check(ledger.store, lambda: None, None, None)


def test_checkpoints_are_kept_as_the_ledger_grows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blowfishdb.ledger.watch.CHECKPOINT_EVERY", 4)
    with place.open() as ledger:
        account = busy_ledger(ledger)
    for key in ("x", "y"):
        with place.open() as ledger:
            ledger.charge(charge_of(account, "1/100", key, analyst="bob"))
            kept = read_checkpoint(ledger.mark.checkpoint_path)
            assert kept is not None
            assert kept.head.sequence == 9
            assert ledger.verify().is_sound
