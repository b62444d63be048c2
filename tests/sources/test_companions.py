"""Breaks one thing at a time and sees the conformance suite notice."""

from __future__ import annotations

import pytest

from blowfishdb.sources import keys, statement
from blowfishdb.sources.duckdb import DuckDB
from blowfishdb.sources.mysql import MySQL
from tests.audit.rewritten import rewrite
from tests.sources import stores
from tests.sources.cases import CASES
from tests.sources.tables import SAMPLES, WORDS
from tests.sources.test_conformance import check

BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stores.load_duckdb(tmp_path_factory.mktemp("companions") / "a.duckdb", SAMPLES)


def fails(url: str, name: str, *, finite: bool = False) -> None:
    with pytest.raises(AssertionError):
        check(url, BY_NAME[name], finite=finite)


@pytest.mark.parametrize("name", ["at most one row", "bound before filter", "bound, all rows"])
def test_rows_that_are_not_bounded(url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unbounded = lambda main, kept, table, unit, engine: main.select(**kept) if kept else main  # noqa: E731
    monkeypatch.setattr(statement, "_bounded", unbounded)
    fails(url, name)


def test_keys_that_occur_twice(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, statement, "_dimension", "counted.same == 1", "counted.same >= 1")
    fails(url, "joined by number")


def test_a_clock_that_never_changes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "zone_changes", lambda zone, begin, end: ((), (3600,)))
    fails(url, "summer time")
    fails(url, "change 0 of Europe/Berlin by minute")
    fails(url, "change 1 of Australia/Lord_Howe by minute")


def test_edges_that_are_one_off(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edge = keys._edge
    monkeypatch.setattr(keys, "_edge", lambda attribute, index: edge(attribute, index) + 1)
    fails(url, "irregular")


def test_months_that_are_one_off(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    month = DuckDB.month
    monkeypatch.setattr(DuckDB, "month", lambda engine, date: month(engine, date) + 1)
    for name in ("months beside hours", "quarters of months", "years beside hours"):
        fails(url, name)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("is_above & ~value.isnan()", "is_above"),
        ("if place else cell", "if place else ~cell"),
        ("(value < number.low, below)", "(value < number.low, above)"),
    ],
    ids=["NaN is above", "an edge is met too early", "below is above"],
)
def test_cells_that_are_misread(url: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, keys, "_met", right, wrong)
    fails(url, "500 edges, powers")


@pytest.mark.mariadb
def test_collations_that_ignore_case(mariadb_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with stores.mariadb_connection(mariadb_server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE other")
    other = f"{mariadb_server.rsplit('/', 1)[0]}/other"
    stores.load_mariadb(other, (WORDS,))
    monkeypatch.setattr(MySQL, "comparable", lambda engine, column, kind: column)
    fails(other, "odd words", finite=True)
