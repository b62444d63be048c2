"""Several servers over one PostgreSQL ledger: whoever spent, an old dump is noticed by all, and no budget is passed."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from blowfishdb.errors import BudgetExceeded, InvalidInput, LedgerRolledBack, LedgerUnavailable
from blowfishdb.ledger import Head, Ledger, accept_restored_ledger, open_ledger
from blowfishdb.ledger.mark import FileMark
from blowfishdb.ledger.postgres import SCHEMA, open_postgres_mark
from tests.ledger.support import charge_of, opened
from tools.database_servers import program

pytestmark = pytest.mark.postgres


@dataclass(frozen=True)
class Servers:
    """One ledger, and the mark that its servers share."""

    url: str
    mark: str | Path

    def open(self) -> Ledger:
        return open_ledger(self.url, mark=self.mark)

    def dump(self, file: Path) -> None:
        self._run("pg_dump", "--clean", "--if-exists", "--schema", SCHEMA, "--file", str(file))

    def restore(self, file: Path) -> None:
        self._run("psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--single-transaction", "--file", str(file))

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run([program(name), *arguments, self.url], check=True, capture_output=True)


@pytest.fixture(params=["shared disk", "database"])
def servers(request: pytest.FixtureRequest, postgres_url: str, tmp_path: Path) -> Servers:
    """Two ways to share a mark."""
    request.getfixturevalue("monkeypatch").setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if request.param == "shared disk":
        return Servers(postgres_url, tmp_path / "shared" / "mark")
    name = f"{postgres_url.rsplit('/', 1)[1]}_marks"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return Servers(postgres_url, f"{postgres_url.rsplit('/', 1)[0]}/{name}#visits")


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started after it"])
def test_an_old_dump_is_noticed_by_the_server_that_was_idle(servers: Servers, tmp_path: Path, is_running: bool) -> None:
    dump = tmp_path / "dump.sql"
    answered = Fraction(0)
    with ExitStack() as stack:
        busy = stack.enter_context(servers.open())
        account = opened(busy, 1)
        if is_running:
            idle = stack.enter_context(servers.open())
        servers.dump(dump)
        for key in ("a", "b"):
            answered += busy.charge(charge_of(account, "2/5", key)).charge.epsilon
        servers.restore(dump)
        with pytest.raises(LedgerRolledBack):
            busy.charge(charge_of(account, "2/5", "c"))
        with pytest.raises(LedgerRolledBack):
            if not is_running:
                idle = stack.enter_context(servers.open())
            answered += idle.charge(charge_of(account, "2/5", "d", analyst="bob")).charge.epsilon
    assert answered == Fraction(4, 5)


@pytest.mark.parametrize("accepts", [False, True], ids=["refused", "taken over"])
def test_a_server_with_a_mark_of_its_own_does_not_write(servers: Servers, tmp_path: Path, accepts: bool) -> None:
    """What such a server wrote the others would not hear of, and it would not hear of what they wrote."""
    own = tmp_path / "own mark"
    with servers.open() as first:
        account = opened(first, 1)
        with pytest.raises(LedgerRolledBack, match="share its mark"):
            open_ledger(servers.url, mark=own)
        FileMark(own).replace(first.head())
        with pytest.raises(LedgerRolledBack, match="another high-water mark"):
            open_ledger(servers.url, mark=own)
        if not accepts:
            return
        accept_restored_ledger(servers.url, mark=own, by="cora", reason="moved to another machine")
        with open_ledger(servers.url, mark=own) as second:
            second.charge(charge_of(account, "1/2", "a"))
        with pytest.raises(LedgerRolledBack, match="another high-water mark"):
            first.charge(charge_of(account, "1/2", "b"))
        with pytest.raises(LedgerRolledBack):
            servers.open()


def test_servers_that_race_spend_exactly_what_there_is(servers: Servers) -> None:
    with servers.open() as first, servers.open() as second:
        account = opened(first, 1)

        def spend(number: int) -> bool:
            ledger = (first, second)[number % 2]
            try:
                ledger.charge(charge_of(account, "1/5", f"k{number}", analyst=f"analyst {number % 3}"))
            except BudgetExceeded:
                return False
            return True

        with ThreadPoolExecutor(6) as threads:
            assert sum(threads.map(spend, range(12))) == 5
        assert first.account(account.id).spent == 1
        assert first.mark.read() == second.mark.read() == first.head()
        assert second.verify().is_sound


def test_a_mark_in_a_database_only_rises(postgres_url: str, tmp_path: Path) -> None:
    mark, other = (open_postgres_mark(f"{postgres_url}{name}", tmp_path / "check") for name in ("", "#other"))

    def at(sequence: int, ledger: str = "one") -> Head:
        return Head(ledger, sequence, f"hash {sequence}")

    assert (mark.read(), mark.identity()) == (None, None)
    for sequence in (0, 3, 1, 7, 7, 2):
        mark.advance(at(sequence))
    assert mark.read() == at(7)
    identity = mark.identity()
    with pytest.raises(LedgerRolledBack):
        mark.advance(Head("one", 7, "another history"))
    with pytest.raises(LedgerRolledBack):
        mark.advance(at(9, "two"))
    mark.replace(at(2))
    assert (mark.read(), mark.identity()) == (at(2), identity)
    assert other.read() is None
    other.replace(at(5), "named")
    assert (other.identity(), mark.read()) == ("named", at(2))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    mark.advance(at(4))
    assert mark.read() == at(4)
    mark.patience = 0.01
    with mark._turn, pytest.raises(LedgerUnavailable, match="busy"):
        mark.read()
    mark.close()
    other.close()


def test_a_mark_does_not_live_in_the_ledgers_own_database(postgres_url: str) -> None:
    with pytest.raises(InvalidInput, match="a restored dump would restore both"):
        open_ledger(postgres_url, mark=f"{postgres_url}#mark")


def test_a_mark_that_cannot_be_reached_stops_the_charge(servers: Servers, postgres_url: str) -> None:
    """Without its mark a server does not know how old the ledger is."""
    if isinstance(servers.mark, Path):
        with servers.open() as ledger:
            account = opened(ledger, 1)
            servers.mark.unlink()
            with pytest.raises(LedgerRolledBack):
                ledger.charge(charge_of(account, "1/5", "a"))
        return
    with servers.open() as ledger:
        account = opened(ledger, 1)
        name = servers.mark.rsplit("/", 1)[1].partition("#")[0]
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        with pytest.raises(LedgerUnavailable):
            ledger.charge(charge_of(account, "1/5", "a"))
