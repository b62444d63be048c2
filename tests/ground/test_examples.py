"""Every example runs as a reader would run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
JUDGED = {"decision_tree.py", "curator.py", "analyst.py", "synopsis.py", "server_client.py", "patients_and_visits.py"}


def shown_by(example: Path, folder: Path) -> str:
    ended = subprocess.run([sys.executable, str(example)], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_no_example_is_forgotten() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == JUDGED


@pytest.mark.nightly
def test_the_tree_learns_nearly_as_much_as_from_the_people(tmp_path: Path) -> None:
    shown = shown_by(FOLDER / "decision_tree.py", tmp_path)
    private, real, constant = (float(part.split("%")[0].split()[-1]) for part in shown.splitlines()[-1].split(";"))
    assert constant + 3 < private
    assert real - 1.5 < private


def test_the_curator_sees_a_sound_ledger(tmp_path: Path) -> None:
    shown = shown_by(FOLDER / "curator.py", tmp_path)
    assert "the ledger is sound: True" in shown
    assert "values at most 5 apart are hidden" in shown


def test_several_tables_are_one_dataset(tmp_path: Path) -> None:
    shown = shown_by(FOLDER / "patients_and_visits.py", tmp_path)
    assert "at most  5: 1550 visits count, 440 do not" in shown
    assert "at most 5 rows per patient are counted" in shown
    assert "epsilon 1 of visits.people" in shown


def test_the_analyst_pays_once(tmp_path: Path) -> None:
    shown = shown_by(FOLDER / "analyst.py", tmp_path)
    assert "<- would run" in shown
    assert "asking again cost 0" in shown


def test_the_synopsis_answers(tmp_path: Path) -> None:
    shown = shown_by(FOLDER / "synopsis.py", tmp_path)
    assert "asking it is free" in shown
    assert "Read off a synopsis, at no further charge." in shown


@pytest.mark.nightly
def test_the_client_of_a_server_gets_the_same_face(tmp_path: Path) -> None:
    shown = shown_by(FOLDER / "server_client.py", tmp_path)
    assert "every value within 60 (95 %)" in shown
    assert "spent: 0." in shown
