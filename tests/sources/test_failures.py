"""What goes wrong says nothing about rows: refusals by type, incidents without text, statements without variety."""

from __future__ import annotations

import logging
import sqlite3
import traceback
from pathlib import Path
from typing import Any

import duckdb
import pytest

from blowfishdb.errors import SourceError, SourceFailed
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Attribute, bins, categorical, domain, integers
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import col
from blowfishdb.sources import Join, open_source
from blowfishdb.sources.sqlite import SQLite
from tests.sources import stores
from tests.sources.tables import EMPTY, MEMBERS, MOMENTS, NUMBERS, SHOPS, TOWNS, VISITS


def cells_of(name: str, attribute: Attribute) -> Cells:
    return compile_cells(domain({name: attribute}), Policy(), [name])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    tables = (NUMBERS, MOMENTS, VISITS, SHOPS, MEMBERS, TOWNS)
    return stores.load_duckdb(tmp_path_factory.mktemp("failures") / "a.duckdb", tables)


@pytest.mark.parametrize(
    ("table", "name", "attribute"),
    [
        ("numbers", "i", categorical(["1", "2"])),
        ("numbers", "i", dates("2024-01-01", "2024-01-02")),
        ("numbers", "b", timestamps("2024-01-01", "2024-01-02")),
        ("numbers", "written", categorical([1, 2])),
        ("moments", "d", integers(0, 1)),
        ("moments", "z", dates("2024-01-01", "2024-01-02")),
        ("moments", "t", bins(0, 1, width=1)),
        ("numbers", "absent", integers(0, 1)),
    ],
)
def test_columns_of_the_wrong_type_are_refused(url: str, table: str, name: str, attribute: Attribute) -> None:
    with pytest.raises(SourceError, match=name):
        open_source(f"{url}#{table}").prepare(cells_of(name, attribute))


@pytest.mark.parametrize(
    "unit", [Person("absent", 1, "k"), Person("k", 1, "absent"), Person("x", 1, "k"), Person("k", 1, "b")]
)
def test_bounds_that_cannot_work_are_refused(url: str, unit: Person) -> None:
    with pytest.raises(SourceError):
        open_source(f"{url}#numbers").prepare(cells_of("i", integers(0, 9)), unit)


@pytest.mark.parametrize(
    "join",
    [
        Join("absent", "shop", "number", {"region": "region"}),
        Join("shops", "absent", "number", {"region": "region"}),
        Join("shops", "shop", "absent", {"region": "region"}),
        Join("shops", "shop", "number", {"region": "absent"}),
        Join("shops", "shop", "number", {"amount": "area"}),
        Join("shops", "person", "number", {"region": "region"}),
        Join("shops", "shop", "area", {"region": "region"}),
        Join("visits", "shop", "row_key", {"region": "town"}),
    ],
)
def test_joins_that_cannot_work_are_refused(url: str, join: Join) -> None:
    with pytest.raises(SourceError):
        open_source(f"{url}#visits", [join]).prepare(cells_of("region", categorical(["east"])))


def test_two_joins_cannot_give_one_attribute(url: str) -> None:
    join = Join("shops", "shop", "number", {"region": "region"})
    with pytest.raises(SourceError, match="same name"):
        open_source(f"{url}#visits", [join, join])
    with pytest.raises(SourceError):
        Join("shops", "shop", "number", {})


