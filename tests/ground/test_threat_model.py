"""Every claim of the threat model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def missing(text: str) -> list[str]:
    """The tests that the text names and that do not exist."""
    wrong = []
    for file, name in NAMED.findall(text):
        path = ROOT / file
        if not path.is_file() or not re.search(rf"^(?:async )?def {name}\(", path.read_text(), re.MULTILINE):
            wrong.append(f"{file}::{name}")
    return wrong


def claims(text: str) -> list[str]:
    """The lines of tables whose last column names tests."""
    found, is_claim = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            is_claim = False
        elif line.rstrip(" |").endswith("tests"):
            is_claim = True
        elif is_claim and not line.startswith("|---"):
            found.append(line)
    return found


def test_every_named_test_exists() -> None:
    assert missing(PAGE.read_text()) == []


def test_every_claim_names_a_test() -> None:
    listed = claims(PAGE.read_text())
    assert len(listed) > 25
    assert [line for line in listed if not NAMED.search(line.rstrip(" |").rpartition("|")[2])] == []


@pytest.mark.parametrize("name", ["tests/nowhere.py::test_x", "tests/ground/test_threat_model.py::test_not_there"])
def test_a_name_without_a_test_is_seen(name: str) -> None:
    assert missing(f"as `{name}` shows") == [name]


def test_a_claim_without_a_test_is_seen() -> None:
    assert claims("| claim | tests |\n|---|---|\n| so | none |\n\n| a | b |\n") == ["| so | none |"]
