"""A Spark cluster: a release against the raw GROUP BY, by one and two executors, growing with rows.

A master, one or two workers and, in the last rows, a Spark Connect server are started, all processes of their own on
this machine; each executor has one core. The rows are a column of 4,096 values in Parquet files. `ours`, `other` and
their ratio are seconds of wall time, the best of three rounds that take turns after two to warm up; the note has the
CPU of the executors, the driver and this process together, and the share of the executors. `--rows` and `--case`
narrow it.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

import blowfishdb as bf
from benchmarks.harness import Row, Work, scratch_config
from tools.spark_cluster import ON_LOOPBACK, Cluster, cpu_of, free_port, running_cluster, running_connect

CELLS = 4096
SIZES = (1_000_000, 10_000_000, 30_000_000)
FILES = 8
WARM, ROUNDS = 2, 3
RAW = "SELECT x, count(*) FROM grown GROUP BY 1"
SETTINGS = {
    **ON_LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


@dataclass(frozen=True)
class Driver:
    """What sends statements to the cluster: its address in a source, a session beside ours, the CPU of its process."""

    address: str
    session: Any
    cpu: Callable[[], float]


def run(data: Path | None) -> Iterator[Row]:
    """One and two executors, and two behind Spark Connect."""
    del data
    yield from _rows(SIZES, CASES)


def run_with(arguments: Sequence[str]) -> Work:
    """The benchmark with other numbers of rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster")
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES, help="how many rows, one size or more")
    parser.add_argument("--case", nargs="+", default=[*CASES], choices=[*CASES])
    options = parser.parse_args(arguments)
    return lambda _: _rows(options.rows, options.case)


def _rows(sizes: Sequence[int], cases: Iterable[str]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {size: _made(folder / f"rows-{size}", size) for size in sizes}
        for case in cases:
            executors, driving = CASES[case]
            place = folder / case.replace(", ", "-").replace(" ", "-")
            place.mkdir()
            with running_cluster(place, executors) as cluster, driving(place, cluster) as driver:
                for size, table in tables.items():
                    yield _compared(f"{case}, {size:.0e} rows", place / str(size), table, cluster, driver)


def _made(folder: Path, size: int) -> Path:
    """Parquet files with a column of so many rows in all."""
    folder.mkdir()
    for number in range(FILES):
        low, high = size * number // FILES, size * (number + 1) // FILES
        rows = duckdb.sql(f"SELECT (hash(i) % {CELLS})::INTEGER AS x FROM range({low}, {high}) t(i)")
        rows.write_parquet(str(folder / f"{number}.parquet"))
    return folder


@contextmanager
def _session(folder: Path, cluster: Cluster) -> Iterator[Driver]:
    """A driver below this process."""
    from pyspark.sql import SparkSession

    del folder
    builder = SparkSession.builder.master(cluster.address)
    for name, value in {**SETTINGS, "spark.cores.max": str(len(cluster.workers))}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    gateway: Any = session.sparkContext._gateway
    try:
        yield Driver(cluster.address, session, functools.partial(cpu_of, gateway.proc.pid))
    finally:
        session.stop()


@contextmanager
def _connected(folder: Path, cluster: Cluster) -> Iterator[Driver]:
    """A driver inside a Spark Connect server."""
    from pyspark.sql.connect.session import SparkSession

    port = free_port()
    settings = {**SETTINGS, "spark.cores.max": str(len(cluster.workers))}
    with running_connect(folder, cluster.address, port, settings) as server:
        session = SparkSession(connection=f"sc://127.0.0.1:{port}")
        try:
            yield Driver(f"sc://127.0.0.1:{port}", session, functools.partial(cpu_of, server.pid))
        finally:
            session.stop()


CASES: dict[str, tuple[int, Callable[[Path, Cluster], AbstractContextManager[Driver]]]] = {
    "1 executor": (1, _session),
    "2 executors": (2, _session),
    "2 executors, Spark Connect": (2, _connected),
}


def _compared(case: str, place: Path, table: Path, cluster: Cluster, driver: Driver) -> Row:
    """A release and the raw statement take turns; each shows its best round."""
    place.mkdir()
    config = scratch_config(place)
    with bf.curate(config) as curator:
        domain = {"x": bf.integers(0, CELLS - 1, null=0)}
        curator.add(bf.Dataset("grown", source=f"{driver.address}{table}", domain=domain, epsilon=1000))

    def measured(work: Callable[[], object]) -> tuple[float, float, float]:
        """Seconds of wall time, of all CPU, and of the CPU of the executors."""
        began, before, inside = time.perf_counter(), time.process_time() + driver.cpu(), cluster.worked()
        work()
        wall, executors = time.perf_counter() - began, cluster.worked() - inside
        return wall, time.process_time() + driver.cpu() - before + executors, executors

    def raw() -> None:
        driver.session.sql(RAW).collect()

    driver.session.read.parquet(str(table)).createOrReplaceTempView("grown")
    ours, theirs = [], []
    with bf.connect(config, analyst="benchmark") as session:
        question = session["grown"].histogram("x")
        for number in range(WARM + ROUNDS):
            epsilon = f"0.01{number}"
            question.preview(epsilon=epsilon)
            theirs.append(measured(raw))
            ours.append(measured(functools.partial(question.release, epsilon=epsilon)))
    (best, cpu, inside), (other, other_cpu, other_inside) = min(ours[WARM:]), min(theirs[WARM:])
    note = f"CPU {cpu:.2f} s, {inside:.2f} of it in executors; raw {other_cpu:.2f} s, {other_inside:.2f} in executors"
    return Row(case, best, other, best / other, note=note)
