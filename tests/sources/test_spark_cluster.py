"""Spark as a cluster of processes, reached as its driver and by Spark Connect.

The conformance suite, and during a count: a worker killed, the session stopped, the Connect server killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest

import blowfishdb as bf
from blowfishdb.errors import ReleaseFailed
from tests.sources import stores
from tests.sources.cases import CASES
from tests.sources.people import check_people
from tests.sources.spark_session import ON_A_CLUSTER, SETTINGS, running_spark
from tests.sources.tables import SAMPLES
from tests.sources.test_conformance import check_at
from tools.spark_cluster import Cluster, free_port, running_cluster, running_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

deltalake = pytest.importorskip("deltalake")
pytestmark = [pytest.mark.java, pytest.mark.nightly]
SLOW, SLOW_UNCOMPILED = 400_000_000, 40_000_000
"""Rows that take two executors some seconds, with and without compiled statements."""
EPSILON = Fraction(1, 2)


def conforms(url: str, files: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The cases that the engine counts otherwise; of some tables the files are read in place of the table."""
    wrong = {}
    for case in CASES:
        name = case.table.name
        try:
            check_at(url + files[name] if name in files else f"{url}#{stores.fragment(name)}", case)
        except AssertionError as difference:
            wrong[case.name] = str(difference)
    return wrong


def configured(folder: Path, source: str) -> Path:
    config = folder / "blowfish.toml"
    config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    with bf.curate(config, by="cora") as curator:
        curator.add(bf.Dataset("t", source=source, domain={"x": bf.integers(0, 9, null=0)}, epsilon="9"))
    return config


def during_a_job(session: SparkSession, act: Callable[[], object]) -> threading.Thread:
    """Acts once tasks have run for a moment."""
    tracker = session.sparkContext.statusTracker()

    def wait() -> None:
        while not any(
            stage and stage.numActiveTasks for stage in map(tracker.getStageInfo, tracker.getActiveStageIds())
        ):
            time.sleep(0.05)
        time.sleep(1.0)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def make_slow(session: SparkSession) -> None:
    for name, value in (("wholeStage", "true"), ("factoryMode", "FALLBACK")):
        session.conf.set(f"spark.sql.codegen.{name}", value)
    rows = session.range(0, SLOW, 1, 16).selectExpr("CAST(pmod(xxhash64(id), 10) AS BIGINT) AS x")
    rows.createOrReplaceTempView("slow")


def spent(config: Path) -> Fraction:
    with bf.curate(config, by="cora") as curator:
        report = curator.verify()
        assert report.is_sound, report.fault
        return curator.account("t").spent


def test_a_cluster_counts_alike_and_survives_a_worker_that_is_killed(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path) as cluster,
        running_spark(tmp_path, cluster.address, ON_A_CLUSTER) as session,
    ):
        stores.load_duckdb(tmp_path / "samples.duckdb", SAMPLES)
        stores.load_spark(tmp_path / "samples.duckdb", tmp_path, SAMPLES)
        assert session.sparkContext.master == cluster.address
        assert conforms(cluster.address) == {}
        check_people(cluster.address)
        folders = stores.load_delta(tmp_path / "samples.duckdb", tmp_path / "delta", SAMPLES)
        assert conforms(cluster.address, folders) == {}
        check_versions(cluster.address, tmp_path / "versions")
        make_slow(session)
        config = configured(tmp_path, f"{cluster.address}#slow")
        with bf.connect(config, analyst="ann") as db:
            question = db["t"].histogram("x")
            killing = during_a_job(session, cluster.kill_worker)
            answer = question.release(mechanism="identity", epsilon=str(EPSILON))
            killing.join()
            assert len(cluster.workers) == 1
            # No row is lost or counted twice; the noise of ten cells is beyond 1000 with probability e^-200.
            assert abs(sum(answer.raw) - SLOW) < 10_000
            assert spent(config) == EPSILON
            # A cluster that is gone: the release fails with its charge, and finishes on the same charge later.
            stopping = during_a_job(session, session.stop)
            with pytest.raises(ReleaseFailed) as failed:
                question.release(mechanism="identity", epsilon=str(EPSILON / 2), fresh=True, key="once")
            stopping.join()
            assert failed.value.can_retry
    with running_spark(tmp_path) as session:
        session.range(1000).selectExpr("CAST(id % 10 AS BIGINT) AS x").createOrReplaceTempView("slow")
        with bf.connect(config, analyst="ann") as db:
            before = spent(config)
            db["t"].histogram("x").release(mechanism="identity", epsilon=str(EPSILON / 2), fresh=True, key="once")
            assert spent(config) == before == EPSILON * 3 / 2


