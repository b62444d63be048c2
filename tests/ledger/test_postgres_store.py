"""What only the PostgreSQL store has: one round trip, lost connections, racing migrations, unsafe servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from blowfishdb.errors import BudgetExceeded, LedgerUnavailable
from blowfishdb.ledger import Ledger, open_ledger
from blowfishdb.ledger import store as ledger_store
from blowfishdb.ledger.postgres import SCHEMA, PostgresStore, open_postgres
from blowfishdb.ledger.records import charge_body
from tests.ledger.support import Place, charge_of, opened
from tools.database_servers import running_postgres

pytestmark = pytest.mark.postgres


@pytest.fixture
def place(postgres_url: str, tmp_path: Path) -> Place:
    return Place(postgres_url, tmp_path / "mark")


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with place.open() as found:
        yield found


def store_of(ledger: Ledger) -> PostgresStore:
    assert isinstance(ledger.store, PostgresStore)
    return ledger.store


def cut_connections(url: str) -> None:
    """Ends every other session of the database, as a restarted server or a firewall would."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_known_analyst_is_charged_in_one_round_trip(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, "1/10", "first"))

    def no_write(self: PostgresStore) -> None:
        raise RuntimeError("the slow way was taken")

    monkeypatch.setattr(PostgresStore, "write", no_write)
    for number in range(9):
        ledger.charge(charge_of(account, "1/10", f"k{number}"))
    monkeypatch.undo()
    assert ledger.account(account.id).remaining == 0
    assert ledger.verify().is_sound


def test_both_ways_of_charging_agree(ledger: Ledger) -> None:
    """Amounts on many grids, each charged once by the function and once under the head's lock."""
    account = opened(ledger, Fraction(7, 3), Fraction(11, 10))
    store = store_of(ledger)
    for name in ("fast", "slow"):
        ledger.charge(charge_of(account, 0, "open", analyst=name))
    amounts = [Fraction(1, 31), Fraction(22, 7), Fraction(1, 2), Fraction(3, 10**15), Fraction(37, 97), Fraction(0)]
    amounts += [Fraction(11, 10) - sum(amounts[index] for index in (0, 2, 3, 4)), Fraction(1, 10**30)]
    for number, amount in enumerate(amounts):
        charge = charge_of(account, amount, f"k{number}", analyst="fast")
        fast = store.quick_charge(charge, charge_body(charge, "now"), ledger.mark_id) is not None
        try:
            with store.write() as cursor:
                from blowfishdb.ledger.charges import post_charge

                other = charge_of(account, amount, f"k{number}", analyst="slow")
                post_charge(cursor, other, charge_body(other, "now"), lambda step: None)
            slow = True
        except BudgetExceeded:
            slow = False
        assert (fast, slow) == (fast, fast), amount
    spent = [ledger.budget_of(account.id, name).spent for name in ("fast", "slow")]
    assert spent == [Fraction(11, 10)] * 2
    assert ledger.verify().is_sound


def test_a_lost_connection_is_made_anew(ledger: Ledger, place: Place) -> None:
    account = opened(ledger, 1)
    for number in range(4):
        cut_connections(place.url)
        ledger.charge(charge_of(account, "1/10", f"k{number}"))
        cut_connections(place.url)
        assert ledger.account(account.id).charges == number + 1
    cut_connections(place.url)
    ledger.new_snapshot(account, "May", by="cora")
    assert ledger.verify().is_sound


def test_a_connection_lost_after_the_commit_does_not_pay_twice(
    ledger: Ledger, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, "1/10", "first"))
    original = PostgresStore.quick_charge

    def commit_then_lose(self: PostgresStore, charge: object, body: str, mark: str) -> None:
        assert original(self, charge, body, mark) is not None
        cut_connections(place.url)

    monkeypatch.setattr(PostgresStore, "quick_charge", commit_then_lose)
    receipt = ledger.charge(charge_of(account, "1/10", "a"))
    assert not receipt.is_new
    assert ledger.account(account.id).spent == Fraction(2, 10)
    assert ledger.verify().is_sound


def test_the_server_itself_refuses_an_overspent_account(ledger: Ledger) -> None:
    opened(ledger, 1)
    with pytest.raises(psycopg.errors.CheckViolation):
        store_of(ledger)._writer.execute("UPDATE account SET spent_units = 2 * spent_grid")


