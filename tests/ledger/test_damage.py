"""Damaged files of ledgers and users: whatever bytes are flipped, what is said is one of our errors."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import AccountsUnavailable, BlowfishError, LedgerCorrupt
from blowfishdb.ledger import Ledger
from blowfishdb.server.auth.database import TABLE_NAMES, open_database
from tests.effort import effort
from tests.ledger.support import Place, charge_of, opened

BEFORE = 6
"""Charges on record before the damage."""
FLIPS = st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), min_size=1, max_size=4)
"""Where bytes change, modulo the length of the file, and how."""


@dataclass(frozen=True)
class Damaged:
    """A file of SQLite that is made anew, with other bytes, for each example; its mark, if it has one, comes back."""

    path: Path
    mark: Path | None = None

    def keep(self) -> None:
        """Keeps the file, with what is in its log, and the mark as they are."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for one in filter(None, (self.path, self.mark)):
            shutil.copy(one, one.with_suffix(".kept"))

    def damage(self, flips: list[tuple[int, int]]) -> None:
        for ending in ("-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        for one in filter(None, (self.path, self.mark)):
            shutil.copy(one.with_suffix(".kept"), one)
        content = bytearray(self.path.read_bytes())
        for place, change in flips:
            content[place % len(content)] ^= change
        self.path.write_bytes(content)

    def unquotable(self, table: str) -> list[tuple[int, int]]:
        """What puts a byte that is no text into the word that SQLite then quotes from the statement of a table."""
        content = self.path.with_suffix(".kept").read_bytes()
        start = content.index(f"TABLE {table}".encode())
        return [(start, content[start] ^ 0xFF)]


@pytest.fixture(scope="module")
def ledger_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, str, Damaged]:
    folder = tmp_path_factory.mktemp("ledger")
    place = Place(f"sqlite:///{folder}/ledger.db", folder / "elsewhere.mark")
    with place.open() as ledger:
        account = opened(ledger, 9)
        for number in range(BEFORE):
            ledger.store_answer(ledger.charge(charge_of(account, "1/10", f"k{number}")), b"noisy")
    damaged = Damaged(folder / "ledger.db", place.mark)
    damaged.keep()
    return place, account.id, damaged


USES: tuple[Callable[[Ledger, str], object], ...] = (
    lambda ledger, _: ledger.accounts(),
    lambda ledger, account: ledger.charge(charge_of(ledger.account(account), "1/10", "new")),
    lambda ledger, account: ledger.charge(charge_of(ledger.account(account), "1/10", "k3")),
    lambda ledger, account: ledger.analysts(account),
    lambda ledger, _: list(ledger.entries()),
    lambda ledger, _: ledger.restores(),
    lambda ledger, _: ledger.head(),
    lambda ledger, _: ledger.verify(),
)


def use_all(place: Place, account: str) -> list[BlowfishError]:
    """What is said to whoever uses a ledger in every way; any other error fails the test."""
    said: list[BlowfishError] = []
    try:
        with place.open() as ledger:
            for use in USES:
                try:
                    use(ledger, account)
                except BlowfishError as error:
                    said.append(error)
    except BlowfishError as error:
        said.append(error)
    return said


@effort(120)
@given(flips=FLIPS)
def test_a_damaged_ledger_is_refused_by_an_error_of_ours(
    ledger_file: tuple[Place, str, Damaged], flips: list[tuple[int, int]]
) -> None:
    place, account, damaged = ledger_file
    damaged.damage(flips)
    use_all(place, account)


def test_a_ledger_whose_damage_cannot_even_be_quoted_is_corrupt(ledger_file: tuple[Place, str, Damaged]) -> None:
    place, account, damaged = ledger_file
    damaged.damage(damaged.unquotable("account"))
    (error,) = use_all(place, account)
    assert isinstance(error, LedgerCorrupt)
    damaged.damage([])
    assert all(error.code != "ledger-corrupt" for error in use_all(place, account))


def test_a_format_below_all_formats_is_corrupt(ledger_file: tuple[Place, str, Damaged]) -> None:
    place, account, damaged = ledger_file
    # The highest byte of PRAGMA user_version in the head of the file.
    damaged.damage([(60, 0x80)])
    (error,) = use_all(place, account)
    assert isinstance(error, LedgerCorrupt)


@pytest.mark.parametrize("kind", ["policy", "domain"])
def test_a_version_that_is_gone_is_corrupt(ledger_file: tuple[Place, str, Damaged], kind: str) -> None:
    place, account, damaged = ledger_file
    damaged.damage([])
    with place.open() as ledger, ledger.store.write() as cursor:
        cursor.rows("DELETE FROM version WHERE account = ? AND kind = ?", account, kind)
        with pytest.raises(LedgerCorrupt):
            cursor.seen({})


@pytest.fixture(scope="module")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    path = tmp_path_factory.mktemp("users") / "users.db"
    database = open_database(f"sqlite:///{path}")
    row = {"name": "ana", "role": "analyst", "password": "secret", "created": "2026-01-01"}
    with database.write() as cursor:
        cursor.insert("users", row)
    database.close()
    damaged = Damaged(path)
    damaged.keep()
    return damaged


def read_all(path: Path) -> BlowfishError | None:
    database = open_database(f"sqlite:///{path}")
    try:
        for table in TABLE_NAMES:
            database.rows(f"SELECT * FROM {table}")
        database.change("DELETE FROM failure")
    except BlowfishError as error:
        return error
    finally:
        database.close()
    return None


@effort(120)
@given(flips=FLIPS)
def test_a_damaged_file_of_users_is_refused_by_an_error_of_ours(
    users_file: Damaged, flips: list[tuple[int, int]]
) -> None:
    users_file.damage(flips)
    read_all(users_file.path)


def test_a_file_of_users_whose_damage_cannot_even_be_quoted_is_unavailable(users_file: Damaged) -> None:
    users_file.damage(users_file.unquotable("users"))
    assert isinstance(read_all(users_file.path), AccountsUnavailable)
