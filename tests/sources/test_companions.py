"""Breaks one thing at a time and sees the conformance suite notice."""

from __future__ import annotations

import pytest

from blowfishdb.sources import irregular, keys, statement
from blowfishdb.sources.duckdb import DuckDB
from blowfishdb.sources.mysql import MySQL
from tests.audit.rewritten import rewrite
from tests.sources import stores
from tests.sources.cases import CASES
from tests.sources.tables import SAMPLES, WORDS
from tests.sources.test_conformance import check, opened

BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stores.load_duckdb(tmp_path_factory.mktemp("companions") / "a.duckdb", SAMPLES)


def fails(url: str, name: str, *, finite: bool = False) -> None:
    # A source would use the statement again that it wrote before the fault.
    opened.cache_clear()
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
    monkeypatch.setattr(DuckDB, "streams", False)
    opened.cache_clear()
    check(url, BY_NAME["500 edges, ends clamped"])
    rewrite(monkeypatch, irregular, "met_place", right, wrong)
    monkeypatch.setattr(keys, "met_place", irregular.met_place)
    fails(url, "500 edges, ends clamped")


@pytest.mark.parametrize(
    ("place", "right", "wrong"),
    [
        ("tally", "np.inf, np.nan", "np.nan, np.inf"),
        ("tally", "numbers < self.start, numbers >= end", "numbers >= end, numbers < self.start"),
        ("_met", "numbers >= table", "numbers > table"),
    ],
    ids=["NaN is above", "below is above", "an edge is met too late"],
)
def test_streamed_numbers_that_are_misread(
    url: str, place: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DuckDB, "streams", True)
    opened.cache_clear()
    check(url, BY_NAME["500 edges, ends clamped"])
    rewrite(monkeypatch, irregular, f"EdgeCells.{place}", right, wrong)
    fails(url, "500 edges, ends clamped")


@pytest.mark.mariadb
def test_collations_that_ignore_case(mariadb_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with stores.mariadb_connection(mariadb_server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE other")
    other = f"{mariadb_server.rsplit('/', 1)[0]}/other"
    stores.load_mariadb(other, (WORDS,))
    monkeypatch.setattr(MySQL, "comparable", lambda engine, column, kind: column)
    fails(other, "odd words", finite=True)
