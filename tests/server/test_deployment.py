"""The shipped proxy configurations in front of a real server, and the unit and compose files in order."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from websockets.sync.client import connect
from websockets.typing import Origin

from blowfishdb.cli.serve import free_port
from blowfishdb.server.settings import Settings
from tests.server.places import PATIENCE
from tests.server.test_serving import make_certificate, started
from tests.session.places import make_fixture

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def changed(name: str, changes: dict[str, str]) -> str:
    """A shipped file with the names that everybody changes."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text, f"{name} does not say {old}"
        text = text.replace(old, new)
    return text


def nginx(folder: Path, door: int, server: int) -> list[str]:
    names = {"127.0.0.1:8000": f"127.0.0.1:{server}", "listen 443 ssl": f"listen 127.0.0.1:{door} ssl"}
    names |= {"blowfish.example.org": "localhost", "/etc/ssl/blowfish": str(folder)}
    (folder / "site.conf").write_text(changed("nginx.conf", names))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
    return [
        shutil.which("nginx") or "/usr/sbin/nginx",
        "-c",
        str(folder / "nginx.conf"),
        "-e",
        str(folder / "early.log"),
    ]


def caddy(folder: Path, door: int, server: int) -> list[str]:
    names = {"127.0.0.1:8000": f"127.0.0.1:{server}"}
    names["\nblowfish.example.org {"] = f"\nhttps://localhost:{door} {{\n\ttls {folder}/cert.pem {folder}/key.pem"
    site = changed("Caddyfile", names)
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + site)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[None]:
    with (folder / "proxy.log").open("wb") as log:
        environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def ready(client: httpx.Client) -> dict[str, Any]:
    """What /ready says, once the proxy listens and has found its server."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            answer = client.get("/ready")
            if answer.status_code == 200 or time.monotonic() > until:
                return dict(answer.json())
        except (httpx.ConnectError, ValueError):
            if time.monotonic() > until:
                raise
        time.sleep(0.05)


@pytest.mark.nginx
@pytest.mark.caddy
def test_both_proxies_serve_rest_pages_and_their_sockets_over_tls(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    trusted, door = make_certificate(tmp_path), free_port(0)
    with (tmp_path / "blowfish.toml").open("a") as config:
        config.write(
            f'\n[server]\nbehind_proxy = true\npublic_url = "https://localhost:{door}"\nsign_ins_per_minute = 4\n'
        )
    server = free_port(0)
    process, said = started(tmp_path, "127.0.0.1", server)
    try:
        assert said["url"] == f"https://localhost:{door}"
        secret = ""
        for proxy in (nginx, caddy):
            with running(proxy(tmp_path, door, server), tmp_path):
                secret = check_through(said["url"], trusted, said["first_curator"]["password"], secret)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def check_through(url: str, trusted: ssl.SSLContext, password: str, secret: str) -> str:
    """Goes through a proxy; gives the secret of the login session that was begun there, or else the one before."""
    with httpx.Client(base_url=url, verify=trusted, timeout=PATIENCE, follow_redirects=True) as client:
        assert ready(client) == {"status": "ready"}
        signed = client.post("/api/v1/sessions", json={"name": "curator", "password": password})
        if signed.status_code == 200:
            assert "Secure" in signed.headers["set-cookie"]
            secret = client.cookies["blowfish_session"]
        page = client.get("/")
        assert (page.status_code, str(page.url).startswith(f"{url}/")) == (200, True)
        assert page.headers["strict-transport-security"]
        # Whoever claims to come from elsewhere is still counted by the address that the proxy saw.
        statuses = []
        for number in range(5):
            claimed = {"X-Forwarded-For": f"203.0.113.{number}", "Forwarded": f"for=203.0.113.{number}"}
            wrong = {"name": "curator", "password": "wrong"}
            statuses.append(client.post("/api/v1/sessions", json=wrong, headers=claimed).status_code)
        assert statuses[-1] == 429, statuses
    address = f"{url.replace('https', 'wss')}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    sent = {"Cookie": f"blowfish_session={secret}"}
    with connect(address, ssl=trusted, origin=Origin(url), additional_headers=sent, open_timeout=PATIENCE) as socket:
        assert str(socket.recv(timeout=PATIENCE)).startswith("0{")
    return secret


def test_the_unit_gives_running_releases_time_and_keeps_the_mark_apart() -> None:
    service = read_unit("blowfish.service")["Service"]
    assert int(service["TimeoutStopSec"]) > Settings().shutdown_seconds
    state, data = service["Environment"].removeprefix("XDG_STATE_HOME="), service["WorkingDirectory"]
    assert state != data and not state.startswith(f"{data}/")
    assert {f"/var/lib/{name}" for name in service["StateDirectory"].split()} == {state, data}
    assert service["User"] != "root" and service["ProtectSystem"] == "strict"


def read_unit(name: str) -> configparser.RawConfigParser:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / name)
    return unit


def test_the_backup_runs_as_the_server_does_every_hour_and_after_each_change() -> None:
    service, server = read_unit("blowfish-backup.service")["Service"], read_unit("blowfish.service")["Service"]
    for key in ("User", "WorkingDirectory", "Environment", "EnvironmentFile"):
        assert service[key] == server[key]
    program, command, folder, *rest = service["ExecStart"].split()
    assert (program, command, rest) == (server["ExecStart"].split()[0], "backup", ["--keep", "30"])
    assert folder in service["ReadWritePaths"].split()
    assert read_unit("blowfish-backup.timer")["Timer"]["OnCalendar"] == "hourly"
    watched = read_unit("blowfish-backup.path")["Path"]["PathChanged"]
    assert watched == f"{service['WorkingDirectory']}/blowfish.toml"


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    """Where there is no systemd, the units are read and no more."""
    for name in ("blowfish.service", "blowfish-backup.service", "blowfish-backup.timer", "blowfish-backup.path"):
        assert set(read_unit(name).sections()) >= {"Unit"}
        text = (DEPLOY / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("/opt/blowfish/bin/blowfish", shutil.which("true") or ""))
    units = [str(tmp_path / name) for name in ("blowfish.service", "blowfish-backup.timer", "blowfish-backup.path")]
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", *units]
    if shutil.which(command[0]) is None:
        return
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_compose_file_keeps_ledger_and_mark_apart() -> None:
    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = content["services"]
    volumes = {name: [volume.split(":")[0] for volume in service["volumes"]] for name, service in services.items()}
    assert not set(volumes["ledger"]) & set(volumes["mark"])
    assert {volume for names in volumes.values() for volume in names} == set(content["volumes"])
    assert int(services["blowfish"]["stop_grace_period"].rstrip("s")) > Settings().shutdown_seconds
    # The configuration in the comment is one that the server reads, and names the services and the proxy's address.
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"@(\w+)/", text)) == {"ledger", "mark"} <= set(services)
    assert f'proxies = "{services["proxy"]["networks"]["inside"]["ipv4_address"]}"' in text
    assert not any("ports" in service for name, service in services.items() if name != "proxy")
