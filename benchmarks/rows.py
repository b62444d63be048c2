"""Growth over rows and cells: a whole release against the raw GROUP BY and a plain scan, and quotes a second.

Tables are made by the engine itself. For DuckDB the rows grow tenfold up to `--most-rows`: 10^8 (half a gigabyte of
disk, and a minute to make), or 10^7 where less than four gigabytes are free. Spark counts as many, at most 10^7, in
Parquet files and in one process; `cluster` has several. `ratio` is our seconds / those of the raw GROUP BY; the note
has the floor, a sum over the same column. All is previewed before, as people do.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb

import blowfishdb as bf
from benchmarks.harness import Row, Work, measure, progress, scratch_config, with_history
from blowfishdb.session import Question

CELLS = 4096
FEWEST, MOST, MOST_ON_SMALL_DISK = 100_000, 100_000_000, 10_000_000
ROOM = 4 * 2**30
"""Free bytes of disk from which on the most rows are counted."""
MOST_ON_SPARK = 10_000_000
ROUNDS = 3
ROWS_UNDER_CELLS = 1_000_000
CELL_COUNTS = (100, 10_000, 100_000, 1_000_000)
QUOTE_SECONDS = 3.0
BUDGET = 1000


def run(data: Path | None) -> Iterator[Row]:
    """Up to a hundred million rows where disk allows."""
    del data
    yield from with_history("rows", _rows(_usual_most(), with_spark=True))


def _usual_most() -> int:
    return MOST if shutil.disk_usage(tempfile.gettempdir()).free >= ROOM else MOST_ON_SMALL_DISK


def run_with(arguments: Sequence[str]) -> Work:
    """The benchmark up to another number of rows, or without Spark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks rows")
    parser.add_argument("--most-rows", type=int, default=_usual_most())
    parser.add_argument("--no-spark", action="store_true", help="leave out Spark, which needs Java and a gigabyte")
    options = parser.parse_args(arguments)

    def sized(data: Path | None) -> Iterator[Row]:
        del data
        yield from with_history("rows", _rows(options.most_rows, with_spark=not options.no_spark))

    return sized


def _rows(most: int, *, with_spark: bool) -> Iterator[Row]:
    sizes = [size for size in (10**power for power in range(5, 11)) if FEWEST <= size <= most] or [most]
    with tempfile.TemporaryDirectory() as scratch, progress("rows", len(sizes) + len(CELL_COUNTS) + 2) as bar:
        folder = Path(scratch)
        for number, size in enumerate(sizes, 1):
            yield _on_duckdb(folder, size)
            bar(number)
        for number, cells in enumerate(CELL_COUNTS, len(sizes) + 1):
            yield _over_cells(folder, cells, min(ROWS_UNDER_CELLS, most))
            bar(number)
        yield from _quotes(folder)
        if with_spark:
            yield _on_spark(folder, min(most, MOST_ON_SPARK))


WIDE, WIDE_ROWS = 1_000_000, 1_000_000
MOST_TIMES_RAW, REOPENED = 3.0, 0.1


def headline(data: Path | None) -> Iterator[Row]:
    """CPU seconds of releases of a million cells against the raw count, and of their stored answers opened again."""
    del data
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "wide.duckdb"
        with duckdb.connect(str(file)) as connection:
            made = f"SELECT (hash(i) % {WIDE})::INTEGER AS x FROM range({WIDE_ROWS}) t(i)"
            connection.execute(f"CREATE TABLE grown AS {made}")

        def raw() -> None:
            with duckdb.connect(str(file), read_only=True) as connection:
                connection.execute("SELECT x, count(*) FROM grown GROUP BY 1 ORDER BY 1").fetchall()

        other = min(_cpu(raw) for _ in range(ROUNDS))
        for kind in ("histogram", "cdf"):
            released, reopened = [], []
            for number in range(ROUNDS):
                # Each is the first release of its account: later ones would share its noise.
                with _asked(folder / f"{kind}-{number}", f"duckdb:///{file}#grown", WIDE) as session:
                    question: Question = getattr(session["grown"], kind)("x")
                    question.preview(epsilon="0.01")
                    released.append(_cpu(lambda: question.release(epsilon="0.01")))  # noqa: B023
                    reopened.append(_cpu(lambda: question.release(epsilon="0.01")))  # noqa: B023
            ours = min(released)
            yield Row(f"{WIDE:.0e} cells, {kind}: release against raw", ours, other, ours / other, aim=MOST_TIMES_RAW)
            again = min(reopened)
            yield Row(f"{WIDE:.0e} cells, {kind}: opened again", again, REOPENED, again / REOPENED, aim=1.0)


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _on_duckdb(folder: Path, size: int) -> Row:
    file = folder / "grown.duckdb"
    file.unlink(missing_ok=True)
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE TABLE grown AS SELECT (hash(i) % {CELLS})::INTEGER AS x FROM range({size}) t(i)")

    def raw(sql: str) -> Callable[[], object]:
        def work() -> object:
            with duckdb.connect(str(file), read_only=True) as connection:
                return connection.execute(sql).fetchall()

        return work

    source = f"duckdb:///{file}#grown"
    return _compared(
        f"DuckDB, {size:.0e} rows",
        folder / f"duckdb-{size}",
        source,
        raw("SELECT x, count(*) FROM grown GROUP BY 1"),
        raw("SELECT sum(x) FROM grown"),
    )


