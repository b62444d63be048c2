"""Files that SQLite alone opens: no lock is lost by a second connection, a look at a file, or a fork."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pytest

from blowfishdb import sqlite_files
from blowfishdb.errors import AccountsUnavailable, LedgerUnavailable
from blowfishdb.ledger.mark import acquire, in_turn
from blowfishdb.server.auth.database import open_database
from blowfishdb.sources import open_source
from tests import open_books
from tests.ledger.support import ROOT, Place, charge_of, opened
from tests.ledger.worker import forked

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(f"sqlite:///{tmp_path}/ledger.db", tmp_path / "elsewhere" / "mark")


def elsewhere(code: str, *arguments: object) -> str:
    """What a statement prints in a process of its own; it has `sqlite3` and the arguments in `sys.argv`."""
    command = [sys.executable, "-c", f"import sqlite3, sys\n{code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT).stdout.strip()


TOUCH = """
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("COMMIT")
connection.close()
"""
"""What a command beside a server does: it opens the file, and takes the log away where it seems to be the last one."""
CHARGES = "print(*sqlite3.connect(sys.argv[1]).execute(\"SELECT count(*) FROM entry WHERE kind = 'charge'\"))"
MEMBER = "print(*sqlite3.connect(sys.argv[1]).execute('SELECT member FROM user_group'))"


def log_of(path: Path) -> int:
    """The inode of the write-ahead log."""
    return path.with_name(f"{path.name}-wal").stat().st_ino


def test_charges_of_two_connections_in_one_process_outlive_a_command_beside_it(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with place.open() as first:
        account = opened(first, 10)
        with place.open() as second:
            for number, ledger in enumerate((first, second) * 3):
                ledger.charge(charge_of(account, 1, f"k{number}"))
                log = log_of(file)
                elsewhere(TOUCH, file)
                assert log_of(file) == log
                assert elsewhere(CHARGES, file) == f"({number + 1},)"
    with place.open() as ledger:
        assert ledger.account(account.id).spent == 6
        assert ledger.verify().is_sound


def test_commands_beside_a_server_leave_the_log_of_its_users(tmp_path: Path) -> None:
    """Accounts that one process changes are seen by the other, both ways, whoever opens the file once more."""
    file = tmp_path / "users.db"
    with closing(open_database(f"sqlite:///{file}")) as server:
        server.change("INSERT INTO user_group (name, member) VALUES ('a', 'b')")
        with closing(open_database(f"sqlite:///{file}")) as again:
            again.rows("SELECT * FROM user_group")
        log = log_of(file)
        code = f"{TOUCH}\nwith sqlite3.connect(sys.argv[1]) as c: c.execute(\"UPDATE user_group SET member = 'c'\")"
        elsewhere(code, file)
        assert log_of(file) == log
        assert server.rows("SELECT member FROM user_group") == [{"member": "c"}]
        server.change("UPDATE user_group SET member = 'd'")
        assert elsewhere(MEMBER, file) == "('d',)"
    assert file.stat().st_mode & 0o077 == 0


TABLE = "CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1);"
Reader = sqlite3.Connection | duckdb.DuckDBPyConnection


def sqlite_table(file: Path) -> Reader:
    """Makes a table where there is none, and holds a lock of a reader on it."""
    connection = sqlite3.connect(file, isolation_level=None)
    if not file.stat().st_size:
        connection.executescript(TABLE)
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM t").fetchall()
    return connection


def duckdb_table(file: Path) -> Reader:
    if not file.exists():
        with duckdb.connect(str(file)) as connection:
            connection.execute(TABLE)
    return duckdb.connect(str(file), read_only=True)


@pytest.mark.parametrize(
    ("scheme", "read", "write"),
    [
        ("sqlite", sqlite_table, "sqlite3.connect(sys.argv[1], timeout=0).executescript('INSERT INTO t VALUES (2)')"),
        ("duckdb", duckdb_table, "import duckdb; duckdb.connect(sys.argv[1]).execute('INSERT INTO t VALUES (2)')"),
    ],
)
def test_a_digest_of_data_leaves_the_locks_of_whoever_reads_it(
    scheme: str, read: Callable[[Path], Reader], write: str, tmp_path: Path
) -> None:
    """A count that runs meanwhile would otherwise read what another process is just writing."""
    file = tmp_path / "data"
    read(file).close()
    source = open_source(f"{scheme}:///{file}#t")
    before = source.content()
    reader = read(file)
    assert source.content() == before is not None
    with pytest.raises(subprocess.CalledProcessError):
        elsewhere(write, file)
    reader.close()
    elsewhere(write, file)
    assert source.content() not in (None, before)


def test_a_file_that_cannot_be_read_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite_table(tmp_path / "data").close()
    source = open_source(f"sqlite:///{tmp_path}/data#t")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source.content() is None
    (tmp_path / "cat").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "cat").chmod(0o700)
    assert source.content() is None


@contextmanager
def child(task: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """A forked process that does a task once it is told to; at the end it must have done it well."""
    ready, go = os.pipe()

    def wait() -> None:
        os.close(go)
        os.read(ready, 1)
        task()

    process = forked(wait)
    try:
        yield lambda: os.close(go)
    finally:
        os.close(ready)
    assert os.waitpid(process, 0)[1] == 0


def test_charges_of_a_forked_child_that_opened_its_own_are_kept(place: Place, tmp_path: Path) -> None:
    """SQLite in a child believes that it holds the locks which its parent had at the fork."""
    file = tmp_path / "ledger.db"
    parent = place.open()
    account = opened(parent, 10)
    asked, asking = os.pipe()

    def charge_twice() -> None:
        with place.open() as own:
            own.charge(charge_of(account, 1, "one"))
            os.write(asking, b"1")
            while file.with_name("gone").exists() is False:
                time.sleep(0.01)
            own.charge(charge_of(account, 1, "two"))

    with child(charge_twice) as go:
        go()
        os.read(asked, 1)
        parent.close()
        elsewhere(TOUCH, file)
        (tmp_path / "gone").touch()
    os.close(asked)
    os.close(asking)
    with place.open() as ledger:
        assert ledger.account(account.id).spent == 2
        assert ledger.verify().is_sound


def test_a_parent_goes_on_after_a_fork_and_its_child_must_open_its_own(place: Place, tmp_path: Path) -> None:
    users = open_database(f"sqlite:///{tmp_path}/users.db")
    users.change("INSERT INTO user_group (name, member) VALUES ('a', 'b')")
    with place.open() as ledger, closing(users):
        account = opened(ledger, 10)
        assert users.rows("SELECT member FROM user_group") == [{"member": "b"}]

        def use() -> None:
            with pytest.raises(LedgerUnavailable, match="forked"):
                ledger.account(account.id)
            with pytest.raises(AccountsUnavailable):
                users.rows("SELECT * FROM user_group")
            assert users.rows("SELECT member FROM user_group") == [{"member": "b"}]
            with place.open() as own:
                own.charge(charge_of(account, 1, "child"))

        for number in range(3):
            with child(use) as go:
                go()
                ledger.charge(charge_of(account, 1, f"parent {number}"))
                assert users.rows("SELECT member FROM user_group") == [{"member": "b"}]
        assert ledger.account(account.id).spent == 4
        assert ledger.verify().is_sound


def test_a_file_in_use_at_the_moment_of_a_fork_is_refused_in_the_child(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_files, "PAUSE", 0.05)
    with place.open() as ledger:
        account = opened(ledger, 10)

        def refused() -> None:
            with pytest.raises(LedgerUnavailable, match="started anew"):
                place.open()
            with place_of(tmp_path / "other.db").open() as other:
                opened(other, 1)

        with ledger.store.write() as cursor:
            with child(refused) as go:
                go()
            cursor.rows("UPDATE head SET sequence = sequence")
        ledger.charge(charge_of(account, 1, "a"))
        assert ledger.verify().is_sound


def place_of(file: Path) -> Place:
    return Place(f"sqlite:///{file}", file.with_suffix(".mark"))


def test_a_fork_waits_for_a_transaction_of_another_thread(place: Place) -> None:
    with place.open() as ledger:
        account = opened(ledger, 10)
        begun = threading.Event()

        def change() -> None:
            with ledger.store.write() as cursor:
                begun.set()
                time.sleep(0.2)
                cursor.rows("UPDATE head SET sequence = sequence")

        thread = threading.Thread(target=change)
        thread.start()
        begun.wait(5)

        def charge() -> None:
            with place.open() as own:
                own.charge(charge_of(account, 1, "child"))

        with child(charge) as go:
            go()
        thread.join()
        assert ledger.account(account.id).spent == 1


def test_a_lock_that_a_child_inherits_ends_with_its_holder(tmp_path: Path) -> None:
    """A lock of `flock` belongs to all processes that have its descriptor."""
    path = tmp_path / "ledger.db"
    with in_turn(path, 5):
        ready, go = os.pipe()
        process = forked(lambda: (os.close(go), os.read(ready, 1), None)[2])
    with in_turn(path, 0.2):
        pass
    os.close(go)
    os.close(ready)
    os.waitpid(process, 0)


def test_a_child_keeps_no_lock_of_a_parent_that_died(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    ready, go = os.pipe()
    told, telling = os.pipe()

    def hold_and_die() -> None:
        os.close(go)
        acquire(path, 5)
        grandchild = forked(lambda: (os.read(ready, 1), None)[1])
        os.write(telling, b"%d" % grandchild)
        os._exit(0)

    os.waitpid(forked(hold_and_die), 0)
    assert os.read(told, 20)
    descriptor = acquire(path, 0.2)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    for one in (descriptor, ready, go, told, telling):
        os.close(one)


def test_only_one_module_opens_sqlite_files() -> None:
    """Whoever opens one otherwise is not closed for a fork."""
    opener = re.compile(r"sqlite3\.connect\(|from sqlite3 import|sqlite_scan|import (apsw|pysqlite3)")
    found = {file.name for file in (ROOT / "src").rglob("*.py") if opener.search(file.read_text())}
    assert found == {"sqlite_files.py"}


def test_what_is_committed_without_locks_is_not_acknowledged(place: Place, tmp_path: Path) -> None:
    """Other code of this process, such as a notebook that copies the file, may take them away at any time."""
    file, users = tmp_path / "ledger.db", tmp_path / "users.db"
    code = """
