"""blowfish reproduce: the list, a run with its verdicts, and names that do not exist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import blowfishdb
from papers import experiments
from tests.cli.conftest import Run
from tests.papers.counting import BREAKS, EXPERIMENT, FAILS, OTHER, TRACES


@pytest.fixture
def traces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table holds the small experiment alone."""
    place = folder / "traces"
    place.mkdir()
    monkeypatch.setenv(TRACES, str(place))
    monkeypatch.setattr(experiments, "EXPERIMENTS", (EXPERIMENT,))
    monkeypatch.setattr("papers.command.EXPERIMENTS", (EXPERIMENT,))
    return place


def test_every_experiment_is_listed_with_its_paper_and_figure(blowfish: Run) -> None:
    listed = blowfish("reproduce", "--list", "--json").json
    assert [one["name"] for one in listed] == [one.name for one in experiments.EXPERIMENTS]
    assert all(one["paper"] and one["figure"] and one["what"] for one in listed)
    shown = blowfish("reproduce", "dawa", "--list").out
    assert "DAWA (Li, Hay, Miklau, Wang 2014)" in shown
    assert "dawa-figure-3" in shown
    assert "thesis-figure-4" not in shown


def test_a_run_prints_verdicts_and_writes_a_page(blowfish: Run, traces: Path) -> None:
    done = blowfish("reproduce", "--quick", "--out", "papers", "--processes", "1")
    assert done.code == 0, done.err
    assert "counting" in done.out
    assert "4 were counted." in done.out
    assert done.err == "1 of 1: counting holds\n"
    assert "Squares are squares." in Path("papers/index.html").read_text()
    again = blowfish("reproduce", "counting", "--quick", "--out", "papers", "--processes", "1", "--json").json
    (one,) = again["experiments"]
    assert (one["holds"], one["kept"]) == ("yes", True)
    assert all(Path(path).exists() for path in [*one["files"], *again["report"]])
    assert len(list(traces.iterdir())) == 4
    blowfish("reproduce", "--quick", "--out", "papers", "--processes", "1", "--restart")
    assert len(list(traces.iterdir())) == 8


def test_an_interrupted_run_ends_with_its_own_code(
    blowfish: Run, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAILS, "1")
    ended = blowfish("reproduce", "--quick", "--processes", "1")
    assert ended.code == 130
    assert "the same command goes on from there" in ended.err
    assert len(list(traces.iterdir())) == 1


def test_a_failure_is_told_and_the_others_go_on(blowfish: Run, traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "EXPERIMENTS", (EXPERIMENT, OTHER))
    monkeypatch.setattr("papers.command.EXPERIMENTS", (EXPERIMENT, OTHER))
    monkeypatch.setenv(BREAKS, "0")
    ended = blowfish("reproduce", "--quick", "--processes", "1")
    assert ended.code == 1
    assert ended.err.startswith("1 of 2: counting failed\n2 of 2: sound holds\n")
    assert "counting could not be finished: ZeroDivisionError: a fault of the experiment. Its trace is in" in ended.err
    assert "4 were counted." in ended.out
    listed = blowfish("reproduce", "--quick", "--processes", "1", "--json")
    assert (listed.code, [one["name"] for one in listed.json["failed"]]) == (1, ["counting"])


@pytest.mark.parametrize(
    "wrong",
    [("no-such-thing",), ("--data", "nowhere"), ("--seed", "-1"), ("--processes", "0"), ("--out", "people.csv")],
)
def test_what_cannot_work_is_refused(blowfish: Run, traces: Path, wrong: tuple[str, ...]) -> None:
    ended = blowfish("reproduce", *wrong, "--json")
    assert ended.code == 3
    assert ended.error["code"] == "invalid-input"


def test_an_installed_package_says_that_a_clone_is_needed(
    blowfish: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blowfishdb, "__file__", str(folder / "lib" / "site-packages" / "blowfishdb" / "__init__.py"))
    ended = blowfish("reproduce", "--list", "--json")
    assert ended.code == 3
    assert ended.error["code"] == "invalid-input"
    assert "part of the source tree" in ended.error["message"]
    assert blowfish("reproduce", "--help").code == 0


def test_a_clone_serves_every_working_directory(tmp_path: Path) -> None:
    """Also where a folder or a package of the same name is nearer."""
    for name in ("papers", "experiments"):
        (tmp_path / "papers").mkdir(exist_ok=True)
        (tmp_path / "papers" / f"{name}.py").write_text("raise RuntimeError('not ours')\n")
    (tmp_path / "papers" / "__init__.py").touch()
    source = Path(blowfishdb.__file__).parents[1]
    command = [sys.executable, "-m", "blowfishdb", "reproduce", "thesis", "--list"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "thesis-figure-4" in done.stdout
