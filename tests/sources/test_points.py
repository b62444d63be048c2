"""Points that occur, counted by an engine: the same as when each row is placed by the definition."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.model.cells import compile_points
from blowfishdb.model.predicate import Axis, Predicate
from blowfishdb.sources import open_source

DOMAIN = bf.domain(
    {
        "x": bf.bins(0, 10, width="0.1", null_public=True),
        "y": bf.integers(-5, 5, null=0),
        "kind": bf.categorical(["a", "b"], null="a", outside="b"),
    }
)
RANDOM = np.random.default_rng(8)
ROWS = [
    (
        None if RANDOM.random() < 0.1 else round(float(RANDOM.uniform(-1, 12)), 2),
        None if RANDOM.random() < 0.1 else int(RANDOM.integers(-8, 9)),
        [None, "a", "b", "c"][int(RANDOM.integers(0, 4))],
    )
    for _ in range(400)
]


@pytest.fixture(params=["duckdb", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / f"points.{request.param}"
    created = "CREATE TABLE points (x DOUBLE, y INTEGER, kind VARCHAR(9))"
    if request.param == "duckdb":
        with duckdb.connect(str(path)) as engine:
            engine.execute(created)
            engine.executemany("INSERT INTO points VALUES (?, ?, ?)", ROWS)
    else:
        connection = sqlite3.connect(path)
        connection.execute(created)
        connection.executemany("INSERT INTO points VALUES (?, ?, ?)", ROWS)
        connection.commit()
        connection.close()
    return f"{request.param}:///{path}#points"


@pytest.mark.parametrize("where", [None, bf.col("kind") == "a", (bf.col("x") < "5.5") & (bf.col("y") > -2)])
@pytest.mark.parametrize("columns", [("x", "y"), ("y",)])
@pytest.mark.sampled(5)
def test_points_and_their_counts(address: str, columns: tuple[str, ...], where: Predicate | None) -> None:
    points = compile_points(DOMAIN, bf.Policy(), tuple(Axis(name) for name in columns), where)
    values, numbers = open_source(address).prepare_points(points).run()
    found: Counter[tuple[int, ...]] = Counter()
    for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
        found[tuple(value)] += number
    raw = [np.array(column, dtype=object) for column in zip(*ROWS, strict=True)]
    codes = {name: DOMAIN[name].encode(column) for name, column in zip(DOMAIN.names, raw, strict=True)}
    placed, counts = points.place({name: codes[name] for name in points.attributes})
    assert found == Counter(tuple(value) for value in placed[counts].tolist())
    assert 0 < sum(found.values()) <= len(ROWS)


def test_bins_of_a_column_are_points_too(address: str) -> None:
    points = compile_points(DOMAIN, bf.Policy(), (Axis("x", width=5),))
    values, numbers = open_source(address).prepare_points(points).run()
    assert set(values[:, 0].tolist()) == {0, 1}
    assert numbers.sum() == sum(1 for x, _, _ in ROWS if x is not None)
    assert points.positions(0).tolist() == [2.5, 7.5]
