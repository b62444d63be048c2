"""The pages of two neighbouring tables with coupled noise: all that a browser shows and is sent is the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.chromium


def visits(name: str, *leak: str) -> dict[str, Any]:
    """What two visits tell; in a process of its own, which serves the pages once."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.leaks.pages", name, *leak], cwd=ROOT, capture_output=True, check=True, text=True
    )
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["everything", "persons_gone", "known"])
def test_pages_of_two_tables_are_the_same(name: str) -> None:
    found = visits(name)
    assert found["differences"] == []
    assert found["accesses"] >= 2 and found["told"] > 1000


@pytest.mark.nightly
def test_no_page_tells_what_somebody_else_asked() -> None:
    found = visits("everything", "others")
    assert found["differences"] == []
    assert found["accesses"] >= 2 and found["told"] > 1000


@pytest.mark.nightly
@pytest.mark.parametrize("leak", ["header", "history", "charged_amount"])
def test_a_leak_on_a_page_is_found(leak: str) -> None:
    assert visits("everything", leak)["differences"]
