"""DuckDB files are attached to instances that stay open: many readers at once, and nothing stays open after a count."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import duckdb
import numpy as np
import pytest

from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import duckdb as engine
from blowfishdb.sources import open_source

CELLS = compile_cells(domain({"i": integers(0, 2)}), Policy(), ["i"])


def database(path: Path, rows: str) -> str:
    path.parent.mkdir(exist_ok=True)
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) AS made(i)")
    return f"duckdb:///{path}#t"


def counts(url: str) -> list[int]:
    found: list[int] = np.asarray(open_source(url).prepare(CELLS).run()).tolist()
    return found


def test_readers_at_once_share_the_file_and_leave_it_to_writers(tmp_path: Path) -> None:
    url = database(tmp_path / "rows.duckdb", "(0), (2), (2)")
    start = Barrier(8)

    def read(_: int) -> list[int]:
        start.wait()
        return counts(url)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(8))) == [[1, 0, 2, 0]] * 8
    with closing(duckdb.connect(str(tmp_path / "rows.duckdb"))) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        assert counts(url) == [1, 1, 2, 0], "beside a writer of the same process"
    assert counts(url) == [1, 1, 2, 0]


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Two databases attached under one name would be one: the second is opened on its own."""
    one = database(tmp_path / "a" / "rows.duckdb", "(0)")
    two = database(tmp_path / "b" / "rows.duckdb", "(1), (1)")
    instance = engine._Instance("")
    with instance.attach(str(tmp_path / "a" / "rows.duckdb"), "rows"), pytest.raises(duckdb.Error):
        instance.attach(str(tmp_path / "b" / "rows.duckdb"), "rows")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(counts, [one, two] * 8)) == [[1, 0, 0, 0], [0, 2, 0, 0]] * 8


def test_large_files_spill_beside_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = database(tmp_path / "rows.duckdb", "(0), (2)")
    spill = f"{tmp_path}/rows.duckdb.tmp"

    def spills_to() -> list[tuple[object, ...]]:
        return open_source(url)._engine.fetch("SELECT current_setting('temp_directory')", None)

    assert spills_to() != [(spill,)]
    monkeypatch.setattr(engine, "SHARED_SIZE", 0)
    assert counts(url) == [1, 0, 1, 0]
    assert spills_to() == [(spill,)]
    with closing(duckdb.connect(str(tmp_path / "rows.duckdb"))) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
    assert counts(url) == [1, 1, 1, 0]


def test_columns_are_those_of_the_file_alone(tmp_path: Path) -> None:
    one = database(tmp_path / "one.duckdb", "(0)")
    with closing(duckdb.connect(str(tmp_path / "two.duckdb"))) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'a' AS other")
    instance = engine._instance(os.getpid())
    with instance.attach(str(tmp_path / "two.duckdb"), "two"):
        assert list(open_source(one).columns()) == ["i"]
        assert counts(one) == [1, 0, 0, 0]
