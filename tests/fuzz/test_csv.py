"""CSV files with hostile content: every record is in every count, and no count fails because of a row."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import BlowfishError
from blowfishdb.model.calendar import dates
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import Counting, open_source
from tests.effort import NIGHTLY
from tests.fuzz.effort import effort, outcome
from tests.fuzz.grammar import texts

WARDS = ["A1", "é", "日本", '"', "a,b", "x\ny", " A1"]
DOMAIN = domain(
    {
        "age": integers(0, 9, outside="cell"),
        "ward": categorical(WARDS),
        "cost": bins(0, 1, width="0.1", outside="cell"),
        "day": dates("2024-01-01", "2024-01-03", outside="cell"),
    }
)
NAMES = tuple(DOMAIN)
FIELD: st.SearchStrategy[bytes] = st.one_of(
    st.sampled_from(
        ["1", "9", "10", "-0", "1e0", " 1", "0.3", "NaN", "inf", "-inf", "1e400", "=1+1", "NULL", "\\N", "2024-01-02"]
    ),
    st.sampled_from(WARDS),
    texts().map(lambda text: text[:400]),
).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.sampled_from(
    [
        b"\xff",
        b"caf\xe9",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
        b"A1\xe2\x82",
        b"\0",
        b"\x1a",
        b"\xef\xbb\xbf",
    ]
)


def record(fields: list[bytes]) -> bytes:
    """A line as any proper writer writes it: whatever could be misread stands in quotes."""
    return b",".join(b'"' + field.replace(b'"', b'""') + b'"' for field in fields)


AXES = (["age"], ["ward"], ["cost"], ["day"], ["age", "ward"], [])


@dataclass(frozen=True)
class Place:
    """A file that is written anew for each example, and counts that are written down once."""

    path: Path
    counts: list[Counting]

    def totals(self, content: bytes) -> set[int]:
        """How many records each of the counts sees; all the same, if all is well."""
        self.write(content)
        return {int(count.run().sum()) for count in self.counts}

    def write(self, content: bytes) -> None:
        self.path.write_bytes(gzip.compress(content) if self.path.suffix == ".gz" else content)


@pytest.fixture(scope="module", params=["rows.csv", "rows.csv.gz"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("csv") / request.param, [])
    made.write(",".join(NAMES).encode())
    source = open_source(str(made.path))
    made.counts.extend(source.prepare(compile_cells(DOMAIN, Policy(), axes)) for axes in AXES)
    return made


@given(rows=st.lists(st.lists(FIELD, min_size=1, max_size=6), max_size=5), end=st.sampled_from([b"\n", b"\r\n"]))
@effort(4)
def test_every_record_is_in_every_count(place: Place, rows: list[list[bytes]], end: bytes) -> None:
    content = end.join([",".join(NAMES).encode(), *map(record, rows)]) + end
    assert place.totals(content) == {len(rows)}
    told = [row[1].decode("utf-8", "replace") for row in rows if len(row) > 1]
    assert [int(count) for count in place.counts[1].run()[: len(WARDS)]] == [told.count(ward) for ward in WARDS]


TORN = st.lists(FIELD | st.sampled_from([b",", b"\n", b'"', b'""', b"\r", "é".encode()]), max_size=12).map(b"".join)


@given(content=st.binary(max_size=200) | TORN)
@effort(3)
def test_any_bytes_are_rows_or_a_refusal(place: Place, content: bytes) -> None:
    assert len(place.totals(b"age,ward,cost,day\n" + content)) == 1
    place.write(content)
    found = outcome(lambda: list(open_source(str(place.path)).columns()))
    assert isinstance(found, BlowfishError) or found


HEADER = st.lists(
    texts().map(lambda text: text[:60]) | st.sampled_from(["age", "AGE", "a b", 'q"', "'", "rowid", "rows"]),
    min_size=1,
    max_size=5,
)


@given(HEADER)
@effort(3)
def test_odd_names_of_columns(names: list[str]) -> None:
    written = io.StringIO()
    csv.writer(written).writerow([name.encode("utf-8", "replace").decode() for name in names])
    written.write(",".join("1" for _ in names) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_text(written.getvalue(), encoding="utf-8", newline="")
        found = outcome(lambda: list(open_source(str(path)).columns()))
        if isinstance(found, BlowfishError):
            return
        own = domain({found[0]: integers(0, 3)})
        counts = open_source(str(path)).prepare(compile_cells(own, Policy(), [found[0]])).run()
        assert [int(count) for count in counts] == [0, 1, 0, 0, 0]


LINE = st.tuples(st.sampled_from(["", "1", "2", '"1\n"', '"\r\n1"', "é", '"q""q"']), st.sampled_from(["\n", "\r\n"]))


@given(st.sampled_from(["age", '"a\nge"', '"a\r\nge"']), st.sampled_from(["\n", "\r\n"]), st.lists(LINE, max_size=8))
@effort(10)
def test_a_line_of_one_column_is_one_record_whatever_its_end(name: str, end: str, lines: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_bytes((name + end + "".join(map("".join, lines))).encode())
        column = name.strip('"')
        table = open_source(str(path)).prepare(compile_cells(domain({column: integers(1, 2)}), Policy(), [column]))
        values = [value for value, _ in lines]
        ages = sum(value in ("1", '"1\n"', '"\r\n1"') for value in values)
        assert [int(count) for count in table.run()] == [
            ages,
            values.count("2"),
            len(values) - ages - values.count("2"),
        ]


def test_many_columns(tmp_path: Path) -> None:
    names = [f"c{place}" for place in range(100_000 if NIGHTLY else 2_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    own = domain({"c7": integers(0, 3)})
    counts = open_source(str(tmp_path / "wide.csv")).prepare(compile_cells(own, Policy(), ["c7"])).run()
    assert int(counts[1]) == 1
