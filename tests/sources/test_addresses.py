"""Addresses: what they name, how they are refused, one identity for one table, and whether its files changed."""

from __future__ import annotations

import os
import pickle
import sqlite3
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import reduce
from operator import and_
from pathlib import Path

import duckdb
import pytest

from blowfishdb.errors import DriverMissing, SourceError
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Predicate, col
from blowfishdb.sources import ColumnKind, ibis_source, location, open_source
from blowfishdb.sources import duckdb as sources_duckdb
from blowfishdb.sources.attached import DuckDBInstance
from blowfishdb.sources.duckdb import DuckDB
from blowfishdb.sources.location import TableName, files_digest, parse_location, parse_table
from tests.sources import stores
from tests.sources.tables import NUMBERS, SHOPS


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("people", TableName("people")),
        ("shop.people", TableName("people", "shop")),
        ('"a.b"', TableName("a.b")),
        ('s."a""b"', TableName('a"b', "s")),
        ("odd name", TableName("odd name")),
    ],
)
def test_table_names(text: str, table: TableName) -> None:
    assert parse_table(text) == table


@pytest.mark.parametrize("text", [".", "a.", "a.b.c", 'a"b', '"a', "a..b", '""'])
def test_bad_table_names_are_refused(text: str) -> None:
    with pytest.raises(SourceError):
        parse_table(text)


@pytest.mark.parametrize(
    "url",
    ["", "people", "data.xlsx", "oracle://host/db#t", "duckdb:///nowhere.duckdb#t", "none/*.parquet", "sqlite:///#t"],
)
def test_bad_addresses_are_refused(url: str) -> None:
    with pytest.raises(SourceError):
        open_source(url)


def test_an_address_without_a_table_is_refused(tmp_path: Path) -> None:
    url = stores.load_duckdb(tmp_path / "a.duckdb", (SHOPS,))
    with pytest.raises(SourceError, match="#table"):
        open_source(url)


def test_a_missing_driver_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pymysql", None)
    with pytest.raises(DriverMissing) as caught:
        open_source("mysql://user:secret@host/db#t")
    assert caught.value.extra == "mysql"
    assert "secret" not in str(caught.value)


def test_passwords_are_never_shown() -> None:
    location = parse_location("postgresql://ann:secret%21@host:5433/db#t")
    assert location.password == "secret!"
    assert "secret" not in repr(location)


def test_one_duckdb_table_has_one_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores.load_duckdb(tmp_path / "a.duckdb", (SHOPS,))
    os.symlink(tmp_path / "a.duckdb", tmp_path / "link.duckdb")
    monkeypatch.chdir(tmp_path)
    spellings = [
        "duckdb:///a.duckdb#shops",
        f"duckdb:///{tmp_path}/a.duckdb#main.SHOPS",
        f"duckdb://{tmp_path}/a.duckdb#shops",
        "duckdb:///./link.duckdb#Shops",
    ]
    assert len({open_source(url).identity() for url in spellings}) == 1
    stores.load_duckdb(tmp_path / "b.duckdb", (SHOPS,))
    assert open_source("duckdb:///b.duckdb#shops").identity() != open_source(spellings[0]).identity()


def test_one_set_of_files_has_one_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    duckdb.sql("SELECT 1 AS a").write_parquet(str(tmp_path / "data" / "1.parquet"))
    os.symlink(tmp_path / "data", tmp_path / "link")
    monkeypatch.chdir(tmp_path)
    spellings = [
        "data/*.parquet",
        "link/*.parquet",
        f"{tmp_path}/data/../data/*.parquet",
        f"file://{tmp_path}/data/*.parquet",
    ]
    first = {open_source(url).identity() for url in spellings}
    duckdb.sql("SELECT 2 AS a").write_parquet(str(tmp_path / "data" / "2.parquet"))
    assert len(first | {open_source(url).identity() for url in spellings}) == 1


def test_one_sqlite_table_has_one_identity(tmp_path: Path) -> None:
    stores.load_sqlite(tmp_path / "a.sqlite", (SHOPS,))
    spellings = [f"sqlite:///{tmp_path}/a.sqlite#shops", f"sqlite:///{tmp_path}/./a.sqlite#main.SHOPS"]
    assert len({open_source(url).identity() for url in spellings}) == 1


@pytest.mark.postgres
def test_one_postgres_table_has_one_identity(postgres_url: str) -> None:
    import psycopg

    stores.load_postgres(postgres_url, (SHOPS,))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'hush-hush'")
        connection.execute("GRANT SELECT ON shops TO reader")
    local = postgres_url.replace("postgres@127.0.0.1", "reader:hush-hush@localhost")
    spellings = [f"{postgres_url}#shops", f"{local}#public.shops", f"{local.replace('postgresql:', 'postgres:')}#shops"]
    found = {open_source(url).identity() for url in spellings}
    assert len(found) == 1
    assert "hush" not in found.pop()


