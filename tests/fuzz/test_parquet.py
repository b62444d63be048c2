"""Parquet from elsewhere: sources with hostile values and types, and synopses that were tampered with."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from blowfishdb.engine.synopsis import KEY, Synopsis, from_bytes, to_bytes
from blowfishdb.errors import BlowfishError, DocumentError, SourceError
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import open_source
from tests.effort import NIGHTLY
from tests.fuzz.effort import effort, outcome
from tests.fuzz.grammar import NASTY_NUMBERS, plain, texts
from tests.session.places import make_fixture, session

DOMAIN = domain(
    {"age": integers(0, 9, outside="cell"), "ward": categorical(["A1", "é"]), "cost": bins(0, 10, width="0.1")}
)
FLOATS = [value for value in NASTY_NUMBERS if isinstance(value, float)] + [0.1, 0.3, 9.95, -1e-320, None]
INTS = [0, 1, 9, 10, -1, 2**62, -(2**63), 2**63 - 1, None]


def counted(path: Path, name: str) -> list[int]:
    return [int(count) for count in open_source(str(path)).prepare(compile_cells(DOMAIN, Policy(), [name])).run()]


@given(st.lists(st.tuples(st.sampled_from(INTS), st.sampled_from(FLOATS), st.none() | texts()), max_size=6))
@effort(3)
def test_hostile_values_are_all_counted(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any, Any]]
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "rows.parquet"
    storable = [None if text is None else text.encode("utf-8", "replace").decode() for _, _, text in rows]
    columns = {
        "age": pa.array([row[0] for row in rows], pa.int64()),
        "cost": pa.array([row[1] for row in rows], pa.float64()),
        "ward": pa.array(storable, pa.string()),
    }
    parquet.write_table(pa.table(columns), path)
    ages, costs, wards = (counted(path, name) for name in ("age", "cost", "ward"))
    assert sum(ages) == sum(costs) == sum(wards) == len(rows)
    known = [row[0] for row in rows]
    assert ages[:10] == [known.count(age) for age in range(10)]
    assert ages[10:] == [sum(age is None for age in known), sum(age is not None and not 0 <= age < 10 for age in known)]
    assert costs[-1] == sum(row[1] is None or math.isnan(row[1]) for row in rows)


NESTED = pa.list_(pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.list_(pa.int32())))])))
ODD_TYPES = [
    pa.binary(),
    pa.list_(pa.int64()),
    NESTED,
    pa.duration("s"),
    pa.time64("us"),
    pa.decimal256(60, 5),
    pa.null(),
]


@pytest.mark.parametrize("kind", ODD_TYPES, ids=str)
@pytest.mark.parametrize("name", ["age", "ward", "cost"])
def test_types_that_cannot_hold_what_is_declared_are_refused(tmp_path: Path, kind: pa.DataType, name: str) -> None:
    parquet.write_table(pa.table({name: pa.array([None, None], kind)}), tmp_path / "rows.parquet")
    found = outcome(lambda: counted(tmp_path / "rows.parquet", name))
    assert isinstance(found, SourceError) or sum(found) == 2  # type: ignore[arg-type]


def deep(depth: int) -> pa.DataType:
    kind = pa.int8()
    for _ in range(depth):
        kind = pa.struct([("a", kind), ("b", kind)])
    return kind


def test_types_that_grow_as_they_nest_harm_nobody(tmp_path: Path) -> None:
    """A type within a type within a type: 2^8 leaves from a few lines, beside a column that is asked for."""
    columns = {"age": pa.array([1, 2]), "bomb": pa.array([None, None], deep(8))}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    assert counted(tmp_path / "rows.parquet", "age")[:3] == [0, 1, 1]


def test_a_small_file_of_many_rows_is_counted_where_it_lies(tmp_path: Path) -> None:
    rows = 3 * 10**7 if NIGHTLY else 3 * 10**6
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"age": pa.array(np.full(rows, 7, np.int8))}), path, compression="zstd")
    assert path.stat().st_size < rows / 50
    assert counted(path, "age")[7] == rows


@pytest.mark.parametrize(
    "names", [["age", "AGE"], ["age", 'a"; DROP TABLE x; --'], ["age", "''"], ["age", "\n"], ["age", ""]]
)
def test_odd_names_of_columns(tmp_path: Path, names: list[str]) -> None:
    table = pa.Table.from_arrays([pa.array([3]) for _ in names], names=names)
    parquet.write_table(table, tmp_path / "rows.parquet")
    found = outcome(lambda: counted(tmp_path / "rows.parquet", "age"))
    assert isinstance(found, BlowfishError) or found[3] == 1


@given(st.binary(max_size=60))
@effort(6)
def test_files_that_are_no_parquet(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("parquet") / "rows.parquet"
    for whole in (content, b"PAR1" + content + b"PAR1"):
        path.write_bytes(whole)
        with pytest.raises(BlowfishError):
            open_source(str(path)).columns()
        assert isinstance(outcome(lambda: from_bytes(whole)), DocumentError)  # noqa: B023  # called at once


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("synopsis")
    make_fixture(folder)
    with session(folder) as db:
        return to_bytes(db["visits"].histogram("ward", "age").publish(epsilon="1").artefact)


def changed(kept: bytes, change: Callable[[dict[str, Any], pa.Table], pa.Table]) -> bytes:
    """The file with another description or other columns."""
    table = parquet.read_table(io.BytesIO(kept))
    written = json.loads(table.schema.metadata[KEY])
    table = change(written, table)
    out = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({KEY: json.dumps(written)}), out)
    return out.getvalue()


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a description; of long lists the first few."""
    found = [path] if path else []
    if isinstance(content, dict):
        found += [place for key, value in content.items() for place in places(value, (*path, key))]
    elif isinstance(content, list):
        found += [place for key, value in enumerate(content[:3]) for place in places(value, (*path, key))]
    return found


