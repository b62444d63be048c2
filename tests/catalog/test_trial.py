"""Trial questions: whatever may be declared is tried as an analyst would ask it, at no cost; failures are explained."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.catalog.curator import Curator
from blowfishdb.errors import EngineError, SourceError, SourceFailed
from tests.session.places import configuration, curator, make_fixture, session


def clinic(folder: Path, *statements: str) -> None:
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_question_about_each_column_is_tried_and_nothing_is_charged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_fixture(tmp_path)
    with curator(tmp_path) as keeper, caplog.at_level(logging.WARNING):
        entries = len(list(keeper.entries()))
        tried = keeper.try_questions("visits")
        assert [one.question for one in tried] == [
            "Number of records",
            *(f"Histogram of {name}" for name in ("age", "ward", "cost")),
        ]
        assert not any(one.failure for one in tried)
        assert all(one.seconds > 0 for one in tried)
        assert keeper.account("visits").spent == 0
        assert len(list(keeper.entries())) == entries
        assert "cora tries questions about visits" in caplog.text


def test_people_and_long_lists_are_tried_too(tmp_path: Path) -> None:
    rows = "".join(f"{number},p{number % 3},v{number}\n" for number in range(9))
    (tmp_path / "a.csv").write_text(f"id,who,what\n{rows}")
    names = [f"v{number}" for number in range(70_000)]
    with curator(tmp_path) as keeper:
        policy = bf.Policy(unit=bf.person("who", at_most=2, order_by="id"))
        keeper.add(bf.Dataset("a", source="a.csv", domain={"what": bf.categorical(names)}, policy=policy))
        tried = keeper.try_questions("a")
        assert [one.question for one in tried] == [
            "Number of records",
            "Number of records where what = 'v0'",
            "Number of people",
        ]
        assert not any(one.failure for one in tried)


def test_a_column_that_fails_is_told_by_name_and_by_an_incident_alone(tmp_path: Path) -> None:
    """The engine's words may quote a row there; they are in the curator's log."""
    make_fixture(tmp_path)
    clinic(
        tmp_path,
        "ALTER TABLE visits RENAME TO kept",
        "CREATE VIEW visits AS SELECT id, age, CAST(ward AS BIGINT) AS cost, ward FROM kept",
    )
    with curator(tmp_path) as keeper:
        failed = [one for one in keeper.try_questions("visits") if one.failure]
        assert [one.question for one in failed] == ["Histogram of cost"]
        assert "incident" in failed[0].failure and "A1" not in failed[0].failure
        assert [caution.partition(",")[0] for caution in keeper.cautions("visits")] == ["visits is a view"]


def person_dataset(source: str, unit: bf.Policy, **columns: object) -> bf.Dataset:
    return bf.Dataset("d", source=source, domain={"x": bf.integers(0, 3, null=0)}, policy=unit, **columns)  # type: ignore[arg-type]


def test_people_are_ordered_by_a_column_that_has_a_type(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "d.sqlite") as connection:
        connection.execute("CREATE TABLE t (rid, pid TEXT, x INTEGER)")
        connection.execute("INSERT INTO t VALUES (1, 'a', 1)")
    connection.close()
    policy = bf.Policy(unit=bf.person("pid", at_most=2, order_by="rid"))
    with (
        curator(tmp_path) as keeper,
        pytest.raises(SourceError, match="'rid' is the order of rows; it is of no"),
    ):
        keeper.add(person_dataset("sqlite:///d.sqlite#t", policy))


def test_people_are_told_apart_by_a_column_of_the_table_itself(tmp_path: Path) -> None:
    clinic(
        tmp_path,
        "CREATE TABLE t AS SELECT range AS rid, range % 5 AS stay, range % 4 AS x FROM range(40)",
        "CREATE TABLE stays AS SELECT range AS id, range % 2 AS pid FROM range(5)",
    )
    joins = [bf.Join("stays", foreign_key="stay", key="id", attributes=["pid"])]
    policy = bf.Policy(unit=bf.person("pid", at_most=2, order_by="rid"))
    with curator(tmp_path) as keeper:
        with pytest.raises(SourceError, match=r"pid comes from the joined table stays: .* such as stay"):
            keeper.add(person_dataset("duckdb:///clinic.duckdb#t", policy, joins=joins))
        keeper.add(person_dataset("duckdb:///clinic.duckdb#t", bf.Policy(), joins=joins))
        with pytest.raises(SourceError, match="pid comes from the joined table"):
            keeper.set_policy("d", policy, reason="people")


SECRET = "o;p3n"


def refused(*arguments: object, **options: object) -> object:
    raise RuntimeError(f'connection to "db" failed for ana:{SECRET}')


def test_a_curator_reads_what_a_server_says_and_an_analyst_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_fixture(tmp_path)
    db = session(tmp_path)
    monkeypatch.setenv("CLINIC_PASSWORD", SECRET)
    monkeypatch.setattr("blowfishdb.sources.duckdb.DuckDB.columns", refused)
    monkeypatch.setattr("blowfishdb.sources.postgres.Postgres._connected", refused)
    address = "postgresql://ana:${CLINIC_PASSWORD}@h/d#t"
    with curator(tmp_path) as keeper:
        for work in (
            lambda: keeper.columns(address),
            lambda: keeper.tables("postgresql://ana:${CLINIC_PASSWORD}@h/d"),
            lambda: keeper.known_account(address),
            lambda: keeper.look_at_column(address, "x"),
        ):
            with pytest.raises(EngineError, match='it says: "connection to "db" failed for ana:') as failure:
                work()
            assert SECRET not in str(failure.value)
        tried = keeper.try_questions("visits")
        assert all('it says: "connection to' in one.failure for one in tried)
    with pytest.raises(SourceFailed) as told:
        db["visits"].histogram("age").release(alpha=50)
    assert not isinstance(told.value, EngineError)
    assert "connection" not in str(told.value)


def test_files_have_no_words_that_could_quote_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    configuration(tmp_path)
    monkeypatch.setattr("blowfishdb.sources.duckdb.DuckDB.columns", refused)
    keeper: Curator
    with curator(tmp_path) as keeper, pytest.raises(SourceFailed) as failure:
        keeper.columns("a.csv")
    assert not isinstance(failure.value, EngineError)
