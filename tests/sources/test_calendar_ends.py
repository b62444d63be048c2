"""Dates at the ends of the calendar count where they belong, or are refused before anything is counted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest

from blowfishdb.errors import SourceError
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Attribute, domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.sources import open_source

ROWS = ("0044-03-15 (BC)", "0001-01-01", "0001-01-02", "9999-12-30", "9999-12-31", "10000-01-01", "11000-01-01")


@pytest.fixture
def url(tmp_path: Path) -> str:
    with closing(duckdb.connect(str(tmp_path / "t.duckdb"))) as connection:
        connection.execute("CREATE TABLE t (day DATE, moment TIMESTAMP, x INTEGER)")
        for row in ROWS:
            connection.execute("INSERT INTO t VALUES ($1::DATE, $1::DATE + INTERVAL 5 HOUR, 1)", [row])
    return f"duckdb:///{tmp_path / 't.duckdb'}#t"


def counted(url: str, attributes: dict[str, Attribute], *axes: str) -> list[int]:
    cells = compile_cells(domain(attributes), Policy(), list(axes))
    counts: list[int] = np.asarray(open_source(url).prepare(cells).run()).tolist()
    return counts


BESIDE = {"x": integers(1, 1, null=1)}
LAST = dates("9999-12-29", "9999-12-31", null="9999-12-29")
FIRST = dates("0001-01-01", "0001-01-03", null="0001-01-01")


@pytest.mark.parametrize("axes", [("day",), ("day", "x")])
def test_what_lies_beyond_the_calendar_counts_at_its_ends(url: str, axes: tuple[str, ...]) -> None:
    assert counted(url, {"day": LAST, **BESIDE}, *axes) == [3, 1, 3]
    assert counted(url, {"day": FIRST, **BESIDE}, *axes) == [2, 1, 4]


@pytest.mark.parametrize("axes", [("day",), ("day", "x")])
def test_one_day_from_the_ends_what_lies_outside_has_a_cell(url: str, axes: tuple[str, ...]) -> None:
    last = dates("9999-12-29", "9999-12-30", null="9999-12-29", outside="cell")
    first = dates("0001-01-02", "0001-01-03", null="0001-01-02", outside="cell")
    assert counted(url, {"day": last, **BESIDE}, *axes) == [0, 1, 6]
    assert counted(url, {"day": first, **BESIDE}, *axes) == [1, 0, 6]


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("day", dates("9999-12-29", "9999-12-31", outside="cell")),
        ("day", dates("9990-01-01", "9999-12-31", by="year", outside="cell")),
        ("day", dates("0001-01-01", "0001-01-03", outside="cell")),
        ("moment", dates("9999-12-29", "9999-12-31", outside="cell")),
        ("moment", timestamps("9999-12-31T00:00:00", "9999-12-31T06:00:00")),
        ("moment", timestamps("9999-12-31T00:00:00", "9999-12-31T06:00:00", outside="cell")),
    ],
)
def test_what_cannot_be_told_from_what_lies_beyond_is_refused(url: str, name: str, attribute: Attribute) -> None:
    with pytest.raises(SourceError, match="cannot be told from what lies beyond"):
        counted(url, {name: attribute}, name)


def test_times_up_to_the_last_midnight_are_counted(url: str) -> None:
    hours = timestamps(
        "9999-12-30T00:00:00", "9999-12-31T00:00:00", by="hour", outside="cell", null_public=True, outside_public=True
    )
    counts = counted(url, {"moment": hours}, "moment")
    assert (counts[5], sum(counts[:24]), sum(counts)) == (1, 1, len(ROWS))
