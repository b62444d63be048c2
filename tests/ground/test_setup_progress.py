"""The set-up says how far it is while pip works, and shows pip's log only when it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import setup_venv


def test_packages_are_counted_until_pip_installs_them() -> None:
    found = "Collecting ibis\n  Downloading ibis.whl\nCollecting duckdb\n"
    assert setup_venv.progress(found) == "packages found: 2"
    assert (
        setup_venv.progress(found + "Installing collected packages: duckdb, sqlglot, ibis\n")
        == "packages to install: 3"
    )


def test_a_long_step_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup_venv, "SAY_EVERY", 0.05)
    slow = [sys.executable, "-c", "import time; print('Collecting ibis', flush=True); time.sleep(1)"]
    assert setup_venv.run_quietly(slow, tmp_path / "log")
    assert "packages found: 1" in capsys.readouterr().out


def test_a_failure_shows_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not setup_venv.run_quietly(
        [sys.executable, "-c", "import sys; print('no such package'); sys.exit(1)"], tmp_path / "log"
    )
    assert "no such package" in capsys.readouterr().err
