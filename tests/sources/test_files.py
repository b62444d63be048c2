"""CSV and Parquet files: no guessing of types, no row that can make a count fail."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import numpy as np
import pytest

from blowfishdb.errors import SourceError
from blowfishdb.model.calendar import dates
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import bins, domain, integers
from blowfishdb.model.policy import ROW, Policy
from blowfishdb.sources import ColumnKind, open_source
from blowfishdb.sources import duckdb as files
from tests.sources import stores
from tests.sources.cases import clock_cases
from tests.sources.reference import expected_counts
from tests.sources.tables import CLOCKS

DOMAIN = domain({"age": integers(0, 9, outside="cell"), "a b": ["x", "x, y"], "d": dates("2024-01-01", "2024-01-02")})
TEXT = """age,"a b",d
1,x,2024-01-01
2,"x, y",2024-01-02
abc,X,soon
99
3,x,2024-01-01,too,many
"",,
4,"un"q"uoted",2024-01-01
"""


def counts(url: str, *group_by: str) -> list[int]:
    return [int(n) for n in open_source(url).prepare(compile_cells(DOMAIN, Policy(), group_by)).run()]


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.tsv"])
def test_csv_files(tmp_path: Path, name: str) -> None:
    content = TEXT.replace("x, y", "x; y").replace(",", "\t").replace("x; y", "x, y") if "tsv" in name else TEXT
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    url = str(path)
    assert {kind.kind for kind in open_source(url).columns().values()} == {ColumnKind.TEXT}
    assert counts(url, "age") == [0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 2, 1]
    assert counts(url, "a b") == [2, 1, 2, 2]
    assert counts(url, "d") == [3, 1, 3]


@pytest.mark.parametrize(
    ("name", "separator"), [("rows.csv", ";"), ("rows.csv", "\t"), ("a.csv.gz", "|"), ("b.tsv", ",")]
)
def test_the_first_line_tells_what_separates_the_fields(tmp_path: Path, name: str, separator: str) -> None:
    content = TEXT.replace("x, y", "x! y").replace(",", separator).replace("x! y", f"x{separator} y").encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    url = str(tmp_path / name)
    assert list(open_source(url).columns()) == ["age", "a b", "d"]
    assert counts(url, "age") == [0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 2, 1]
    assert counts(url, "d") == [3, 1, 3]


def test_one_separator_for_all_files_and_a_comma_before_others(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,a b;c,d\n")
    assert list(open_source(str(tmp_path / "a.csv")).columns()) == ["age", "a b;c", "d"]
    (tmp_path / "one.csv").write_text('"a;b"\n1\n')
    assert list(open_source(str(tmp_path / "one.csv")).columns()) == ["a;b"], "quotes hold a name together"
    (tmp_path / "b1.csv").write_text("age;d\n1;2024-01-01\n")
    (tmp_path / "b2.csv").write_text("age,d\n1,2024-01-01\n")
    with pytest.raises(SourceError, match="same columns in the same order"):
        open_source(str(tmp_path / "b*.csv")).columns()


@pytest.mark.parametrize("text", ['"age"\n1\r\n2\r\n', "age\r\n1\r\n2\n", "age\n1\n2", "age\r\n1\r\n2"])
def test_both_ends_of_a_line_are_one_where_an_empty_line_is_a_row(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.csv").write_bytes(text.encode())
    assert counts(str(tmp_path / "one.csv"), "age") == [0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("text", [b"age\r1\r2\r", b"age,d\r1,2024-01-01\r2,2024-01-01\r"])
def test_carriage_returns_alone_are_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(text)
    with pytest.raises(SourceError, match="end in a line feed"):
        open_source(str(tmp_path / "a.csv")).columns()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_carriage_return_inside_of_a_field_ends_no_line(tmp_path: Path, name: str, end: str) -> None:
    """Writers that end lines in a line feed do not quote it, so that anybody who types one would be many rows."""
    lines = ["age,a b,d", "1,x" + "\r1" * 50 + ",2024-01-01", "2,x,2024-01-02\r", "3,\r\r,"]
    (tmp_path / name).write_bytes((gzip.compress if name.endswith("gz") else bytes)((end.join(lines) + end).encode()))
    url = str(tmp_path / name)
    assert counts(url, "age") == [0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert counts(url) == [3]
    (tmp_path / "one.csv").write_bytes(f"age{end}2\r5{end}3{end}".encode())
    assert counts(str(tmp_path / "one.csv"), "age") == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]


def test_a_carriage_return_at_the_end_of_a_piece_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in range(1, 12):
        monkeypatch.setattr(files, "CHUNK", size)
        (tmp_path / "a.csv").write_bytes(b"age,d\r\n1,2024-01-01\r\n2,a\rb\r\r\n3,\r\n")
        assert counts(str(tmp_path / "a.csv"), "age") == [0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_one_odd_row_changes_no_type(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,a b,d\n" + "1,x,2024-01-01\n" * 30000 + "oops,x,2024-01-01\n")
    found = counts(str(tmp_path / "a.csv"), "age")
    assert found[1] == 30000
    assert found[10] == 1


def test_patterns_of_parquet_files(tmp_path: Path) -> None:
    for number in range(3):
        duckdb.sql(f"SELECT {number} AS age, 'x' AS \"a b\", DATE '2024-01-01' AS d").write_parquet(
            str(tmp_path / f"{number}.parquet")
        )
    assert counts(f"{tmp_path}/*.parquet", "age")[:4] == [1, 1, 1, 0]
    assert counts(f"{tmp_path}/1.parquet", "age")[:4] == [0, 1, 0, 0]


def test_names_of_files_cannot_smuggle_sql(tmp_path: Path) -> None:
    folder = tmp_path / "it's'); DROP"
    folder.mkdir()
    (folder / "a'.csv").write_text("age,a b,d\n1,x,2024-01-01\n")
    assert counts(str(folder / "a'.csv"), "age")[1] == 1


def test_a_first_line_without_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    with pytest.raises(SourceError, match="first line"):
        open_source(str(tmp_path / "a.csv")).columns()


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
@pytest.mark.parametrize(
    "line",
    [b"2,\xff\xfe,2024-01-01", b"2,caf\xe9,2024-01-01", b'2,"a\nb",2024-01-01', b"2,\0,\0", b"2," + b"y" * 3_000_000],
    ids=["no-text", "latin-1", "line-end", "nul", "long"],
)
def test_a_hostile_line_is_in_every_count_and_stops_none(tmp_path: Path, name: str, line: bytes) -> None:
    content = b"age,a b,d\n1,x,2024-01-01\n" + line + b"\n3,x,2024-01-02\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    url = str(tmp_path / name)
    assert counts(url, "age")[:4] == [0, 1, 1, 1]
    assert counts(url, "a b") == [2, 0, 0, 1]
    assert sum(counts(url, "d")) == sum(counts(url, "age", "a b", "d")) == sum(counts(url)) == 3


@pytest.mark.parametrize("end", ['"é', '""é', '""é\r', '""\ufeff,\r\n,""x'])
def test_a_torn_line_is_in_all_counts_or_in_none(tmp_path: Path, end: str) -> None:
    (tmp_path / "a.csv").write_bytes(f"age,a b,d\n1,x,2024-01-01\n{end}".encode())
    url = str(tmp_path / "a.csv")
    assert len({sum(counts(url, *names)) for names in ((), ("age",), ("a b",), ("d",), ("age", "a b", "d"))}) == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_each_file_is_counted_once_whatever_its_name(tmp_path: Path, ending: str) -> None:
    folder = tmp_path / "deep" / "deeper"
    folder.mkdir(parents=True)
    for age, name in enumerate(["a[1]", "a1", "a*", "a?"]):
        row = f"SELECT {age} AS age, 'x' AS \"a b\", DATE '2024-01-01' AS d"
        duckdb.execute(f"COPY ({row}) TO '{folder / name}.{ending}' (FORMAT {ending})")
    (folder / f"again.{ending}").symlink_to(folder / f"a1.{ending}")
    for pattern in (f"deep/deeper/*.{ending}", f"**/**/*.{ending}"):
        assert counts(str(tmp_path / pattern), "age")[:5] == [1, 1, 1, 1, 0]


def test_files_that_name_other_columns_are_no_part_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,a b,d\n1,x,2024-01-01\n")
    (tmp_path / "b.csv").write_text("a b,age,d\nx,1,2024-01-01\n")
    with pytest.raises(SourceError, match="same columns in the same order"):
        open_source(str(tmp_path / "*.csv")).columns()


@pytest.mark.parametrize("content", [b"", b"a,\n1,2\n", b"a,A\n1,2\n", b"a" * 200_000])
def test_a_first_line_that_cannot_name_columns_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(SourceError, match="first line"):
        open_source(str(tmp_path / "a.csv")).columns()


@pytest.mark.parametrize("content", [b"a,b\0\n1,2\n", *("a,b\n1,2\n".encode(name) for name in ("utf-16", "utf-16-le"))])
def test_a_file_in_utf_16_is_told_from_one_without_names(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(SourceError, match="save it again as CSV in UTF-8"):
        open_source(str(tmp_path / "a.csv")).columns()


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"no archive")
    with pytest.raises(SourceError, match="first line"):
        open_source(str(tmp_path / "a.csv.gz")).columns()


def test_endings_of_any_case(tmp_path: Path) -> None:
    duckdb.sql("SELECT 3 AS age").write_parquet(str(tmp_path / "A.PARQUET"))
    assert counts(str(tmp_path / "A.PARQUET"), "age")[3] == 1
    (tmp_path / "B.CSV.GZ").write_bytes(gzip.compress(b"age\n4\n"))
    assert counts(str(tmp_path / "B.CSV.GZ"), "age")[4] == 1


def test_no_engine_fetches_or_loads_extensions(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE rows AS SELECT 1 AS age")
    (tmp_path / "a.csv").write_text("age\n1\n")
    query = """SELECT value FROM duckdb_settings()
        WHERE name IN ('autoinstall_known_extensions', 'autoload_known_extensions')"""
    for url in (f"duckdb:///{tmp_path}/a.duckdb#rows", str(tmp_path / "a.csv")):
        engine = open_source(url)._engine  # type: ignore[attr-defined]
        assert engine.fetch(query, None) == [("false",), ("false",)]


def test_numbers_in_text_are_read_like_numbers(tmp_path: Path) -> None:
    values = ["0.29", " 0.3 ", "29e-2", "1e400", "-1e400", "nan", "x", "0.30000000000000004", "1_0", "+.5"]
    values += ["0.28999999999999999999", "Infinity", "1e-400", "0x1p3"]
    (tmp_path / "a.csv").write_text("v\n" + "\n".join(values) + "\n")
    declared = domain({"v": bins(0, 1, width="0.01", outside="cell")})
    cells = compile_cells(declared, Policy(), ["v"])
    wanted = np.bincount(cells.cell_of({"v": declared["v"].encode(np.array(values, dtype=object))}), minlength=102)
    np.testing.assert_array_equal(open_source(str(tmp_path / "a.csv")).prepare(cells).run(), wanted)


@pytest.mark.no_cover
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_rows_around_changes_of_the_clock(tmp_path: Path, ending: str) -> None:
    stores.load_duckdb(tmp_path / "a.duckdb", (CLOCKS,))
    path = tmp_path / f"clocks.{ending}"
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        connection.execute(f"COPY clocks TO '{path}' (FORMAT {ending})")
    source = open_source(str(path))
    cases = clock_cases()
    assert len(cases) > 20
    for case in cases:
        cells = case.cells()
        np.testing.assert_array_equal(source.prepare(cells).run(), expected_counts(CLOCKS, cells, ROW), case.name)
