"""Delta tables: the counts of every other engine, and versions that prove whether rows changed."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import blowfishdb as bf
from blowfishdb.errors import ContentChanged, SourceError, SourceFailed
from blowfishdb.model.calendar import timestamps
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Attribute, bins, categorical, domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import Join, open_source
from blowfishdb.sources.base import Fetched
from blowfishdb.sources.duckdb import FILES, Files, open_files
from blowfishdb.sources.location import parse_location
from tests.sources import stores
from tests.sources.cases import CASES, Case
from tests.sources.reference import expected_counts
from tests.sources.tables import SAMPLES

deltalake = pytest.importorskip("deltalake")
COLUMN = integers(0, 9, null=0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("delta")
    stores.load_duckdb(folder / "samples.duckdb", SAMPLES)
    return stores.load_delta(folder / "samples.duckdb", folder, SAMPLES)


SHORT = 8
"""One case of so many: DuckDB, which counts here, has all of them in its own test."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.nightly] * (n % SHORT > 0)) for n, case in enumerate(CASES)],
)
def test_delta_counts_like_every_other_engine(folders: Mapping[str, str], case: Case) -> None:
    addresses = {name: f"delta:///{folder}" for name, folder in folders.items()}
    joins = [Join(addresses[join.table], join.foreign_key, join.key, join.attributes) for join, _ in case.joined]
    cells = case.cells()
    counts = open_source(addresses[case.table.name], joins).prepare(cells, case.unit).run()
    np.testing.assert_array_equal(counts, expected_counts(case.table, cells, case.unit, case.joined))


def one_axis(name: str, attribute: Attribute) -> Cells:
    return compile_cells(domain({name: attribute}), Policy(), [name])


def counted(folder: Path, name: str = "x", attribute: Attribute = COLUMN) -> list[int]:
    return open_source(f"delta:///{folder}").prepare(one_axis(name, attribute)).run().tolist()


def table_of(folder: Path, values: list[int], **settings: Any) -> Path:
    deltalake.write_deltalake(folder, pyarrow.table({"x": pyarrow.array(values, pyarrow.int64())}), **settings)
    return folder


def test_a_commit_changes_the_content_and_nothing_else_does(tmp_path: Path) -> None:
    place = table_of(tmp_path / "t", [1, 2, 2])
    source = open_source(f"delta:///{place}")
    first = source.content()
    assert first is not None
    assert open_source(f"delta:////{place}/.").content() == first
    assert counted(place)[:3] == [0, 1, 2]
    seen = {first}
    for change in (
        lambda: table_of(place, [3], mode="append"),
        lambda: deltalake.DeltaTable(place).delete("x = 3"),
        # The same rows as at first, and yet another version.
        lambda: deltalake.DeltaTable(place).restore(0),
        lambda: table_of(place, [0], mode="append"),
        # The same rows in other files.
        lambda: deltalake.DeltaTable(place).optimize.compact(),
    ):
        change()
        assert source.content() not in seen
        seen.add(source.content())
    assert counted(place)[:4] == [1, 1, 2, 0]


def test_a_table_made_anew_is_another_content(tmp_path: Path) -> None:
    """Version numbers begin again; the table's id and its files do not."""
    first = open_source(f"delta:///{table_of(tmp_path / 't', [1])}").content()
    shutil.rmtree(tmp_path / "t")
    assert open_source(f"delta:///{table_of(tmp_path / 't', [1])}").content() != first


def test_a_log_that_was_turned_back_by_hand_is_another_content(tmp_path: Path) -> None:
    place = table_of(table_of(tmp_path / "t", [1]), [2], mode="append")
    first = open_source(f"delta:///{place}").content()
    (place / "_delta_log" / f"{1:020}.json").unlink()
    table_of(place, [3], mode="append")
    assert deltalake.DeltaTable(place).version() == 1
    assert open_source(f"delta:///{place}").content() != first


def test_a_statement_reads_one_version(tmp_path: Path) -> None:
    """A commit after the statement has begun is not in its count, and the next statement has all of it."""
    place = table_of(tmp_path / "t", [1, 1])
    engine, _ = open_files(parse_location(f"delta:///{place}"))
    with engine._read() as connection:
        table_of(place, [5] * 7, mode="overwrite")
        assert connection.execute(f"SELECT x, count(*) FROM {FILES.name} GROUP BY x").fetchall() == [(1, 2)]
    assert engine.fetch(f"SELECT x, count(*) FROM {FILES.name} GROUP BY x", None) == [(5, 7)]


def test_partitions_later_columns_and_odd_names_are_read(tmp_path: Path) -> None:
    words = ["a b", "ü%/'=", "[x]*", None, "a b"]
    rows = {"x": [1, 2, 3, 4, 5], "w": words, "n": pyarrow.array([1, None, 3, 3, 1], pyarrow.int32())}
    place, odd = tmp_path / "plain", tmp_path / "odd [1] näme'"
    deltalake.write_deltalake(place, pyarrow.table(rows), partition_by=["w", "n"])
    listed = categorical([word for word in dict.fromkeys(words) if word], null="a b")
    assert counted(place, "w", listed) == [3, 1, 1, 0]
    assert counted(place, "n") == [1, 2, 0, 2, *[0] * 6]
    deltalake.DeltaTable(place).alter.add_columns([deltalake.Field("later", deltalake.schema.PrimitiveType("long"))])
    assert counted(place, "later") == [5, *[0] * 9]
    more = pyarrow.table({**rows, "later": [7] * 5})
    deltalake.write_deltalake(place, more, mode="append", schema_mode="merge")
    place.rename(odd)
    assert counted(Path(quote(str(odd))), "later") == [5, *[0] * 6, 5, 0, 0]


