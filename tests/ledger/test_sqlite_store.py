"""What only the SQLite store has: pragmas, file rights, a full disk, old and foreign files, forks."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.errors import ChargeClosed, InvalidInput, LedgerCorrupt, LedgerUnavailable
from blowfishdb.ledger import accept_restored_ledger, open_ledger
from blowfishdb.ledger.mark import SLOT
from blowfishdb.ledger.store import NEWEST, SqliteStore, open_sqlite
from tests.ledger.support import ROOT, Place, charge_of, opened

OLD = Path(__file__).with_name("format_1.sql")
UNNAMED = Path(__file__).with_name("format_3.sql")
UNNAMED_MARK = {
    "ledger": "467e9e3ebfb996e4acf7e947d9aac716",
    "sequence": 9,
    "hash": "de0647298f4f2f3fe7b703409ff7d2f42312c2b1222775f7aef321f3681c49c3",
    "check": "c576eded808b9929858d72d180ce0e837fbae1af7522d931cb82fd5b3dfde42c",
}
"""The mark that went with it, as it was written then."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(f"sqlite:///{tmp_path}/ledger.db", tmp_path / "elsewhere" / "mark")


def test_commits_are_durable_and_keys_are_checked(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        opened(ledger, 1)
        assert isinstance(ledger.store, SqliteStore)
        with ledger.store.write() as cursor:
            settings = {name: cursor.rows(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous")}
            assert settings == {"journal_mode": "wal", "synchronous": 2}
            assert cursor.rows("PRAGMA foreign_keys") == [(1,)]
    assert (tmp_path / "ledger.db").stat().st_mode & 0o077 == 0


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from blowfishdb.errors import LedgerUnavailable
from tests.ledger.support import IDENTITY, Place, charge_of
place = Place(sys.argv[1], Path(sys.argv[2]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with place.open() as ledger:
    account = ledger.account_of(IDENTITY)
    size = Path(sys.argv[1].removeprefix("sqlite:///") + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 60_000, resource.RLIM_INFINITY))
    for number in range(1000):
        try:
            print(ledger.charge(charge_of(account, "1/10", f"k{number}")).sequence, flush=True)
        except LedgerUnavailable:
            break
    else:
        sys.exit("the disk never filled")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(ledger.charge(charge_of(account, "1/10", f"k{number}")).sequence, flush=True)
"""


def test_a_full_disk_refuses_the_charge_and_the_next_one_works(place: Place) -> None:
    with place.open() as ledger:
        account = opened(ledger, 1000)
    command = [sys.executable, "-c", FULL_DISK, place.url, str(place.mark)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    receipts = [int(line) for line in done.stdout.split()]
    assert receipts == list(range(3, 3 + len(receipts)))
    with place.open() as ledger:
        assert ledger.account(account.id).spent == Fraction(len(receipts), 10)
        assert ledger.verify().is_sound


def test_an_old_ledger_is_migrated_and_keeps_its_balances(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = sqlite3.connect(tmp_path / "ledger.db")
    old.executescript(OLD.read_text())
    assert old.execute("PRAGMA user_version").fetchone() == (1,)
    content = list(old.iterdump())
    old.close()
    accept_restored_ledger(place.url, mark=place.mark, by="cora", reason="first start of the new version")
    copy = tmp_path / "ledger.db.format-1"
    assert copy.name in caplog.text and copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(copy)) as before:
        assert list(before.iterdump()) == content
        assert before.execute("PRAGMA user_version").fetchone() == (1,)
    with place.open() as ledger:
        (account,) = ledger.accounts()
        assert (account.spent, account.limit, account.names) == (Fraction(1, 3), 2, ("census",))
        with pytest.raises(ChargeClosed, match="entry 3 was charged with the key 'old'"):
            ledger.charge(charge_of(account, "1/3", "old"))
        receipt = ledger.charge(charge_of(account, "1/3", "new"))
        assert ledger.store_answer(receipt, b"noisy") == b"noisy"
        assert ledger.verify().is_sound
        with ledger.store.read() as cursor:
            assert cursor.rows("PRAGMA user_version") == [(NEWEST,)]


def test_a_ledger_whose_mark_had_no_name_opens_and_is_guarded_by_it_from_then_on(place: Place, tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "ledger.db")
    old.executescript(UNNAMED.read_text())
    entries = old.execute("SELECT * FROM entry ORDER BY sequence").fetchall()
    old.close()
    place.mark.parent.mkdir()
    place.mark.write_bytes(json.dumps(UNNAMED_MARK).encode().ljust(SLOT - 1) + b"\n")
    with place.open() as ledger:
        assert ledger.verify().is_sound
        (account,) = ledger.accounts()
        ledger.charge(charge_of(account, "1/100", "new", analyst="bob"))
        with ledger.store.read() as cursor:
            assert cursor.guard() == ledger.mark_id == ledger.mark.identity()
            assert cursor.rows("SELECT * FROM entry ORDER BY sequence")[:9] == entries
    with place.open() as ledger:
        assert ledger.head().sequence == 10


def test_a_migration_that_fails_half_way_changes_nothing(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blowfishdb.ledger import store

    old = sqlite3.connect(tmp_path / "ledger.db")
    old.executescript(OLD.read_text())
    before = list(old.iterdump())
    monkeypatch.setattr(store, "MIGRATIONS", (store.MIGRATIONS[0], (*store.MIGRATIONS[1], "CREATE TABLE entry (a)")))
    with pytest.raises(LedgerUnavailable):
        open_sqlite(tmp_path / "ledger.db")
    assert list(old.iterdump()) == before
    assert old.execute("PRAGMA user_version").fetchone() == (1,)
    old.close()


def test_newer_foreign_and_damaged_files_are_refused(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with place.open() as ledger:
        opened(ledger, 1)
    shutil.copy(path, tmp_path / "copy.db")
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    connection.close()
    with pytest.raises(LedgerUnavailable, match="newer"):
        place.open()
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE people (age)")
    foreign.close()
    with pytest.raises(LedgerCorrupt):
        open_sqlite(tmp_path / "foreign.db")
    (tmp_path / "text.db").write_text("this is no database at all" * 100)
    with pytest.raises(LedgerCorrupt):
        open_sqlite(tmp_path / "text.db")
    with pytest.raises(LedgerUnavailable):
        open_sqlite(tmp_path)


def test_a_ledger_that_vanished_does_not_come_back_empty(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        opened(ledger, 1)
        store = ledger.store
        assert isinstance(store, SqliteStore)
        while store._readers:
            store._readers.pop().close()
        (tmp_path / "ledger.db").rename(tmp_path / "gone.db")
        with pytest.raises(LedgerUnavailable):
            ledger.accounts()
        assert not (tmp_path / "ledger.db").exists()


def test_a_forked_child_must_open_its_own(place: Place) -> None:
    with place.open() as ledger:
        account = opened(ledger, 1)
        store = ledger.store
        assert isinstance(store, SqliteStore)
        elsewhere = SqliteStore(store.patience, store._writer, store.path, _process=os.getpid() + 1)
        for use in (elsewhere.read, elsewhere.write):
            with pytest.raises(LedgerUnavailable, match="forked"), use():
                pytest.fail("used after a fork")
        ledger.charge(charge_of(account, 1, "a"))


def test_a_closed_ledger_and_a_busy_one_are_unavailable(place: Place) -> None:
    ledger = place.open()
    account = opened(ledger, 1)
    with open_ledger(place.url, mark=place.mark, patience=0.05) as hasty:
        with ledger.store.write(), pytest.raises(LedgerUnavailable):
            hasty.charge(charge_of(account, 1, "a"))
        with hasty.store.write(), pytest.raises(LedgerUnavailable):
            hasty.charge(charge_of(account, 1, "a"))
        ledger.close()
        with pytest.raises(LedgerUnavailable):
            ledger.charge(charge_of(account, 1, "a"))
        assert hasty.account(account.id).charges == 0


@pytest.mark.parametrize("url", ["mysql://host/db", "sqlite://", "sqlite:///", "", "sqlite://host/file"])
def test_wrong_addresses_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        open_ledger(url, mark=tmp_path / "mark")


def test_plain_and_relative_paths_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_ledger("a.ledger", mark=tmp_path / "mark") as ledger:
        account = opened(ledger, 1)
    with open_ledger("sqlite:///a.ledger", mark=tmp_path / "mark") as ledger:
        assert ledger.account(account.id) == account
    with open_ledger(tmp_path / "a.ledger", mark=tmp_path / "mark") as ledger:
        assert ledger.accounts() == [account]


def test_importing_the_ledger_needs_no_psycopg() -> None:
    code = "import sys, blowfishdb.ledger; print('psycopg' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
