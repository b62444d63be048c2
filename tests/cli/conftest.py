"""A small table, a configuration beside it, and a way to run commands."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
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
    write_rows(tmp_path / "people.csv")
    return tmp_path


def write_rows(path: Path) -> None:
    states = ("NC", "VA", "TX")
    lines = [f"{20 + row % 50},{states[row % 3]},{row % 400},p{row % 700},{row}" for row in range(ROWS)]
    path.write_text("age,state,cost,who,row\n" + "\n".join(lines) + "\n")


@pytest.fixture
def blowfish(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in the working folder."""

    def ended(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run(arguments)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return ended


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the dataset `people` was added, to be copied: the rows stay where they are."""
    place = tmp_path_factory.mktemp("template")
    write_rows(place / "people.csv")
    (place / "blowfish.toml").write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(
            [
                *("dataset", "add", "people", "--source", str(place / "people.csv"), "--by", "carla"),
                *("--domain", "age=0..99 null=0", "--domain", "state=NC, VA, other outside=other null=other"),
                *("--domain", "cost=0..400 step 10 null=0", "--policy", "age=within 5", "--policy", "state=public"),
                *("--epsilon", "2", "--per-analyst", "0.5", "--config", str(place / "blowfish.toml")),
            ]
        )
    assert code == 0
    return place


@pytest.fixture
def people(blowfish: Run, template: Path, folder: Path) -> Run:
    """The same, with the dataset `people` added."""
    for path in template.glob("blowfish.*"):
        shutil.copy(path, folder / path.name)
    return blowfish
