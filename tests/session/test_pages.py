"""The pages about Python and the configuration say what is so: their code runs, and every key is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blowfishdb.catalog.config import DATASET_KEYS, JOIN_KEYS, KEYS, read_config
from blowfishdb.engine.charge import STEPS
from blowfishdb.session import Table
from tests.session.places import configuration, make_table

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_table(tmp_path)
    configuration(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python.md", "python"):
        exec(compile(block, "python.md", "exec"), names)
    said = capsys.readouterr().out
    assert "<- would run" in said
    assert STEPS[-1] in said


def test_every_question_is_on_the_page() -> None:
    page = (DOCS / "python.md").read_text()
    questions = [name for name in vars(Table) if not name.startswith("_") and callable(getattr(Table, name))]
    assert [name for name in questions if f"{name}(" not in page and f"`{name}`" not in page] == []


def test_the_configuration_reads_and_every_key_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DOCS / "configuration.md").read_text()
    (example,) = blocks("configuration.md", "toml")
    (tmp_path / "blowfish.toml").write_text(example)
    assert list(read_config(tmp_path / "blowfish.toml").datasets) == ["visits"]
    for key in KEYS[:2]:
        assert f"| `{key}` |" in page
    for key in DATASET_KEYS:
        assert f"| `datasets.NAME.{key}` |" in page
    for key in JOIN_KEYS:
        assert f"`{key}`" in page
