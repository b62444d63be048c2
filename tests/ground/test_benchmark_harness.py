"""The benchmark command lists, runs and refuses as promised, and rows hold only what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.__main__ import main
from benchmarks.harness import MissingData, Row, measure
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
    assert main([]) == 0
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
