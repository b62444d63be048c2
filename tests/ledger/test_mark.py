"""The high-water mark and signed checkpoints: a restored, exchanged or rewritten ledger is noticed."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from blowfishdb.errors import CatalogError, LedgerRolledBack, LedgerUnavailable
from blowfishdb.ledger import Head, accept_restored_ledger, default_mark, open_ledger
from blowfishdb.ledger.mark import SLOT, FileMark, read_checkpoint_file, sign_checkpoint
from blowfishdb.ledger.values import Seen
from tests.ledger.support import Place, charge_of, opened


def at(sequence: int, hash: str = "", ledger: str = "one") -> Head:
    return Head(ledger, sequence, hash or f"hash {sequence}")


def test_the_mark_only_rises(tmp_path: Path) -> None:
    mark = FileMark(tmp_path / "new folder" / "mark")
    assert mark.read() is None
    for sequence in (0, 3, 1, 7, 7, 2):
        mark.advance(at(sequence))
    assert mark.read() == at(7)
    with pytest.raises(LedgerRolledBack):
        mark.advance(at(7, "another history"))
    with pytest.raises(LedgerRolledBack):
        mark.advance(at(9, ledger="two"))
    mark.replace(at(2))
    assert mark.read() == at(2)
    first = FileMark(tmp_path / "first")
    first.advance(at(1))
    for other in (at(1, "another history"), at(2, ledger="two")):
        with pytest.raises(LedgerRolledBack):
            first.advance(other)


def test_a_slot_that_was_changed_but_can_be_read_does_not_count(tmp_path: Path) -> None:
    mark = FileMark(tmp_path / "mark")
    for sequence in (3, 4):
        mark.advance(at(sequence))
    content = mark.path.read_bytes()
    assert content.count(b'"sequence": 3') == 1
    mark.path.write_bytes(content.replace(b'"sequence": 3', b'"sequence": 9'))
    assert mark.read() == at(4)


@pytest.mark.parametrize("slot", [0, 1])
def test_a_torn_write_keeps_the_last_whole_mark(tmp_path: Path, slot: int) -> None:
    mark = FileMark(tmp_path / "mark")
    for sequence in range(5):
        mark.advance(at(sequence))
    content = bytearray(mark.path.read_bytes())
    content[slot * SLOT + 20 : slot * SLOT + 30] = b"\x00" * 10
    mark.path.write_bytes(content)
    left = mark.read()
    assert left is not None
    assert left.sequence in (3, 4)
    mark.advance(at(9))
    assert mark.read() == at(9)


def test_an_unreadable_mark_is_refused_and_an_empty_one_is_none(tmp_path: Path) -> None:
    mark = FileMark(tmp_path / "mark")
    mark.path.write_bytes(b"x" * 2 * SLOT)
    with pytest.raises(LedgerRolledBack):
        mark.read()
    mark.path.write_bytes(b"")
    assert mark.read() is None
    folder = FileMark(tmp_path)
    with pytest.raises(LedgerUnavailable):
        folder.read()
    with pytest.raises(LedgerUnavailable):
        folder.advance(at(1))


def test_a_new_mark_is_durable_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[Path]()
    monkeypatch.setattr("blowfishdb.ledger.mark._sync_folder", synced.append)
    for sequence in (1, 2):
        FileMark(tmp_path / "mark").advance(at(sequence))
    assert synced == [tmp_path], "once, when the file is made"


def test_many_writers_leave_the_highest(tmp_path: Path) -> None:
    mark = FileMark(tmp_path / "mark")
    threads = [
        threading.Thread(target=lambda first=first: [mark.advance(at(n)) for n in range(first, 60, 6)])
        for first in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mark.read() == at(59)


def test_who_waited_marks_for_all_who_wait_behind(tmp_path: Path) -> None:
    mark, asked = FileMark(tmp_path / "mark"), []

    def newest() -> Seen:
        asked.append(1)
        return Seen(at(50), {})

    mark.advance(at(1))
    assert (mark.read(), asked) == (at(1), [])
    before = set(threading.enumerate())
    with mark._held():
        waiters = [threading.Thread(target=mark.advance, args=(at(n), newest)) for n in (10, 20, 30)]
        for waiter in waiters:
            waiter.start()
        while len(set(threading.enumerate()) - before) < 2 * len(waiters):
            time.sleep(0.001)
    for waiter in waiters:
        waiter.join()
    assert (mark.seen(), asked) == (Seen(at(50), {}), [1])


def test_a_ledger_ahead_of_its_mark_opens(place: Place) -> None:
    """The process died between commit and mark."""
    with place.open() as ledger:
        account = opened(ledger, 1)
        content = place.mark.read_bytes()
        ledger.charge(charge_of(account, "1/2", "a"))
    place.mark.write_bytes(content)
    with place.open() as ledger:
        assert ledger.mark.read() == ledger.head()


def test_a_lost_mark_is_noticed(place: Place) -> None:
    with place.open() as ledger:
        opened(ledger, 1)
    place.mark.unlink()
    with pytest.raises(LedgerRolledBack):
        place.open()
    accept_restored_ledger(place.url, mark=place.mark, by="cora", reason="moved to a new machine")
    with place.open() as ledger:
        assert [entry.kind for entry in ledger.entries()] == ["account", "name", "restored"]
        assert ledger.verify().is_sound


def test_a_rewritten_history_is_noticed(place: Place) -> None:
    with place.open() as ledger:
        opened(ledger, 1)
    mark = FileMark(place.mark)
    known = mark.read()
    assert known is not None
    mark.replace(Head(known.ledger, known.sequence - 1, "0" * 64))
    with pytest.raises(LedgerRolledBack):
        place.open()


@pytest.fixture
def file_place(tmp_path: Path) -> Place:
    return Place(f"sqlite:///{tmp_path}/ledger.db", tmp_path / "elsewhere" / "mark")


def test_a_restored_backup_is_refused_until_the_curator_accepts_it(file_place: Place, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    with file_place.open() as ledger:
        account = opened(ledger, 1)
    shutil.copy(tmp_path / "ledger.db", backup)
    with file_place.open() as ledger:
        ledger.charge(charge_of(account, 1, "a"))
    shutil.copy(backup, tmp_path / "ledger.db")
    with pytest.raises(LedgerRolledBack, match="ends at entry 2") as caught:
        file_place.open()
    assert (caught.value.found, caught.value.expected) == (2, 3)
    head = accept_restored_ledger(file_place.url, mark=file_place.mark, by="cora", reason="disk died")
    with file_place.open() as ledger:
        assert ledger.head() == head
        (entry,) = list(ledger.entries(after=2))
        assert (entry.kind, entry.fields["mark_sequence"], entry.fields["reason"]) == ("restored", 3, "disk died")
        assert ledger.verify().is_sound


def test_a_backup_that_grew_past_the_mark_is_still_another_history(file_place: Place, tmp_path: Path) -> None:
    with file_place.open() as ledger:
        account = opened(ledger, 1)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "backup.db")
    early = Path(shutil.copy(file_place.mark, tmp_path / "early mark"))
    with file_place.open() as ledger:
        ledger.charge(charge_of(account, 1, "a"))
    shutil.copy(tmp_path / "backup.db", tmp_path / "ledger.db")
    with open_ledger(file_place.url, mark=early) as ledger:
        for number in range(3):
            ledger.charge(charge_of(account, "1/3", f"b{number}"))
    with pytest.raises(LedgerRolledBack):
        file_place.open()


def test_a_backup_restored_under_a_running_process_is_noticed(place: Place) -> None:
    with place.open() as ledger:
        account = opened(ledger, 1)
        ledger.charge(charge_of(account, "1/4", "a"))
        known = ledger.mark.read()
        assert known is not None
        ledger.mark.replace(Head(known.ledger, known.sequence + 5, "0" * 64))
        with pytest.raises(LedgerRolledBack):
            ledger.charge(charge_of(account, "1/4", "b"))


def test_a_deleted_ledger_does_not_come_back_fresh(file_place: Place, tmp_path: Path) -> None:
    with file_place.open() as ledger:
        opened(ledger, 1)
    for path in tmp_path.glob("ledger.db*"):
        path.unlink()
    with pytest.raises(LedgerRolledBack):
        file_place.open()


def test_a_charge_that_cannot_be_marked_gives_no_receipt_but_its_key_does_later(place: Place) -> None:
    with place.open() as ledger:
        account = opened(ledger, 1)
        content = place.mark.read_bytes()
        place.mark.unlink()
        place.mark.mkdir()
        with pytest.raises(LedgerUnavailable):
            ledger.charge(charge_of(account, "1/4", "a"))
        place.mark.rmdir()
        place.mark.write_bytes(content)
        ledger.charge(charge_of(account, "1/4", "a"))
        assert ledger.mark.read() == ledger.head()
        assert ledger.account(account.id).charges == 1


def test_default_marks_are_apart_from_the_ledger_and_ignore_passwords(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one = default_mark("postgresql://me:secret@host/books")
    assert one == default_mark("postgres://you@host:5432/books")
    assert one != default_mark("postgresql://host/other")
    assert one.is_relative_to(tmp_path)
    assert default_mark(tmp_path / "ledger.db") == default_mark(f"sqlite:///{tmp_path}/ledger.db")
    with open_ledger(tmp_path / "ledger.db") as ledger:
        opened(ledger, 1)
    assert default_mark(tmp_path / "ledger.db").exists()


def test_starting_again_in_the_place_of_a_deleted_ledger_is_refused_and_says_what_to_do(file_place: Place) -> None:
    with file_place.open() as ledger:
        opened(ledger, 1)
    for left in file_place.mark.parents[1].glob("ledger.db*"):
        left.unlink()
    mark = file_place.mark.read_bytes()
    with pytest.raises(LedgerRolledBack, match="a new, empty ledger stands where one with 2 entries was") as caught:
        file_place.open()
    assert "put the old ledger back" in caught.value.message
    assert "accept the new one" in caught.value.message
    assert file_place.mark.read_bytes() == mark, "refusing forgets nothing"
    accept_restored_ledger(file_place.url, mark=file_place.mark, by="cora", reason="the trial is over")
    with file_place.open() as ledger:
        (entry,) = ledger.entries()
        assert (entry.kind, entry.fields["mark_sequence"]) == ("restored", 2), "what stood here is on record"


@pytest.mark.parametrize("mark", ["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_where_nothing_was_ever_written_anybody_may_start_again(
    mark: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The deleted ledger had no entry, so nothing was spent; of two new ones, whoever writes first has the mark."""
    marked = str(tmp_path / "mark") if mark == "file" else request.getfixturevalue("postgres_url")
    open_ledger(tmp_path / "gone.db", mark=marked).close()
    with open_ledger(tmp_path / "new.db", mark=marked) as ledger, open_ledger(tmp_path / "two.db", mark=marked) as two:
        assert ledger.mark.read() == two.head()
        account = opened(ledger, 1)
        ledger.charge(charge_of(account, "1/4", "a"))
        assert ledger.mark.read() == ledger.head()
        with pytest.raises(LedgerRolledBack, match="a new, empty ledger stands where one with 3 entries was"):
            opened(two, 1)
    for path in ("two.db", "another.db"):
        with pytest.raises(LedgerRolledBack, match="3 entries"):
            open_ledger(tmp_path / path, mark=marked)
    open_ledger(tmp_path / "new.db", mark=marked).close()


