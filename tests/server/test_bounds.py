"""Nobody keeps others from the HTTP port: places, times and bytes of each account and each address."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from fastapi import Response

from blowfishdb.server.app import allow_files
from blowfishdb.server.rest import queries
from tests.server.places import AGES, PASSWORD, PATIENCE, Place, code, opened
from tests.server.test_serving import make_certificate

PREVIEWS, ANSWERS = "/api/v1/datasets/visits/previews", "/api/v1/datasets/visits/answers"
OF_AN_ADDRESS, AT_ONCE = 10, 4
LIMITS = f"""
connections = 40
connections_of_an_address = {OF_AN_ADDRESS}
requests_at_once = {AT_ONCE}
request_seconds = 2
buffers_of_an_account = 4000000
buffers = 6000000
requests_per_minute = 100000
sign_ins_per_minute = 100000
"""
LARGE = 20_000_000
"""Bytes of an answer: more than the system keeps for a connection."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened(tmp_path_factory.mktemp("bounds"), server=LIMITS) as found:
        yield found


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def emptied(place: Place) -> Iterator[None]:
    """Every test leaves no request and no byte behind."""
    yield
    admission = place.app_state.admission
    wait_until(lambda: not admission.slots._taken and not admission.buffers.kept)


def dialed(place: Place, sent: bytes = b"") -> socket.socket:
    host, port = place.address.removeprefix("http://").split(":")
    plug = socket.create_connection((host, int(port)), timeout=PATIENCE)
    plug.sendall(sent)
    return plug


def told(plug: socket.socket) -> bytes:
    """What comes until the server closes."""
    data = b""
    with suppress(ConnectionError):
        while part := plug.recv(65_536):
            data += part
    return data


def head(line: str, *headers: str, size: int | None = None) -> bytes:
    """The head of a request; its body is chunked where no size is given."""
    length = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
    return "\r\n".join((f"{line} HTTP/1.1", "Host: x", length, *headers, "", "")).encode()


def bearing(place: Place, name: str) -> tuple[str, str]:
    return f"Authorization: Bearer {place.secrets[name]}", "Content-Type: application/json"


def unfinished(place: Place, name: str, size: int, sent: int = 1) -> socket.socket:
    """A request of somebody whose body does not come to its end."""
    return dialed(place, head(f"POST {PREVIEWS}", *bearing(place, name), size=size) + b" " * sent)


def works(place: Place, name: str = "bob") -> None:
    reply = place.program(name).post(PREVIEWS, json=AGES)
    assert reply.status_code == 200, reply.text


STRANGERS = [
    (f"POST {PREVIEWS}", ()),
    (f"POST {PREVIEWS}", ("Authorization: Bearer bfdb_wrong",)),
    (f"POST {PREVIEWS}", ("Cookie: blowfish_session=wrong",)),
    ("PUT /api/v1/sessions/current/password", ()),
    ("POST /api/v1/nowhere", ()),
    ("DELETE /api/v1/sessions/current", ()),
    ("POST /_nicegui/client/x/upload/1", ("Content-Type: multipart/form-data; boundary=x",)),
    ("POST /_nicegui_ws/socket.io/?EIO=4&transport=polling", ()),
    ("POST /explore", ()),
    ("GET /api/v1/datasets", ()),
    ("GET /health", ()),
]


@pytest.mark.parametrize("size", [3_000_000, None])
@pytest.mark.parametrize(("line", "headers"), STRANGERS)
def test_the_body_of_a_stranger_is_not_read(
    place: Place, line: str, headers: tuple[str, ...], size: int | None
) -> None:
    """It is refused when its head is there: nobody waits for the body, and nothing is kept of it."""
    with dialed(place, head(line, *headers, size=size)) as plug:
        status, _, rest = plug.recv(65_536).partition(b"\r\n")
        assert status.split()[1] == b"401"
        assert b'"not-signed-in"' in rest
        assert not place.app_state.admission.slots._taken


def test_a_browser_without_its_proof_is_refused_unread(place: Place) -> None:
    secret = place.browser("ana").cookies["blowfish_session"]
    with dialed(place, head(f"POST {PREVIEWS}", f"Cookie: blowfish_session={secret}", size=3_000_000)) as plug:
        assert b"csrf-token-missing" in plug.recv(65_536)


