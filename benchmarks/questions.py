"""The questions people ask: the share of a corpus that is answered, and joint statements against one by one.

`ours` of a report is its epsilon as one statement, `other` the sum of its aggregates asked one by one for the same
intervals; both are proven prices, not measurements. `ours` of the speed is the seconds of a whole release over so many
rows, `other` those of the raw statement on the same engine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb

import blowfishdb as bf
from benchmarks.harness import Row, measure, scratch_config
from blowfishdb.accuracy.columns import column_alphas
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import divided
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import BlowfishError
from blowfishdb.model.domain import Domain
from blowfishdb.model.query import Query
from blowfishdb.sql import names_of, parse, query_of, selection_of
from tests.sql.corpus import ADULT, ADULT_QUESTIONS, REFUSALS, VISIT_QUESTIONS, VISITS, lines

ALLOWED = 0.6
ROWS = 10_000_000
SIZE = 1000
PATIENTS = bf.Policy(unit=bf.person("patient", at_most=3, order_by="nr"))
REPORTS = (
    "SELECT ward, COUNT(*), SUM(nights), AVG(nights) FROM visits GROUP BY ward",
    "SELECT sex, COUNT(*), SUM(cost), AVG(cost) FROM visits GROUP BY sex",
    "SELECT ward, sex, COUNT(*), SUM(nights), AVG(nights) FROM visits GROUP BY ward, sex",
    "SELECT ward, COUNT(*), AVG(nights), STDDEV(nights) FROM visits GROUP BY ward",
)
RAW = "SELECT sex, COUNT(*), SUM(hours_per_week), AVG(hours_per_week) FROM {table} GROUP BY sex"


def run(data: Path | None) -> Iterator[Row]:
    """The corpus, each report, and a release over many rows."""
    del data
    yield _answered()
    for report in REPORTS:
        yield _joint(report)
    yield _timed()


def _answered() -> Row:
    cases = [(VISITS, text) for _, text in (*lines(VISIT_QUESTIONS), *lines(REFUSALS))]
    cases += [(ADULT, text) for _, text in lines(ADULT_QUESTIONS)]
    answered = sum(_is_answered(domain, text) for domain, text in cases)
    share = answered / len(cases)
    return Row("statements answered", share, 0.8, share / 0.8, note=f"{answered} of {len(cases)}")


def _is_answered(domain: Domain, text: str) -> bool:
    try:
        statement = parse(text)
        query = query_of(statement, domain)
        selection_of(statement, names_of(statement, domain), query)
        for table in divided(domain, PATIENTS, replace(query, rows=SIZE) if query.kind == "table" else query):
            compile_query(domain, PATIENTS, table)
    except BlowfishError:
        return False
    return True


def _joint(report: str) -> Row:
    query = replace(query_of(parse(report), VISITS), rows=SIZE)
    compiled = compile_query(VISITS, bf.Policy(), query)
    best = quotes_for(compiled, accuracy_target(epsilon=1)).best
    alphas = column_alphas(compiled.table, best.alpha) if compiled.table is not None else []
    wanted = [replace(part, tolerance=Fraction(a or 0)) for part, a in zip(query.aggregates, alphas, strict=True)]
    alone = float(sum(_price(replace(query, aggregates=(part,))) for part in wanted))
    return Row(report, 1.0, alone, 1.0 / alone, note=f"at most {ALLOWED}")


def _price(query: Query) -> Fraction:
    return quotes_for(compile_query(VISITS, bf.Policy(), query), accuracy_target(alpha=1)).best.epsilon


def _timed() -> Row:
    """A release in DuckDB over many rows, with everything that belongs to it, against the raw statement."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.duckdb"
        with duckdb.connect(str(file)) as engine:
            engine.execute(
                "CREATE TABLE work AS SELECT CASE WHEN i % 3 = 0 THEN 'Female' ELSE 'Male' END AS sex, "
                f"1 + (i * 7919) % 99 AS hours_per_week FROM range({ROWS}) t(i)"
            )
        domain = bf.domain({"sex": ["Female", "Male"], "hours_per_week": bf.integers(1, 99, null=1)})
        config = scratch_config(Path(folder))
        with bf.curate(config, by="cora") as curator:
            source = f"duckdb:///{file}#work"
            curator.add(bf.Dataset("work", source=source, domain=domain, policy=bf.Policy(), epsilon="9"))
        with bf.connect(config, analyst="ana") as db:
            statement = RAW.format(table="work")
            db.sql(statement, epsilon="0.5")
            _, ours, peak = measure(lambda: db.sql(statement, epsilon="0.4"))
        with duckdb.connect(str(file), read_only=True) as engine:
            _, raw, _ = measure(lambda: engine.execute(statement).fetchall())
    return Row(f"{ROWS:.0e} rows, a report", ours, raw, ours / raw, ours, peak, "at most 1.3 where counting dominates")
