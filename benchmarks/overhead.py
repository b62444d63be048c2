"""CPU of a whole release against the raw GROUP BY on ten million rows: each engine, each grouping.

A release is charged, counted, noised and recorded, after its preview. Both sides of all groupings take turns, each on a
connection of its own. Shown are medians over the rounds: of the CPU seconds of this process and of the engine, and of
their ratio within a round, because a shared machine changes its speed between rounds. Irregular bins stand beside
regular ones of as many bins. Java compiles what it has run often, so on Spark they take turns for a while before any is
measured: its figures are those of a server that has counted by the same columns for a minute or two. Each first count
takes several seconds of CPU on either side. `--rows`, `--engine` and `--grouping` narrow it; `--counts` leaves all but
counting out.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import blowfishdb as bf
from benchmarks.harness import Row, Work, scratch_config
from blowfishdb.model.calendar import dates
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import Axis, Predicate, col
from blowfishdb.sources import open_source
from blowfishdb.sources.spark import OWN_SESSION
from tools.database_servers import ServerFailed, postgres_server

ROWS = 10_000_000
ROUNDS = 12
BUDGET = "1000"
AIM, IRREGULAR_AIM = 1.2, 1.0
"""The most that a release may cost of the raw GROUP BY, and irregular bins of regular ones."""
STATES = [f"S{number}" for number in range(50)]
EDGES = 500
LAST = 100.0000008
"""Beyond the largest amount."""


def irregular_edges() -> list[str]:
    """Edges at no regular distance: more of them where numbers are small, and none a round number."""
    inner = LAST * ((np.arange(1, EDGES - 1) + 0.3 * np.sin(np.arange(1, EDGES - 1))) / (EDGES - 1)) ** 2
    return ["0", *(f"{edge:.9f}" for edge in inner), str(LAST)]


DOMAIN = domain(
    {
        "age": integers(0, 99),
        "amount": bins(0, 100, width=1),
        "cost": bins(0, 100, width="0.2"),
        "price": bins(edges=irregular_edges()),
        "weight": bins(0, 10, width="0.1"),
        "fine": bins(0, 1, width="0.01"),
        "state": categorical(STATES),
        "day": dates("2020-01-01", "2023-12-31"),
    }
)
"""`amount`, `cost` and `price` are the same numbers, in bins of other kinds."""
COLUMNS = """i AS row_key, hash(i) % ({rows} // 10) AS person, (hash(i + 1) % 100)::INTEGER AS age,
    (hash(i + 2) % 1000000007) / 1e7 AS amount, (hash(i + 2) % 1000000007) / 1e7 AS cost,
    (hash(i + 2) % 1000000007) / 1e7 AS price, (hash(i + 3) % 1000000007) / 1e8 AS weight,
    (hash(i + 4) % 1000000007) / 1000000007 AS fine, 'S' || (hash(i + 5) % 50) AS state,
    DATE '2020-01-01' + (hash(i + 6) % 1461)::INTEGER AS day"""
POSTGRES_COLUMNS = """row_key bigint, person bigint, age integer, amount double precision, weight double precision,
    fine double precision, state text, day date"""
POSTGRES_VIEW = "CREATE VIEW people AS SELECT *, amount AS cost, amount AS price FROM people_rows"
"""A row is read from its beginning: of two columns of the same numbers the later one takes longer."""
IRREGULAR, REGULAR = "500 irregular bins of a double", "500 bins of a double"


@dataclass(frozen=True)
class Grouping:
    """A histogram, and the statement that an analyst would write for it."""

    name: str
    keys: str
    by: tuple[str | Axis, ...]
    where: Predicate | None = None
    condition: str = ""

    def raw(self, place: Place) -> str:
        """The statement over the table of an engine."""
        keys = place.searched if place.searched and self.name == IRREGULAR else self.keys
        places = ", ".join(str(place + 1) for place in range(len(self.by)))
        return f"SELECT {keys}, COUNT(*) FROM {place.table} {self.condition} GROUP BY {places}"


GROUPINGS = (
    Grouping("100 whole numbers", "age", ("age",)),
    Grouping("100 bins of a double", "floor(amount)", ("amount",)),
    Grouping(REGULAR, "floor(cost * 5)", ("cost",)),
    # Nobody writes these where an engine has no search of its own; the statement of equal bins then stands for them.
    Grouping(IRREGULAR, "floor(price * 5)", ("price",)),
    Grouping("100 bins of width 0.1", "floor(weight * 10)", ("weight",)),
    Grouping("100 bins of width 0.01", "floor(fine * 100)", ("fine",)),
    Grouping("50 categories", "state", ("state",)),
    Grouping("1,461 days", "day", ("day",)),
    Grouping("48 months", "date_trunc('month', day)", (col("day").by("month"),)),
    Grouping("categories by whole numbers", "state, age", ("state", "age")),
    Grouping("bins by categories", "floor(amount), state", ("amount", "state")),
    Grouping("months by bins", "date_trunc('month', day), floor(amount)", (col("day").by("month"), "amount")),
    Grouping("100 whole numbers, filtered", "age", ("age",), col("amount") < 50, "WHERE amount < 50"),
    Grouping(
        "100 bins of a double, two filters",
        "floor(amount)",
        ("amount",),
        col("state").isin(["S3", "S4"]) | (col("day") >= "2022-01-01"),
        "WHERE state IN ('S3', 'S4') OR day >= DATE '2022-01-01'",
    ),
)


@dataclass(frozen=True)
class Place:
    """An engine that holds the table: its address, how a raw statement runs, and the CPU seconds it spent so far."""

    name: str
    source: str
    table: str
    raw: Callable[[str], object]
    spent: Callable[[], float]
    counted: int = ROUNDS
    warming: int = 0
    """Counts of either side, of all groupings in turn, before the first that is measured."""
    searched: str = ""
    """How people find irregular bins, where the engine has a search of its own."""


@contextmanager
def duckdb_place(folder: Path, rows: int) -> Iterator[Place]:
    """A table of DuckDB in the folder."""
    file = folder / "people.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT {COLUMNS.format(rows=rows)} FROM range({rows}) t(i)")

    def raw(sql: str) -> object:
        with duckdb.connect(str(file), read_only=True) as connection:
            return connection.execute(sql).fetchall()

    yield Place("DuckDB", f"duckdb:///{file}#people", "people", raw, time.process_time)


def _write_parquet(folder: Path, rows: int) -> Path:
    file = folder / "people.parquet"
    with duckdb.connect() as connection:
        made = f"SELECT {COLUMNS.format(rows=rows)} FROM range({rows}) t(i)"
        connection.execute(f"COPY ({made}) TO '{file}' (FORMAT parquet)")
    return file


@contextmanager
def parquet_place(folder: Path, rows: int) -> Iterator[Place]:
    """A Parquet file that DuckDB reads."""
    file = _write_parquet(folder, rows)

    def raw(sql: str) -> object:
        with duckdb.connect() as connection:
            return connection.execute(sql).fetchall()

    yield Place("Parquet", str(file), f"'{file}'", raw, time.process_time)


@contextmanager
def postgres_place(folder: Path, rows: int) -> Iterator[Place]:
    """A table of a PostgreSQL server, whose processes add to ours."""
    import psycopg

    with postgres_server({"fsync": "off", "max_wal_size": "8GB"}) as server:
        text = folder / "people.csv"
        with duckdb.connect() as connection:
            made = f"SELECT * EXCLUDE (cost, price) FROM (SELECT {COLUMNS.format(rows=rows)} FROM range({rows}) t(i))"
            connection.execute(f"COPY ({made}) TO '{text}' (FORMAT csv, HEADER false)")
        with psycopg.connect(server.url, autocommit=True) as loading:
            loading.execute(f"CREATE TABLE people_rows ({POSTGRES_COLUMNS})".encode())
            with text.open("rb") as lines, loading.cursor().copy("COPY people_rows FROM STDIN (FORMAT csv)") as copy:
                while piece := lines.read(2**20):
                    copy.write(piece)
            loading.execute("VACUUM ANALYZE people_rows")
            loading.execute(POSTGRES_VIEW)
        text.unlink()
        number = server.process.pid if server.process is not None else os.getpid()

        def raw(sql: str) -> object:
            with psycopg.connect(server.url) as connection:
                return connection.execute(sql.encode()).fetchall()

        def spent() -> float:
            time.sleep(0.1)  # the server counts what a process spent when it has seen it end
            return time.process_time() + _of_process(number)

        searched = f"width_bucket(price, ARRAY[{', '.join(irregular_edges())}]::double precision[])"
        yield Place("PostgreSQL", f"{server.url}#people", "people", raw, spent, searched=searched)


@contextmanager
def spark_place(folder: Path, rows: int) -> Iterator[Place]:
    """A Parquet folder of a Spark on this machine, whose process adds to ours."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "2g")
    for name in ("spark.driver.bindAddress", "spark.driver.host"):
        builder = builder.config(name, "127.0.0.1")
    for name, value in {**OWN_SESSION, "spark.sql.shuffle.partitions": "4"}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    gateway: Any = session.sparkContext._gateway
    number = gateway.proc.pid
    parquet = folder / "spark"
    parquet.mkdir()
    _write_parquet(parquet, rows)
    session.read.parquet(str(parquet)).createOrReplaceTempView("people")

    def spent() -> float:
        return time.process_time() + _of_process(number)

    yield Place(
        "Spark",
        f"spark://local{parquet}",
        "people",
        lambda sql: session.sql(sql).collect(),
        spent,
        counted=16,
        warming=240,
    )
    session.stop()


def _of_process(number: int) -> float:
    """The CPU seconds of a process and of its children that have ended."""
    text = Path(f"/proc/{number}/stat").read_text(encoding="ascii")
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


Opening = Callable[[Path, int], AbstractContextManager[Place]]
ENGINES: dict[str, Opening] = {
    "duckdb": duckdb_place,
    "parquet": parquet_place,
    "postgresql": postgres_place,
    "spark": spark_place,
}


def run(data: Path | None) -> Iterator[Row]:
    """Every engine and grouping, and rows bounded per person."""
    yield from headline(data)


def headline(data: Path | None) -> Iterator[Row]:
    """One row an engine and grouping; the ratio is our CPU time over that of the raw statement."""
    del data
    for name in ENGINES:
        yield from _on_engine(name, ROWS, GROUPINGS, is_count=False)
    yield _bounded()


def run_with(arguments: Sequence[str]) -> Work:
    """The benchmark on other numbers of rows, some engines or some groupings."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks overhead")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--engine", action="append", choices=[*ENGINES])
    parser.add_argument("--grouping", action="append", metavar="PART", help="groupings with these words in their name")
    parser.add_argument("--counts", action="store_true", help="the counting alone, without charge, noise and record")
    options = parser.parse_args(arguments)
    chosen = [one for one in GROUPINGS if not options.grouping or any(part in one.name for part in options.grouping)]

    def rows(data: Path | None) -> Iterator[Row]:
        del data
        for name in options.engine or ENGINES:
            yield from _on_engine(name, options.rows, chosen, is_count=options.counts)
        if not arguments:
            yield _bounded()

    return rows


def _on_engine(name: str, rows: int, groupings: Sequence[Grouping], *, is_count: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with ENGINES[name](Path(folder), rows) as place:
                yield from (_counts if is_count else _releases)(place, Path(folder), groupings)
        except (ImportError, ServerFailed) as problem:
            yield Row(f"{name}: not run", note=f"{type(problem).__name__}: {problem}")


def _releases(place: Place, folder: Path, groupings: Sequence[Grouping]) -> Iterator[Row]:
    """Charged releases through a session, each previewed before, as people do."""
    config = scratch_config(folder)
    with bf.curate(config) as curator:
        curator.add(bf.Dataset("people", source=place.source, domain=DOMAIN, epsilon=BUDGET))
    numbers = iter(range(1, 1000))
    with bf.connect(config, analyst="bench") as session:

        def made(grouping: Grouping) -> Callable[[], Callable[[], object]]:
            table = session["people"] if grouping.where is None else session["people"].where(grouping.where)
            question = table.histogram(*grouping.by)

            def ready() -> Callable[[], object]:
                # Another epsilon each time: the same request would only be replayed.
                epsilon = f"0.2{next(numbers):03}"
                question.preview(epsilon=epsilon)
                return functools.partial(question.release, epsilon=epsilon)

            return ready

        yield from _compared(place, groupings, made)


def _counts(place: Place, folder: Path, groupings: Sequence[Grouping]) -> Iterator[Row]:
    del folder
    source = open_source(place.source)

    def made(grouping: Grouping) -> Callable[[], Callable[[], object]]:
        cells = compile_cells(DOMAIN, Policy(), grouping.by, grouping.where)
        return lambda: lambda: source.prepare(cells).run()

    yield from _compared(place, groupings, made)


def _compared(
    place: Place, groupings: Sequence[Grouping], made: Callable[[Grouping], Callable[[], Callable[[], object]]]
) -> Iterator[Row]:
    prepared = {grouping.name: made(grouping) for grouping in groupings}

    def both(grouping: Grouping) -> tuple[float, float]:
        work = prepared[grouping.name]()
        other = _cpu(place, functools.partial(place.raw, grouping.raw(place)))
        return _cpu(place, work), other

    for grouping in itertools.islice(itertools.cycle(groupings), place.warming):
        both(grouping)
    rounds = [{grouping.name: both(grouping) for grouping in groupings} for _ in range(place.counted)]
    for name in prepared:
        yield _row(f"{place.name}, {name}", [each[name] for each in rounds], AIM)
    if {REGULAR, IRREGULAR} <= prepared.keys():
        pairs = [(each[IRREGULAR][0], each[REGULAR][0]) for each in rounds]
        yield _row(f"{place.name}, irregular against regular", pairs, IRREGULAR_AIM)


def _row(case: str, rounds: Sequence[tuple[float, float]], aim: float) -> Row:
    ours, other = np.array(rounds).T
    return Row(case, float(np.median(ours)), float(np.median(other)), float(np.median(ours / other)), aim=aim)


def _cpu(place: Place, work: Callable[[], object]) -> float:
    before = place.spent()
    work()
    return place.spent() - before


BOUND = 3
BOUNDED = f"""SELECT age, COUNT(*) FROM (SELECT age FROM people
    QUALIFY row_number() OVER (PARTITION BY person ORDER BY row_key) <= {BOUND}) GROUP BY 1"""


def _bounded() -> Row:
    """The count of at most so many rows a person, on DuckDB."""
    with tempfile.TemporaryDirectory() as folder, duckdb_place(Path(folder), ROWS) as place:
        source = open_source(place.source)
        cells = compile_cells(DOMAIN, Policy(), ["age"])
        unit = Person("person", at_most=BOUND, order_by="row_key")
        raw = min(_cpu(place, lambda: place.raw(BOUNDED)) for _ in range(2))
        ours = min(_cpu(place, lambda: source.prepare(cells, unit).run()) for _ in range(2))
    return Row(f"DuckDB, count of at most {BOUND} rows per person", ours, raw, ours / raw, aim=AIM)
