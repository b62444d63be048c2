"""Questions in the terminal, interruptions, and faults that say little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ADD = ("dataset", "add", "people", "--source", "people.csv")


class Terminal:
    """Standard input as a terminal has it."""

    def isatty(self) -> bool:
        return True


def test_each_column_is_asked_about(
    blowfish: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["?", "0..99 null=0", "many", "NC, VA, other outside=other", "", "person 5 by row", ""])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda *prompt: next(answers))
    added = blowfish(*ADD)
    assert added.code == 0, added.err
    assert "Nothing is inferred from the data" in added.out
    assert "'many' is no domain" in added.out
    assert "write 0..110" in added.out
    assert list(answers) == []
    shown = blowfish("dataset", "show", "people", "--json").json
    assert list(shown["domain"]) == ["age", "state"]
    assert shown["policy"]["unit"]["at_most"] == 5


def test_an_unexpected_fault_is_named_by_its_kind_alone(tmp_path: Path) -> None:
    code = (
        "import blowfishdb.cli as cli\n"
        "def fail(arguments):\n    raise KeyError('Jane Doe, 47')\n"
        "cli.run = fail\ncli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "KeyError" in done.stderr
    assert "Jane" not in done.stderr + done.stdout


def test_names_of_datasets_complete(people: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from blowfishdb.cli.options import dataset_names

    assert dataset_names("pe") == ["people"]
    assert dataset_names("x") == []
    monkeypatch.setenv("BLOWFISH_CONFIG", "nothing.toml")
    assert dataset_names("") == []


def test_the_version(blowfish: Run) -> None:
    assert blowfish("--version").out.startswith("blowfish 0.")