def _on_spark(folder: Path, size: int) -> Row:
    case = f"Spark, local, {size:.0e} rows"
    try:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[*]")
        for name in ("spark.driver.bindAddress", "spark.driver.host"):
            builder = builder.config(name, "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    except Exception as problem:  # noqa: BLE001  # without Java there is no Spark, whatever it raises
        return Row(case, note=f"not run: {type(problem).__name__}; Spark needs Java 17")
    parquet = folder / "spark"
    session.range(size).selectExpr(f"cast(pmod(xxhash64(id), {CELLS}) as int) as x").write.parquet(str(parquet))
    session.read.parquet(str(parquet)).createOrReplaceTempView("grown")
    row = _compared(
        case,
        folder / "asked spark",
        f"spark://local{parquet}",
        lambda: session.sql("SELECT x, count(*) FROM grown GROUP BY 1").collect(),
        lambda: session.sql("SELECT sum(x) FROM grown").collect(),
    )
    session.stop()
    return row


def _compared(case: str, place: Path, source: str, raw: Callable[[], object], scan: Callable[[], object]) -> Row:
    """The three take turns; each shows its best round."""
    ours, theirs, floors, peaks = [], [], [], []
    with _asked(place, source, CELLS) as session:
        question = session["grown"].histogram("x")
        question.release(epsilon="0.001")
        for number in range(ROUNDS):
            epsilon = f"0.01{number}"
            question.preview(epsilon=epsilon)
            floors.append(measure(scan)[1])
            theirs.append(measure(raw)[1])
            _, seconds, peak = measure(functools.partial(question.release, epsilon=epsilon))
            ours.append(seconds)
            peaks.append(peak)
    best, other = min(ours), min(theirs)
    note = f"a scan takes {min(floors):.3f} s; ours beyond the raw GROUP BY {1000 * (best - other):.0f} ms"
    return Row(case, best, other, best / other, best, max(peaks), note)


def _over_cells(folder: Path, cells: int, size: int) -> Row:
    """A release over more and more cells of as many rows; the quote before it is timed on its own."""
    file = folder / f"cells-{cells}.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE TABLE grown AS SELECT (hash(i) % {cells})::INTEGER AS x FROM range({size}) t(i)")
    with _asked(folder / f"cells-{cells}", f"duckdb:///{file}#grown", cells) as session:
        question = session["grown"].cdf("x")
        question.preview(epsilon="0.001")
        _, quoted, _ = measure(lambda: question.preview(epsilon="0.01"))
        _, released, peak = measure(lambda: question.release(epsilon="0.01"))

        def raw() -> object:
            with duckdb.connect(str(file), read_only=True) as connection:
                return connection.execute("SELECT x, count(*) FROM grown GROUP BY 1 ORDER BY 1").fetchall()

        _, other, _ = measure(raw)
    note = f"running counts of {size:.0e} rows; the preview before took {quoted:.3f} s"
    return Row(f"{cells:.0e} cells", released, other, released / other, released, peak, note)


def _quotes(folder: Path) -> Iterator[Row]:
    """How many questions a second one process quotes, every one new to it."""
    file = folder / "cells-100.duckdb"
    with _asked(folder / "quotes", f"duckdb:///{file}#grown", 100) as session:
        table = session["grown"]
        for name, question in (("histogram", table.histogram("x")), ("running counts", table.cdf("x"))):
            question.preview(epsilon="0.5")
            rate = _rate(question)
            yield Row(
                f"quotes a second, {name} of 100 cells, by budget", rate, note="with the prices of all mechanisms"
            )


def _rate(question: Question) -> float:
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < QUOTE_SECONDS:
        done += 1
        question.preview(epsilon=f"0.{1000 + done}")
    return done / (time.perf_counter() - began)


def _asked(place: Path, source: str, cells: int) -> bf.Session:
    """A session over one table in a folder of its own."""
    place.mkdir()
    config = scratch_config(place)
    domain = {"x": bf.integers(0, cells - 1, null=0)}
    policy = bf.Policy({"x": bf.threshold(min(100, cells - 1))})
    with bf.curate(config) as curator:
        curator.add(bf.Dataset("grown", source=source, domain=domain, policy=policy, epsilon=BUDGET))
    return bf.connect(config, analyst="benchmark")
