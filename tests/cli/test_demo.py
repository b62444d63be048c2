"""The tour runs to its end."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from blowfishdb.cli import demo
from tests.cli.conftest import Run

SLOW = ("what-if", "capital_loss")
"""Comparing policies and running counts over 4,357 values take seconds; their own tests cover them on small data."""


def test_the_tour_ends_well(blowfish: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [stop for stop in demo.STOPS if stop.command[0] == "dataset" or not set(SLOW) & set(stop.command)]
    assert 0 < len(demo.STOPS) - len(quick) <= 2
    monkeypatch.setattr(demo, "STOPS", quick)
    ended = blowfish("demo", "--tour", "--folder", "tour", "--json")
    assert ended.code == 0, ended.err
    assert [step["exit_code"] for step in ended.json["steps"]] == [stop.code for stop in quick]
    assert ended.json["figures"] == ["age_hours.png", "ages.png"]
    verified = blowfish("ledger", "verify", "--config", "tour/blowfish.toml", "--json")
    assert verified.json["sound"]


def test_the_tour_shows_its_commands(blowfish: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "STOPS", demo.STOPS[:1])
    ended = blowfish("demo", "--tour", "--folder", "tour")
    assert ended.code == 0, ended.err
    assert "$ blowfish dataset add adult" in ended.out
    assert "--policy 'capital_loss=within 100'" in ended.out


def test_a_full_folder_is_left_alone(blowfish: Run) -> None:
    assert blowfish("demo", "--tour", "--folder", ".").code == 3


def test_a_stop_that_fails_ends_the_tour(blowfish: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "STOPS", [demo.Stop("This cannot work.", ("dataset", "show", "nothing"))])
    ended = blowfish("demo", "--tour", "--folder", "tour")
    assert ended.code == 1
    assert "The tour ends here" in ended.err


def test_a_taken_port_leaves_no_folder(tmp_path: Path, blowfish: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = blowfish("demo", "--folder", str(tmp_path / "demo"), "--port", port, "--no-browser")
    assert ended.code == 3
    assert "somebody listens there already" in " ".join(ended.err.split())
    assert not (tmp_path / "demo").exists()
