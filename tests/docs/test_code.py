"""All code on the pages runs, page by page and in order; what cannot run says visibly why, and is little."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.block_runner import run_block, run_each_anew
from tests.docs.blocks import ROOT, blocks, pages
from tests.docs.worlds import world_of

PAGES = {page.relative_to(ROOT).as_posix(): blocks(page) for page in pages()}
STARTS = ("docs/start-curator.md", "docs/start-analyst.md")
"""These run on a real PostgreSQL, one after the other, in test_first_ten_minutes.py."""
WITH_CODE = [name for name, found in PAGES.items() if name not in STARTS and any(not block.reason for block in found)]
COMMANDS = "docs/command-line.md"
"""Its examples stand each for itself, so every line begins with the same folder."""
MOST_NOT_RUN = 12


@pytest.mark.parametrize("page", WITH_CODE)
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
