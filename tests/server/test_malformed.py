"""Malformed messages, by HTTP and by websocket, against a server process: typed refusals, nothing leaks, it goes on."""

from __future__ import annotations

import json
import logging
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect

from blowfishdb.server.middleware import Unreadable
from blowfishdb.server.pages.layout import MOST_PAGES, OpenPages
from blowfishdb.server.state import open_app_state
from tests.server.places import AGES, PEOPLE, SCOPES, free_door
from tests.session.places import configuration, make_fixture

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
GROWTH = 100 * 2**20
"""Bytes by which the process may grow: what it loads for the first requests, and no more however many come."""
PAGES_GROWTH = 40 * 2**20
"""A page takes some 600 kB; three hundred that were kept, and as many of strangers, would be many times more."""
PREVIEWS = "/api/v1/datasets/visits/previews"
LINES = (
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: -7\r\n\r\n",
    b"POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /%ff%fe/%00 HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"\r\n\r\n\x00\x00\x00",
    b"GET /api/v1/datasets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xe4\xf6\r\n\r\n",
    b"G" * 9000,
)
BODIES = (b"", b"{", b"[]", b"null", b'{"query": 7}', b'{"query": {"kind": []}}', b"\xff\xfe", b"[" * 2000, b'"x')
FRAMES = ("", "0", "40", "42", "42[", '42["event"]', '42["event", {"id": {}}]', "451-", "9", "42" + "[" * 500, "4é")