@pytest.mark.mariadb
def test_one_mariadb_table_has_one_identity(mariadb_server: str) -> None:
    other = mariadb_server.replace("127.0.0.1", "localhost").replace("mysql:", "mariadb:")
    found = {open_source(url).identity() for url in (f"{mariadb_server}#shops", f"{other}#test.shops")}
    assert len(found) == 1
    assert "throw-away" not in found.pop()


def test_columns_come_from_the_schema(tmp_path: Path) -> None:
    url = stores.load_duckdb(tmp_path / "a.duckdb", (NUMBERS,))
    kinds = {name: found.kind for name, found in open_source(f"{url}#numbers").columns().items()}
    assert kinds["i"] == ColumnKind.INTEGER
    assert kinds["big"] == ColumnKind.DECIMAL
    assert kinds["written"] == ColumnKind.TEXT
    with pytest.raises(SourceError, match="no table"):
        open_source(f"{url}#absent").columns()


def test_a_file_that_this_process_writes_to_can_be_read(tmp_path: Path) -> None:
    url = stores.load_duckdb(tmp_path / "a.duckdb", (SHOPS,))
    source = open_source(f"{url}#shops")
    cells = compile_cells(domain({"number": integers(0, 9)}), Policy())
    with duckdb.connect(str(tmp_path / "a.duckdb")) as writer:
        writer.execute("INSERT INTO shops VALUES (5, 'east', 1)")
        assert list(source.prepare(cells).run()) == [len(SHOPS.rows) + 1]
    assert list(source.prepare(cells).run()) == [len(SHOPS.rows) + 1]


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
    monkeypatch.setattr(location, "stamp_of", lambda path: next(stamps))
    assert files_digest([str(file)]) is None


def refused(*_: object) -> None:
    raise duckdb.Error


@pytest.mark.parametrize("is_attached", [True, False])
def test_a_database_put_in_the_place_of_one_that_is_open_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_attached: bool
) -> None:
    """Whoever counts while another count runs is given the file that this one has open, whatever its path leads to."""
    file, other = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    for path, rows in ((file, 3), (other, 5)):
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE t AS SELECT 1 AS x FROM range({rows})")
    if not is_attached:
        monkeypatch.setattr(DuckDBInstance, "attach", refused)
    source = open_source(f"duckdb:///{file}#t")
    cells = compile_cells(domain({"x": integers(0, 1, null=0)}), Policy())
    before = source.content()
    assert before is not None
    with source._engine._connect():  # type: ignore[attr-defined]
        assert source.content() == before
        os.replace(other, file)
        assert source.prepare(cells).run().sum() == 3
        assert source.content() is None
    assert source.prepare(cells).run().sum() == 5
    assert source.content() not in (None, before)


