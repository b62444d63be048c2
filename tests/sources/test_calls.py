"""Calls to an engine end in their time, or when nobody waits any more, whatever the driver does meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from blowfishdb.errors import SourceBusy, SourceFailed, WorkCancelled
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import open_source
from blowfishdb.sources.base import ColumnKind, ColumnType
from blowfishdb.sources.calls import Calls, cancelled_at_steps, is_cancelled, stopped_by
from blowfishdb.sources.ibis_source import IbisSource
from blowfishdb.sources.location import TableName
from blowfishdb.sources.sqlite import SQLite
from tests.sources import stores
from tests.sources.tables import NUMBERS
from tools.silent_proxy import SilentProxy, silent_proxy

PATIENCE = 20.0
CELLS = compile_cells(domain({"i": integers(0, 9)}), Policy(), ["i"])


@contextmanager
def leaving(after: float) -> Iterator[None]:
    """Nobody waits any more after so many seconds."""
    until = time.monotonic() + after
    token = is_cancelled.set(lambda: time.monotonic() > until)
    try:
        yield
    finally:
        is_cancelled.reset(token)


def test_a_call_that_hangs_is_left_behind_in_its_time_and_their_number_is_bounded() -> None:
    free, calls = threading.Event(), Calls(most=2, room=0.2, pause=0.0)

    def hang() -> bool:
        return free.wait(PATIENCE)

    for _ in range(2):
        with pytest.raises(TimeoutError):
            calls.run(hang, 0.1)
    with pytest.raises(SourceBusy) as refused:
        calls.run(lambda: 1, 1.0)
    assert refused.value.calls == 2
    free.set()
    assert calls.run(lambda: 1, PATIENCE) == 1


def test_what_a_call_gives_and_raises_comes_back() -> None:
    calls = Calls()
    assert calls.run(lambda: 7, None) == 7
    with pytest.raises(ZeroDivisionError):
        calls.run(lambda: 1 // 0, PATIENCE)


def test_a_source_without_an_answer_is_asked_again_after_a_pause() -> None:
    calls, free = Calls(pause=1.5), threading.Event()
    with pytest.raises(TimeoutError):
        calls.run(lambda: free.wait(PATIENCE), 0.0)
    free.set()
    began = time.monotonic()
    assert calls.run(lambda: 1, PATIENCE) == 1
    assert time.monotonic() - began > 0.2
    with pytest.raises(TimeoutError):
        calls.run(lambda: free.wait(0) and time.sleep(0.3), 0.0)
    with leaving(0.1), pytest.raises(WorkCancelled):
        calls.run(lambda: 1, PATIENCE)


def test_a_call_ends_when_nobody_waits_and_its_engine_is_told() -> None:
    told = threading.Event()

    def work() -> bool:
        with stopped_by(told.set):
            return told.wait(PATIENCE)

    with leaving(0.1), pytest.raises(WorkCancelled):
        Calls().run(work, PATIENCE)
    assert told.is_set()


def test_a_call_that_was_ended_begins_nothing_more_and_what_is_over_is_not_stopped() -> None:
    begun, free, ends, calls = [], threading.Event(), [], Calls()

    def late() -> None:
        with stopped_by(lambda: ends.append("early")):
            pass
        free.wait(PATIENCE)
        with stopped_by(lambda: ends.append("late")):
            begun.append("statement")

    with pytest.raises(TimeoutError):
        calls.run(late, 0.1)
    free.set()
    assert calls.run(lambda: 1, PATIENCE) == 1
    assert begun == ends == []


def test_a_call_ends_on_interrupt() -> None:
    """Ctrl-C in Python and on the command line, whatever the driver waits in."""
    told, calls = threading.Event(), Calls()

    def work() -> bool:
        with stopped_by(told.set):
            signal.raise_signal(signal.SIGINT)
            return told.wait(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        calls.run(work, PATIENCE)
    assert told.is_set()


def test_a_source_that_is_closed_ends_its_calls_and_begins_no_more() -> None:
    told, calls = threading.Event(), Calls()

    def work() -> bool:
        with stopped_by(told.set):
            threading.Timer(0.1, calls.close).start()
            return told.wait(PATIENCE)

    with pytest.raises(WorkCancelled):
        calls.run(work, PATIENCE)
    assert told.is_set()
    with pytest.raises(WorkCancelled):
        calls.run(lambda: 1, 1.0)


def test_steps_hide_when_somebody_leaves() -> None:
    """Whoever leaves within the first step stops nothing that ends within it."""
    with leaving(0.0), cancelled_at_steps(0.5):
        assert Calls().run(lambda: time.sleep(0.2) or 5, PATIENCE) == 5
    began = time.monotonic()
    with leaving(0.0), cancelled_at_steps(0.4), pytest.raises(WorkCancelled):
        Calls().run(lambda: time.sleep(1.0), PATIENCE)
    assert time.monotonic() - began > 0.4


class Hung(SQLite):
    """An engine of another machine whose every call hangs, from when it is told to."""

    is_embedded = False
    patience = 0.2
    free = threading.Event()

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        self.free.wait(PATIENCE)
        return {"i": ColumnType(ColumnKind.INTEGER, "int")}


@pytest.mark.parametrize("ask", [IbisSource.columns, IbisSource.check_reachable, lambda source: source.prepare(CELLS)])
def test_a_look_at_columns_ends_too(tmp_path: Path, ask: Callable[[IbisSource], object]) -> None:
    Hung.free.clear()
    source = IbisSource(Hung(tmp_path / "t.sqlite"), TableName("t"), calls=Calls(pause=0.0))
    with pytest.raises(SourceFailed):
        ask(source)
    Hung.free.set()
    assert source.columns().keys() == {"i"}


def check_silence(url: str, proxied: Callable[[str, SilentProxy], str], port: int, slow: str) -> None:
    """A server whose network swallows packets: counts, looks and waiting for either end, and it comes back."""
    with silent_proxy(port) as proxy:
        address = proxied(url, proxy)
        source, slow_one = open_source(f"{address}#numbers"), open_source(f"{address}#{slow}")
        expected = list(source.prepare(CELLS).run(PATIENCE))
        ready, slow_ready = source.prepare(CELLS), slow_one.prepare(CELLS)
        threading.Timer(0.5, proxy.swallow).start()
        began = time.monotonic()
        with pytest.raises(SourceFailed):
            slow_ready.run(1.5)
        # A count that begins in the silence, and one that somebody leaves.
        with pytest.raises(SourceFailed):
            ready.run(0.5)
        with leaving(0.3), pytest.raises(WorkCancelled):
            ready.run(PATIENCE)
        with leaving(0.3), pytest.raises(WorkCancelled):
            source.columns()
        assert time.monotonic() - began < PATIENCE
        proxy.forward()
        assert list(source.prepare(CELLS).run(PATIENCE)) == expected


def soon_none(statements: Callable[[], object]) -> None:
    """The server runs none of them any more, long before they would have ended by themselves."""
    until = time.monotonic() + PATIENCE
    while statements() != (0,):
        assert time.monotonic() < until
        time.sleep(0.05)


def through(url: str, proxy: SilentProxy) -> str:
    return url.replace(f":{proxy.server}", f":{proxy.port}")


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


@pytest.mark.postgres
def test_a_silent_postgres_harms_nobody_and_comes_back(postgres_url: str) -> None:
    import psycopg

    stores.load_postgres(postgres_url, (NUMBERS,))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE VIEW slow AS SELECT i FROM numbers WHERE pg_sleep(60) IS NOT NULL")
        check_silence(postgres_url, through, port_of(postgres_url), "slow")
        running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%slow%'"
        # Left or past its deadline, a statement is stopped on the server, too.
        source = open_source(f"{postgres_url}#slow")
        counting = source.prepare(CELLS)
        with leaving(0.5), pytest.raises(WorkCancelled):
            counting.run(PATIENCE)
        soon_none(lambda: connection.execute(f"{running} AND pid <> pg_backend_pid()".encode()).fetchone())


@pytest.mark.mariadb
def test_a_silent_mariadb_harms_nobody_and_comes_back(mariadb_server: str) -> None:
    stores.load_mariadb(mariadb_server, (NUMBERS,))
    with stores.mariadb_connection(mariadb_server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE VIEW slow AS SELECT i, SLEEP(60) AS s FROM numbers WHERE SLEEP(60) = 0")
        check_silence(mariadb_server, through, port_of(mariadb_server), "slow")
        counting = open_source(f"{mariadb_server}#slow").prepare(CELLS)
        with leaving(0.5), pytest.raises(WorkCancelled):
            counting.run(PATIENCE)
        others = "ID <> CONNECTION_ID() AND INFO LIKE '%`slow`%'"

        def running() -> object:
            cursor.execute(f"SELECT count(*) FROM information_schema.PROCESSLIST WHERE {others}")
            return cursor.fetchone()

        soon_none(running)
