"""Every tutorial runs from its first cell to its last, as the notebook that the site shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

from tests.docs.blocks import DOCS

TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))


def test_the_tutorials_are_those_of_the_navigation() -> None:
    named = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert len(TUTORIALS) >= 6
    assert [path.name for path in TUTORIALS if f"tutorials/{path.name}" not in named] == []


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    runpy.run_path(str(tutorial))
    plt.close("all")
