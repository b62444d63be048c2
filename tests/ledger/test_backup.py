"""A copy of a ledger, made while it is charged and put back later: what was spent in between is never forgotten."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.errors import (
    AccountConflict,
    BackupRefused,
    BudgetExceeded,
    ChangeRefused,
    LedgerCorrupt,
    LedgerRolledBack,
    LedgerUnavailable,
)
from blowfishdb.ledger import Ledger
from blowfishdb.ledger.backup import back_up_ledger, check_copy, restore_ledger
from blowfishdb.ledger.mark import AREA, SLOT, FileMark, sign_checkpoint
from blowfishdb.ledger.mark import read_checkpoint_file as checkpoint_of
from blowfishdb.ledger.values import Link, Seen
from blowfishdb.ledger.verification import verify_since
from blowfishdb.ledger.watch import read_checkpoint, write_checkpoint
from blowfishdb.server.auth.database import open_database
from blowfishdb.server.auth.grants import Grants
from blowfishdb.server.auth.users import Users
from tests.ledger.support import ROOT, Place, charge_of, opened, terms

WHO = {"by": "cora", "reason": "the disk died"}


def lose(place: Place) -> None:
    """The ledger is gone, as after the loss of a disk; its mark is not."""
    if place.is_sqlite:
        for file in Path(place.url.removeprefix("sqlite:///")).parent.iterdir():
            file.unlink()
    else:
        import psycopg

        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA blowfish_ledger CASCADE")


def test_a_copy_made_while_charging_and_put_back_counts_all_that_was_released(place: Place, tmp_path: Path) -> None:
    copy, released, turn, done = tmp_path / "copy", [Fraction(0)], threading.Lock(), threading.Event()
    with place.open() as ledger:
        account = opened(ledger, 100)
        released[0] += ledger.charge(charge_of(account, "1/7", "first")).charge.epsilon

        def spend(analyst: str) -> None:
            number = 0
            while not done.is_set() or number < 3:
                number += 1
                receipt = ledger.charge(charge_of(account, Fraction(1, 7), f"{number}", analyst=analyst))
                with turn:
                    released[0] += receipt.charge.epsilon

        threads = [threading.Thread(target=spend, args=(f"analyst {n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        copied = back_up_ledger(ledger, copy)
        done.set()
        for thread in threads:
            thread.join()
        ledger.charge(charge_of(account, Fraction(1, 3), "later"))
        released[0] += Fraction(1, 3)
    assert check_copy(copy) == copied
    lose(place)
    restored = restore_ledger(copy, place.url, mark=place.mark, **WHO)
    assert restored.counted[account.id].amount == released[0]
    with place.open() as again:
        assert again.account(account.id).spent == released[0] > copied.spending[account.id].amount
        assert again.verify().is_sound
        again.charge(charge_of(account, Fraction(1, 7), "after"))
        assert list(again.entries())[-2].fields["reason"] == "the disk died"
        assert again.verify().is_sound


@pytest.mark.postgres
def test_a_copy_moves_books_and_users_to_another_kind_of_store_and_back(tmp_path: Path, postgres_url: str) -> None:
    mark = tmp_path / "elsewhere" / "mark"
    first, second, third = (
        Place(url, mark)
        for url in (f"sqlite:///{tmp_path}/books/ledger.db", postgres_url, f"sqlite:///{tmp_path}/home/ledger.db")
    )
    exact, spent = Fraction(1, 3**40), Fraction(0)
    for number, (place, after) in enumerate(((first, second), (second, third))):
        with place.open() as ledger:
            account = opened(ledger, 2) if number == 0 else ledger.accounts()[0]
            receipt = ledger.charge(charge_of(account, exact, f"before {number}"))
            ledger.store_answer(receipt, bytes(range(256)))
            back_up_ledger(ledger, tmp_path / f"copy {number}")
            ledger.charge(charge_of(account, "1/7", f"after {number}"))
            entries = list(ledger.entries())[:-1]
        spent += exact + Fraction(1, 7)
        restore_ledger(tmp_path / f"copy {number}", after.url, mark=mark, **WHO)
        with after.open() as moved:
            assert moved.account(account.id).spent == spent
            assert moved.verify().is_sound
            assert list(moved.entries())[: len(entries)] == entries, "the same chain of hashes"
            kept = moved.replay(account.id, f"request-before {number}", analyst="ana")
            assert kept is not None and kept.payload == bytes(range(256))
        with pytest.raises(LedgerRolledBack):
            place.open()
    with third.open() as back, pytest.raises(BudgetExceeded):
        back.charge(charge_of(back.accounts()[0], 2 - spent + exact, "too much"))
    here, there = (open_database(url) for url in (f"sqlite:///{tmp_path}/users", postgres_url))
    with closing(here), closing(there):
        Users(here, Grants(here)).add("ana", "analyst", None)
        Grants(here).set_group("@cardiology", ["ana"])
        here.copy(there)
        Users(here, Grants(here)).add("bob", "analyst", None)
        there.copy(here)
        assert [user.name for user in Users(here, Grants(here)).all()] == ["ana"]
        assert Grants(there).groups() == Grants(here).groups() == {"@cardiology": ["ana"]}


def two_states(place: Place, tmp_path: Path) -> tuple[Path, Ledger]:
    """A copy after the first charge of 1/4, and the ledger after a second one."""
    ledger = place.open()
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, "1/4", "a"))
    back_up_ledger(ledger, tmp_path / "copy")
    ledger.charge(charge_of(account, "1/4", "b"))
    return tmp_path / "copy", ledger


def test_a_ledger_that_is_there_is_replaced_only_on_request_and_kept(place: Place, tmp_path: Path) -> None:
    copy, ledger = two_states(place, tmp_path)
    with closing(ledger):
        with pytest.raises(BackupRefused, match="a ledger of 4 entries in this place"):
            restore_ledger(copy, place.url, mark=place.mark, **WHO)
        # Written by a process that died before it moved the mark: the ledger itself tells of it.
        content = place.mark.read_bytes()
        ledger.charge(charge_of(ledger.accounts()[0], "1/4", "c"))
        place.mark.write_bytes(content)
        done = restore_ledger(copy, place.url, mark=place.mark, **WHO, aside=tmp_path / "aside")
        assert done.aside == tmp_path / "aside"
        assert check_copy(done.aside).head.sequence == 5
        with pytest.raises(LedgerRolledBack):
            ledger.charge(charge_of(ledger.accounts()[0], "1/4", "d"))
    with place.open() as again:
        account = again.accounts()[0]
        assert (account.spent, account.charges) == (Fraction(3, 4), 1)
        with pytest.raises(BudgetExceeded):
            again.charge(charge_of(account, "1/2", "e"))


def test_a_copy_that_lacks_nothing_changes_no_balance(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        account = opened(ledger, 1)
        ledger.charge(charge_of(account, "1/4", "a"))
        back_up_ledger(ledger, tmp_path / "copy")
    lose(place)
    assert restore_ledger(tmp_path / "copy", place.url, mark=place.mark, **WHO).counted == {}
    with place.open() as again:
        assert again.account(account.id) == replace(account, spent=Fraction(1, 4), charges=1)


@pytest.mark.parametrize("accounting", ["sum", "per-edge"])
def test_renewals_and_classes_of_edges_since_the_copy(place: Place, tmp_path: Path, accounting: str) -> None:
    """The worst class may be another one by now, so every class counts what the worst had lost."""
    with place.open() as ledger:
        account = opened(ledger, 1)
        if accounting != "sum":
            account = ledger.set_accounting(account, accounting, by="cora", reason="classes")
        charge = replace(charge_of(account, 1, "a"), losses={"age": Fraction(1), "ward": Fraction(0)})
        ledger.charge(charge)
        back_up_ledger(ledger, tmp_path / "copy")
        account = ledger.renew(account.id, Fraction(3), by="cora", reason="more")
        for key in ("b", "c"):
            ledger.charge(replace(charge, key=key, losses={"age": Fraction(0), "ward": Fraction(1)}))
        spent = ledger.account(account.id).spent
    assert spent == (3 if accounting == "sum" else 2)
    lose(place)
    restore_ledger(tmp_path / "copy", place.url, mark=place.mark, **WHO)
    with place.open() as again:
        account = again.account(account.id)
        assert (account.spent, account.limit) == (spent, spent)
        assert again.room(account.id, "ana", ["ward"])[0] == again.room(account.id, "ana", ["age"])[0] == 0
        assert again.verify().is_sound


def test_chains_end_and_something_was_charged(place: Place, tmp_path: Path) -> None:
    """A lost draw may have gone on from the chain that the copy has, and a lost exact answer costs nothing."""
    with place.open() as ledger:
        account, other = opened(ledger, 1), ledger.register(terms(1, identity="b"), name="b", by="cora")
        ledger.charge(replace(charge_of(account, "1/4", "a"), link=Link("rows.1", Fraction(1, 4), Fraction(1, 4))))
        back_up_ledger(ledger, tmp_path / "copy")
        ledger.charge(charge_of(other, 0, "exact"))
    lose(place)
    restore_ledger(tmp_path / "copy", place.url, mark=place.mark, **WHO)
    with place.open() as again:
        assert again.links(account.id, "rows") == []
        assert again.account(other.id).charges == 1
        with pytest.raises(ChangeRefused, match="may have told them apart"):
            again.new_version(again.account(other.id), "policy", '{"new": 1}', None, by="cora", reason="no")


def test_an_account_that_the_copy_does_not_have_opens_with_what_it_lost(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        opened(ledger, 2)
        back_up_ledger(ledger, tmp_path / "copy")
        for accounting in ("sum", "per-edge"):
            late = replace(terms(2, identity=accounting), accounting=accounting)
            ledger.charge(charge_of(ledger.register(late, name=accounting, by="cora"), "3/2", "a"))
    lose(place)
    restore_ledger(tmp_path / "copy", place.url, mark=place.mark, **WHO)
    with place.open() as again:
        for changed, what in (
            (terms(1, identity="sum"), "lost 3/2"),
            (terms(2, identity="sum", policy="[]"), "policy"),
        ):
            with pytest.raises(AccountConflict, match=what):
                again.register(changed, name="late", by="cora")
        with again.store.read() as cursor:
            write_checkpoint(tmp_path / "state", verify_since(cursor, None, None)[1])
            state = read_checkpoint(tmp_path / "state")
        assert state is not None and [spent.amount for (spent,) in state.state.lost.values()] == [Fraction(3, 2)] * 2
        for accounting in ("sum", "per-edge"):
            late = replace(terms(2, identity=accounting), accounting=accounting)
            account = again.register(late, name=accounting, by="cora")
            assert (account.spent, account.charges) == (Fraction(3, 2), 1)
            with pytest.raises(BudgetExceeded):
                again.charge(charge_of(account, 1, "b"))
        assert again.verify().is_sound
        assert verify_from(again, state)


def verify_from(ledger: Ledger, start: object) -> bool:
    with ledger.store.read() as cursor:
        return verify_since(cursor, None, start)[0].is_sound  # type: ignore[arg-type]


def test_an_account_opened_as_if_nothing_was_lost_is_found(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        opened(ledger, 2)
        back_up_ledger(ledger, tmp_path / "copy")
        late = ledger.register(terms(2, identity="late"), name="late", by="cora")
        ledger.charge(charge_of(late, 1, "a"))
    lose(place)
    restore_ledger(tmp_path / "copy", place.url, mark=place.mark, **WHO)
    with place.open() as again:
        late = again.register(terms(2, identity="late"), name="late", by="cora")
        with again.store.write() as cursor:
            cursor.rows("UPDATE account SET spent_units = ? WHERE id = ?", "0", late.id)
        assert "spent budget is 0" in str(again.verify().fault)


def test_what_is_not_known_is_refused_unless_somebody_answers_for_it(place: Place, tmp_path: Path) -> None:
    copy, ledger = two_states(place, tmp_path)
    account = ledger.accounts()[0]
    with closing(ledger):
        seen = ledger.seen()
        text, key = sign_checkpoint(seen.head, "now", tmp_path / "key", seen.spending, seen.eras)
        (tmp_path / "signed").write_text(text)
        bare, _ = sign_checkpoint(ledger.head(), "now", tmp_path / "key")
        (tmp_path / "bare").write_text(bare)
    lose(place)
    elsewhere = tmp_path / "another machine" / "mark"
    with pytest.raises(BackupRefused, match=r"no high-water mark .*--checkpoint"):
        restore_ledger(copy, place.url, mark=elsewhere, **WHO)
    with pytest.raises(BackupRefused, match="entry 4 had been written"):
        restore_ledger(copy, place.url, mark=elsewhere, **WHO, checkpoint=checkpoint_of(tmp_path / "bare", key))
    restore_ledger(copy, place.url, mark=elsewhere, **WHO, checkpoint=checkpoint_of(tmp_path / "signed", key))
    with Place(place.url, elsewhere).open() as again:
        assert again.account(account.id).spent == Fraction(1, 2)
    with pytest.raises(LedgerRolledBack):
        place.open()
    restore_ledger(copy, place.url, mark=elsewhere, **WHO, accept=True, aside=tmp_path / "aside")
    with Place(place.url, elsewhere).open() as again:
        assert again.account(account.id).spent == Fraction(1, 2)


def test_other_histories_marks_and_policies_are_refused(place: Place, tmp_path: Path) -> None:
    copy, ledger = two_states(place, tmp_path)
    account, head = ledger.accounts()[0], ledger.head()
    restore = {"mark": place.mark, **WHO, "aside": tmp_path / "aside"}
    with closing(ledger):
        mark = FileMark(place.mark)
        seen = mark.seen()
        assert seen is not None
        mark.replace(replace(head, ledger="another"), None, {})
        with pytest.raises(BackupRefused, match="belongs to another ledger"):
            restore_ledger(copy, place.url, **restore)
        mark.replace(replace(head, sequence=2, hash="0" * 64), None, {})
        with pytest.raises(BackupRefused, match="another history"):
            restore_ledger(copy, place.url, **restore)
        mark.replace(head, None, seen.spending)
        ledger.new_version(account, "policy", '{"new": 1}', Fraction(1), by="cora", reason="other secrets")
        with pytest.raises(BackupRefused, match="policy or the domain of a dataset was changed"):
            restore_ledger(copy, place.url, **restore)
        mark.path.write_bytes(b"torn")
    with pytest.raises(BackupRefused, match="no high-water mark"):
        restore_ledger(copy, place.url, **restore)
    assert check_copy(tmp_path / "aside").head.sequence == 5
    restore_ledger(copy, place.url, **restore, accept=True)
    with place.open() as again:
        assert (again.accounts()[0].spent, again.verify().is_sound) == (Fraction(1, 2), True)


def test_a_copy_that_was_changed_is_not_put_back(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, ledger = two_states(place, tmp_path)
    ledger.close()
    with closing(sqlite3.connect(copy)) as changed:
        changed.execute("UPDATE account SET spent_units = '0'")
        changed.commit()
    with pytest.raises(LedgerCorrupt, match="not sound"):
        restore_ledger(copy, place.url, mark=place.mark, **WHO, aside=tmp_path / "aside")
    with place.open() as again:
        assert again.accounts()[0].spent == Fraction(1, 2)
        monkeypatch.setattr("blowfishdb.ledger.backup._copy", lambda source, target, schema: None)
        with pytest.raises(LedgerCorrupt, match="not sound"):
            back_up_ledger(again, tmp_path / "nothing")


def test_a_ledger_that_would_not_verify_is_not_put_back(place: Place, tmp_path: Path) -> None:
    copy, ledger = two_states(place, tmp_path)
    ledger.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blowfishdb.ledger.histories.count_restored", lambda cursor, account, lost: None)
        with pytest.raises(LedgerCorrupt, match="spent budget"):
            restore_ledger(copy, place.url, mark=place.mark, **WHO, aside=tmp_path / "aside")
    with place.open() as again:
        assert again.head().sequence == 4


DIE = """
import os, signal, sys
from pathlib import Path
from blowfishdb.ledger import backup, mark
from blowfishdb.server.auth.database import open_database
from blowfishdb.server.auth.grants import Grants
from blowfishdb.server.auth.users import Users
from tests.ledger.support import Place

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

