"""ClickHouse counts like every other engine; its types, settings, deadlines and failures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.request import urlopen

import numpy as np
import pytest

from blowfishdb.errors import SourceError, SourceFailed
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Attribute, bins, categorical, domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import open_source
from blowfishdb.sources.base import ColumnKind
from blowfishdb.sources.clickhouse import ClickHouse, column_type
from blowfishdb.sources.location import TableName, parse_location
from tests.sources import stores
from tests.sources.cases import CASES, Case
from tests.sources.people import check_people
from tests.sources.reference import expected_counts
from tests.sources.tables import SAMPLES
from tools.clickhouse_server import running_clickhouse

pytest.importorskip("chdb")
WALL_CLOCKS = ("days of timestamps", "weeks of timestamps", "readings that come twice or never")
"""Cases of wall clocks without a zone, which ClickHouse does not have: a DateTime is an instant."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("clickhouse")
    with running_clickhouse(folder / "data") as url:
        yield stores.load_clickhouse(url, folder, SAMPLES)


SHORT = 8
"""One case of so many in every run, and those of times before 1970, of joins and of people."""
ALWAYS = ("seconds", "years", "timestamps of days", "joined and bound", "found by a table alone")


@pytest.mark.parametrize(
    "chosen", [slice(None, None, SHORT), pytest.param(slice(None), marks=pytest.mark.nightly)], ids=["short", "all"]
)
def test_clickhouse_counts_like_every_other_engine(server: str, chosen: slice) -> None:
    wrong = {}
    for case in (*CASES[chosen], *(case for case in CASES if case.name in ALWAYS)):
        if case.name not in WALL_CLOCKS:
            try:
                check(server, case)
            except AssertionError as difference:
                wrong[case.name] = str(difference)
    assert wrong == {}
    check_people(server)


def check(url: str, case: Case) -> None:
    source = open_source(f"{url}#{stores.fragment(case.table.name)}", [join for join, _ in case.joined])
    cells = case.cells()
    counts = source.prepare(cells, case.unit).run()
    np.testing.assert_array_equal(counts, expected_counts(stores.storable(case.table), cells, case.unit, case.joined))


def test_wall_clocks_are_refused_where_dates_are_declared(server: str) -> None:
    case = next(case for case in CASES if case.name == WALL_CLOCKS[0])
    with pytest.raises(SourceError, match="time zone"):
        check(server, case)


def run(url: str, sql: str) -> None:
    urlopen(url.replace("clickhouse://", "http://"), sql.encode()).close()


def counted(url: str, name: str, attribute: Attribute) -> list[int]:
    cells = compile_cells(domain({name: attribute}), Policy(), [name])
    return open_source(url).prepare(cells).run().tolist()


def test_types_of_its_own_are_read(server: str) -> None:
    run(
        server,
        """CREATE TABLE default.own (u UInt64, h Int256, e Enum8('a' = 1, 'b' = 2), d Date, s DateTime,
        m Decimal(12, 2), f FixedString(2), l LowCardinality(String), x Float64) ENGINE = MergeTree ORDER BY tuple()""",
    )
    run(
        server,
        """INSERT INTO default.own VALUES
        (18446744073709551615, -1, 'b', '1970-01-01', '1970-01-01 00:00:01', 1.25, 'x', 'a', nan),
        (7, 7, 'a', '2149-06-06', '2106-02-07 06:28:15', 9.99, 'y', '', inf)""",
    )
    url, ends = f"{server}#own", integers(0, 9, outside="cell", null=0)
    assert counted(url, "u", ends) == [0] * 7 + [1, 0, 0, 1]
    assert counted(url, "h", ends) == [0] * 7 + [1, 0, 0, 1]
    assert counted(url, "m", ends) == [0, 1, *[0] * 7, 1, 0]
    assert counted(url, "e", categorical(["a", "b"], null="a", outside="a")) == [1, 1]
    assert counted(url, "l", categorical(["", "a"], null="a", outside="a")) == [1, 1]
    assert counted(url, "x", bins(0, 2, width=1, outside="cell", null=0)) == [1, 0, 1]
    assert counted(url, "d", dates("1970-01-01", "1970-01-02", outside="cell", null="1970-01-01")) == [1, 0, 1]
    second = timestamps("1970-01-01", "1970-01-01T00:00:02", by="second", zone="UTC", outside="cell", null="1970-01-01")
    assert counted(url, "s", second) == [0, 1, 1]
    with pytest.raises(SourceError, match="FixedString"):
        counted(url, "f", categorical(["x"]))
    with pytest.raises(SourceError, match="1900 to 2299"):
        counted(url, "d", dates("1890-01-01", "1970-01-02"))


def test_identity_addresses_and_absent_tables(server: str) -> None:
    port = server.rpartition(":")[2].removesuffix("/default")
    identity = open_source(f"{server}#numbers").identity()
    assert identity.startswith("clickhouse:")
    assert identity.endswith(f":{port}/default#numbers")
    assert open_source(f"clickhouse://127.0.0.1:{port}#default.numbers").identity() == identity
    with pytest.raises(SourceError, match="no table"):
        open_source(f"{server}#absent").columns()
    with pytest.raises(SourceError, match="names no table"):
        open_source(server)


def test_failures_say_nothing_and_deadlines_stop_the_statement(server: str) -> None:
    run(server, "CREATE TABLE default.secret (s String, n UInt64) ENGINE = MergeTree ORDER BY tuple()")
    run(server, "INSERT INTO default.secret VALUES ('the secret of ann', 1)")
    run(server, "CREATE VIEW default.broken AS SELECT CAST(s AS Int64) AS i FROM default.secret")
    cells = compile_cells(domain({"i": integers(0, 9)}), Policy(), ["i"])
    assert open_source(f"{server}#broken").views() == ["broken"]
    assert open_source(f"{server}#secret").views() == []
    with pytest.raises(SourceFailed) as caught:
        open_source(f"{server}#broken").prepare(cells).run()
    assert "secret" not in str(caught.value)
    rows = "SELECT CAST(cityHash64(number) % 9 AS Int64) AS i FROM numbers(1000000000000)"
    run(server, f"CREATE VIEW default.endless AS {rows}")
    counting = open_source(f"{server}#endless").prepare(cells)
    began = time.monotonic()
    with pytest.raises(SourceFailed):
        counting.run(deadline=0.2)
    # Counting all of it would take hours.
    assert time.monotonic() - began < 60
    with pytest.raises(SourceFailed) as caught:
        open_source(server.replace("://", "://ann:wrong@") + "#numbers").columns()
    assert "wrong" not in str(caught.value)


def test_rows_cannot_be_changed_through_it(server: str) -> None:
    engine = ClickHouse(parse_location(server))
    with pytest.raises(OSError, match="readonly"):
        engine.fetch("INSERT INTO default.shops SELECT * FROM default.shops", None)


def test_secure_addresses_use_tls(server: str) -> None:
    with pytest.raises(SourceFailed):
        open_source(f"{server}?secure=true#numbers").columns()


def test_names_of_types_are_understood() -> None:
    assert column_type("LowCardinality(Nullable(String))").kind == ColumnKind.TEXT
    assert (column_type("Decimal(38, 9)").digits, column_type("UInt64").digits) == (38, 20)
    assert column_type("Array(Int64)").kind == ColumnKind.OTHER
    assert ClickHouse(parse_location("clickhouse://h")).qualified(TableName("t")) == TableName("t", "default")