def test_instants_without_a_zone_in_the_file_are_in_utc(tmp_path: Path) -> None:
    """Spark writes instants as INT96, which knows no zone; the machine's zone must not matter."""
    moments = [datetime.datetime(2024, 3, 31, hour, tzinfo=datetime.UTC) for hour in (0, 1, 23)]
    rows = pyarrow.table({"z": pyarrow.array(moments, pyarrow.timestamp("us", "UTC"))})
    deltalake.write_deltalake(tmp_path, rows)
    (file,) = tmp_path.glob("*.parquet")
    pyarrow.parquet.write_table(rows, file, use_deprecated_int96_timestamps=True)
    deltalake.write_deltalake(tmp_path, rows, mode="append")
    hours = timestamps("2024-03-31", "2024-04-01", by="hour", zone="UTC", null="2024-03-31")
    assert counted(tmp_path, "z", hours) == [2, 2, *[0] * 21, 2]


def test_tables_without_rows_are_read(tmp_path: Path) -> None:
    schema = pyarrow.schema([("x", pyarrow.int64()), ("y", pyarrow.float64())])
    deltalake.DeltaTable.create(tmp_path, deltalake.Schema.from_arrow(schema))
    assert counted(tmp_path) == [0] * 10
    assert counted(tmp_path, "y", bins(0, 2, width=1, null=0)) == [0, 0]


def test_features_that_change_what_files_mean_are_refused(tmp_path: Path) -> None:
    deltalake.DeltaTable.create(
        tmp_path,
        deltalake.Schema([deltalake.Field("x", deltalake.schema.PrimitiveType("long"))]),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    with pytest.raises(SourceError, match="deletionVectors"):
        open_source(f"delta:///{tmp_path}").columns()


def test_what_is_no_delta_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="after three slashes"):
        open_source("delta://host/t")
    with pytest.raises(SourceError, match="there is no"):
        open_source(f"delta:///{tmp_path}/absent")
    with pytest.raises(SourceError, match="not a Delta table"):
        open_source(f"delta:///{tmp_path}")
    place = table_of(tmp_path / "t", [1])
    with pytest.raises(SourceError, match="table itself"):
        open_source(f"delta:///{place}", [Join(f"delta:///{place}", "x", "x", {"y": "x"})])
    (place / "_delta_log" / f"{0:020}.json").write_text("the secret of ann")
    with pytest.raises(SourceFailed) as caught:
        open_source(f"delta:///{place}").columns()
    assert "ann" not in str(caught.value)


def test_files_that_are_gone_fail_without_a_word(tmp_path: Path) -> None:
    place = table_of(tmp_path / "t", [1])
    counting = open_source(f"delta:///{place}").prepare(one_axis("x", COLUMN))
    next(place.glob("*.parquet")).unlink()
    with pytest.raises(SourceFailed) as caught:
        counting.run()
    assert "parquet" not in str(caught.value)


def test_files_are_joined_to_delta_tables_and_the_other_way_round(tmp_path: Path) -> None:
    place = table_of(tmp_path / "t", [1, 1, 2])
    pyarrow.parquet.write_table(pyarrow.table({"k": [1, 2], "v": [4, 5]}), tmp_path / "d.parquet")
    cells = one_axis("v", COLUMN)
    joined = open_source(f"delta:///{place}", [Join(str(tmp_path / "d.parquet"), "x", "k", ["v"])])
    assert joined.prepare(cells).run().tolist() == [0, 0, 0, 0, 2, 1, *[0] * 4]
    content = joined.content()
    pyarrow.parquet.write_table(pyarrow.table({"k": [1, 2], "v": [4, 6]}), tmp_path / "d.parquet")
    assert joined.content() != content
    turned = open_source(str(tmp_path / "d.parquet"), [Join(f"delta:///{place}", "k", "x", {"y": "x"})])
    assert turned.prepare(one_axis("y", COLUMN)).run().tolist() == [1, 0, 1, *[0] * 7]
    assert turned.joined_identities()[0][1] == f"file:{place}"


def test_an_upgrade_rests_on_the_version_and_a_commit_meanwhile_stops_it_before_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, config = table_of(tmp_path / "t", [1, 2, 2]), tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    with bf.curate(config, by="cora") as curator:
        curator.add(bf.Dataset("t", source="delta:///t", domain={"x": COLUMN}, epsilon="9"))
    with bf.connect(config, analyst="ann") as session:
        question = session["t"].histogram("x")
        question.release(mechanism="identity", epsilon="0.1")
        assert question.release(mechanism="identity", epsilon="0.3").charged == Fraction(1, 5)
        fetch_columns = Files.fetch_columns

        def committed_before(engine: Files, sql: str, deadline: float | None) -> Fetched:
            table_of(place, [5], mode="append")
            return fetch_columns(engine, sql, deadline)

        monkeypatch.setattr(Files, "fetch_columns", committed_before)
        with pytest.raises(ContentChanged, match=r"0\.2 stays charged"):
            question.release(mechanism="identity", epsilon="0.5")
        monkeypatch.undo()
        assert question.preview(mechanism="identity", epsilon="0.6").epsilon == Fraction(3, 5)
