"""The server as it is run: TLS, the first curator, and an end on a signal."""

from __future__ import annotations

import datetime
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import blowfishdb as bf
from blowfishdb.cli.serve import check_port, free_port
from blowfishdb.errors import CatalogError
from blowfishdb.server.app import listening, rest_app
from blowfishdb.server.state import open_app_state
from blowfishdb.sources.duckdb import DuckDB
from tests.server.places import PATIENCE, free_door
from tests.session.places import make_fixture


def make_certificate(folder: Path) -> ssl.SSLContext:
    """Writes a certificate for loopback and its key; the context trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))


def started(
    folder: Path, host: str = "localhost", port: int | None = None, extra: Sequence[str] = ()
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A server in a process of its own, and what it printed once it was ready."""
    command = [sys.executable, "-m", "blowfishdb", "serve", "--json", "--host", host, *extra]
    process = subprocess.Popen(
        [*command, "--port", str(port or free_port(0)), "--config", str(folder / "blowfish.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    lines = ""
    for line in process.stdout:
        lines += line
        if line.rstrip() == "}":
            break
    return process, json.loads(lines)


def test_a_server_over_tls_from_its_first_curator_to_its_end(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    trusted = make_certificate(tmp_path)
    with (tmp_path / "blowfish.toml").open("a") as config:
        config.write('\n[server]\ncertificate = "cert.pem"\nkey = "key.pem"\n')
    process, said = started(tmp_path)
    try:
        first = said["first_curator"]
        assert said["url"].startswith("https://localhost:")
        with httpx.Client(base_url=said["url"], verify=trusted, timeout=PATIENCE) as client:
            assert client.get("/ready").json() == {"status": "ready"}
            assert client.get("/").headers["strict-transport-security"]
            signed = client.post("/api/v1/sessions", json={"name": "curator", "password": first["password"]})
            assert signed.json()["must_change"]
            assert "Secure" in signed.headers["set-cookie"]
            client.get("/")
            client.get("/history")
            assert client.get("/nothing").status_code == 404
    finally:
        process.send_signal(signal.SIGTERM)
        _, logged = process.communicate(timeout=30)
    lines = [json.loads(line) for line in logged.splitlines()]
    routes = [(line["route"], line["who"]) for line in lines if line["message"] == "request"]
    before = [("/ready", None), ("page", None), ("/api/v1/sessions", None)]
    assert routes == [*before, *[("page", "curator")] * 3]
    assert first["password"] not in logged


def test_a_free_port_is_found() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert free_port(taken.getsockname()[1]) != taken.getsockname()[1]


def test_a_taken_port_is_said_before_anybody_gets_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from blowfishdb.cli import run

    config = tmp_path / "blowfish.toml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert run(["serve", "--port", port, "--config", str(config)]) == 3
    said = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1: somebody listens there already" in " ".join(said.split())
    assert run(["user", "list", "--json", "--config", str(config)]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("host", ["192.0.2.1", "no host"])
def test_a_place_where_nobody_can_listen_is_said(host: str) -> None:
    with pytest.raises(CatalogError, match="does not allow it"):
        check_port(host, 8000)


def test_people_who_are_there_get_no_new_curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blowfishdb.cli.output import log_to_file
    from blowfishdb.cli.serve import first_curator, opened

    make_fixture(tmp_path)
    with log_to_file():  # as every command does; the next test finds no log of this one
        app_state = opened(tmp_path / "blowfish.toml", None, 8123)
    assert app_state.settings.port == 8123
    assert first_curator(app_state, "cora") is not None
    assert first_curator(app_state, "eve") is None
    # Another server, started at the same moment, made the curator after this one looked.
    looks = iter([[], app_state.users.all()])
    monkeypatch.setattr(type(app_state.users), "all", lambda users: next(looks))
    assert first_curator(app_state, "cora") is None
    monkeypatch.undo()
    assert [user.name for user in app_state.users.all()] == ["cora"]
    app_state.close()


def test_a_server_without_its_parts_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blowfishdb.cli.serve import opened
    from blowfishdb.errors import ExtraMissing

    make_fixture(tmp_path)
    monkeypatch.setitem(sys.modules, "blowfishdb.server.state", None)
    with pytest.raises(ExtraMissing, match="server"):
        opened(tmp_path / "blowfish.toml", None, None)


def test_a_release_that_runs_is_finished_when_the_server_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fixture(tmp_path)
    app_state = open_app_state(tmp_path / "blowfish.toml")
    app_state.grants.hand_over("visits", "ana", everyone=True)
    app_state.users.add("ana", "analyst", None)
    secret, _ = app_state.tokens.issue("ana", "t", ["ask"], 1)
    reading, go_on = threading.Event(), threading.Event()
    fetch = DuckDB.fetch_columns

    def slow(self: DuckDB, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        reading.set()
        go_on.wait(20)
        return fetch(self, sql, deadline)

    monkeypatch.setattr(DuckDB, "fetch_columns", slow)
    door = free_door()
    settings = replace(app_state.settings, port=door.getsockname()[1])
    server = uvicorn.Server(listening(rest_app(app_state), settings))
    runs = threading.Thread(target=server.run, args=([door],))
    runs.start()
    while not server.started:
        time.sleep(0.01)
    answers = []

    def ask() -> None:
        with bf.connect(settings.url, token=secret) as session:
            answers.append(session["visits"].histogram("ward").release(epsilon="0.1"))

    asks = threading.Thread(target=ask)
    asks.start()
    assert reading.wait(20)
    server.should_exit = True
    time.sleep(0.3)
    assert runs.is_alive()
    go_on.set()
    asks.join()
    runs.join()
    assert len(answers) == 1
    with bf.connect(tmp_path / "blowfish.toml", analyst="ana") as local:
        assert len(local.history("visits")) == 1
