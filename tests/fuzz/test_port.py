"""The PostgreSQL port: whatever bytes are sent, the server stays and says what is wrong, or closes the connection."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.server.wire.messages import CANCEL, GSS, PROTOCOL, TLS, message
from tests.fuzz.effort import effort
from tests.fuzz.grammar import texts
from tests.fuzz.incidents import no_incidents
from tests.fuzz.test_sql import statements
from tests.server.wire.places import STARTUP, WirePlace, first_message, password_message, wire_place
from tests.session.places import visits

KINDS = b"RKZSTDCEN1234tnsIHdcv"
"""The types of all messages that the port sends."""
PATIENCE = 60.0
FAULTS = (b"XX000", b"internal-error", b"Traceback")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WirePlace]:
    limits = "requests_per_minute = 10000000\nsign_ins_per_minute = 10000000"
    with wire_place(tmp_path_factory.mktemp("port"), visits(epsilon="1000000000"), limits) as place:
        yield place


def replies(plug: socket.socket, sent: bytes) -> bytes:
    """All that the port says to these bytes before it closes."""
    heard = b""
    with suppress(ConnectionError, BrokenPipeError):
        plug.sendall(sent)
        plug.shutdown(socket.SHUT_WR)
        while part := plug.recv(65_536):
            heard += part
    return heard


def check(heard: bytes) -> None:
    """Whole messages of known types, of which no error is one of ours."""
    while len(heard) >= 5:
        size = struct.unpack("!I", heard[1:5])[0]
        assert heard[:1] in [bytes([kind]) for kind in KINDS], heard[:40]
        body = heard[5 : size + 1]
        if heard[:1] == b"E":
            assert body.endswith(b"\0\0") and b"M" in body
            assert not any(word in body for word in FAULTS), body
        heard = heard[size + 1 :]


def is_there(port: WirePlace) -> None:
    with port.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


NUMBER = st.sampled_from(
    [0, 1, 4, 7, 8, 9, 100, PROTOCOL, PROTOCOL + 1, 131_072, CANCEL, TLS, GSS, 2**31 - 1, 2**32 - 1]
)
TEXT = (
    st.sampled_from(["", "user", "ana", "bob", "database", "options", "-c x=y", "client_encoding", "LATIN1"]) | texts()
)
ENDED = TEXT.map(lambda text: text[:200].encode("utf-8", "surrogatepass") + b"\0")
FIRST = st.one_of(
    st.lists(ENDED, max_size=6).map(lambda parts: first_message(struct.pack("!I", PROTOCOL) + b"".join(parts) + b"\0")),
    st.tuples(NUMBER, NUMBER, st.binary(max_size=40)).map(lambda part: struct.pack("!II", *part[:2]) + part[2]),
    st.tuples(st.sampled_from([TLS, GSS, CANCEL]), st.binary(max_size=12)).map(
        lambda part: first_message(struct.pack("!I", part[0]) + part[1])
    ),
    st.just(first_message()),
    st.binary(max_size=60),
    st.sampled_from(
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 64]
    ),
)
SCRAM = st.one_of(
    st.binary(max_size=40).map(lambda data: password_message(data, is_first=True)),
    st.sampled_from([b"n,,n=,r=abc", b"y,,n=ana,r=", b"p=tls-unique,,n=,r=a", b"n,,n=,r=" + b"x" * 5000]).map(
        lambda data: password_message(data, is_first=True)
    ),
    st.sampled_from([b"c=biws,r=abc,p=AAAA", b"", b"\xff"]).map(password_message),
    st.tuples(st.sampled_from("pQPXB"), st.binary(max_size=40)).map(lambda part: message(*part)),
)


@given(first=st.lists(FIRST, min_size=1, max_size=3), then=st.lists(SCRAM, max_size=3))
@effort(120)
def test_whoever_has_not_signed_in(port: WirePlace, first: list[bytes], then: list[bytes]) -> None:
    with no_incidents(), closing(socket.create_connection(("127.0.0.1", port.port), timeout=PATIENCE)) as plug:
        heard = replies(plug, b"".join([*first, *then]))
    # A single letter answers a wish for encryption.
    while heard[:1] in (b"N", b"S") and heard[1:2] in (b"", b"N", b"E", b"R", b"S"):
        heard = heard[1:]
    check(heard)


SQL = st.one_of(
    statements().map(lambda text: text[:2_000]),
    texts(),
    st.sampled_from(
        [
            *(
                "SELECT 1",
                "SELECT age, COUNT(*) FROM visits GROUP BY age",
                "BEGIN",
                "COMMIT",
                "ROLLBACK",
                "SHOW ALL",
                "",
            ),
            *("SET blowfish.spend = '1'", "SET blowfish.alpha = 'x'", "SELECT $1", "DECLARE c CURSOR FOR SELECT 1"),
            *("FETCH 3 FROM c", "CLOSE ALL", "COPY visits TO STDOUT", "DEALLOCATE ALL", "SELECT * FROM pg_class"),
            *("SELECT COUNT(*) FROM visits WHERE age = $1 OPTIONS (epsilon 1)", "DISCARD ALL", "LISTEN x; SELECT 1"),
            "SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname ~ $1",
        ]
    ),
).map(lambda text: text.encode("utf-8", "surrogatepass").replace(b"\0", b"") + b"\0")
NAME = st.sampled_from([b"\0", b"a\0", b"b\0"]) | ENDED
SHORT = st.integers(-1, 3) | st.sampled_from([-(2**15), 2**15 - 1])


def shorts(numbers: list[int]) -> bytes:
    return struct.pack(f"!h{len(numbers)}h", len(numbers), *numbers)


FORMATS = st.lists(st.integers(0, 1) | SHORT, max_size=2).map(shorts)
OIDS = st.lists(st.sampled_from([0, 16, 20, 23, 25, 700, 701, 1082, 1700, 99_999]), max_size=2)
VALUE = (
    st.none() | st.binary(max_size=10) | st.sampled_from([b"5", b"-1", b"nan", b"1e400", b"A1", b"\0\0\0\5", b"\xff"])
)
VALUES = st.lists(VALUE, max_size=2).map(
    lambda listed: (
        struct.pack("!h", len(listed))
        + b"".join(struct.pack("!i", -1) if one is None else struct.pack("!i", len(one)) + one for one in listed)
    )
)
RIGHT = st.one_of(
    SQL.map(lambda sql: message("Q", sql)),
    st.tuples(NAME, SQL, OIDS).map(
        lambda part: message("P", part[0], part[1], struct.pack(f"!h{len(part[2])}I", len(part[2]), *part[2]))
    ),
    st.tuples(NAME, NAME, FORMATS, VALUES, FORMATS).map(lambda parts: message("B", *parts)),
    st.tuples(st.sampled_from([b"S", b"P", b"x"]), NAME).map(lambda parts: message("D", *parts)),
    st.tuples(st.sampled_from([b"S", b"P"]), NAME).map(lambda parts: message("C", *parts)),
    st.tuples(NAME, st.sampled_from([0, 1, 2**31 - 1, 2**32 - 1])).map(
        lambda part: message("E", part[0], struct.pack("!I", part[1]))
    ),
    st.sampled_from([message(kind) for kind in "SHSHSX"]),
)
WRONG = st.one_of(
    st.tuples(st.sampled_from("QPBDECSHXFfdcp?\0"), st.binary(max_size=30)).map(lambda part: message(*part)),
    st.tuples(st.sampled_from([b"Q", b"P", b"B"]), NUMBER).map(lambda part: part[0] + struct.pack("!I", part[1])),
    st.binary(max_size=30),
)


@st.composite
def conversation(draw: st.DrawFn) -> bytes:
    """Messages that are mostly right; at times one is wrong, or a byte is changed or missing."""
    sent = b"".join(draw(st.lists(RIGHT | RIGHT | RIGHT | WRONG, min_size=1, max_size=6)))
    place = draw(st.integers(0, 3 * len(sent)))
    if place < len(sent):
        sent = sent[:place] + draw(st.binary(max_size=2)) + sent[place + draw(st.integers(0, 2)) :]
    return sent


@given(sent=conversation())
@effort(60)
def test_whoever_has_signed_in(port: WirePlace, sent: bytes) -> None:
    with no_incidents(), port.connect() as connection:
        with closing(socket.socket(fileno=os.dup(connection.fileno()))) as plug:
            plug.settimeout(PATIENCE)
            heard = replies(plug, sent)
        connection.pgconn.finish()
    check(heard)


def test_the_port_is_still_there(port: WirePlace) -> None:
    with closing(socket.create_connection(("127.0.0.1", port.port), timeout=PATIENCE)) as plug:
        assert replies(plug, STARTUP[:3]) == b""
    is_there(port)