@given(data=st.data())
@effort(25)
def test_synopses_with_one_word_changed(kept: bytes, data: st.DataObject) -> None:
    def change(written: dict[str, Any], table: pa.Table) -> pa.Table:
        place = data.draw(st.sampled_from(places(written)))
        target: Any = written
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = data.draw(
            plain(3) | st.sampled_from(["1e999999999", "1/0", [10**30], [0, 0], [5, 1], [-7]])
        )
        return table

    content = changed(kept, change)
    found = outcome(lambda: from_bytes(content))
    if isinstance(found, BlowfishError):
        assert isinstance(found, DocumentError)
        return
    outcome(lambda: Synopsis(found).histogram("ward"))
    outcome(lambda: Synopsis(found).count())
    outcome(lambda: str(Synopsis(found)))


ONE = pa.array([1.0])
NOISE = {"deviation": ONE, "block": pa.array([0]), "block_deviation": ONE, "running_deviation": ONE}


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"count": pa.array([1.0])},
        {"count": pa.array(["x"]), **NOISE},
        {"count": pa.array([[1.0]]), **NOISE},
        {"count": pa.array([1.0]), **NOISE, "deviation": pa.array([math.nan])},
        {"count": pa.array([1.0]), **NOISE, "block": pa.array([7])},
        {"count": pa.array([1.0]), **NOISE, "block_deviation": pa.array([-math.inf])},
        {"count": pa.array([1.0]), **NOISE, "running_deviation": pa.array([-1.0])},
        {"count": pa.array([None], pa.float64()), **NOISE},
        {name: pa.array(np.zeros(3 * 2**20, dtype=kind)) for name, kind in zip("abcde", "ddqdd", strict=True)},
    ],
    ids=["none", "one", "text", "list", "nan", "block", "negative", "running", "null", "vast"],
)
def test_synopses_with_other_columns(kept: bytes, columns: dict[str, Any]) -> None:
    content = changed(kept, lambda written, table: pa.table(columns))
    assert isinstance(outcome(lambda: from_bytes(content)), DocumentError)


@given(place=st.integers(0, 10**6), put=st.binary(min_size=1, max_size=4))
@effort(25)
def test_synopses_with_bytes_changed(kept: bytes, place: int, put: bytes) -> None:
    at = place % len(kept)
    outcome(lambda: from_bytes(kept[:at] + put + kept[at + len(put) :]))
    outcome(lambda: from_bytes(kept[:at]))