def test_a_ledger_with_entries_does_not_take_over_the_mark_of_an_empty_one(tmp_path: Path) -> None:
    open_ledger(tmp_path / "empty.db", mark=tmp_path / "mark").close()
    with open_ledger(tmp_path / "old.db", mark=tmp_path / "elsewhere") as ledger:
        opened(ledger, 1)
    with pytest.raises(LedgerRolledBack, match="belongs to another ledger"):
        open_ledger(tmp_path / "old.db", mark=tmp_path / "mark")


def test_a_mark_that_no_longer_guards_a_ledger_opens_nothing_and_stays_as_it_is(tmp_path: Path) -> None:
    path, first, second = (tmp_path / name for name in ("ledger.db", "first", "second"))
    open_ledger(path, mark=first).close()
    accept_restored_ledger(path, mark=second, by="cora", reason="moved to a new machine")
    before = first.read_bytes()
    with pytest.raises(LedgerRolledBack, match="another high-water mark guards this ledger"):
        open_ledger(path, mark=first)
    assert first.read_bytes() == before


def test_of_two_marks_that_open_a_new_ledger_at_once_one_guards_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other comes after the look at who guards the ledger and before this one does."""
    path, usual = tmp_path / "ledger.db", FileMark.advance

    def overtaken(mark: FileMark, head: Head, newest: Callable[[], Seen]) -> None:
        monkeypatch.setattr(FileMark, "advance", usual)
        open_ledger(path, mark=tmp_path / "other").close()
        mark.advance(head, newest)

    monkeypatch.setattr(FileMark, "advance", overtaken)
    with pytest.raises(LedgerRolledBack, match="another high-water mark guards this ledger"):
        open_ledger(path, mark=tmp_path / "mine")
    open_ledger(path, mark=tmp_path / "other").close()


AT = "2026-11-16T00:00:00+00:00"


def test_what_the_mark_cannot_notice_the_checkpoint_does(tmp_path: Path) -> None:
    live, old, file = tmp_path / "live", tmp_path / "old", tmp_path / "checkpoint"
    with open_ledger(live / "ledger.db", mark=live / "mark") as ledger:
        account = opened(ledger, 1)
    shutil.copytree(live, old)
    with open_ledger(live / "ledger.db", mark=live / "mark") as ledger:
        ledger.charge(charge_of(account, 1, "a"))
        text, public_key = sign_checkpoint(ledger.head(), AT, tmp_path / "key")
        file.write_text(text)
        ledger.check_contains(read_checkpoint_file(file, public_key).head)
    shutil.rmtree(live)
    shutil.copytree(old, live)
    # Ledger and mark agree, so the ledger opens; all that it forgot could be spent again.
    with open_ledger(live / "ledger.db", mark=live / "mark") as ledger:
        with pytest.raises(LedgerRolledBack, match="ends at entry 2, but entry 3 had been written"):
            ledger.check_contains(read_checkpoint_file(file, public_key).head)
        ledger.charge(charge_of(account, "1/2", "b"))
        with pytest.raises(LedgerRolledBack, match="entry 3 of this ledger is not the one"):
            ledger.check_contains(read_checkpoint_file(file, public_key).head)


def test_a_checkpoint_that_was_changed_or_signed_by_others_is_refused(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db", mark=tmp_path / "mark") as ledger:
        opened(ledger, 1)
        text, public_key = sign_checkpoint(ledger.head(), AT, tmp_path / "key")
        _, other_key = sign_checkpoint(ledger.head(), AT, tmp_path / "other key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    file = tmp_path / "checkpoint"
    file.write_text(text)
    assert read_checkpoint_file(file, public_key).head.sequence == 2
    fields = json.loads(text)
    forgeries = [
        (text, other_key),
        (text, "not a key"),
        (json.dumps({**fields, "sequence": 1}), public_key),
        (json.dumps({**fields, "more": 1}), public_key),
        (json.dumps({name: value for name, value in fields.items() if name != "signature"}), public_key),
        ("[]", public_key),
        ("no checkpoint", public_key),
    ]
    for content, key in forgeries:
        file.write_text(content)
        with pytest.raises(CatalogError, match="not signed by checkpoint_key"):
            read_checkpoint_file(file, key)
    file.unlink()
    with pytest.raises(CatalogError, match="cannot be read"):
        read_checkpoint_file(file, public_key)


def test_a_key_that_is_none_is_not_used_or_overwritten(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("my diary")
    with open_ledger(tmp_path / "ledger.db", mark=tmp_path / "mark") as ledger:
        head = ledger.head()
    with pytest.raises(CatalogError, match="cannot be read as an Ed25519 key"):
        sign_checkpoint(head, AT, key)
    assert key.read_text() == "my diary"
    key.write_bytes(X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(CatalogError, match="is not an Ed25519 key"):
        sign_checkpoint(head, AT, key)
    with pytest.raises(CatalogError, match="cannot be written"):
        sign_checkpoint(head, AT, tmp_path / "nowhere" / "key")
