"""Many processes and sudden deaths: never a nano-epsilon over, every receipt on record, the charge or nothing."""

from __future__ import annotations

import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.errors import BudgetExceeded, LedgerUnavailable
from blowfishdb.ledger import Ledger
from blowfishdb.ledger.mark import acquire, in_turn
from blowfishdb.ledger.records import BEGUN, COMMITTED, DEBITED, MARKED, STEPS
from tests.ledger.support import Place, charge_of, opened

WORKERS = 16
ANALYSTS = 4


def test_sixteen_processes_spend_exactly_what_there_is(place: Place) -> None:
    """240 attempts at 1/100: the account allows 90 in all, each of four analysts at most 25."""
    with place.open() as ledger:
        account = opened(ledger, Fraction(9, 10), Fraction(1, 4))
        swarm = place.start("swarm", WORKERS, ANALYSTS, 15, "1/100")
        receipts = [int(line) for line in swarm.communicate(timeout=120)[0].split()]
        assert swarm.returncode == 0
        after = ledger.account(account.id)
        assert (after.spent, after.charges, len(receipts)) == (Fraction(9, 10), 90, 90)
        assert sorted(receipts) == list(range(3, 93))
        assert all(budget.spent <= Fraction(1, 4) for budget in ledger.analysts(account.id))
        with pytest.raises(BudgetExceeded):
            ledger.charge(charge_of(account, Fraction(1, 10**9), "nano", analyst="new"))
        assert ledger.verify().is_sound
        assert ledger.mark.read() == ledger.head()


def test_threads_of_one_process_share_a_ledger(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    paid: list[int] = []

    def spend(name: str) -> None:
        for number in range(12):
            try:
                paid.append(ledger.charge(charge_of(account, "1/50", f"{name}-{number}", analyst=name)).sequence)
            except BudgetExceeded:
                continue

    threads = [threading.Thread(target=spend, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paid)) == len(paid) == 50
    assert ledger.verify().is_sound


def test_death_at_any_step_of_a_charge_leaves_the_charge_or_nothing(place: Place) -> None:
    """Five processes die, each at another step and with a key of its own."""
    with place.open() as ledger:
        account = opened(ledger, 1)
        worker = place.start("charge", *STEPS)
        worker.communicate(timeout=60)
        assert worker.returncode == 0
        found = ledger.account(account.id)
        assert (found.spent, found.charges) == (Fraction(2, 10), 2)
        assert ledger.verify().is_sound
    with place.open() as ledger:
        receipts = {step: ledger.charge(charge_of(account, "1/10", step)) for step in STEPS}
        assert {step for step, receipt in receipts.items() if not receipt.is_new} == {COMMITTED, MARKED}
        assert [ledger.answer_for(receipt) for receipt in receipts.values()] == [None] * len(STEPS)
        assert ledger.account(account.id).spent == Fraction(5, 10)
        assert ledger.verify().is_sound


def test_death_while_storing_an_answer_keeps_the_charge(place: Place) -> None:
    with place.open() as ledger:
        account = opened(ledger, 1)
        worker = place.start("answer", BEGUN, COMMITTED, MARKED)
        worker.communicate(timeout=60)
        assert worker.returncode == 0
        assert ledger.account(account.id).spent == Fraction(3, 10)
        receipts = {step: ledger.charge(charge_of(account, "1/10", step)) for step in (BEGUN, COMMITTED, MARKED)}
        assert not any(receipt.is_new for receipt in receipts.values())
        stored = {step: ledger.answer_for(receipt) for step, receipt in receipts.items()}
        assert stored == {BEGUN: None, COMMITTED: b"committed", MARKED: b"marked"}
        assert ledger.verify().is_sound


def test_every_receipt_that_was_seen_outlives_its_process(place: Place) -> None:
    with place.open() as ledger:
        account = opened(ledger, 1000)
        workers = [place.start("hammer", "ana", f"w{n}", 10_000, "1/10") for n in range(3)]
        seen: list[int] = []
        for worker in workers:
            assert worker.stdout is not None
            seen += [int(worker.stdout.readline()) for _ in range(5)]
        for worker in workers:
            worker.kill()
        for worker in workers:
            with worker:
                assert worker.stdout is not None
                seen += [int(line) for line in worker.stdout.read().split()]
        charged = {entry.sequence for entry in ledger.entries() if entry.kind == "charge"}
        assert set(seen) <= charged
        assert len(charged) <= len(seen) + len(workers)
        # A server may finish the last statement of a dead client at any time, so the sums are compared in one view.
        assert ledger.verify().is_sound
        ledger.charge(charge_of(account, "1/10", "still works"))


def test_a_lock_gives_up_at_its_deadline_and_is_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with in_turn(path, 5):
        with pytest.raises(LedgerUnavailable), in_turn(path, 0.05):
            pytest.fail("two holders")
        with pytest.raises(LedgerUnavailable):
            acquire(tmp_path / "no folder" / "lock", 0.1)
    with in_turn(path, 5):
        pass


def test_who_waits_comes_before_who_had_it(tmp_path: Path) -> None:
    path, order = tmp_path / "ledger.db", []
    waiting = threading.Event()

    def wait_for_it() -> None:
        waiting.set()
        with in_turn(path, 20):
            order.append("waiter")

    with in_turn(path, 5):
        thread = threading.Thread(target=wait_for_it)
        thread.start()
        waiting.wait(5)
        # Until the waiter holds the turn, the last holder could not know of it.
        while not _is_held(path.with_name(path.name + "-turn")):
            time.sleep(0.001)
    with in_turn(path, 20):
        order.append("again")
    thread.join()
    assert order == ["waiter", "again"]


def _is_held(path: Path) -> bool:
    import fcntl
    import os

    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def test_a_debit_step_is_inside_the_transaction(place: Place) -> None:
    """The hook that the death tests rely on is really called between debit and commit."""
    steps: list[str] = []
    with place.open(steps.append) as ledger:
        account = opened(ledger, 1)
        steps.clear()
        ledger.charge(charge_of(account, "1/10", "a"))
    assert steps == list(STEPS)
    assert steps.index(DEBITED) < steps.index(COMMITTED)
