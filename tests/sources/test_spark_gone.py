"""Spark that is gone in the middle of a count, driver or cluster: one charge, and what comes back answers.

A session that BlowfishDB started itself, in one process that goes on: what is paid is answered meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.errors import ReleaseFailed, SourceFailed
from tests.sources.spark_session import ON_A_CLUSTER, SETTINGS
from tests.sources.test_spark_cluster import configured, spent, while_they_count
from tools.spark_cluster import free_port, running_cluster

pytestmark = [
    pytest.mark.java,
    pytest.mark.nightly,
    # A driver that was killed leaves its sockets behind.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]
ROWS = 30_000_000
"""Rows that take Spark, uncompiled, some seconds."""
PAID, HANGING = Fraction(1, 2), Fraction(1, 4)
LONGEST = 120.0
"""Seconds in which what is back is found."""


def make_rows(folder: Path) -> str:
    """The settings of a session, after the path of a table that it counts slowly."""
    file = folder / "rows.parquet"
    duckdb.sql(f"SELECT hash(range) % 10 AS x FROM range({ROWS})").write_parquet(str(file))
    return f"{file}?{urlencode(SETTINGS | ON_A_CLUSTER)}"


@contextmanager
def while_it_counts(act: Callable[[], object]) -> Iterator[None]:
    """Acts when a job of this process's session has run for a moment."""

    def wait() -> None:
        while active_jobs() == 0:
            time.sleep(0.05)
        time.sleep(1.0)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    yield
    thread.join()


def active_jobs() -> int:
    """The number of jobs that the session of this process runs."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return 0 if context is None else len(context.statusTracker().getActiveJobsIds())


def kill_driver() -> None:
    from pyspark import SparkContext

    SparkContext._gateway.proc.kill()  # type: ignore[union-attr]


@pytest.mark.parametrize("gone", ["driver", "cluster"])
def test_what_is_gone_ends_its_count_and_what_comes_back_answers(tmp_path: Path, gone: str) -> None:
    options, port = make_rows(tmp_path), free_port()
    with ExitStack() as running:
        cluster = running.enter_context(running_cluster(tmp_path, port=port)) if gone == "cluster" else None
        address = "spark://local" if cluster is None else cluster.address
        config = configured(tmp_path, f"{address}{options}")
        db = running.enter_context(bf.connect(config, analyst="ann"))
        question = db["t"].histogram("x")
        # Fresh: out of what is paid, an answer at less would follow without a count.
        hanging: dict[str, Any] = {"mechanism": "identity", "epsilon": str(HANGING), "fresh": True, "key": "once"}
        paid = question.release(mechanism="identity", epsilon=str(PAID))
        assert abs(sum(paid.raw) - ROWS) < 10_000
        killed = while_it_counts(kill_driver) if cluster is None else while_they_count(cluster, cluster.kill)
        with killed, pytest.raises(ReleaseFailed) as failed:
            question.release(**hanging)
        assert failed.value.can_retry
        assert question.release(mechanism="identity", epsilon=str(PAID)).to_json() == paid.to_json()
        if cluster is not None:
            with pytest.raises(SourceFailed):
                db["t"].histogram("x").release(mechanism="identity", epsilon="0.1")
            running.enter_context(running_cluster(tmp_path, port=port))
        answer, began = None, time.monotonic()
        while answer is None:
            assert time.monotonic() - began < LONGEST, "what came back was not found"
            try:
                answer = question.release(**hanging)
            except (ReleaseFailed, SourceFailed):
                time.sleep(1.0)
        assert abs(sum(answer.raw) - ROWS) < 10_000
    assert spent(config) == PAID + HANGING
