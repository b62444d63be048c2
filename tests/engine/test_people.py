"""Persons counted once in every group: the number, its price under the cap, and what is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import UNREAD, edge_losses, prepare
from blowfishdb.engine.compile import DatasetHandle, compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import Declined, PolicyError, QueryError, SourceError
from blowfishdb.ledger.amounts import PER_EDGE
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.policy import Person
from blowfishdb.model.query import query
from blowfishdb.sources.ibis_source import open_source

WARDS = ["A1", "A2", "B1", "B2"]
DOMAIN = bf.domain({"ward": bf.categorical(WARDS, null="A1", outside="A1"), "age": bf.integers(0, 999, null=0)})
PERSONS = Aggregate("people", ("patient",))
WARD = bf.col("ward") == "A1"


def patients(rows: int) -> Person:
    return bf.person("patient", at_most=rows, order_by="row")


def policy(rows: int, **options: Any) -> bf.Policy:
    return bf.Policy(unit=patients(rows), **options)


def price(rows: int, *groups: str, **options: Any) -> Fraction:
    compiled = compile_query(DOMAIN, policy(rows, **options), query("table", groups, aggregates=[PERSONS]))
    plan = quotes_for(compiled, accuracy_target(epsilon=1)).best.plan
    return plan.unit / plan.weights[0] if plan.weights.size else Fraction(0)


def test_the_scale_of_the_noise_follows_the_rows_a_person_has_and_the_groups_they_reach() -> None:
    assert [price(rows, presence="secret") for rows in (1, 2, 50)] == [1, 1, 1]
    assert [price(rows, "ward", presence="secret") for rows in (1, 2, 3, 50)] == [2, 4, 4, 4]
    assert [price(rows, "ward", presence="only") for rows in (1, 2, 3, 50)] == [1, 2, 3, 4]
    assert price(5) == 0, "presence is public, so the number of persons is"


@pytest.fixture
def database(tmp_path: Path) -> str:
    file = tmp_path / "visits.duckdb"
    with duckdb.connect(str(file)) as engine:
        engine.execute(
            "CREATE TABLE visits AS SELECT i AS row, 'p' || (i // 3) AS patient, "
            "['A1', 'A2', 'B1'][1 + (i * i) % 3] AS ward, (i * 13) % 90 AS age FROM range(300) t(i)"
        )
        engine.execute("INSERT INTO visits VALUES (900, NULL, 'A1', 1), (901, 'p1', NULL, 2), (902, 'p2', 'C9', NULL)")
    return f"duckdb:///{file}#visits"


def test_the_engine_counts_each_person_once_among_the_rows_that_count(database: str) -> None:
    counted = {2: "row % 3 < 2 AND row < 900", 5: "TRUE"}
    conditions = {
        "age < 40": bf.col("age") < 40,
        "(ward = 'A2' OR age > 20)": (bf.col("ward") == "A2") | (bf.col("age") > 20),
    }
    for (rows, first), (text, where) in ((r, c) for r in counted.items() for c in conditions.items()):
        compiled = compile_query(DOMAIN, policy(rows), query("table", "ward", where, aggregates=[PERSONS]))
        got = open_source(database).prepare_people(compiled.cells, patients(rows)).run()
        address, _, table = database.removeprefix("duckdb:///").partition("#")
        with duckdb.connect(address, read_only=True) as engine:
            ward = "CASE WHEN ward IN ('A2', 'B1', 'B2') THEN ward ELSE 'A1' END"
            cleaned = f"SELECT patient, {ward} AS ward, COALESCE(age, 0) AS age FROM {table} WHERE {first}"
            sql = f"SELECT ward, COUNT(DISTINCT patient) FROM ({cleaned}) WHERE {text} GROUP BY ward"
            wanted = dict(engine.execute(sql).fetchall())
        assert got.tolist() == [wanted.get(name, 0) for name in compiled.cells.labels[0]]


def test_groups_that_the_engine_cannot_tell_are_refused(database: str) -> None:
    compiled = compile_query(DOMAIN, policy(2), query("table", "age", aggregates=[PERSONS]))
    with pytest.raises(SourceError, match="up to 256"):
        open_source(database).prepare_people(compiled.cells, patients(2))


def test_persons_and_rows_in_one_statement_are_one_release(database: str, tmp_path: Path) -> None:
    config = tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///b.ledger"\nmark = "b.mark"\n', encoding="utf-8")
    declared = policy(3, presence="secret")
    with bf.curate(config, by="cora") as curator:
        curator.add(bf.Dataset("visits", source=database, domain=DOMAIN, policy=declared, epsilon="900"))
    with bf.connect(config, analyst="ana") as db:
        text = "SELECT ward, COUNT(DISTINCT patient) AS n, COUNT(*) AS visits FROM visits GROUP BY ward"
        answer = db.sql(text, epsilon="100")
        assert answer.epsilon == 100
        assert [column.name for column in answer.columns] == ["n", "visits"]
        assert answer.counted == "at most 3 rows per patient are counted"
        # Each patient comes to A2 twice. At scales below 1/5 a count is off by 20 with probability below 10^-40.
        assert [row["n"] < row["visits"] - 60 for row in answer.rows()] == [False, True, False, False]
        alone = db["visits"].where(bf.col("age") < 40).people().preview(alpha=10).epsilon
        assert alone < db["visits"].where(bf.col("age") < 40).count().preview(alpha=10).epsilon / 2
        with pytest.raises(QueryError, match="counted by patient"):
            db.sql("EXPLAIN SELECT COUNT(DISTINCT ward) FROM visits", epsilon=1)
        with pytest.raises(Declined, match="only joint"):
            db["visits"].people("ward").preview(epsilon=1, mechanism="identity")


def test_what_cannot_be_counted_is_refused() -> None:
    asked = query("table", "ward", aggregates=[PERSONS])
    with pytest.raises(QueryError, match="protects whole persons"):
        compile_query(DOMAIN, bf.Policy(), asked)
    with pytest.raises(PolicyError, match="public constraints"):
        compile_query(DOMAIN, policy(1, constraints=["count(age < 18)"]), asked)
    with pytest.raises(QueryError, match="cells of their own"):
        compile_query(DOMAIN, policy(2), query("table", "ward", aggregates=[PERSONS, Aggregate("count")]))
    cut = Aggregate("people", ("patient",), where=bf.col("ward") == "A1")
    with pytest.raises(QueryError, match="use WHERE"):
        compile_query(DOMAIN, policy(2), query("table", "ward", aggregates=[cut]))


def test_loss_per_class_of_edges_is_not_split_for_persons() -> None:
    """One row of a person may move in one class and another in another: their one count is charged to every class."""
    declared = policy(2, composition="attribute")
    handle = DatasetHandle("visits", DOMAIN, declared, "a", 1, 1, 1, UNREAD, PER_EDGE)

    def losses(column: Aggregate) -> dict[str, Fraction] | None:
        asked = query("table", "ward", aggregates=[column])
        return edge_losses(handle, prepare(handle, make_request(handle, asked, accuracy_target(epsilon=1))))

    assert losses(Aggregate("count")) == {"moves ward": 1}
    assert losses(PERSONS) is None


def test_an_engine_without_types_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "v.sqlite")) as engine:
        engine.execute("CREATE TABLE visits (row INTEGER, patient TEXT, ward TEXT, age INTEGER)")
    source = open_source(f"sqlite:///{tmp_path / 'v.sqlite'}#visits")
    for asked in (query("table", "ward", aggregates=[PERSONS]), query("table", (), WARD, aggregates=[PERSONS])):
        with pytest.raises(SourceError, match="or count rows"):
            source.prepare_people(compile_query(DOMAIN, policy(2), asked).cells, patients(2))


def test_how_often_persons_are_counted_in_all_groups_is_published_by_nobody(tmp_path: Path) -> None:
    """Somebody with rows in two wards counts in both, so the sum over the wards is a secret that noise must hide."""
    totals = []
    for place, wards in enumerate((("A1", "A1"), ("A1", "A2"))):
        folder = tmp_path / str(place)
        folder.mkdir()
        with duckdb.connect(str(folder / "visits.duckdb")) as engine:
            engine.execute("CREATE TABLE visits (row INTEGER, patient TEXT, ward TEXT, age INTEGER)")
            rows = [(0, "p", wards[0], 1), (1, "p", wards[1], 1), *((i, f"q{i}", "B1", 2) for i in range(2, 9))]
            engine.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
        config = folder / "blowfish.toml"
        config.write_text('ledger = "sqlite:///b.ledger"\nmark = "b.mark"\n', encoding="utf-8")
        with bf.curate(config, by="cora") as curator:
            source = f"duckdb:///{folder / 'visits.duckdb'}#visits"
            curator.add(bf.Dataset("visits", source=source, domain=DOMAIN, policy=policy(2), epsilon="9"))
        with bf.connect(config, analyst="ana") as db:
            answer = db.sql("SELECT ward, COUNT(DISTINCT patient) AS n FROM visits GROUP BY ward", epsilon="1/100")
            assert answer.measured is not None
            totals.append((answer.measured.total, answer.measured.exact.tolist()))
            # Nobody enters or leaves a count of all persons: it is public, and an exact row of its plan.
            assert db["visits"].people().release(epsilon=1).values.tolist() == [8.0]
    assert totals == [(None, []), (None, [])]
