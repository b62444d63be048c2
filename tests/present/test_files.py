"""Files that people pass on: all of the numbers, ends as numbers, notes beside them, and nothing that runs."""

from __future__ import annotations

import csv
import datetime
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import openpyxl
import pytest
from hypothesis import given, settings
from pyarrow import BufferReader, parquet

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable
from blowfishdb.present.table import TABLES, csv_file, excel_file, geojson, is_map, parquet_file
from tests.present.cases import QUESTIONS, answers, constructed, released


def sheets(content: bytes) -> dict[str, list[list[Any]]]:
    book = openpyxl.load_workbook(io.BytesIO(content))
    return {sheet.title: [[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in book}


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_file_has_every_row(name: str) -> None:
    answer = released(name)
    lines = list(csv.DictReader(io.StringIO(csv_file(answer).decode())))
    typed = parquet.read_table(BufferReader(parquet_file(answer))).to_pylist()
    for row, line, known in zip(answer.rows(), lines, typed, strict=True):
        assert known.items() >= row.items()
        assert {key: "" if known[key] is None else str(known[key]) for key in known} == line
    sheet = sheets(excel_file(answer))["Numbers"]
    assert sheet[0][: len(typed[0])] == list(typed[0])
    values = [row[sheet[0].index(answer.value_name)] for row in sheet[1:]]
    assert values == pytest.approx(answer.values.tolist())


def test_groups_along_a_line_have_their_ends() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_file(released("histogram")).decode())))
    assert [(row["age"], row["age_from"], row["age_to"]) for row in rows[:2]] == [
        ("0-9", "0.0", "10.0"),
        ("10-19", "10.0", "20.0"),
    ]
    plane = parquet.read_table(BufferReader(parquet_file(released("plane")))).to_pylist()
    assert {(row["ward"], row["age_from"], row["age_to"]) for row in plane} >= {("A1", 80.0, 100.0), ("B$1", 0.0, 20.0)}
    assert "ward_from" not in plane[0]
    days = parquet.read_table(BufferReader(parquet_file(released("calendar")))).to_pylist()
    assert (days[0]["admitted_from"], days[0]["admitted_to"]) == (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2))
    special = parquet.read_table(BufferReader(parquet_file(released("cdf beside NULL")))).to_pylist()
    assert all((row["cost_from"] is None) == (not row["cost"].startswith("[")) for row in special)


def test_a_workbook_says_what_its_numbers_mean_and_draws_them() -> None:
    answer = replace(released("histogram"), counted="of at most 5 rows per patient", caveat="Mind the gap.")
    content = excel_file(answer)
    about = {row[0]: row[1] for row in sheets(content)["What it means"]}
    assert about["Accuracy"] == "noise within 60 (95 %)"
    assert (about["Counted"], about["Mind"]) == (answer.counted, answer.caveat)
    assert about["Note"] == answer.note()
    with ZipFile(io.BytesIO(content)) as parts:
        chart = parts.read("xl/charts/chart1.xml").decode()
        assert "errBars" in chart
        assert "Numbers!$A$2:$A$11" in chart
    with ZipFile(io.BytesIO(excel_file(released("plane")))) as parts:
        assert not [name for name in parts.namelist() if "chart" in name]


def test_labels_are_never_formulas() -> None:
    answer = constructed(["=1+1", "http://example.org", "7"], [1.0, 2.0, 3.0], title="=cmd()")
    with ZipFile(io.BytesIO(excel_file(answer))) as parts:
        sheet = parts.read("xl/worksheets/sheet1.xml").decode()
        assert "<f>" not in sheet
        assert "hyperlink" not in sheet
    assert [row[0] for row in sheets(excel_file(answer))["Numbers"][1:]] == ["=1+1", "http://example.org", "7"]


@settings(max_examples=30)
@given(answers())
def test_any_answer_can_be_saved(answer: Answer) -> None:
    for _, write in TABLES.values():
        assert write(answer)


def grid(names: tuple[str, str] = ("lon", "lat")) -> Answer:
    """Three columns west to east (the last one NULL), two rows."""
    east = AnswerAxis(names[0], ("0-1", "1-2", "NULL"), 2, (0.0, 1.0, 2.0))
    north = AnswerAxis(names[1], ("50-51", "51-53"), 2, (50.0, 51.0, 53.0))
    answer = constructed(["x"] * 6, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    return replace(answer, tables=(AnswerTable((east, north)),))


def test_a_grid_becomes_rectangles_with_their_intervals() -> None:
    features = geojson(grid())["features"]
    assert [feature["properties"]["count"] for feature in features] == [1.0, 2.0, 3.0, 4.0]
    assert features[1]["geometry"]["coordinates"] == [[[0.0, 51.0], [1.0, 51.0], [1.0, 53.0], [0.0, 53.0], [0.0, 51.0]]]
    assert (features[3]["properties"]["low"], features[3]["properties"]["high"]) == (0.0, 9.0)
    assert geojson(grid())["note"] == grid().note()
    turned = grid(("y", "x"))
    assert geojson(turned)["features"][1]["geometry"]["coordinates"][0][0] == [51.0, 0.0]
    assert is_map(grid()) and not is_map(released("plane"))
    with pytest.raises(QueryError, match="longitude and a latitude"):
        geojson(released("plane"))
    with pytest.raises(QueryError, match="one table"):
        geojson(released("marginals"))


SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}


def test_regions_get_the_numbers_of_their_values(tmp_path: Path) -> None:
    names = ("A1", "B$1", "elsewhere", None)
    regions = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "geometry": SQUARE, "properties": name and {"ward": name}} for name in names],
    }
    answer = released("names")
    path = tmp_path / "wards.geojson"
    path.write_text(json.dumps(regions))
    for given_regions in (regions, path, str(path)):
        features = answer.to_geojson(given_regions, key="ward")["features"]
        assert [feature["properties"]["ward"] for feature in features] == ["A1", "B$1"]
        assert [feature["properties"]["count"] for feature in features] == answer.values[[0, 2]].tolist()
        assert features[0]["geometry"] == SQUARE
    with pytest.raises(InvalidInput, match="no region has a property 'name'"):
        answer.to_geojson(regions)
    with pytest.raises(QueryError, match="one attribute"):
        released("plane").to_geojson(regions)
    for wrong in ({}, {"type": "FeatureCollection", "features": [1]}, tmp_path / "absent", {"type": "Point"}):
        with pytest.raises(InvalidInput, match="feature collection"):
            answer.to_geojson(wrong)


def test_the_ending_chooses_the_file(tmp_path: Path) -> None:
    answer = grid()
    for ending in (*TABLES, ".json", ".geojson"):
        answer.save(tmp_path / f"map{ending}")
    assert (tmp_path / "map.xlsx").read_bytes().startswith(b"PK")
    assert np.array_equal(bf.Answer.from_json((tmp_path / "map.json").read_text()).raw, answer.raw)
    assert len(json.loads((tmp_path / "map.geojson").read_text())["features"]) == 4
    with pytest.raises(InvalidInput, match=r"\.csv, \.xlsx, \.parquet, \.geojson or \.json"):
        answer.save(tmp_path / "map.doc")
