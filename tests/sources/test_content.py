"""Whether a source can tell that its rows are the same: files by their digest, databases while their log is empty."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import duckdb
import pytest

from blowfishdb.sources import location
from blowfishdb.sources.ibis_source import open_source
from blowfishdb.sources.location import files_digest


def test_a_digest_follows_names_and_bytes(tmp_path: Path) -> None:
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text("x\n1\n")
    two.write_text("x\n1\n")
    first = files_digest([str(one)])
    assert first == files_digest([str(one)])
    assert files_digest([str(one), str(two)]) not in (first, files_digest([str(two)]))
    one.write_text("x\n2\n")
    assert files_digest([str(one)]) != first
    assert files_digest([str(tmp_path / "none.csv")]) is None


def test_a_settled_file_is_read_once_and_a_fresh_one_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.csv"
    file.write_text("x\n1\n")
    monkeypatch.setattr(location, "SETTLED", 10**15)
    files_digest([str(file)])
    assert str(file) not in location._digests
    monkeypatch.setattr(location, "SETTLED", -(10**15))
    first = files_digest([str(file)])
    assert location._digests[str(file)][1]
    monkeypatch.setattr("builtins.open", lambda *path: pytest.fail("the file was read again"))
    assert files_digest([str(file)]) == first


def test_a_file_that_changes_while_it_is_read_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.csv"
    file.write_text("x\n1\n")
    stamps = iter([(1, 2, 3, 4, 5), (1, 2, 3, 4, 6)])
    monkeypatch.setattr(location, "_stamp", lambda path: next(stamps))
    assert files_digest([str(file)]) is None


def test_files_and_databases_tell(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    assert open_source(str(tmp_path / "a.csv")).content() is not None
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    source = open_source(f"duckdb:///{tmp_path}/a.duckdb#t")
    assert source.content() is not None
    (tmp_path / "a.duckdb.wal").write_bytes(b"log")
    assert source.content() is None
    os.remove(tmp_path / "a.duckdb.wal")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE VIEW v AS SELECT * FROM t")
    assert source.content() is None
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    connection.execute("CREATE TABLE t (x INTEGER)")
    connection.commit()
    connection.close()
    lite = open_source(f"sqlite:///{tmp_path}/a.sqlite#t")
    assert lite.content() is not None
    (tmp_path / "a.sqlite-wal").write_bytes(b"log")
    assert lite.content() is None