@pytest.mark.parametrize(
    ("joins", "reason"),
    [
        ([Join("members", "person", "name", {"home": "town"}), Join("shops", "home", "number", ["region"])], "home is"),
        (
            [Join("towns", "home", "town", ["size"]), Join("members", "person", "name", {"home": "town"})],
            "members first",
        ),
        ([Join("towns", "b", "town", {"a": "size"}), Join("members", "a", "name", {"b": "town"})], "in a circle"),
        ([Join("members", "person", "name", {"kind": "class"}), Join("towns", "kin", "town", ["size"])], "'kin'"),
    ],
)
def test_joins_that_build_on_each_other_are_checked(url: str, joins: list[Join], reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        open_source(f"{url}#visits", joins).columns()


@pytest.mark.parametrize("given", ["region", ["region", ""], [7], {"region": 7}, {"shop": "region"}])
def test_joins_that_name_nothing_or_themselves_are_refused(given: Any) -> None:
    with pytest.raises(SourceError):
        Join("shops", "shop", "number", given)


def test_an_engine_that_fails_says_nothing_to_the_analyst(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A view that divides a secret text by zero stands for everything an engine may say."""
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE raw AS SELECT 'the secret of ann' AS s")
        connection.execute("CREATE VIEW rows AS SELECT CAST(s AS INTEGER) AS i FROM raw")
    source = open_source(f"duckdb:///{tmp_path}/a.duckdb#rows")
    with caplog.at_level(logging.ERROR, "blowfishdb.curator"), pytest.raises(SourceFailed) as caught:
        source.prepare(cells_of("i", integers(0, 9))).run()
    shown = "".join(traceback.format_exception(caught.value, chain=True)) + repr(vars(caught.value))
    assert "secret" not in shown
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert caught.value.incident in str(caught.value)
    assert caught.value.incident in caplog.text
    assert "the secret of ann" in caplog.text


def test_a_count_looks_at_the_columns_as_they_are_and_reads_rows_only_when_run(tmp_path: Path) -> None:
    file = tmp_path / "a.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 3 AS i")
    source = open_source(f"duckdb:///{file}#t")
    cells = cells_of("i", integers(0, 4))
    counting = source.prepare(cells)
    with duckdb.connect(str(file)) as connection:
        connection.execute("INSERT INTO t VALUES (4)")
    assert list(counting.run())[:5] == [0, 0, 0, 1, 1]
    with duckdb.connect(str(file)) as connection:
        connection.execute("ALTER TABLE t ALTER i TYPE DOUBLE")
    assert list(source.prepare(cells).run())[:5] == [0, 0, 0, 1, 1]
    with duckdb.connect(str(file)) as connection:
        connection.execute("ALTER TABLE t ALTER i TYPE DATE USING DATE '2024-01-01'")
    with pytest.raises(SourceError, match="DATE"):
        source.prepare(cells)
    with duckdb.connect(str(file)) as connection:
        connection.execute("ALTER TABLE t RENAME i TO j")
    with pytest.raises(SourceError, match="no column 'i'"):
        source.prepare(cells)


def check_deadline(url: str) -> None:
    source = open_source(f"{url}#slow")
    assert source.columns().keys() == {"i"}
    assert source.views() == ["slow"]
    with pytest.raises(SourceFailed):
        source.prepare(cells_of("i", integers(0, 9))).run(0.2)


SLOW = "CREATE VIEW slow AS SELECT CAST(a.n * b.n % 7 AS {whole}) AS i FROM {numbers} a, {numbers} b"


def test_a_deadline_ends_a_count_in_duckdb(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE numbers AS SELECT range AS n FROM range(3000000)")
        connection.execute(SLOW.format(whole="BIGINT", numbers="numbers"))
    check_deadline(f"duckdb:///{tmp_path}/a.duckdb")
    assert open_source(f"duckdb:///{tmp_path}/a.duckdb#numbers").views() == []


def test_a_deadline_ends_a_count_in_sqlite(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    counting = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT n FROM c"
    connection.execute(f"CREATE TABLE numbers AS {counting}")
    connection.execute("CREATE VIEW slow AS SELECT a.rowid AS i FROM numbers a, numbers b, numbers c")
    connection.close()
    source = open_source(f"sqlite:///{tmp_path}/a.sqlite#slow")
    assert source.views() == ["slow"]
    assert open_source(f"sqlite:///{tmp_path}/a.sqlite#numbers").views() == []
    with pytest.raises(SourceFailed):
        source.prepare(compile_cells(domain({"i": integers(0, 9)}), Policy())).run(0.2)


@pytest.mark.postgres
def test_a_deadline_ends_a_count_in_postgres(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE numbers AS SELECT n FROM generate_series(1, 30000) n")
        connection.execute(SLOW.format(whole="BIGINT", numbers="numbers").encode())
    check_deadline(postgres_url)
    assert open_source(f"{postgres_url}#numbers").views() == []


@pytest.mark.mariadb
def test_a_deadline_ends_a_count_in_mariadb(mariadb_server: str) -> None:
    with stores.mariadb_connection(mariadb_server) as connection, connection.cursor() as cursor:
        numbers = "(SELECT seq AS n FROM seq_1_to_100000)"
        cursor.execute(SLOW.format(whole="SIGNED", numbers=numbers))
    check_deadline(mariadb_server)


def test_texts_that_are_no_text_do_not_fail(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    connection.execute("CREATE TABLE t (i INTEGER, s TEXT COLLATE NOCASE)")
    rows = ["x'ff', CAST(x'ff' AS TEXT)", "'abc', x'00'", "' 7 ', 'a'", "7.5, 'A'", "'1_0', NULL", "9e999, 'b'"]
    for row in rows:
        connection.execute(f"INSERT INTO t VALUES ({row})")
    connection.commit()
    connection.close()
    source = open_source(f"sqlite:///{tmp_path}/a.sqlite#t")
    assert list(source.prepare(cells_of("i", integers(0, 9, outside="cell"))).run()) == [*[0] * 7, 2, 0, 0, 2, 2]
    assert list(source.prepare(cells_of("s", categorical(["a", "b"]))).run()) == [1, 1, 1, 3]


def test_statements_do_not_depend_on_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    fetch = SQLite.fetch

    def recorded(engine: SQLite, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        sent.append(sql)
        return fetch(engine, sql, deadline)

    monkeypatch.setattr(SQLite, "fetch", recorded)
    declared = domain({"i": integers(0, 9), "x": bins(0, 1, width="0.1"), "s": ["a"]})
    cells = compile_cells(declared, Policy(), ["i", "x"], col("s") == "a")
    for number, rows in enumerate([(), ((1, 0.5, "a", None),) * 50]):
        sample = type(EMPTY)("empty", EMPTY.columns, rows)
        url = stores.load_sqlite(tmp_path / f"{number}.sqlite", (sample,))
        open_source(f"{url}#empty").prepare(cells, Person("s", 60, "i")).run()
    assert len(sent) == 2
    assert sent[0] == sent[1]


@pytest.mark.postgres
def test_types_of_postgres_that_look_like_text(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('ok', 'bad'); CREATE DOMAIN age AS INTEGER CHECK (VALUE >= 0)")
        connection.execute("CREATE TABLE people (m mood, c CHAR(5), v VARCHAR(5), a age, n NUMERIC, j JSON)")
        connection.execute(
            "INSERT INTO people VALUES ('ok', 'NC', 'NC ', 7, '1e400', '{}'), (NULL, 'VA', 'NC', 8, 'NaN', NULL)"
        )
    source = open_source(f"{postgres_url}#people")
    assert list(source.prepare(cells_of("m", categorical(["bad", "ok"]))).run()) == [0, 1, 1, 0]
    assert list(source.prepare(cells_of("c", categorical(["NC"]))).run()) == [1, 0, 1]
    assert list(source.prepare(cells_of("v", categorical(["NC"]))).run()) == [1, 0, 1]
    assert list(source.prepare(cells_of("a", integers(7, 8))).run()) == [1, 1, 0]
    assert list(source.prepare(cells_of("n", bins(0, 1, width=1, outside="cell"))).run()) == [0, 1, 1]
    with pytest.raises(SourceError, match="json"):
        source.prepare(cells_of("j", categorical(["{}"])))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE people SET n = '-Infinity' WHERE a = 7; UPDATE people SET n = '1e-400' WHERE a = 8")
    assert list(source.prepare(cells_of("n", bins(0, 1, width=1, outside="cell"))).run()) == [1, 0, 1]


@pytest.mark.postgres
def test_what_an_account_of_postgres_may_not_select_is_not_there(postgres_url: str) -> None:
    """Else a dataset could be added whose every release fails after it was charged."""
    import psycopg

    name = postgres_url.rsplit("/", 1)[1]
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE closed (a INTEGER); CREATE TABLE half (a INTEGER, b INTEGER)")
        connection.execute("CREATE SCHEMA inner_room; CREATE TABLE inner_room.t (a INTEGER)")
        connection.execute(f"CREATE ROLE reader_{name} LOGIN".encode())
        connection.execute(f"GRANT SELECT (a) ON half TO reader_{name}".encode())
        connection.execute(f"GRANT SELECT ON inner_room.t TO reader_{name}".encode())
    address = postgres_url.replace("postgres@", f"reader_{name}@")
    assert list(open_source(f"{address}#half").columns()) == ["a"]
    for table in ("closed", "inner_room.t"):
        with pytest.raises(SourceError, match="may read"):
            open_source(f"{address}#{table}").columns()
