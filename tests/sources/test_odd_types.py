"""Types and files in which one record could change more than its own count: compared in one way, or refused."""

from __future__ import annotations

import os
import sqlite3
import time
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blowfishdb.errors import SourceError
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Attribute, domain, integers, read_number
from blowfishdb.model.policy import Policy
from blowfishdb.sources import open_source
from blowfishdb.sources.base import Join


def counts(url: str, name: str, attribute: Attribute, *joins: Join) -> list[int]:
    cells = compile_cells(domain({name: attribute}), Policy(), [name])
    return [int(count) for count in open_source(url, joins).prepare(cells).run()]


def sqlite_table(path: Path, name: str, columns: str, rows: list[tuple[object, ...]]) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {name}({columns})")
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    connection.close()


@pytest.mark.parametrize(
    "attribute", [dates("2000-01-01", "2300-12-31", by="year"), timestamps("1600-01-01", "1900-01-01", by="day")]
)
@pytest.mark.parametrize("rows", [0, 1])
def test_days_beyond_nanoseconds_are_refused_whether_there_are_rows_or_not(
    tmp_path: Path, attribute: Attribute, rows: int
) -> None:
    table = pa.table({"x": pa.array([1_714_000_000_000_000_000] * rows, pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "ns.parquet")
    assert open_source(str(tmp_path / "ns.parquet")).columns()["x"].native == "TIMESTAMP_NS"
    with pytest.raises(SourceError, match="1677 and 2262"):
        counts(str(tmp_path / "ns.parquet"), "x", attribute)
    within = counts(str(tmp_path / "ns.parquet"), "x", dates("2000-01-01", "2200-12-31", by="year"))
    assert sum(within) == rows == within[24]


def test_times_that_may_lie_too_far_away_to_be_compared_are_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT TIMESTAMP_S '2024-01-01' AS x")
    with pytest.raises(SourceError, match="TIMESTAMP_S"):
        counts(f"duckdb:///{tmp_path}/d.duckdb#t", "x", dates("2024-01-01", "2024-01-02"))


@pytest.mark.parametrize(
    ("foreign", "key", "value", "keys"),
    [
        ("INTEGER COLLATE NOCASE", "INTEGER", "ab", ["ab", "AB", "Ab"]),
        ("DATE COLLATE RTRIM", "DATE", "2024-01-01", ["2024-01-01", "2024-01-01 "]),
        ("TEXT COLLATE NOCASE", "TEXT", "ab", ["ab", "AB", "Ab"]),
        ("INT", "INTEGER", 1, [1]),
    ],
)
def test_a_join_multiplies_no_row_by_a_collation(
    tmp_path: Path, foreign: str, key: str, value: object, keys: list[object]
) -> None:
    sqlite_table(tmp_path / "s.db", "m", f"k {foreign}", [(value,)])
    sqlite_table(tmp_path / "s.db", "d", f"k {key}, r INTEGER", [(one, 1) for one in keys])
    assert counts(f"sqlite:///{tmp_path}/s.db#m", "r", integers(0, 1), Join("d", "k", "k", ["r"])) == [0, 1, 0]


@pytest.mark.parametrize(("foreign", "key"), [("UUID", "TEXT"), ("TEXT", "UUID"), ("DATE", "DATE TEXT")])
def test_keys_that_sqlite_compares_in_another_way_than_it_groups_them_are_refused(
    tmp_path: Path, foreign: str, key: str
) -> None:
    sqlite_table(tmp_path / "s.db", "m", f"k {foreign}", [("1",)])
    sqlite_table(tmp_path / "s.db", "d", f"k {key}, r INTEGER", [(one, 1) for one in ("1", "01", "1.0")])
    with pytest.raises(SourceError, match="give both keys the same type"):
        counts(f"sqlite:///{tmp_path}/s.db#m", "r", integers(0, 1), Join("d", "k", "k", ["r"]))


@pytest.mark.parametrize(("foreign", "key"), [("HUGEINT", "UHUGEINT"), ("DECIMAL(38, 0)", "DECIMAL(10, 2)")])
def test_large_numbers_of_different_types_are_not_joined(tmp_path: Path, foreign: str, key: str) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute(f"CREATE TABLE m(k {foreign}); CREATE TABLE d(k {key}, r INTEGER)")
    with pytest.raises(SourceError, match="give both keys the same type"):
        counts(f"duckdb:///{tmp_path}/d.duckdb#m", "r", integers(0, 1), Join("d", "k", "k", ["r"]))


def test_one_record_does_not_change_how_others_are_read(tmp_path: Path) -> None:
    """A group of equal texts is read by one of them: they are equal byte by byte, whatever the column's collation."""
    rows: list[tuple[object, ...]] = [("2024-01-01T10:00Z",), *[("2024-01-01t10:00z",)] * 9]
    sqlite_table(tmp_path / "s.db", "r", "x DATETIME COLLATE NOCASE", rows)
    days = timestamps("2024-01-01", "2024-01-02", by="day")
    assert counts(f"sqlite:///{tmp_path}/s.db#r", "x", days) == [1, 9]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_names_of_folders_give_no_columns(tmp_path: Path, ending: str) -> None:
    """Their types would be guessed from all names, so that one record in another folder could change an error."""
    for folder in ("region=1", "region=n"):
        (tmp_path / folder).mkdir()
        table, path = pa.table({"x": [1]}), tmp_path / folder / f"a.{ending}"
        if ending == "csv":
            path.write_text("x\n1\n")
        else:
            pq.write_table(table, path)
    assert list(open_source(f"{tmp_path}/*/*.{ending}").columns()) == ["x"]
    assert counts(f"{tmp_path}/*/*.{ending}", "x", integers(0, 1))[:2] == [0, 2]


def test_a_file_that_is_rewritten_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for turn in range(30):
        value = turn * 3 % 10
        pq.write_table(pa.table({"x": pa.array([value] * 1000, pa.int32())}), path)
        assert counts(str(path), "x", integers(0, 9))[value] == 1000


@pytest.mark.parametrize("text", ["0." + "1" * 10**6, "-0." + "1" * 10**6, "5" + "0" * 300 + "." + "3" * 10**6])
def test_a_number_of_a_million_digits_is_read_at_once(text: str) -> None:
    """In a fraction of a second: each digit would cost as many steps as there are."""
    number = read_number(text)
    assert isinstance(number, Fraction)
    assert abs(number - Fraction(text[:1200])) < Fraction(1, 10**500)


def test_files_written_a_moment_ago_are_known_by_their_time_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    source = open_source(str(path))
    assert source.is_changing()
    before = path.stat().st_mtime - 60
    os.utime(path, (before, before))
    # The time at which a file's own record changed counts too, and nobody can set that one back.
    assert source.is_changing()
    deadline = time.monotonic() + 10
    while source.is_changing() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not source.is_changing()
    path.unlink()
    assert not source.is_changing()