step, url, marked, copy, aside = sys.argv[1:]
if step == "written":
    backup.verify_since_was, backup.verify_since = backup.verify_since, lambda cursor, *rest: (
        backup.verify_since_was(cursor, *rest) if cursor.head().sequence < 4 else die())
elif step == "committed":
    mark.FileMark.replace = die
elif step == "marked":
    usual = mark.FileMark.replace
    mark.FileMark.replace = lambda *arguments: (usual(*arguments), die())
elif step == "copied":
    backup._checked = die
    with Place(url, Path(marked)).open() as ledger:
        backup.back_up_ledger(ledger, Path(aside))
backup.restore_ledger(Path(copy), url, mark=Path(marked), by="cora", reason="again", aside=Path(aside))
"""


@pytest.mark.parametrize("step", ["written", "committed", "marked", "copied"])
def test_a_process_killed_in_the_middle_loses_nothing(place: Place, tmp_path: Path, step: str) -> None:
    if not place.is_sqlite and step not in ("written", "committed"):
        return
    copy, ledger = two_states(place, tmp_path)
    ledger.close()
    command = [sys.executable, "-c", DIE, step, place.url, str(place.mark), str(copy), str(tmp_path / "aside")]
    ended = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": f"{ROOT}/src:{ROOT}", "PATH": "/usr/bin"}, check=False)
    assert ended.returncode == -9
    if step == "committed":
        with pytest.raises(LedgerRolledBack):
            place.open()
    else:
        with place.open() as again:
            assert again.accounts()[0].spent == Fraction(1, 2)
    restore_ledger(copy, place.url, mark=place.mark, **WHO, aside=tmp_path / "aside again")
    with place.open() as again:
        assert (again.accounts()[0].spent, again.verify().is_sound) == (Fraction(1, 2), True)


def test_a_mark_without_spending_is_believed_as_far_as_it_goes(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path}/books/ledger.db", tmp_path / "mark")
    copy, ledger = two_states(place, tmp_path)
    ledger.close()
    mark = FileMark(place.mark)
    seen = mark.seen()
    assert seen is not None and seen.spending is not None
    # Moved by a version that knew nothing of spending, or torn in the middle: nothing is taken for all there is.
    mark.advance(replace(seen.head, sequence=5, hash="x"))
    assert mark.seen() == Seen(replace(seen.head, sequence=5, hash="x"), None)
    lose(place)
    with pytest.raises(BackupRefused, match="entry 5 had been written"):
        restore_ledger(copy, place.url, mark=place.mark, **WHO)
    mark.replace(seen.head, None, seen.spending)
    content = bytearray(place.mark.read_bytes())
    for slot in (0, 1):
        content[2 * SLOT + slot * AREA + 70] ^= 1
    place.mark.write_bytes(content)
    assert mark.seen() == Seen(seen.head, None)
    with pytest.raises(LedgerUnavailable, match="cannot hold"):
        mark.replace(seen.head, None, {f"{n:064}": seen.spending[next(iter(seen.spending))] for n in range(30_000)})