def check_versions(url: str, folder: Path) -> None:
    """The version of a Delta table proves that rows are the same: more accuracy costs the difference until a commit."""
    deltalake.write_deltalake(folder / "rows", pyarrow.table({"x": [1, 2, 2]}))
    config = configured(folder, f"{url}{folder}/rows")
    with bf.connect(config, analyst="ann") as db:
        question = db["t"].histogram("x")
        question.release(mechanism="identity", epsilon="0.1")
        assert question.release(mechanism="identity", epsilon="0.3").charged == Fraction(1, 5)
        deltalake.write_deltalake(folder / "rows", pyarrow.table({"x": [3]}), mode="append")
        question.release(mechanism="identity", epsilon="0.4")
        assert spent(config) == Fraction(7, 10)


@contextmanager
def while_they_count(cluster: Cluster, act: Callable[[], object]) -> Iterator[None]:
    """Acts once the executors have worked for a moment, which they must do within the block."""
    before = cluster.worked()
    ended, acted = threading.Event(), threading.Event()

    def wait() -> None:
        while not ended.wait(0.05):
            if cluster.worked() > before + 0.5:
                act()
                acted.set()
                return

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert acted.is_set(), "the count was over before"


def remote_session(url: str) -> Any:
    """A session whose statements need none of the threads that PySpark may have ended for good.

    A thread that frees a session which was not stopped waits for all of those threads, and fails if it is one of them.
    """
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=url)
    session.client.disable_reattachable_execute()
    return session


def make_view(session: Any, rows: int) -> None:
    numbers = f"SELECT CAST(pmod(xxhash64(id), 10) AS BIGINT) AS x FROM range(0, {rows}, 1, 16)"
    session.sql(f"CREATE VIEW slow AS {numbers}")


def test_a_connect_server_counts_alike_and_a_release_survives_a_worker_and_the_server(tmp_path: Path) -> None:
    port = free_port()
    url, settings = f"sc://127.0.0.1:{port}", {**SETTINGS, **ON_A_CLUSTER}
    with running_cluster(tmp_path) as cluster:
        with running_connect(tmp_path, cluster.address, port, settings) as server:
            session = remote_session(url)
            stores.load_duckdb(tmp_path / "samples.duckdb", SAMPLES)
            files = stores.load_connect(session, tmp_path / "samples.duckdb", tmp_path, SAMPLES)
            assert conforms(url, files) == {}
            check_people(url)
            folders = stores.load_delta(tmp_path / "samples.duckdb", tmp_path / "delta", SAMPLES)
            assert conforms(url, folders) == {}
            check_versions(url, tmp_path / "versions")
            make_view(session, SLOW_UNCOMPILED)
            config = configured(tmp_path, f"{url}#slow")
            with bf.connect(config, analyst="ann") as db:
                question = db["t"].histogram("x")
                with while_they_count(cluster, cluster.kill_worker):
                    answer = question.release(mechanism="identity", epsilon=str(EPSILON))
                assert len(cluster.workers) == 1
                # No row is lost or counted twice; the noise of ten cells is beyond 1000 with probability e^-200.
                assert abs(sum(answer.raw) - SLOW_UNCOMPILED) < 10_000
                assert spent(config) == EPSILON
                with while_they_count(cluster, server.kill), pytest.raises(ReleaseFailed) as failed:
                    question.release(mechanism="identity", epsilon=str(EPSILON / 2), fresh=True, key="once")
                assert failed.value.can_retry
        with running_connect(tmp_path, cluster.address, port, {**settings, "spark.cores.max": "1"}):
            make_view(remote_session(url), 1000)
            with bf.connect(config, analyst="ann") as db:
                before = spent(config)
                db["t"].histogram("x").release(mechanism="identity", epsilon=str(EPSILON / 2), fresh=True, key="once")
                assert spent(config) == before == EPSILON * 3 / 2
