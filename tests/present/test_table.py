"""Every export holds the same rows, and they are the answer's."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from blowfishdb.engine.answer import Answer
from blowfishdb.errors import ExtraMissing
from tests.present.cases import QUESTIONS, constructed, released

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
