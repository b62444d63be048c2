"""The comparison with peers is fair: the same rows for all, answers that follow from counts, a kept history."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from benchmarks.contestants.common import CELLS, SIDE
from benchmarks.harness import Row, compared, with_history, with_options
from benchmarks.peers import PEERS, Asked, Peer, compete, error, make_rows, true_counts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peers")


@pytest.fixture(scope="module")
def asked(folder: Path) -> Asked:
    return make_rows(folder, 5000)


def test_every_contestant_sees_the_same_rows(folder: Path, asked: Asked) -> None:
    del asked
    counts = true_counts(folder)
    with duckdb.connect(str(folder / "rows.duckdb"), read_only=True) as connection:
        found = dict(connection.execute("SELECT a * 64 + b, count(*) FROM rows GROUP BY 1").fetchall())
    assert [found.get(cell, 0) for cell in range(SIDE * SIDE)] == counts["grid"].tolist()
    assert counts["line"].sum() == counts["grid"].sum() == 5000


def test_answers_follow_from_counts(asked: Asked) -> None:
    rng = np.random.default_rng(1)
    line, grid = rng.normal(size=CELLS), rng.normal(size=CELLS)
    found = asked.answers({"line": line, "grid": grid})
    low, high = asked.ranges[3]
    assert found["ranges"][3] == pytest.approx(line[low:high].sum())
    assert found["cdf"][10] == pytest.approx(line[:11].sum())
    a, b, c, d = asked.boxes[5]
    assert found["boxes"][5] == pytest.approx(grid.reshape(SIDE, SIDE)[a:b, c:d].sum())


def test_a_contestant_runs_on_its_own_and_raw_sql_makes_no_error(folder: Path, asked: Asked) -> None:
    truth = asked.answers(true_counts(folder))
    raw, floor = (compete(peer, "grid", folder) for peer in (PEERS[1], PEERS[0]))
    assert error(raw.values, truth["grid"]) == 0
    noise = np.abs(floor.values - truth["grid"]).mean()
    assert noise == pytest.approx(10, rel=0.1), "Laplace noise of scale 1 / 0.1"
    assert error(floor.values, truth["grid"]) < noise, "no count is below zero"
    assert raw.peak_mb > 10
    assert raw.seconds > 0


def test_a_contestant_that_fails_or_is_not_there_says_why(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="nobody"):
        compete(Peer("nobody", "nobody"), "line", folder)
    assert "--install" in Peer("absent", "absent", ("absent==1",)).missing()


def test_ratios_of_the_run_before_are_kept_and_worse_ones_named(tmp_path: Path) -> None:
    first = list(with_history("kept", [Row("a", ratio=1.0), Row("b", ratio=1.0), Row("c")], tmp_path))
    assert [row.note for row in first] == ["", "", ""]
    second = list(with_history("kept", [Row("a", ratio=2.0), Row("b", ratio=0.5, note="said")], tmp_path))
    assert [row.note for row in second] == ["WORSE (ratio was 1)", "said; better (ratio was 1)"]
    assert json.loads((tmp_path / "kept.json").read_text()) == {"a": 2.0, "b": 0.5}
    assert compared(Row("a", ratio=1.1), 1.0).note == "as before (ratio was 1)"


def test_options_go_to_the_benchmark_that_has_some() -> None:
    class Plain:
        def run(self, data: Path | None) -> list[Row]:
            return [Row(f"plain {data}")]

    class Sized(Plain):
        def run_with(self, arguments: list[str]) -> object:
            return lambda data: [Row(f"sized {arguments} {data}")]

    assert with_options(Plain(), ["--size"]) is None
    plain, sized = with_options(Plain(), []), with_options(Sized(), ["--size"])
    assert plain is not None
    assert sized is not None
    assert [row.case for row in (*plain(None), *sized(None))] == ["plain None", "sized ['--size'] None"]
