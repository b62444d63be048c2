"""The conformance suite on Spark, in one test: a session is expensive, and each worker would start its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from blowfishdb.errors import SourceError, SourceFailed
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import open_source
from tests.sources import stores
from tests.sources.cases import CASES, Case
from tests.sources.people import check_people
from tests.sources.spark_session import running_spark
from tests.sources.tables import SAMPLES
from tests.sources.test_conformance import check
from tools.spark_cluster import connect_settings, free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SHORT = 10
"""One case of so many in every run; by night all of them, here and on a cluster."""


@pytest.mark.java
@pytest.mark.parametrize(
    "cases", [CASES[::SHORT], pytest.param(CASES, marks=pytest.mark.nightly)], ids=["short", "all"]
)
def test_spark_counts_like_every_other_engine(tmp_path: Path, cases: tuple[Case, ...]) -> None:
    port = free_port()
    serving = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", **connect_settings(port)}
    with running_spark(tmp_path, settings=serving) as session:
        stores.load_duckdb(tmp_path / "samples.duckdb", SAMPLES)
        url = stores.load_spark(tmp_path / "samples.duckdb", tmp_path, SAMPLES)
        wrong = {}
        for number, case in enumerate(cases):
            session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if number % 9 else "CODEGEN_ONLY")
            try:
                check(url, case)
            except AssertionError as difference:
                wrong[case.name] = str(difference)
        assert wrong == {}
        check_people(url)
        check_folder(tmp_path)
        check_changes("spark://local", tmp_path / "changes")
        check_failure(session)
        check_connect(f"sc://127.0.0.1:{port}", tmp_path)
        if cases == CASES:
            check_catalog(f"sc://127.0.0.1:{port}", session, tmp_path)


def check_folder(folder: Path) -> None:
    """A Parquet folder is the same data, whether DuckDB or Spark reads it."""
    by_spark, by_duckdb = open_source(f"spark://local{folder}/0.parquet"), open_source(f"{folder}/0.parquet")
    cells = CASES[0].cells()
    assert by_spark.identity() == by_duckdb.identity()
    assert list(by_spark.prepare(cells).run()) == list(by_duckdb.prepare(cells).run())
    with pytest.raises(SourceError, match="no table"):
        open_source("spark://local#absent").columns()


def check_changes(url: str, folder: Path) -> None:
    """Files that come later count, and other columns are seen."""
    folder.mkdir()
    duckdb.sql("SELECT 1 AS i").write_parquet(str(folder / "1.parquet"))
    source = open_source(f"{url}{folder}")
    cells = compile_cells(domain({"i": integers(0, 3)}), Policy(), ["i"])
    assert source.prepare(cells).run().tolist()[:4] == [0, 1, 0, 0]
    duckdb.sql("SELECT 2 AS i").write_parquet(str(folder / "2.parquet"))
    assert source.prepare(cells).run().tolist()[:4] == [0, 1, 1, 0]
    for file in folder.iterdir():
        file.unlink()
    duckdb.sql("SELECT 'a' AS j").write_parquet(str(folder / "1.parquet"))
    assert list(source.columns()) == ["j"]


def check_failure(session: SparkSession) -> None:
    """What a statement of Spark says stays inside, and the session keeps its own settings."""
    session.sql("CREATE TEMP VIEW broken AS SELECT raise_error('the secret of ann') AS i, 1 AS j")
    session.sql("CREATE TEMP VIEW broken_numbers AS SELECT CAST(i AS BIGINT) AS i FROM broken")
    cells = compile_cells(domain({"i": integers(0, 9)}), Policy(), ["i"])
    counting = open_source("spark://local#broken_numbers").prepare(cells)
    with pytest.raises(SourceFailed) as caught:
        counting.run()
    assert "secret" not in str(caught.value)
    assert session.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"


def check_connect(url: str, folder: Path) -> None:
    """A Parquet folder behind Spark Connect is the same data."""
    connected, direct = open_source(f"{url}{folder}/0.parquet"), open_source(f"{folder}/0.parquet")
    cells = CASES[0].cells()
    assert connected.identity() == direct.identity()
    assert list(connected.prepare(cells).run(deadline=60.0)) == list(direct.prepare(cells).run())


def check_catalog(url: str, session: SparkSession, folder: Path) -> None:
    """What the session has behind Spark Connect: folders that change, tables of its catalog, failures."""
    check_changes(url, folder / "connected")
    session.sql(f"CREATE TABLE numbers USING parquet LOCATION '{folder}/0.parquet'")
    by_name, direct = open_source(f"{url}#numbers"), open_source("spark://local#numbers")
    cells = CASES[0].cells()
    assert by_name.identity() == direct.identity()
    assert list(by_name.prepare(cells).run()) == list(direct.prepare(cells).run())
    with pytest.raises(SourceError, match="no table"):
        open_source(f"{url}#absent").columns()
    session.sql("CREATE VIEW failing AS SELECT CAST(raise_error('the secret of ann') AS BIGINT) AS i")
    with pytest.raises(SourceFailed) as caught:
        open_source(f"{url}#failing").prepare(compile_cells(domain({"i": integers(0, 9)}), Policy(), ["i"])).run()
    assert "secret" not in str(caught.value)
