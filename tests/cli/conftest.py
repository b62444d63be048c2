"""A small table, a configuration beside it, and a way to run commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from blowfishdb.cli import run

ROWS = 2000


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Run = Callable[..., Ended]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a table of people, and a configuration that keeps its mark here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("BLOWFISH_CONFIG", "BLOWFISH_ANALYST", "BLOWFISH_CURATOR"):
        monkeypatch.delenv(name, raising=False)
    states = ("NC", "VA", "TX")
    lines = [f"{20 + row % 50},{states[row % 3]},{row % 400},p{row % 700},{row}" for row in range(ROWS)]
    (tmp_path / "people.csv").write_text("age,state,cost,who,row\n" + "\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def blowfish(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in the working folder."""

    def ended(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run(arguments)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return ended


@pytest.fixture
def people(blowfish: Run) -> Run:
    """The same, with the dataset `people` added."""
    added = blowfish(
        *("dataset", "add", "people", "--source", "people.csv", "--by", "carla"),
        *("--domain", "age=0..99 null=0", "--domain", "state=NC, VA, other outside=other null=other"),
        *("--domain", "cost=0..400 step 10 null=0", "--policy", "age=within 5", "--policy", "state=public"),
        *("--epsilon", "2", "--per-analyst", "0.5"),
    )
    assert added.code == 0, added.err
    return blowfish
