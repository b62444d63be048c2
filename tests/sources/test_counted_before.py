"""What a statement counted in a small file is not counted again while every byte of the file is the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest

from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import duckdb as engine
from blowfishdb.sources import open_source
from blowfishdb.sources.ibis_source import IbisSource

CELLS = compile_cells(domain({"i": integers(0, 2)}), Policy(), ["i"])
OTHERS = compile_cells(domain({"i": integers(0, 1)}), Policy(), ["i"])


def changed(file: Path, *statements: str) -> None:
    with closing(duckdb.connect(str(file))) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that the engine ran."""
    statements: list[str] = []
    run = engine.DuckDB._run

    def noted(self: engine.DuckDB, sql: str) -> object:
        statements.append(sql)
        return run(self, sql)

    monkeypatch.setattr(engine.DuckDB, "_run", noted)
    return statements


def database(folder: Path) -> tuple[IbisSource, Path]:
    file = folder / "rows.duckdb"
    changed(file, "CREATE TABLE t AS SELECT * FROM (VALUES (0), (2), (2)) AS made(i)")
    return open_source(f"duckdb:///{file}#t"), file


def counts(source: IbisSource) -> list[int]:
    numbers: list[int] = np.asarray(source.prepare(CELLS).run()).tolist()
    return numbers


def test_the_same_statement_on_the_same_bytes_runs_once(tmp_path: Path, ran: list[str]) -> None:
    source, _ = database(tmp_path)
    assert counts(source) == counts(source) == [1, 0, 2, 0]
    assert len(ran) == 1
    source.prepare(OTHERS).run()
    assert len(ran) == 2
    assert counts(source) == [1, 0, 2, 0]
    assert len(ran) == 2


def test_what_is_done_with_counts_does_not_change_them(tmp_path: Path, ran: list[str]) -> None:
    source, _ = database(tmp_path)
    np.asarray(source.prepare(CELLS).run())[:] = 7
    assert counts(source) == [1, 0, 2, 0]
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        (lambda file: changed(file, "INSERT INTO t VALUES (1)"), [1, 1, 2, 0]),
        (lambda file: changed(file, "UPDATE t SET i = 1 WHERE i = 0"), [0, 1, 2, 0]),
        (lambda file: os.replace(file.with_name("other.duckdb"), file), [0, 3, 0, 0]),
    ],
)
def test_another_content_is_counted(
    tmp_path: Path, ran: list[str], change: Callable[[Path], None], numbers: list[int]
) -> None:
    source, file = database(tmp_path)
    changed(tmp_path / "other.duckdb", "CREATE TABLE t AS SELECT 1 AS i FROM range(3)")
    assert counts(source) == [1, 0, 2, 0]
    change(file)
    assert counts(source) == numbers
    assert counts(source) == numbers
    assert len(ran) == 2


def test_what_stands_in_the_log_alone_is_counted_each_time(tmp_path: Path, ran: list[str]) -> None:
    source, file = database(tmp_path)
    assert counts(source) == [1, 0, 2, 0]
    with closing(duckdb.connect(str(file))) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        assert counts(source) == counts(source) == [1, 1, 2, 0]
        writer.execute("INSERT INTO t VALUES (1)")
        assert counts(source) == [1, 2, 2, 0]
    assert len(ran) == 4


def test_a_view_that_may_read_elsewhere_is_counted_each_time(tmp_path: Path, ran: list[str]) -> None:
    other = tmp_path / "rows.csv"
    other.write_text("i\n0\n2\n2\n")
    changed(tmp_path / "v.duckdb", f"CREATE VIEW t AS SELECT i::INTEGER AS i FROM read_csv('{other}', header = true)")
    source = open_source(f"duckdb:///{tmp_path / 'v.duckdb'}#t")
    assert counts(source) == [1, 0, 2, 0]
    other.write_text("i\n1\n1\n1\n")
    assert counts(source) == [0, 3, 0, 0]
    assert len(ran) == 2


def test_files_are_remembered_as_databases_are(tmp_path: Path, ran: list[str]) -> None:
    for number, rows in enumerate(("(0), (2)", "(2)")):
        duckdb.sql(f"SELECT * FROM (VALUES {rows}) AS made(i)").write_parquet(str(tmp_path / f"{number}.parquet"))
    source = open_source(f"{tmp_path}/*.parquet")
    assert counts(source) == counts(source) == [1, 0, 2, 0]
    assert len(ran) == 1
    duckdb.sql("SELECT 1 AS i").write_parquet(str(tmp_path / "2.parquet"))
    assert counts(source) == [1, 1, 2, 0]
    os.remove(tmp_path / "0.parquet")
    assert counts(source) == [0, 1, 1, 0]
    assert len(ran) == 3


def test_large_files_are_counted_each_time(tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    source, file = database(tmp_path)
    monkeypatch.setattr(engine, "SMALL_SIZE", file.stat().st_size - 1)
    assert counts(source) == counts(source) == [1, 0, 2, 0]
    assert len(ran) == 2


def test_few_statements_are_remembered(tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_COUNTED", 1)
    source, _ = database(tmp_path)
    for cells in (CELLS, OTHERS, CELLS):
        source.prepare(cells).run()
    assert len(ran) == 3