def test_a_sign_in_is_short(place: Place) -> None:
    place.app_state.users.set_password("ana", PASSWORD)
    assert place.browser().post("/api/v1/sessions", json={"name": "ana", "password": PASSWORD}).status_code == 200
    long = {"name": "ana", "password": "x" * 20_000}
    assert code(place.browser().post("/api/v1/sessions", json=long)) == "too-large"

    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b" " * 1000

    assert code(place.browser().post("/api/v1/sessions", content=pieces())) == "too-large"


@pytest.mark.parametrize("sent", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: "])
def test_a_flood_of_connections_without_requests_makes_room(place: Place, sent: bytes) -> None:
    with ExitStack() as stack:
        plugs = [stack.enter_context(dialed(place, sent)) for _ in range(4 * OF_AN_ADDRESS)]
        works(place)
        # Whoever came first was closed at once, long before the time for a request was over.
        began = time.monotonic()
        assert told(plugs[0]) == b""
        assert time.monotonic() - began < 1


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_flood_of_connections_that_are_never_encrypted_makes_room(tmp_path: Path, sent: bytes) -> None:
    trusted = make_certificate(tmp_path)
    with opened(tmp_path, server=f'certificate = "cert.pem"\nkey = "key.pem"\n{LIMITS}') as place, ExitStack() as stack:
        began = time.monotonic()
        plugs = [stack.enter_context(dialed(place, sent)) for _ in range(4 * OF_AN_ADDRESS)]
        url = place.address.replace("http://127.0.0.1", "https://localhost")
        program = stack.enter_context(httpx.Client(base_url=url, verify=trusted, timeout=PATIENCE))
        headers = {"Authorization": f"Bearer {place.secrets['bob']}"}
        assert program.post(PREVIEWS, json=AGES, headers=headers).status_code == 200
        # Whoever came first was closed at once, the last after the time for a request, which is far below this.
        for plug in plugs:
            told(plug)
        assert time.monotonic() - began < PATIENCE / 2


def trickled(plug: socket.socket, piece: bytes) -> bytes:
    """What the server says to somebody who sends a piece now and then."""
    plug.settimeout(0.2)
    until = time.monotonic() + PATIENCE
    data = b""
    while time.monotonic() < until:
        try:
            plug.sendall(piece)
            part = plug.recv(65_536)
            if not part:
                return data
            data += part
        except TimeoutError:
            continue
        except ConnectionError:
            return data
    raise AssertionError("the server still waits")


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nX-Long: ", b"GET /health HTTP/1.1\r\n"])
def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(place: Place, sent: bytes) -> None:
    with dialed(place, sent) as plug:
        said = trickled(plug, b"x") if sent.endswith(b" ") else told(plug)
        assert b" 408 " in said
        assert b'"too-slow"' in said


@pytest.mark.parametrize("piece", [b"", b" "])
def test_a_body_that_does_not_come_to_its_end_is_not_waited_for(place: Place, piece: bytes) -> None:
    with unfinished(place, "ana", 100_000) as plug:
        assert b'"too-slow"' in trickled(plug, piece)


@pytest.mark.parametrize("begun", ["a header", "an address", "a trailer"])
def test_a_head_without_end_is_not_kept(place: Place, begun: str) -> None:
    """The server closes while the client still sends, and does not keep what comes until the time is over."""
    trailer = head(f"POST {PREVIEWS}", *bearing(place, "ana")) + b"1\r\n \r\n0\r\n"
    first = {"a header": b"GET /health HTTP/1.1\r\n", "an address": b"GET /", "a trailer": trailer}[begun]
    piece = b"x" * 10_000 if begun == "an address" else b"X-Some: " + b"x" * 10_000 + b"\r\n"
    said = b""
    with dialed(place, first) as plug, suppress(ConnectionError):
        for _ in range(100):
            plug.sendall(piece)
        said = told(plug)
    assert not said or b'"too-large"' in said


def test_a_body_in_the_smallest_pieces_is_read(place: Place) -> None:
    content = json.dumps(AGES).encode().ljust(30_000)
    with dialed(place, head(f"POST {PREVIEWS}", *bearing(place, "ana"), "Connection: close")) as plug:
        plug.sendall(b"".join(b"1\r\n%c\r\n" % one for one in content) + b"0\r\n\r\n")
        assert told(plug).startswith(b"HTTP/1.1 200")


def test_an_account_has_so_many_requests_at_once_and_others_have_theirs(place: Place) -> None:
    with ExitStack() as stack:
        for _ in range(AT_ONCE):
            stack.enter_context(unfinished(place, "ana", 100))
        wait_until(lambda: place.app_state.admission.slots._taken.total() == AT_ONCE)
        refused = place.program("ana").post(PREVIEWS, json=AGES)
        assert (refused.status_code, code(refused)) == (429, "too-many-at-once")
        assert refused.headers["retry-after"] == "1"
        works(place)


def test_the_bytes_of_one_account_and_of_all_are_bounded(place: Place) -> None:
    buffers = place.app_state.admission.buffers
    with unfinished(place, "ana", 3_500_000, 3_400_000), unfinished(place, "bob", 3_500_000, 1_500_000):
        wait_until(lambda: buffers.kept >= 4_900_000)
        one = place.program("ana").post(PREVIEWS, content=b" " * 1_500_000)
        assert (one.status_code, code(one)) == (429, "too-many-at-once")
        cora = place.program("cora").post(PREVIEWS, content=b" " * 1_500_000)
        assert (cora.status_code, code(cora)) == (503, "server-full")
        assert cora.headers["retry-after"] == "1"
        works(place)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes answers large, whatever is asked."""
    monkeypatch.setattr(queries, "reply", lambda _: Response(b" " * LARGE, media_type="application/json"))


@pytest.mark.usefixtures("large")
def test_whoever_does_not_read_a_large_answer_is_not_waited_for(place: Place) -> None:
    body = json.dumps(AGES).encode()
    buffers = place.app_state.admission.buffers
    with dialed(place, head(f"POST {ANSWERS}", *bearing(place, "ana"), size=len(body)) + body) as plug:
        wait_until(lambda: buffers.kept >= LARGE)
        again = place.program("ana").post(ANSWERS, json=AGES)
        assert (again.status_code, code(again)) == (429, "too-many-at-once")
        works(place)
        wait_until(lambda: buffers.kept == 0)
        assert len(told(plug)) < LARGE
    answer = place.program("ana").post(ANSWERS, json=AGES)
    assert len(answer.content) == LARGE


def test_one_account_uses_up_nobody_elses_requests(tmp_path: Path) -> None:
    with opened(tmp_path, server="requests_per_minute = 6") as place:
        ana, bob = place.program("ana"), place.program("bob")
        assert code([ana.get("/api/v1/datasets") for _ in range(12)][-1]) == "rate-limited"
        assert bob.get("/api/v1/datasets").status_code == 200
        assert place.browser().get("/api/v1/openapi.json").status_code == 200


def test_one_account_uses_up_nobody_elses_sign_ins(tmp_path: Path) -> None:
    with opened(tmp_path, server="sign_ins_per_minute = 3") as place:
        for name in ("ana", "bob"):
            place.app_state.users.set_password(name, PASSWORD)

        def signed_in(name: str) -> int:
            return place.browser().post("/api/v1/sessions", json={"name": name, "password": PASSWORD}).status_code

        assert [signed_in("ana") for _ in range(4)] == [200, 200, 200, 429]
        assert signed_in("bob") == 200


def test_a_server_may_open_files_for_all_its_connections() -> None:
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual - 10, most))
        allow_files(usual - 20)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (usual - 10, most)
        allow_files(usual - 5)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (usual - 5, most)
        if most != resource.RLIM_INFINITY:
            allow_files(most + 1)
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))


def test_a_proxy_has_as_many_connections_as_there_are(tmp_path: Path) -> None:
    limits = "connections_of_an_address = 2\nbehind_proxy = true"
    with opened(tmp_path, server=limits) as place, ExitStack() as stack:
        plugs = [stack.enter_context(dialed(place)) for _ in range(8)]
        works(place)
        for plug in plugs:
            plug.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert plug.recv(100).startswith(b"HTTP/1.1 200")