def test_an_old_ledger_is_migrated(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "NEWEST", 1)
    open_postgres(place.url).close()
    monkeypatch.undo()
    with place.open() as ledger:
        account = opened(ledger, 1)
        ledger.charge(charge_of(account, "1/10", "first"))
        second = charge_of(account, "1/10", "second")
        assert store_of(ledger).quick_charge(second, charge_body(second, "now"), ledger.mark_id) is not None
        assert ledger.verify().is_sound
        with ledger.store.read() as cursor:
            assert cursor.rows("SELECT version FROM format") == [(ledger_store.NEWEST,)]


def test_many_may_open_a_new_ledger_at_once(postgres_url: str) -> None:
    stores: list[PostgresStore] = []
    threads = [threading.Thread(target=lambda: stores.append(open_postgres(postgres_url))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 6
    for store in stores:
        store.close()


def test_an_old_ledger_is_migrated_and_a_newer_one_is_refused(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    with place.open() as ledger:
        account = opened(ledger, 1)
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE {SCHEMA}.answer".encode())
        connection.execute(f"DROP TABLE {SCHEMA}.link".encode())
        for index in ("request", "analyst", "synopsis"):
            connection.execute(f"DROP INDEX {SCHEMA}.entry_by_{index}".encode())
        connection.execute(f"DROP FUNCTION {SCHEMA}.charge".encode())
        connection.execute(f"ALTER TABLE {SCHEMA}.account DROP accounting, DROP edge_books".encode())
        connection.execute(f"ALTER TABLE {SCHEMA}.analyst DROP edge_books".encode())
        connection.execute(f"ALTER TABLE {SCHEMA}.head DROP mark".encode())
        connection.execute(f"UPDATE {SCHEMA}.format SET version = 1".encode())
    with place.open() as ledger:
        with ledger.store.read() as cursor:
            kept = cursor.rows(f"SELECT id, limit_top FROM {SCHEMA}_format_1.account")
        assert kept == [(account.id, 1)] and f"{SCHEMA}_format_1" in caplog.text
        receipt = ledger.charge(charge_of(account, 1, "a"))
        assert ledger.store_answer(receipt, b"noisy") == b"noisy"
        assert ledger.verify().is_sound
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(f"UPDATE {SCHEMA}.format SET version = 99".encode())
    with pytest.raises(LedgerUnavailable, match="newer"):
        place.open()


def test_a_database_that_defaults_to_other_isolation_changes_nothing(place: Place) -> None:
    with psycopg.connect(place.url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'".encode())
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
    with place.open() as ledger, ledger.store.read() as cursor:
        assert cursor.rows("SHOW synchronous_commit") == [("on",)]
        assert cursor.rows("SHOW default_transaction_isolation") == [("read committed",)]


def test_a_server_that_may_forget_and_one_that_is_away_are_refused(tmp_path: Path) -> None:
    with running_postgres({"fsync": "off"}) as url, pytest.raises(LedgerUnavailable, match="fsync"):
        open_ledger(url, mark=tmp_path / "mark")
    with pytest.raises(LedgerUnavailable) as caught:
        open_ledger(url.replace("postgres@", "postgres:secret@"), mark=tmp_path / "mark")
    assert "secret" not in str(caught.value)


def test_a_writer_that_is_kept_waiting_gives_up(ledger: Ledger, place: Place) -> None:
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, "1/10", "first"))
    with open_ledger(place.url, mark=place.mark, patience=0.2) as hasty:
        with ledger.store.write(), pytest.raises(LedgerUnavailable):
            hasty.charge(charge_of(account, "1/10", "a"))
        hasty.charge(charge_of(account, "1/10", "a"))
    assert ledger.account(account.id).spent == Fraction(2, 10)


def test_a_client_that_falls_silent_inside_a_write_does_not_hold_up_the_others(ledger: Ledger, place: Place) -> None:
    account = opened(ledger, 1)
    with open_ledger(place.url, mark=place.mark, patience=0.6) as silent:
        with pytest.raises(LedgerUnavailable), silent.store.write() as cursor:
            cursor.rows("UPDATE account SET charges = 99")
            ledger.charge(charge_of(account, "1/10", "a"))
        silent.charge(charge_of(account, "1/10", "b"))
    assert (ledger.account(account.id).charges, ledger.verify().is_sound) == (2, True)
