"""The conformance suite on Spark, in one test: a session is expensive, and each worker would start its own."""

from __future__ import annotations

import datetime
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import duckdb
import pyarrow
import pytest

from blowfishdb.errors import SourceError, SourceFailed
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Attribute, domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import Join, open_source, spark
from blowfishdb.sources.base import Source
from blowfishdb.sources.delta import LOG
from blowfishdb.sources.location import parse_location
from tests.sources import stores
from tests.sources.cases import CASES, Case
from tests.sources.people import check_people
from tests.sources.spark_session import running_spark
from tests.sources.tables import BINNED, SAMPLES
from tests.sources.test_conformance import check
from tools.spark_cluster import connect_settings, free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

deltalake = pytest.importorskip("deltalake")
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
        check_lists(tmp_path)
        check_changes("spark://local", tmp_path / "changes")
        check_delta("spark://local", tmp_path / "delta")
        check_failure(session)
        check_connect(f"sc://127.0.0.1:{port}", tmp_path)
        check_kept(f"sc://127.0.0.1:{port}", tmp_path)
        check_delta(f"sc://127.0.0.1:{port}", tmp_path / "delta by connect")
        if cases == CASES:
            check_catalog(f"sc://127.0.0.1:{port}", session, tmp_path)


OWN_SESSION = """
import sys
from pyspark.sql import SparkSession
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import open_source

source = open_source(f"spark://local{sys.argv[1]}?spark.driver.bindAddress=127.0.0.1&spark.driver.host=127.0.0.1")
questions = [compile_cells(domain({"i": integers(0, 9 + number)}), Policy(), ["i"]) for number in range(60)]
def ask():
    for cells in questions:
        assert source.prepare(cells).run().tolist()[:3] == [0, 1, 2]

ask()
# Calls to a source run in threads of their own, so no session is active in this one.
java = SparkSession.builder.getOrCreate().sparkContext._jvm
compiled = java.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
before = compiled.getCount()
ask()
print(before, compiled.getCount() - before)
"""


@pytest.mark.java
@pytest.mark.nightly
def test_a_session_of_its_own_compiles_many_questions_once(tmp_path: Path) -> None:
    duckdb.sql("SELECT unnest([1, 2, 2]) AS i").write_parquet(str(tmp_path / "rows.parquet"))
    command = [sys.executable, "-c", OWN_SESSION, str(tmp_path)]
    at_first, again = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert at_first > 100
    assert again == 0


def check_folder(folder: Path) -> None:
    """A Parquet folder is the same data, whether DuckDB or Spark reads it."""
    by_spark, by_duckdb = open_source(f"spark://local{folder}/0.parquet"), open_source(f"{folder}/0.parquet")
    cells = CASES[0].cells()
    assert by_spark.identity() == by_duckdb.identity()
    assert list(by_spark.prepare(cells).run()) == list(by_duckdb.prepare(cells).run())
    with pytest.raises(SourceError, match="no table"):
        open_source("spark://local#absent").columns()


def check_lists(folder: Path) -> None:
    """Lists of irregular edges are worked out once for a session, several threads at a time, and again for the next."""
    file = f"{folder}/{SAMPLES.index(BINNED)}.parquet"
    by_spark, by_duckdb = open_source(f"spark://local{file}"), open_source(file)
    cases = [case.cells() for case in CASES if case.table is BINNED]
    wanted = [by_duckdb.prepare(cells).run().tolist() for cells in cases]
    engine = by_spark._engine
    assert isinstance(engine, spark.Spark)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        for most in (spark.MOST_VARIABLES, 3):
            patch.setattr(spark, "MOST_VARIABLES", most)
            with engine._session() as first:
                pass
            counts = [by_spark.prepare(cells) for cells in cases]
            assert sum(count.sql.startswith(spark.COMMENT) for count in counts) >= 4  # type: ignore[attr-defined]
            assert [made.tolist() for made in pool.map(lambda count: count.run(), counts * 2)] == wanted * 2
            with engine._session() as last:
                assert (last is first) == (most > 3)
    with engine._session() as session:
        sql = counts[0].sql  # type: ignore[attr-defined]
        *comments, statement = sql.split("\n")
        assert engine._defined(session, sql) == engine._defined(session, sql) == statement
        assert engine._variables[session] >= {comment.split(" ")[1] for comment in comments}
        text = f"{spark.COMMENT}no list\n"
        assert engine._defined(session, f"SELECT '{text}'") == f"SELECT '{text}'"


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


def check_delta(url: str, folder: Path) -> None:
    """A Delta folder holds the rows of its newest version, not those of all files; its version is the proof."""
    place, x = folder / "t", integers(0, 9, null=0)
    rows = pyarrow.table({"x": [1, 2, 2], "w": pyarrow.array([-1, None, 3], pyarrow.int32()), "n": [7, 8, 8]})
    deltalake.write_deltalake(place, rows, partition_by=["w", "n"])
    source, plain = open_source(f"{url}{quote(str(place))}"), open_source(f"delta:///{quote(str(place))}")
    assert source.identity() == plain.identity()
    first = source.content()
    assert first is not None
    assert counted(source, "x", x) == [0, 1, 2, *[0] * 7]
    assert counted(source, "w", integers(-1, 3, null=0)) == [1, 1, 0, 0, 1]
    assert counted(source, "n", x) == [*[0] * 7, 1, 2, 0]
    deltalake.DeltaTable(place).delete("x = 2 AND w IS NULL")
    deltalake.DeltaTable(place).alter.add_columns([deltalake.Field("later", deltalake.schema.PrimitiveType("long"))])
    assert len(list(place.glob("*/*/*.parquet"))) > len(deltalake.DeltaTable(place).file_uris())
    assert counted(source, "x", x) == [0, 1, 1, *[0] * 7]
    assert counted(source, "later", x) == [2, *[0] * 9]
    assert source.content() not in (None, first)
    assert open_source(f"{url}{quote(str(place))}", [Join("numbers", "x", "k", ["v"])]).content() is None
    deltalake.DeltaTable.create(folder / "none", deltalake.Schema.from_arrow(pyarrow.schema({"x": pyarrow.int64()})))
    assert counted(open_source(f"{url}{quote(str(folder))}/none"), "x", x) == [0] * 10
    check_refused_delta(url, folder)


