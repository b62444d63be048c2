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
from blowfishdb.sources import attached, open_source
from blowfishdb.sources import duckdb as engine

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


def test_connections_are_used_again_and_hold_no_file(tmp_path: Path) -> None:
    path = tmp_path / "again.duckdb"
    url = database(path, "(0), (2), (2)")
    source = open_source(url)
    source.columns()
    idle = attached.instance_of(os.getpid(), "", 1)._idle["again"]
    (connection,) = idle
    duck = source._engine
    for work in (
        lambda: counts(url),
        duck.content,
        lambda: duck.fetch("SELECT * FROM t, range(10000)", None)[:1],
        lambda: list(duck.stream("SELECT i::DOUBLE FROM t", None)),
    ):
        work()
        assert idle == [connection] and not _is_open(path)
    for fails in (
        lambda: duck.fetch("SELECT nothing FROM t", None),
        lambda: next(duck.stream("SELECT nothing FROM t", None)),
    ):
        with pytest.raises(duckdb.Error):
            fails()
        assert not idle and not _is_open(path), "what failed is not used again"
        counts(url)
    streamed = duck.stream("SELECT r::DOUBLE FROM t, range(1000000) made(r)", None)
    next(streamed)
    assert _is_open(path), "the test can fail"
    streamed.close()
    assert not idle and not _is_open(path), "nor what was broken off"
    path.unlink()
    database(path, "(1)")
    assert counts(url) == [0, 1, 0, 0], "another file of the same name"


def _is_open(path: Path) -> bool:
    links = (os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd") if _has_link(one))
    return str(path) in links


def _has_link(descriptor: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{descriptor}")


def test_small_files_are_counted_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = database(tmp_path / "small.duckdb", "(0), (2)")

    def threads() -> list[tuple[object, ...]]:
        return open_source(url)._engine.fetch("SELECT current_setting('threads')", None)

    assert threads() == [(1,)]
    monkeypatch.setattr(engine, "SMALL_SIZE", 0)
    assert threads() == [(os.cpu_count(),)]


def test_groups_by_small_types_are_counted_in_an_array(tmp_path: Path) -> None:
    """By each of the connections that count: an idle one, a new one, one of files, one beside a writer."""
    setting = "SELECT current_setting('perfect_ht_threshold')"
    url = database(tmp_path / "array.duckdb", "(0)")
    (tmp_path / "rows.csv").write_text("i\n0\n")
    for address in (url, url, str(tmp_path / "rows.csv")):
        assert open_source(address)._engine.fetch(setting, None) == [(attached.ARRAY_BITS,)]
    with closing(duckdb.connect(str(tmp_path / "array.duckdb"))) as writer:
        assert open_source(url)._engine.fetch(setting, None) == [(attached.ARRAY_BITS,)]
        assert writer.execute(setting).fetchall() != [(attached.ARRAY_BITS,)], "the writer's own is left alone"


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Two databases attached under one name would be one: the second is opened on its own."""
    one = database(tmp_path / "a" / "rows.duckdb", "(0)")
    two = database(tmp_path / "b" / "rows.duckdb", "(1), (1)")
    instance = attached.DuckDBInstance("")
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
    instance = attached.instance_of(os.getpid())
    with instance.attach(str(tmp_path / "two.duckdb"), "two"):
        assert list(open_source(one).columns()) == ["i"]
        assert counts(one) == [1, 0, 0, 0]
