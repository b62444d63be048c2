"""One suite of questions, the same counts from every engine."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from blowfishdb.sources import Source, open_source
from tests.sources import stores
from tests.sources.cases import CASES, Case
from tests.sources.people import check_people
from tests.sources.reference import expected_counts
from tests.sources.tables import SAMPLES

EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
FOURTH_OF_THE_CASES = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.nightly] if number % 4 else [])
        for number, case in enumerate(CASES)
    ],
)
"""One case of four in every run, and all of them by night."""


@functools.cache
def opened(url: str, tables: tuple[str, ...]) -> Source:
    """A source that is shared by the tests of a table and the tables joined to it."""
    joins = (case.joined for case in CASES if tuple(join.table for join, _ in case.joined) == tables)
    return open_source(url, [join for join, _ in next(joins)])


def check(url: str, case: Case, *, finite: bool = False) -> None:
    """Checks one case on the engine at the address."""
    check_at(f"{url}#{stores.fragment(case.table.name)}", case, finite=finite)


def check_at(address: str, case: Case, *, finite: bool = False) -> None:
    """Checks one case at the address of its table."""
    source = opened(address, tuple(join.table for join, _ in case.joined))
    table = stores.without_infinities(case.table) if finite else case.table
    cells = case.cells()
    wanted = expected_counts(table, cells, case.unit, case.joined)
    found = source.prepare(cells, case.unit).run()
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, wanted)


@pytest.fixture(scope="session")
def duckdb_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "samples.duckdb"
    stores.load_duckdb(path, SAMPLES)
    return path


@pytest.fixture(scope="session")
def sqlite_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stores.load_sqlite(tmp_path_factory.mktemp("stores") / "samples.sqlite", SAMPLES)


@pytest.fixture(scope="session")
def postgres_store(postgres_server: str) -> str:
    return stores.load_postgres(postgres_server, SAMPLES)


@pytest.fixture(scope="session")
def mariadb_store(mariadb_server: str) -> str:
    return stores.load_mariadb(mariadb_server, SAMPLES)


@EVERY_CASE
def test_duckdb(duckdb_store: Path, case: Case) -> None:
    check(f"duckdb:///{duckdb_store}", case)


@EVERY_CASE
@pytest.mark.sampled(4)
def test_sqlite(sqlite_store: str, case: Case) -> None:
    check(sqlite_store, case)


@pytest.mark.postgres
@EVERY_CASE
@pytest.mark.sampled(4)
def test_postgres(postgres_store: str, case: Case) -> None:
    check(postgres_store, case)


@pytest.mark.postgres
@pytest.mark.parametrize("case", CASES[::16], ids=[case.name for case in CASES[::16]])
def test_postgres_that_compiles_every_statement(postgres_store: str, case: Case) -> None:
    """As it does by itself where it expects many rows."""
    check(f"{postgres_store}?options=-c%20jit_above_cost%3D0", case)


@pytest.mark.mariadb
@FOURTH_OF_THE_CASES
def test_mariadb(mariadb_store: str, case: Case) -> None:
    check(mariadb_store, case, finite=True)


def test_people_by_duckdb(duckdb_store: Path) -> None:
    check_people(f"duckdb:///{duckdb_store}")


def test_people_by_sqlite(sqlite_store: str) -> None:
    check_people(sqlite_store)


@pytest.mark.postgres
def test_people_by_postgres(postgres_store: str) -> None:
    check_people(postgres_store)


@pytest.mark.mariadb
def test_people_by_mariadb(mariadb_store: str) -> None:
    check_people(mariadb_store)
