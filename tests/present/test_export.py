"""Every export holds the rows of the answer; files have ends as numbers, notes, and nothing that runs."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import openpyxl
import pytest
from hypothesis import given
from pyarrow import BufferReader, parquet

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import ExtraMissing, InvalidInput, QueryError
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable
from blowfishdb.present.export import TABLES, csv_file, excel_file, geojson, is_map, parquet_file
from tests.effort import effort
from tests.present.cases import QUESTIONS, answers, constructed, released

NUMBERS = ["low", "high", "raw", "pointwise_low", "pointwise_high"]


def missing_as_none(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("name", QUESTIONS)
def test_exports_equal_each_other(name: str) -> None:
    answer = released(name)
    rows = answer.rows()
    assert len(rows) == answer.raw.size
    assert answer.to_arrow().to_pylist() == rows
    assert answer.to_polars().to_dicts() == rows
    assert missing_as_none(answer.to_pandas().to_dict("records")) == rows
    assert list(rows[0]) == answer.to_arrow().column_names == answer.to_polars().columns == list(answer.to_pandas())


def test_rows_carry_labels_values_and_both_intervals() -> None:
    answer = constructed(["0-9", "10-19"], [12.0, 3.0], width=5.0)
    assert answer.rows() == [
        {
            "age": "0-9",
            "count": 12.0,
            "low": 7.0,
            "high": 17.0,
            "raw": 12.0,
            "pointwise_low": 9.5,
            "pointwise_high": 14.5,
        },
        {
            "age": "10-19",
            "count": 3.0,
            "low": 0.0,
            "high": 8.0,
            "raw": 3.0,
            "pointwise_low": 0.5,
            "pointwise_high": 5.5,
        },
    ]


def test_numbers_are_floats_and_labels_text_in_every_frame() -> None:
    answer = released("plane")
    assert {str(kind) for kind in answer.to_polars().dtypes[:2]} == {"String"}
    assert {str(kind) for kind in answer.to_polars().dtypes[2:]} == {"Float64"}
    assert [str(kind) for kind in answer.to_arrow().schema.types] == ["string"] * 2 + ["double"] * 6
    assert set(answer.to_pandas().dtypes.iloc[2:].astype(str)) == {"float64"}


def test_marginals_leave_other_attributes_empty() -> None:
    rows = released("marginals").rows()
    assert [row["low"] for row in rows[:5]] == [None] * 5
    assert {row["low"] for row in rows[5:]} == {"yes", "no"}


def test_an_attribute_keeps_its_name_and_the_number_gives_way() -> None:
    columns = released("marginals").to_polars().columns
    assert columns == ["ward", "low", "count", "low_", "high", "raw", "pointwise_low", "pointwise_high"]


@pytest.mark.parametrize("name", QUESTIONS)
def test_shown_values_lie_inside_the_joint_interval(name: str) -> None:
    frame = released(name).to_polars()
    low = "low_" if "low_" in frame.columns else "low"
    count, lower, upper = (frame[column].to_numpy() for column in ("count", low, "high"))
    assert np.all(lower - 1e-6 <= count)
    assert np.all(count <= upper + 1e-6)
    assert np.all(lower >= 0)


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("pandas", "frames", Answer.to_pandas),
        ("polars", "frames", Answer.to_polars),
        ("matplotlib", "plot", Answer.plot),
    ],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, extra: str, use: object
) -> None:
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ExtraMissing) as refused:
        use(released("histogram"))
    assert refused.value.extra == extra
    assert f"blowfishdb[{extra}]" in str(refused.value)
    assert package in str(refused.value)


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
    answer = replace(released("histogram"), counted="at most 5 rows per patient are counted", caveat="Mind the gap.")
    content = excel_file(answer)
    about = {row[0]: row[1] for row in sheets(content)["What it means"]}
    assert about["Accuracy"] == "noise within 60 (95 %)"
    assert (about["Counted"], about["Mind"]) == ("at most 5 rows per patient are counted", answer.caveat)
    assert about["Note"] == answer.note()
    with ZipFile(io.BytesIO(content)) as parts:
        chart = parts.read("xl/charts/chart1.xml").decode()
        (bars,) = re.findall(r"<c:plus>.*?</c:minus>", chart, re.DOTALL)
        widths = [*(answer.bounds.high - answer.values), *(answer.values - answer.bounds.low)]
        assert [float(width) for width in re.findall(r"<c:v>(.*?)</c:v>", bars)] == pytest.approx(widths)
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


@effort(30)
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
    # Special cells have no place on a map, whatever a region is called.
    names = ("A1", "B$1", "elsewhere", "NULL", "outside", None)
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
