"""The pictures on pages show what was released: every value, its interval, and labels that are never markup."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.present.chart import Chart, ChartAxis, Series, chart_of, shared_top
from blowfishdb.present.chart_echarts import DETAIL, Options, draw, height_of
from blowfishdb.server.pages.result import FORMATS, name_of
from blowfishdb.session import Session
from tests.session.places import configuration

HOSTILE = "<img src=x onerror=alert(1)>"


def options_of(answer: Answer, *, raw: bool = False, top: float | None = None) -> Options:
    return draw(chart_of(answer, DETAIL, raw=raw), top=top)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder: Path = tmp_path_factory.mktemp("charts")
    rows = "\n".join(f"{place % 90 + 9},{'A1' if place % 3 else HOSTILE}" for place in range(900))
    (folder / "rows.csv").write_text(f"age,ward\n{rows}\n")
    config = configuration(folder)
    attributes = {
        "age": bf.integers(0, 99, null=0),
        "ward": bf.categorical([HOSTILE, "A1"], null="A1", outside="A1"),
    }
    with bf.curate(config, by="cora") as keeper:
        keeper.add(bf.Dataset("clinic", source="rows.csv", domain=attributes, epsilon="100"))
    return bf.connect(config, analyst="ana")


@pytest.fixture(scope="module")
def answers(db: Session) -> dict[str, Answer]:
    table = db["clinic"]
    asked = {
        "bars": table.histogram("ward"),
        "many bars": table.histogram("age"),
        "steps": table.cdf("age"),
        "heat": table.histogram2d(bf.col("age").bins(10), "ward"),
        "dots": table.marginals(bf.col("age").bins(10), "ward"),
        "one": table.count(),
        "quantiles": table.quantiles("age", [0.25, 0.5]),
    }
    # Noise in the heat map never hides its counts of 67, so that its scale always has room for an interval.
    return {name: question.release(alpha=10 if name == "heat" else 40) for name, question in asked.items()}


@pytest.mark.parametrize("raw", [False, True])
def test_every_shape_is_plain_data(answers: dict[str, Answer], raw: bool) -> None:
    for answer in answers.values():
        if answer.raw.size == 1:
            continue  # a number by itself is no picture
        options = options_of(answer, raw=raw)
        assert json.loads(json.dumps(options, allow_nan=False)) == options
        assert options["tooltip"]["renderMode"] == "richText", "labels are never read as markup"
        assert 150 <= height_of(chart_of(answer, DETAIL)) <= 1400


def test_bars_have_their_intervals(answers: dict[str, Answer]) -> None:
    answer = answers["bars"]
    bars, whiskers = options_of(answer)["series"]
    assert [bar["value"] for bar in bars["data"]] == answer.values.tolist()
    assert [part["value"][1:] for part in whiskers["data"]] == [
        [low, high] for low, high in zip(answer.bounds.low, answer.bounds.high, strict=True)
    ]
    measured, _ = options_of(answer, raw=True)["series"]
    assert [bar["value"] for bar in measured["data"]] == answer.raw.tolist()


def test_the_band_of_a_curve_is_its_interval(answers: dict[str, Answer]) -> None:
    answer = answers["steps"]
    low, width, curve = options_of(answer)["series"]
    assert low["data"] == answer.bounds.low.tolist()
    assert width["data"] == (answer.bounds.high - answer.bounds.low).tolist()
    assert [point["value"] for point in curve["data"]] == answer.values.tolist()


def test_compared_answers_share_a_scale_that_holds_both(answers: dict[str, Answer]) -> None:
    one, two = answers["bars"], answers["many bars"]
    top = shared_top(one, two)
    assert top >= max(one.bounds.high.max(), two.bounds.high.max())
    assert options_of(one, top=top)["yAxis"]["max"] == options_of(two, top=top)["yAxis"]["max"] == top


def test_lines_keep_their_order_and_gaps() -> None:
    series = (Series("full", np.array([0.5, np.nan])), Series("line", np.array([0.1, 0.2])))
    options = draw(Chart("lines", ChartAxis("theta", ("1", "2")), ChartAxis("epsilon", log=True), series))
    assert [line["name"] for line in options["series"]] == ["full", "line"]
    assert options["series"][0]["data"] == [0.5, None]
    assert options["yAxis"]["type"] == "log"


def test_files_hold_all_of_the_answer(answers: dict[str, Answer]) -> None:
    answer = answers["bars"]
    assert set(FORMATS) == {"csv", "xlsx", "parquet", "geojson", "png", "svg", "json"}
    files = {ending: write(answer) for ending, (_, write) in FORMATS.items() if ending not in ("png", "geojson")}
    rows = list(csv.DictReader(io.StringIO(files["csv"].decode())))
    assert [float(row["count"]) for row in rows] == answer.values.tolist()
    assert bf.Answer.from_json(files["json"]).raw.tolist() == answer.raw.tolist()
    assert files["parquet"].startswith(b"PAR1")
    assert b"<img" not in files["svg"], "a label is text in a picture"
    assert name_of(answer, "csv") == "clinic-histogram-of-ward.csv"


def test_a_narrow_heat_map_leaves_out_names_that_have_no_room(answers: dict[str, Answer]) -> None:
    narrow, wide = (case["option"]["xAxis"]["axisLabel"] for case in options_of(answers["heat"])["media"])
    assert narrow == {"hideOverlap": True, "interval": "auto"}, "also where all names are written in a wide one"
    assert wide["interval"] in (0, "auto")


def test_a_heat_map_names_both_its_axes_and_its_largest_number(answers: dict[str, Answer]) -> None:
    answer = answers["heat"]
    drawn = options_of(answer)
    assert (drawn["xAxis"]["name"], drawn["yAxis"]["name"]) == ("ward", "age")
    assert drawn["visualMap"]["text"] == [f"{round(float(answer.values.max())):,}", "0"]


def test_the_scale_of_a_heat_map_has_a_length_as_long_as_an_interval(answers: dict[str, Answer]) -> None:
    chart = chart_of(answers["heat"], DETAIL)
    (mark,) = draw(chart)["graphic"]
    assert mark["shape"]["height"] == pytest.approx(max(220 * chart.interval_part, 2.0))
    twice_as_high = draw(chart, top=2 * chart.ends[1])["graphic"][0]["shape"]["height"]
    assert twice_as_high == pytest.approx(max(110 * chart.interval_part, 2.0), rel=0.01)
