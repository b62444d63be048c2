"""A ledger in PostgreSQL with a standby: the standby has every charge, and one that lacks some is refused."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg
import pytest

from blowfishdb.errors import InvalidInput, LedgerRolledBack
from blowfishdb.ledger import open_ledger
from blowfishdb.ledger.ledger import default_mark, open_mark
from tests.ledger.support import charge_of, opened
from tools.faults.failover import LOOSE, running_pair

pytestmark = pytest.mark.postgres


def test_a_standby_that_takes_over_has_every_charge(tmp_path: Path) -> None:
    with running_pair() as pair, open_ledger(pair.url("postgres"), mark=tmp_path / "mark") as ledger:
        account = opened(ledger)
        ledger.charge(charge_of(account, "1/8", "before"))
        pair.fail_over()
        ledger.charge(charge_of(account, "1/8", "after"))
        pair.fail_over()
        assert not ledger.charge(charge_of(account, "1/8", "before")).is_new
        assert ledger.verify().is_sound
        assert ledger.account(account.id).spent * 4 == 1


def test_a_standby_that_lacks_a_charge_is_refused(tmp_path: Path) -> None:
    with running_pair(LOOSE) as pair, open_ledger(pair.url("postgres"), mark=tmp_path / "mark") as ledger:
        account = opened(ledger)
        with psycopg.connect(pair.primary.url, autocommit=True) as connection:
            caught_up = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"
            while connection.execute(caught_up.encode()).fetchone() != (1,):
                continue
        pair.standby.stop()
        ledger.charge(charge_of(account, "1/8", "lost"))
        pair.primary.stop(signal.SIGKILL)
        pair.standby.start()
        pair.promote()
        with pytest.raises(LedgerRolledBack):
            ledger.charge(charge_of(account, "1/8", "more"))


def test_the_order_of_hosts_does_not_lose_the_mark_and_odd_ports_are_refused() -> None:
    one, other = (f"postgresql://ledger:x@{hosts}/books" for hosts in ("a:1,b", "b:5432,a:1"))
    assert default_mark(one) == default_mark(other) != default_mark("postgresql://a:1/books")
    for odd in ("postgresql://a:1,b:2:3/books", "postgresql://a:port/books", "postgresql://[a/books"):
        with pytest.raises(InvalidInput, match="check its hosts and ports"):
            default_mark(odd)


def test_a_mark_on_one_host_of_the_ledger_is_in_its_database() -> None:
    for mark in ("postgresql://marks@b/books#visits", "postgresql://c,a:1/books"):
        with pytest.raises(InvalidInput, match="the ledger's own database"):
            open_mark("postgresql://ledger:x@a:1,b/books", mark)
