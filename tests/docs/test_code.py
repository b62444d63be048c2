"""All code on the pages runs, page by page and in order, and every tutorial from its first cell to its last."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

from tests.docs.block_runner import run_block, run_each_anew
from tests.docs.blocks import DOCS, ROOT, blocks, pages
from tests.docs.worlds import world_of

PAGES = {page.relative_to(ROOT).as_posix(): blocks(page) for page in pages()}
STARTS = ("docs/start-curator.md", "docs/start-analyst.md")
"""These run on a real PostgreSQL, one after the other, in test_first_ten_minutes.py."""
WITH_CODE = [name for name, found in PAGES.items() if name not in STARTS and any(not block.reason for block in found)]
COMMANDS = "docs/command-line.md"
"""Its examples stand each for itself, so every line begins with the same folder."""
MOST_NOT_RUN = 12


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.nightly] if page == COMMANDS else []) for page in WITH_CODE]
)
@pytest.mark.sampled(2)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "clinic"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "120")
    with world_of(page, folder) as world:
        kept = shutil.copytree(folder, tmp_path / "kept")
        for block in PAGES[page]:
            if page == COMMANDS:
                run_each_anew(block, world, kept)
            elif not block.reason:
                run_block(block, world)


def test_few_blocks_are_not_run() -> None:
    left_out = [block.where for found in PAGES.values() for block in found if block.reason]
    assert len(left_out) <= MOST_NOT_RUN, left_out


TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))


def test_the_tutorials_are_those_of_the_navigation() -> None:
    named = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert len(TUTORIALS) >= 6
    assert [path.name for path in TUTORIALS if f"tutorials/{path.name}" not in named] == []


@pytest.mark.nightly
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    runpy.run_path(str(tutorial))
    plt.close("all")
