"""Seconds of a release, and of its count alone, against the raw SQL GROUP BY on a DuckDB table of ten million rows.

The aim for a whole release of 100 bins is 1.3 times the raw GROUP BY plus 50 ms: charged, counted, noised and recorded
after its preview. Both sides take turns, each on a connection of its own, and each shows its best round.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

import blowfishdb as bf
from benchmarks.harness import Row, measure, scratch_config
from blowfishdb.model.calendar import dates
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import Axis, Predicate, col
from blowfishdb.session import Question
from blowfishdb.sources import open_source

ROWS = 10_000_000
ROUNDS = 5
BUDGET = "1000"
ALLOWED_SECONDS = 0.05
STATES = [f"S{number}" for number in range(50)]
DOMAIN = domain(
    {
        "age": integers(0, 99),
        "amount": bins(0, 100, width=1),
        "weight": bins(0, 10, width="0.1"),
        "fine": bins(0, 1, width="0.01"),
        "state": categorical(STATES),
        "day": dates("2020-01-01", "2023-12-31"),
    }
)
MAKE = f"""CREATE TABLE people AS SELECT i AS row_key, hash(i) % {ROWS // 10} AS person,
    (hash(i + 1) % 100)::INTEGER AS age, (hash(i + 2) % 1000000007) / 1e7 AS amount,
    (hash(i + 3) % 1000000007) / 1e8 AS weight, (hash(i + 4) % 1000000007) / 1000000007 AS fine,
    'S' || (hash(i + 5) % 50) AS state, DATE '2020-01-01' + (hash(i + 6) % 1461)::INTEGER AS day
    FROM range({ROWS}) t(i)"""
CASES: list[tuple[str, str, list[str | Axis], Predicate | None]] = [
    ("100 whole numbers", "SELECT age, COUNT(*) FROM people GROUP BY 1", ["age"], None),
    ("100 bins of a double", "SELECT floor(amount), COUNT(*) FROM people GROUP BY 1", ["amount"], None),
    ("100 bins of width 0.1", "SELECT floor(weight * 10), COUNT(*) FROM people GROUP BY 1", ["weight"], None),
    ("100 bins of width 0.01", "SELECT floor(fine * 100), COUNT(*) FROM people GROUP BY 1", ["fine"], None),
    ("50 categories", "SELECT state, COUNT(*) FROM people GROUP BY 1", ["state"], None),
    ("48 months", "SELECT date_trunc('month', day), COUNT(*) FROM people GROUP BY 1", [col("day").by("month")], None),
    (
        "100 whole numbers, filtered",
        "SELECT age, COUNT(*) FROM people WHERE amount < 50 GROUP BY 1",
        ["age"],
        col("amount") < 50,
    ),
    (
        "100 bins of a double, two filters",
        "SELECT floor(amount), COUNT(*) FROM people WHERE state IN ('S3', 'S4') OR day >= DATE '2022-01-01' GROUP BY 1",
        ["amount"],
        col("state").isin(["S3", "S4"]) | (col("day") >= "2022-01-01"),
    ),
]
RELEASED = (0, 1, 2, 6)
"""The cases that are also released."""
BOUND = 3
BOUNDED = f"""SELECT age, COUNT(*) FROM (SELECT age FROM people
    QUALIFY row_number() OVER (PARTITION BY person ORDER BY row_key) <= {BOUND}) GROUP BY 1"""


def run(data: Path | None) -> Iterator[Row]:
    """One row a question; `ratio` counts our seconds beyond the allowed 50 ms."""
    del data
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "people.duckdb"
        with duckdb.connect(str(file)) as connection:
            connection.execute(MAKE)
        yield from _releases(Path(folder))
        for name, sql, group_by, where in CASES:
            yield _compare(name, file, sql, compile_cells(DOMAIN, Policy(), group_by, where))
        yield _bounded(file)


def _releases(folder: Path) -> Iterator[Row]:
    """Charged releases through a session: previewed before, as people do, and without a preview."""
    config = scratch_config(folder)
    with bf.curate(config) as curator:
        curator.add(bf.Dataset("people", source="duckdb:///people.duckdb#people", domain=DOMAIN, epsilon=BUDGET))
    with bf.connect(config, analyst="bench") as session:
        for name, sql, group_by, where in (CASES[number] for number in RELEASED):
            table = session["people"] if where is None else session["people"].where(where)
            question = table.histogram(*group_by)
            yield _release(f"release of {name}", folder, sql, question, is_previewed=True)
            yield _release(f"release of {name}, no preview", folder, sql, question, is_previewed=False)


def _release(name: str, folder: Path, sql: str, question: Question, *, is_previewed: bool) -> Row:
    raw_seconds, our_seconds = [], []
    for number in range(ROUNDS):
        # Another epsilon each time: the same request would only be replayed.
        epsilon = f"0.{'1' if is_previewed else '2'}{number}1"
        if is_previewed:
            question.preview(epsilon=epsilon)
        raw_seconds.append(measure(lambda: _raw(folder / "people.duckdb", sql))[1])
        our_seconds.append(measure(functools.partial(question.release, epsilon=epsilon))[1])
    return _row(name, min(our_seconds), min(raw_seconds), None)


def _compare(name: str, file: Path, sql: str, cells: Cells) -> Row:
    source = open_source(f"duckdb:///{file}#people")
    raw_seconds, our_seconds, peaks = [], [], []
    for _ in range(ROUNDS):
        _, seconds, _ = measure(lambda: _raw(file, sql))
        raw_seconds.append(seconds)
        _, seconds, peak = measure(lambda: source.prepare(cells).run())
        our_seconds.append(seconds)
        peaks.append(peak)
    return _row(f"count of {name}", min(our_seconds), min(raw_seconds), max(peaks))


def _row(name: str, ours: float, raw: float, peak: float | None) -> Row:
    ratio = max(ours - ALLOWED_SECONDS, 0.0) / raw
    return Row(name, ours, raw, ratio, seconds=ours, peak_mb=peak, note=f"plain ratio {ours / raw:.2f}")


def _raw(file: Path, sql: str) -> object:
    with duckdb.connect(str(file), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def _bounded(file: Path) -> Row:
    source = open_source(f"duckdb:///{file}#people")
    cells = compile_cells(DOMAIN, Policy(), ["age"])
    unit = Person("person", at_most=BOUND, order_by="row_key")
    raw = min(measure(lambda: _raw(file, BOUNDED))[1] for _ in range(2))
    ours = [measure(lambda: source.prepare(cells, unit).run()) for _ in range(2)]
    return _row(
        f"count of at most {BOUND} rows per person", min(run[1] for run in ours), raw, max(run[2] for run in ours)
    )