def test_what_is_known_of_a_database_ends_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its views and columns are looked up once for each content, and never read off a file that may have changed."""
    file = tmp_path / "a.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    # Long ago: what was changed a moment ago is read anew each time.
    monkeypatch.setattr(location, "SETTLED", -(10**12))
    source = open_source(f"duckdb:///{file}#t")
    opened: list[str] = []
    attach = DuckDBInstance.attach

    def counted(self: DuckDBInstance, path: str, name: str) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        opened.append(path)
        return attach(self, path, name)

    monkeypatch.setattr(DuckDBInstance, "attach", counted)
    first = source.content()
    for _ in range(3):
        assert source.content() == first
        assert list(source.columns()) == ["x"]
    assert len(opened) == 2
    (tmp_path / "a.duckdb.wal").write_bytes(b"log")
    assert source.content() is None
    assert len(opened) == 2
    (tmp_path / "a.duckdb.wal").unlink()
    with duckdb.connect(str(file)) as connection:
        connection.execute("ALTER TABLE t ADD COLUMN y INTEGER")
    assert list(source.columns()) == ["x", "y"]
    second = source.content()
    assert second not in (first, None)
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE VIEW v AS SELECT 1 AS z")
    assert source.content() is None
    assert list(source.columns()) == ["x", "y"]
    with duckdb.connect(str(file)) as connection:
        connection.execute("DROP VIEW v")
        connection.execute("ALTER TABLE t DROP COLUMN x")
    # The file changes while it is looked at.
    digests = iter(["one", "two", "two", "two"])
    with monkeypatch.context() as patch:
        patch.setattr(sources_duckdb, "files_digest", lambda paths, **_: next(digests))
        assert source.content() is None
        assert source.content() == "two"
    assert list(source.columns()) == ["y"]


def test_a_statement_is_written_once_for_equal_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 4 AS x, i % 3 AS y FROM range(12) made(i)")
    source = open_source(f"duckdb:///{tmp_path}/a.duckdb#t")
    declared = domain({"x": integers(0, 3, null=0), "y": integers(0, 9, null=0)})
    written: list[object] = []
    write = type(source._engine).write

    def counted(self: DuckDB, expression: object) -> str:
        written.append(expression)
        return write(self, expression)

    monkeypatch.setattr(DuckDB, "write", counted)

    def counts(axis: str, *conditions: Predicate) -> list[int]:
        where = reduce(and_, conditions) if conditions else None
        return source.prepare(compile_cells(declared, Policy(), axis, where)).run(None).tolist()

    assert counts("x") == counts("x") == [3, 3, 3, 3]
    assert len(written) == 1
    assert counts("x", col("y") == 1) == counts("x", col("y") == 1) == [1, 1, 1, 1]
    assert counts("x", col("y") == 2, col("x") < 2) == [1, 1]
    assert counts("y")[:4] == [4, 4, 4, 0]
    assert len(written) == 4
    # Another declaration is another question, and so is a table with other columns.
    declared = domain({"x": integers(0, 1, null=0, outside="clamp"), "y": integers(0, 9, null=0)})
    assert counts("x") == [3, 9]
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("ALTER TABLE t ALTER x TYPE DOUBLE")
    assert counts("x") == [3, 9]
    assert len(written) == 6
    # Many attributes are not kept.
    monkeypatch.setattr(ibis_source, "MOST_CUTS", 1)
    assert counts("y", col("x") == 0) == counts("y", col("x") == 0)
    assert len(written) == 8


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
    assert list(source.columns()) == ["x"]
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    connection.execute("CREATE TABLE t (x INTEGER)")
    connection.commit()
    connection.close()
    lite = open_source(f"sqlite:///{tmp_path}/a.sqlite#t")
    assert lite.content() is not None
    (tmp_path / "a.sqlite-wal").write_bytes(b"log")
    assert lite.content() is None


def test_columns_are_looked_up_once_while_nothing_proves_the_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And anew where the file was written to a moment ago, or another one was put in its place while it was open."""
    file, other = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    for path, name in ((file, "x"), (other, "y")):
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE t AS SELECT 1 AS {name}")
    engine, table = open_source(f"duckdb:///{file}#t")._engine, TableName("t", "main")
    assert isinstance(engine, DuckDB)
    assert (list(engine.columns(table)), engine._columns) == (["x"], {})
    monkeypatch.setattr(location, "SETTLED", -(10**12))
    with engine._connect():
        os.replace(other, file)
        assert (list(engine.columns(table)), engine._columns) == (["x"], {})
    assert list(engine.columns(table)) == ["y"]
    monkeypatch.setattr(engine, "_connect", lambda: pytest.fail("opened again"))
    assert list(engine.columns(table)) == ["y"]


def test_columns_of_files_are_looked_up_once_while_no_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And anew where a file was written to a moment ago, another one is there, or one has other columns now."""
    first, second = tmp_path / "1.parquet", tmp_path / "2.parquet"

    def write(file: Path, name: str) -> None:
        duckdb.sql(f"SELECT 1 AS {name}").write_parquet(str(file))

    write(first, "x")
    engine, table = open_source(f"{tmp_path}/*.parquet")._engine, TableName("rows", "main")
    assert isinstance(engine, DuckDB)
    assert (list(engine.columns(table)), engine._columns) == (["x"], {})
    monkeypatch.setattr(location, "SETTLED", -(10**12))
    assert list(engine.columns(table)) == ["x"]
    write(second, "y")
    assert list(engine.columns(table)) == ["x", "y"]
    write(first, "longer")
    assert list(engine.columns(table)) == ["longer", "y"]
    monkeypatch.setattr(engine, "_connect", lambda: pytest.fail("opened again"))
    assert list(engine.columns(table)) == ["longer", "y"]
    second.unlink()
    with pytest.raises(pytest.fail.Exception):
        engine.columns(table)


def test_a_statement_serves_a_plan_that_another_process_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.csv"
    file.write_text("x\n1\n0\n1\n")
    source, number = open_source(str(file)), integers(0, 1, null=0)
    cells = compile_cells(domain({"x": number}), Policy(), ("x",))
    assert source.prepare(cells).run().tolist() == [1, 2]
    monkeypatch.setattr(ibis_source, "make_statement", lambda *_: pytest.fail("written again"))
    assert source.prepare(pickle.loads(pickle.dumps(cells))).run().tolist() == [1, 2]
    # What equals it and is of another type is written in another way.
    assert replace(number, null=0.0) == number
    assert not ibis_source._is_same(replace(number, null=0.0), number)