def check_refused_delta(url: str, folder: Path) -> None:
    """What Spark would read otherwise than the log tells it is refused before a row is read."""
    for name, column in (("text", ["a"]), ("yes", [True]), ("day", [datetime.date(2024, 2, 1)])):
        made = pyarrow.table({"x": [1], "p": column})
        # Whether there are rows, and which, makes no difference.
        for rows in (made.slice(0, 0), made):
            deltalake.write_deltalake(folder / name, rows, partition_by=["p"], mode="overwrite")
            with pytest.raises(SourceError, match="for sure"):
                open_source(f"{url}{quote(str(folder))}/{name}").columns()
    deltalake.write_deltalake(folder / "moved", pyarrow.table({"x": [1], "p": [5]}), partition_by=["p"])
    (commit,) = (folder / "moved" / LOG).glob("*.json")
    commit.write_text(commit.read_text().replace("p=5/", "p=6/"))
    (folder / "moved" / "p=5").rename(folder / "moved" / "p=6")
    with pytest.raises(SourceError, match="for sure"):
        open_source(f"{url}{quote(str(folder))}/moved").columns()
    deltalake.write_deltalake(folder / "{odd}", pyarrow.table({"x": [1]}))
    with pytest.raises(SourceError, match="pattern"):
        open_source(f"{url}{quote(str(folder))}/{quote('{odd}')}").columns()
    with pytest.raises(SourceError, match="pattern"):
        open_source(f"{url}{quote(str(folder))}/t*").columns()
    deltalake.write_deltalake(folder / "hidden", pyarrow.table({"x": [1]}))
    (file,) = (folder / "hidden").glob("*.parquet")
    (commit,) = (folder / "hidden" / LOG).glob("*.json")
    commit.write_text(commit.read_text().replace(file.name, f".{file.name}"))
    file.rename(file.with_name(f".{file.name}"))
    with pytest.raises(SourceError, match="all files"):
        open_source(f"{url}{quote(str(folder))}/hidden").columns()


def counted(source: Source, name: str, attribute: Attribute) -> list[int]:
    return source.prepare(compile_cells(domain({name: attribute}), Policy(), [name])).run().tolist()


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
    """A Parquet folder behind Spark Connect is the same data, and a Delta log that only the server sees is noticed."""
    connected, direct = open_source(f"{url}{folder}/0.parquet"), open_source(f"{folder}/0.parquet")
    cells = CASES[0].cells()
    assert connected.identity() == direct.identity()
    assert list(connected.prepare(cells).run(deadline=60.0)) == list(direct.prepare(cells).run())
    deltalake.write_deltalake(folder / "far", pyarrow.table({"x": [1]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark.glob, "glob", lambda path: [])
        with pytest.raises(SourceError, match="this machine cannot read"):
            open_source(f"{url}{folder}/far").columns()


def check_kept(url: str, folder: Path) -> None:
    """A session behind Spark Connect serves the next count of the folder, unless it ended or was interrupted."""
    source, cells = open_source(f"{url}{folder}/0.parquet"), CASES[0].cells()
    idle = spark.IDLE[parse_location(f"{url}{folder}/0.parquet")]
    idle.clear()
    counts = list(source.prepare(cells).run())
    (first,) = idle
    assert list(source.prepare(cells).run()) == counts
    assert idle == [first]
    first.stop()
    assert list(source.prepare(cells).run(deadline=60.0)) == counts
    (second,) = idle
    assert second is not first
    with suppress(SourceFailed):
        source.prepare(cells).run(deadline=0.0)
    assert second not in idle
    spark._stop_idle()
    assert idle == []
    assert list(source.prepare(cells).run()) == counts


def test_a_server_that_does_not_answer_does_not_keep_anybody_who_leaves() -> None:
    pytest.importorskip("grpc_status")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        session = spark.SparkConnect(parse_location(f"sc://127.0.0.1:{silent.getsockname()[1]}#people"))._opened()
        # Without a limit of our own the connection itself would fail, some 20 seconds later, or never.
        with pytest.raises(Exception, match="DEADLINE_EXCEEDED"):
            session.client.release_session()
        session.client.close()


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
    assert open_source(f"{url}#failing").views() == ["failing"]
    # The samples are views of that session, and what a session names comes before what its catalog does.
    assert (by_name.views(), direct.views()) == ([], ["numbers"])
    with pytest.raises(SourceFailed) as caught:
        open_source(f"{url}#failing").prepare(compile_cells(domain({"i": integers(0, 9)}), Policy(), ["i"])).run()
    assert "secret" not in str(caught.value)
