"""The benchmarks: their command, fair comparisons with peers, and honest statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from benchmarks import all as everything
from benchmarks import harness
from benchmarks.__main__ import main
from benchmarks.contestants.common import CELLS, SIDE
from benchmarks.harness import MissingData, Row, compared, measure, with_history, with_options
from benchmarks.peers import PEERS, Asked, Peer, compete, error, make_rows, true_counts
from benchmarks.statistics import at, difference, slope
from blowfishdb.errors import InvalidInput

SAMPLE = '"""Counts to two.\n\nSlowly."""\n\ndef run(data):\n    return iter(())\n'


class Counting:
    def run(self, data: Path | None) -> Iterator[Row]:
        yield Row("one", ours=1.0, other=4.0, ratio=0.25, seconds=0.5)
        yield Row("two", note=f"data: {data}")


class Hungry:
    def run(self, data: Path | None) -> Iterator[Row]:
        if data is None:
            raise MissingData("this one needs --data DIR")
        yield Row("fed")


@pytest.fixture
def benchmark_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "count_up.py").write_text(SAMPLE)
    (folder / "hungry.py").write_text(SAMPLE)
    (folder / "helper.py").write_text('"""No benchmark."""\n')
    monkeypatch.setattr(harness, "FOLDER", folder)
    monkeypatch.setattr(harness, "load", lambda name: Hungry() if name == "hungry" else Counting())
    return folder


@pytest.mark.usefixtures("benchmark_folder")
def test_names_and_descriptions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness.available() == {"count-up": "Counts to two.", "hungry": "Counts to two."}
    assert main(["--help"]) == 0
    assert "count-up           Counts to two." in capsys.readouterr().out


def test_json_prints_one_object_a_line(benchmark_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count-up", "--json", "--data", str(benchmark_folder)]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"case": "one", "ours": 1.0, "other": 4.0, "ratio": 0.25, "seconds": 0.5}
    assert second == {"case": "two", "note": f"data: {benchmark_folder}"}


@pytest.mark.usefixtures("benchmark_folder")
def test_markdown_is_a_table_for_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count-up", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| case | ours | other | ratio | note |"
    assert lines[2:] == ["| one | 1 | 4 | 0.25 |  |", "| two |  |  |  | data: None |"]


@pytest.mark.usefixtures("benchmark_folder")
def test_the_table_leaves_out_empty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count-up"]) == 0
    printed = capsys.readouterr().out
    assert "0.25" in printed
    assert "ratio" in printed
    assert "peak_mb" not in printed


@pytest.mark.usefixtures("benchmark_folder")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["missing"], "unknown benchmark 'missing'; choose one of: count-up, hungry"),
        (["count-up", "--data", "/no/such/folder"], "/no/such/folder is not a folder"),
        (["hungry"], "this one needs --data DIR"),
        (["hungry", "--json"], "this one needs --data DIR"),
    ],
)
def test_a_wrong_call_says_why_and_exits_with_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_help_shows_the_options_of_a_benchmarks_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["timing", "--help"])
    assert stopped.value.code == 0
    assert "--samples" in capsys.readouterr().out
    assert main(["noise", "--help"]) == 0
    assert "--data DIR" in capsys.readouterr().out


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_row_refuses_what_was_not_measured(value: float) -> None:
    with pytest.raises(InvalidInput, match="ratio"):
        Row("case", ratio=value)
    with pytest.raises(InvalidInput, match="case"):
        Row("")


def test_zero_is_a_measured_value() -> None:
    assert json.loads(Row("case", ours=0.0).to_json()) == {"case": "case", "ours": 0.0}


def test_measure_sees_the_memory_that_the_work_used() -> None:
    small, seconds, low = measure(lambda: 7)
    _, _, high = measure(lambda: len(bytearray(b"x") * 200_000_000))
    assert small == 7
    assert seconds >= 0
    assert high > low + 150


def test_every_shipped_benchmark_says_what_it_measures() -> None:
    assert all(harness.available().values())


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


RNG = np.random.default_rng(5)


def test_a_shift_is_seen_and_measured() -> None:
    one, two = RNG.exponential(1.0, 200), RNG.exponential(1.0, 200) + 0.7
    found = difference(one.tolist(), two.tolist())
    assert found.is_seen
    assert found.low < 0.7 < found.high
    assert found.gap == pytest.approx(0.45, abs=0.15)


@pytest.mark.nightly
def test_the_same_distribution_is_rarely_told_apart() -> None:
    seen = [difference(RNG.normal(size=60).tolist(), RNG.normal(size=60).tolist()).is_seen for _ in range(6)]
    assert sum(seen) <= 3


def test_times_that_padding_made_equal_show_no_gap() -> None:
    assert not difference([0.25] * 50, [0.25] * 50).is_seen


def test_a_slope_is_found_and_a_flat_line_holds_zero() -> None:
    places = np.linspace(0, 10, 500)
    rising = slope(places.tolist(), (3 * places + RNG.normal(size=500)).tolist())
    assert rising.value == pytest.approx(3, abs=0.2)
    assert 2.5 < rising.low < rising.value < rising.high < 3.5
    flat = slope(places.tolist(), RNG.normal(size=500).tolist())
    assert flat.value == pytest.approx(0, abs=0.1)
    assert flat.low < flat.value < flat.high


def test_percentiles_are_values_of_the_sample() -> None:
    assert at([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert at([3.0, 1.0, 2.0, 4.0], 0.95) == 4.0


def test_all_runs_the_headlines_and_says_what_became_better_or_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = tmp_path / "reference.json"
    reference.write_text('{"b: slow": 1.0, "b: fast": 1.0, "a: other": 0.5}')
    earlier = tmp_path / "run.jsonl"
    rows = [Row("b: slow", ratio=2.0, aim=1.1), Row("b: fast", ratio=0.12345), Row("b: not run to its end", note="why")]
    earlier.write_text("\n".join(row.to_json() for row in rows))
    work = everything.run_with(["--run", str(earlier), "--reference", str(reference), "--keep"])
    assert [row.note for row in work(None)] == ["WORSE (ratio was 1)", "better (ratio was 1)", "why"]
    assert json.loads(reference.read_text()) == {"a: other": 0.5, "b: slow": 2.0, "b: fast": 0.123}
    assert not any(row.note for row in everything.run_with(["--run", str(earlier)])(None) if row.ratio)
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\necho '{Row('case', ratio=1.0).to_json()}'\necho broken >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(everything.sys, "executable", str(script))
    assert [row.case for row in everything.run_with(["--only", "fixed-costs"])(tmp_path)] == [
        "fixed-costs: case",
        "fixed-costs: not run to its end",
    ]


def test_only_benchmarks_with_a_headline_have_one() -> None:
    class Judged(Counting):
        def headline(self, data: Path | None) -> Iterator[Row]:
            yield Row("judged", ratio=1.0, aim=1.0)

    assert harness.judged(Counting(), []) is None
    assert harness.judged(Judged(), ["--size"]) is None
    work = harness.judged(Judged(), [])
    assert work is not None
    assert [Row.from_json(row.to_json()) for row in work(None)] == [Row("judged", ratio=1.0, aim=1.0)]
    assert "fixed-costs" in harness.available("headline")
    assert set(harness.available("headline")) < set(harness.available())
