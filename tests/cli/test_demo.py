"""The tour runs to its end."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from blowfishdb.cli import serve
from blowfishdb.cli.serve import free_port
from blowfishdb.server.state import AppState
from tests.cli.conftest import Run

SLOW = ("what-if", "capital_loss")
"""Comparing policies and running counts over 4,357 values take seconds; their own tests cover them on small data."""


def test_the_tour_ends_well(blowfish: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [stop for stop in serve.STOPS if stop.command[0] == "dataset" or not set(SLOW) & set(stop.command)]
    assert 0 < len(serve.STOPS) - len(quick) <= 2
    monkeypatch.setattr(serve, "STOPS", quick)
    ended = blowfish("demo", "--tour", "--folder", "tour", "--json")
    assert ended.code == 0, ended.err
    assert [step["exit_code"] for step in ended.json["steps"]] == [stop.code for stop in quick]
    assert ended.json["figures"] == ["age_hours.png", "ages.png"]
    verified = blowfish("ledger", "verify", "--config", "tour/blowfish.toml", "--json")
    assert verified.json["sound"]


def test_the_tour_shows_its_commands(blowfish: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "STOPS", serve.STOPS[:1])
    ended = blowfish("demo", "--tour", "--folder", "tour")
    assert ended.code == 0, ended.err
    assert "$ blowfish dataset add adult" in ended.out
    assert "--policy 'capital_loss=within 100'" in ended.out


def test_a_full_folder_is_left_alone(blowfish: Run) -> None:
    assert blowfish("demo", "--tour", "--folder", ".").code == 3


def test_a_stop_that_fails_ends_the_tour(blowfish: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "STOPS", [serve.Stop("This cannot work.", ("dataset", "show", "nothing"))])
    ended = blowfish("demo", "--tour", "--folder", "tour")
    assert ended.code == 1
    assert "The tour ends here" in ended.err


@pytest.mark.parametrize(
    ("ports", "refusal"),
    [
        (("--port", "0"), "--port is a number from 1 to 65535, not 0"),
        (("--postgres", "70000"), "--postgres is a number from 1 to 65535, not 70000"),
        (("--port", "8765", "--postgres", "8765"), "--port and --postgres are both 8765; each needs a port of its own"),
    ],
)
def test_ports_that_cannot_be_leave_no_folder(
    ports: tuple[str, ...], refusal: str, tmp_path: Path, blowfish: Run
) -> None:
    ended = blowfish("demo", "--folder", str(tmp_path / "demo"), *ports, "--no-browser")
    assert (ended.code, refusal in " ".join(ended.err.split())) == (3, True)
    assert not (tmp_path / "demo").exists()


def test_a_taken_port_leaves_no_folder(tmp_path: Path, blowfish: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for option in ("--port", "--postgres"):
            ended = blowfish("demo", "--folder", str(tmp_path / "demo"), option, port, "--no-browser")
            assert ended.code == 3
            assert "somebody listens there already" in " ".join(ended.err.split())
            assert option in ended.err
    assert not (tmp_path / "demo").exists()


def test_with_a_port_for_tools_the_demo_tells_where_to_connect(
    tmp_path: Path, blowfish: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = []

    def started(app_state: AppState, when_ready: Callable[[], None]) -> None:
        """What the server does at its start; a tool's sign-in is what matters here."""
        when_ready()
        addresses.append([verifier.token for verifier in app_state.tokens.verifiers("ana")])
        app_state.close()

    monkeypatch.setattr("blowfishdb.server.app.run_server", started)
    port = str(free_port(0))
    ended = blowfish("demo", "--folder", str(tmp_path / "demo"), "--postgres", port, "--no-browser", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["postgres"].startswith("postgresql://ana:bfdb_")
    assert ended.json["postgres"].endswith(f"@127.0.0.1:{port}/blowfish")
    assert len(addresses[0]) == 1
    told = blowfish("demo", "--folder", str(tmp_path / "more"), "--postgres", port, "--no-browser")
    assert "psql postgresql://ana:bfdb_" in told.out