@dataclass(frozen=True)
class Process:
    """A server in a process of its own."""

    process: subprocess.Popen[bytes]
    host: str
    secret: str
    cookie: str
    log: Path

    def memory(self) -> int:
        """Bytes in use."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def faults(self) -> list[str]:
        """Lines of the log that tell of an incident, or are no JSON at all."""
        usual, lines = ("info", "warning"), self.log.read_text().splitlines()
        return [line for line in lines if not line.startswith("{") or json.loads(line)["level"] not in usual]

    def preview(self) -> int:
        """The status of a small question."""
        with closing(HTTPConnection(self.host, timeout=PATIENCE)) as connection:
            headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
            connection.request("POST", PREVIEWS, json.dumps(AGES), headers)
            return connection.getresponse().status

    def page(self, cookie: str = "") -> int:
        """The status of a page, asked for by a browser that shows it to nobody."""
        with closing(HTTPConnection(self.host, timeout=PATIENCE)) as connection:
            connection.request("GET", "/explore", headers={"Cookie": f"blowfish_session={cookie}"} if cookie else {})
            response = connection.getresponse()
            response.read()
            return response.status


@contextmanager
def serving(folder: Path) -> Iterator[Process]:
    config = make_fixture(folder)
    with free_door() as door:
        port = door.getsockname()[1]
    config.write_text(
        f"{config.read_text()}\n[server]\nnew_datasets = 'everyone'\nport = {port}\nrequests_per_minute = 100000000\n"
    )
    app_state = open_app_state(configuration(folder))
    app_state.users.add("ana", PEOPLE["ana"], None)
    secret = app_state.tokens.issue("ana", "test", SCOPES["analyst"], 300)[0]
    cookie = app_state.logins.begin("ana").secret
    app_state.close()
    log = folder / "log"
    with log.open("wb") as lines:
        command = [sys.executable, "-m", "blowfishdb", "serve", "--config", str(config), "--json"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=lines, cwd=ROOT, env=environment)
        try:
            assert process.stdout is not None
            while (line := process.stdout.readline()) and line != b"}\n":
                pass
            assert line, log.read_text()
            yield Process(process, f"127.0.0.1:{port}", secret, cookie, log)
        finally:
            process.terminate()
            process.wait(PATIENCE)
            process.stdout.close()


def mangled(content: bytes, chance: random.Random) -> bytes:
    """The content with a few bytes changed, left out or doubled."""
    changed = bytearray(content)
    for _ in range(chance.randrange(4)):
        if changed:
            place = chance.randrange(len(changed))
            changed[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    return bytes(changed)


def raw(server: Process, chance: random.Random) -> None:
    """Bytes that are no request; whatever comes back refuses them."""
    host, _, port = server.host.partition(":")
    with suppress(ConnectionError), socket.create_connection((host, int(port)), PATIENCE) as peer:
        peer.sendall(mangled(chance.choice(LINES), chance))
        peer.shutdown(socket.SHUT_WR)
        reply = peer.recv(4096)
        assert not reply or int(reply.split()[1]) // 100 in (3, 4), reply[:200]


def requests(server: Process, chance: random.Random, number: int) -> None:
    """Requests with a right frame and a wrong body; each gets a problem with a code."""
    with closing(HTTPConnection(server.host, timeout=PATIENCE)) as connection:
        for _ in range(number):
            body = mangled(chance.choice(BODIES), chance)
            headers = {"Authorization": f"Bearer {server.secret}", "Content-Type": "application/json"}
            connection.request("POST", PREVIEWS, body, headers)
            response = connection.getresponse()
            content = response.read()
            assert response.headers["Content-Type"] == "application/problem+json", content
            known = {400: ("unreadable-body",), 422: ("invalid-input", "invalid-query", "invalid-accuracy")}
            assert json.loads(content)["code"] in known[response.status], content


def frames(server: Process, chance: random.Random, number: int) -> None:
    """Messages to the socket of the pages; one that the server closes is opened anew."""
    address, left = f"ws://{server.host}/_nicegui_ws/socket.io/?EIO=4&transport=websocket", number
    options: dict[str, Any] = {"additional_headers": {"Cookie": f"blowfish_session={server.cookie}"}}
    options |= {"open_timeout": PATIENCE, "close_timeout": 0.05}
    while left > 0:
        with suppress(WebSocketException), connect(address, **options) as pages:
            while left > 0:
                left -= 1
                message = chance.choice(FRAMES)
                pages.send(mangled(message.encode(), chance) if chance.random() < 0.5 else message)


def test_the_socket_of_the_pages_is_for_people_who_have_signed_in(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        address = f"ws://{server.host}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        for cookie in ("", "blowfish_session=wrong"):
            with pytest.raises(InvalidStatus) as refused:
                connect(address, additional_headers={"Cookie": cookie}, open_timeout=PATIENCE)
            assert refused.value.response.status_code == 403
        with closing(HTTPConnection(server.host, timeout=PATIENCE)) as connection:
            connection.request("GET", "/_nicegui_ws/socket.io/?EIO=4&transport=polling")
            assert connection.getresponse().status == 401
        sent = {"Cookie": f"blowfish_session={server.cookie}"}
        with connect(address, additional_headers=sent, open_timeout=PATIENCE) as pages:
            assert str(pages.recv(timeout=PATIENCE)).startswith("0{")


@pytest.mark.parametrize("number", [500, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_malformed_messages_get_typed_refusals_and_leave_nothing_behind(tmp_path: Path, number: int) -> None:
    chance = random.Random(number)
    with serving(tmp_path) as server:
        # What is loaded once is loaded before the count.
        assert server.preview() == 200
        requests(server, chance, 20)
        frames(server, chance, 20)
        memory, descriptors = server.memory(), server.descriptors()
        for _ in range(20):
            for _ in range(9 * number // 400):
                raw(server, chance)
            requests(server, chance, 9 * number // 400)
            frames(server, chance, number // 200)
            assert server.preview() == 200, "small questions are answered meanwhile"
        assert server.memory() - memory < GROWTH
        assert server.descriptors() - descriptors < 20
        assert server.faults() == []


@pytest.mark.nightly
def test_many_open_pages_take_a_bounded_part_of_the_memory(tmp_path: Path) -> None:
    """Of one user as many as there may be, of strangers none, however many are asked for."""
    with serving(tmp_path) as server:
        for _ in range(MOST_PAGES + 8):
            assert server.page(server.cookie) == 200
            assert server.page() == 307
        memory = server.memory()
        for _ in range(300):
            assert server.page(server.cookie) == 200
            assert server.page() == 307
        assert server.memory() - memory < PAGES_GROWTH
        assert server.faults() == []


@dataclass
class Browser:
    """A page as the framework sees it."""

    has_socket_connection: bool = False
    is_deleted: bool = False

    def on_delete(self, handler: Callable[[], None]) -> None:
        self.gone = handler

    def delete(self) -> None:
        self.is_deleted = True
        self.gone()


def test_pages_that_nobody_looks_at_make_room_and_looked_at_ones_stay() -> None:
    pages = OpenPages(most=3)
    idle, first, second = Browser(), Browser(has_socket_connection=True), Browser(has_socket_connection=True)
    for page in (first, idle, second):
        assert pages.admits("ana", page)
    assert pages.admits("bob", Browser())
    third = Browser(has_socket_connection=True)
    assert pages.admits("ana", third)
    assert (idle.is_deleted, first.is_deleted) == (True, False)
    assert not pages.admits("ana", Browser())
    first.delete()
    assert pages.admits("ana", Browser())


def test_what_no_message_explains_is_an_incident_and_quotes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def record(error: ValueError) -> logging.LogRecord:
        try:
            raise error
        except ValueError as raised:
            kind = type(raised), raised, raised.__traceback__
            return logging.LogRecord("asyncio", logging.ERROR, "file", 1, "quoted", (), kind)

    ours = record(ValueError("a row"))
    assert Unreadable().filter(ours)
    assert (ours.levelname, ours.exc_info, ours.getMessage()[:9]) == ("ERROR", None, "incident ")
    assert "a row" not in ours.getMessage()
    assert "a row" in caplog.text
    plain = logging.LogRecord("asyncio", logging.INFO, "file", 1, "usual", (), None)
    assert Unreadable().filter(plain)
    assert plain.getMessage() == "usual"