import sys
from pathlib import Path
from tests.ledger.support import Place, IDENTITY, charge_of
from tests.ledger.test_one_opener import TOUCH, elsewhere
from blowfishdb.errors import AccountsUnavailable, LedgerUnavailable
from blowfishdb.server.auth.database import open_database
place, users = Place(sys.argv[1], Path(sys.argv[2])), Path(sys.argv[3])
file = Path(sys.argv[1].removeprefix("sqlite:///"))
ledger, database = place.open(), open_database(f"sqlite:///{users}")
account = ledger.account_of(IDENTITY)
charge = lambda key: ledger.charge(charge_of(account, 1, key))
change = lambda: database.change("INSERT INTO user_group (name, member) VALUES ('a', 'b')")
charge("kept")
change()
for one in (file, users):
    one.read_bytes()
    elsewhere(TOUCH, one)
for use in (lambda: charge("lost"), change, lambda: charge("again"), change, place.open):
    try:
        use()
        print("acknowledged")
    except (AccountsUnavailable, LedgerUnavailable) as error:
        print(error.code)
"""
    with place.open() as ledger:
        account = opened(ledger, 10)
    told = elsewhere(code, place.url, place.mark, users).split()
    assert told == ["ledger-unavailable", "accounts-unavailable"] * 2 + ["ledger-unavailable"]
    with place.open() as ledger, closing(open_database(f"sqlite:///{users}")) as database:
        assert ledger.account(account.id).spent == 1
        assert ledger.verify().is_sound
        assert len(database.rows("SELECT * FROM user_group")) == 1
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("opener", ["open(path).close()", "os.close(os.open(path, os.O_RDWR | os.O_CREAT))"])
def test_the_hook_finds_code_that_opens_a_file_in_use(place: Place, opener: str, ending: str) -> None:
    path = place.url.removeprefix("sqlite:///")
    planted = compile(opener, str(Path(sqlite_files.__file__).with_name("planted.py")), "exec")
    with place.open() as ledger:
        opened(ledger, 1)
        with pytest.raises(RuntimeError, match="which SQLite has open"):
            exec(planted, {"os": os, "path": path + ending})
        assert open_books._found.pop()
    exec(planted, {"os": os, "path": path})
