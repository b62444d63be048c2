"""Nobody keeps others from the PostgreSQL port: places, times and bytes of each account and each address."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from blowfishdb.server.wire.messages import message, text
from tests.server.places import PATIENCE
from tests.server.wire.places import GENEROUS, STARTUP, WirePlace, first_message, wire_place

OF_AN_ACCOUNT, OF_AN_ADDRESS, MEMBERS, STRANGERS = 8, 6, 12, 6
LIMITS = f"""{GENEROUS}
connections = {MEMBERS}
connections_of_an_account = {OF_AN_ACCOUNT}
connections_of_an_address = {OF_AN_ADDRESS}
request_seconds = 2
buffers_of_an_account = 200000
"""
WIDE = f"SELECT '{'x' * 900}', generate_series(1, 15000)"
"""Thirteen megabytes, more than the system keeps for a connection."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WirePlace]:
    with wire_place(tmp_path_factory.mktemp("bounds"), server=LIMITS) as place:
        yield place


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def emptied(port: WirePlace) -> Iterator[None]:
    """Every test leaves the port as it found it: without connections and bytes."""
    yield
    wait_until(lambda: not port.wire.connections)
    assert port.wire.members._size == port.wire.strangers._size == 0
    assert port.app_state.admission.buffers.kept == 0


def works(port: WirePlace, name: str = "bob") -> None:
    with port.connect(name) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def dialed(port: WirePlace, sent: bytes = b"") -> socket.socket:
    plug = socket.create_connection(("127.0.0.1", port.port), timeout=PATIENCE)
    plug.sendall(sent)
    return plug


def told(plug: socket.socket) -> bytes:
    """What comes until the port closes."""
    data = b""
    with suppress(ConnectionError):
        while part := plug.recv(65_536):
            data += part
    return data


def ended(connection: psycopg.Connection[tuple[object, ...]]) -> str | None:
    """The SQLSTATE with which a connection ended."""
    with pytest.raises(psycopg.Error) as end:
        connection.execute("SELECT 1")
    return end.value.sqlstate


def test_idle_connections_of_one_account_keep_nobody_else_off(tmp_path: Path) -> None:
    """With the usual limits, as many as closed the port to everybody before there were any of an account."""
    with wire_place(tmp_path) as port, ExitStack() as stack:
        with pytest.raises(psycopg.OperationalError, match="as many connections here at once as you may, 100"):
            for _ in range(500):
                stack.enter_context(port.connect("ana"))
        # The one that was refused is gone a moment after it was told so.
        wait_until(lambda: len(port.wire.connections) == 100)
        works(port)


def test_an_account_has_so_many_connections_and_old_idle_ones_make_room(
    port: WirePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(port.connect("ana")) for _ in range(OF_AN_ACCOUNT)]
        with pytest.raises(psycopg.OperationalError, match="as many connections") as refused:
            port.connect("ana")
        assert "FATAL" in str(refused.value)
        works(port)
        monkeypatch.setattr(port.wire.members, "recent", 0.0)
        held[0].execute("SELECT 1")
        works(port, "ana")
        assert held[0].execute("SELECT 1").fetchone() == (1,), "one that was used later stays"
        assert ended(held[1]) == "57P05"


def test_whoever_holds_most_makes_room_when_the_port_is_full(port: WirePlace) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(port.connect("ana")) for _ in range(OF_AN_ACCOUNT)]
        others = [stack.enter_context(port.connect("bob")) for _ in range(MEMBERS - OF_AN_ACCOUNT)]
        works(port)
        works(port)
        assert ended(held[0]) == "57P05"
        for connection in others:
            connection.execute("SELECT 1")


@pytest.mark.parametrize("sent", [b"", first_message()[:5], first_message(STARTUP)])
def test_a_flood_of_strangers_makes_room_for_whoever_signs_in(port: WirePlace, sent: bytes) -> None:
    with ExitStack() as stack:
        plugs = [stack.enter_context(dialed(port, sent)) for _ in range(5 * OF_AN_ADDRESS)]
        wait_until(lambda: len(port.wire.connections) <= OF_AN_ADDRESS)
        works(port)
        said = told(plugs[0])
        assert b"C53300\0" in said
        assert b"connections that have not signed in" in said


@pytest.mark.parametrize("sent", [b"", first_message()[:5], first_message(STARTUP)])
def test_a_stranger_who_does_not_go_on_is_not_waited_for(port: WirePlace, sent: bytes) -> None:
    began = time.monotonic()
    with dialed(port, sent) as plug:
        told(plug)
    assert 1.5 < time.monotonic() - began < 30


def test_a_connection_that_is_idle_for_long_is_closed(tmp_path: Path) -> None:
    with wire_place(tmp_path, server=f"{GENEROUS}\nidle_seconds = 1") as port, port.connect() as connection:
        connection.execute("SELECT 1")
        wait_until(lambda: not port.wire.connections)
        assert ended(connection) == "57P05"


@pytest.mark.parametrize("begun", [b"Q", message("Q", text("SELECT 1"))[:9], b"Q" + struct.pack("!I", 100_000) + b"x"])
def test_a_message_that_does_not_come_to_its_end_is_not_waited_for(tmp_path: Path, begun: bytes) -> None:
    server = f"{GENEROUS}\nidle_seconds = {2 if len(begun) == 1 else 60}\nrequest_seconds = 1"
    with wire_place(tmp_path, server=server) as port, port.connect() as connection:
        os.write(connection.fileno(), begun)
        wait_until(lambda: not port.wire.connections)
        assert port.app_state.admission.buffers.kept == 0
        assert ended(connection) == "57P05"


@pytest.mark.parametrize("question", [WIDE, f"COPY ({WIDE}) TO STDOUT"])
def test_whoever_does_not_read_a_large_result_is_not_waited_for(tmp_path: Path, question: str) -> None:
    with wire_place(tmp_path, server=f"{GENEROUS}\nrequest_seconds = 1") as port:
        connection = port.connect()
        os.write(connection.fileno(), message("Q", text(question)))
        buffers = port.app_state.admission.buffers
        wait_until(lambda: buffers.kept > 0)
        works(port)
        wait_until(lambda: not port.wire.connections)
        assert buffers.kept == 0
        connection.close()


@pytest.mark.parametrize("wide", ["x" * 900, ""])
def test_a_look_up_beyond_its_bounds_is_refused_and_not_cut(port: WirePlace, wide: str) -> None:
    with port.connect() as connection:
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(f"SELECT '{wide}', generate_series(1, {25_000 if wide else 100_001})".encode())
        assert refused.value.sqlstate == "54000"


def test_what_one_account_keeps_on_the_port_is_bounded(port: WirePlace) -> None:
    rows = "SELECT generate_series(1, 1000)"
    with port.connect() as one, port.connect() as two, port.connect("bob") as other:
        one.execute("BEGIN")
        one.execute(f"DECLARE c CURSOR FOR {rows}".encode())
        two.execute("BEGIN")
        with pytest.raises(psycopg.OperationalError, match="bytes of requests and answers") as refused:
            two.execute(f"DECLARE d CURSOR FOR {rows}".encode())
        assert refused.value.sqlstate == "53300"
        two.execute("ROLLBACK")
        assert len(other.execute(rows.encode()).fetchall()) == 1000
        one.execute("CLOSE c")
        assert len(two.execute(rows.encode()).fetchall()) == 1000
        with pytest.raises(psycopg.OperationalError) as refused:
            for number in range(100):
                long = f"SELECT '{number:010000}'"
                one.execute(long.encode(), prepare=True)
        assert refused.value.sqlstate == "53300"


def test_large_messages_are_counted_before_they_are_read(port: WirePlace) -> None:
    buffers = port.app_state.admission.buffers
    with port.connect() as one, port.connect() as two:
        os.write(one.fileno(), b"Q" + struct.pack("!I", 150_000))
        wait_until(lambda: buffers.kept > 100_000)
        os.write(two.fileno(), b"Q" + struct.pack("!I", 150_000))
        assert ended(two) == "53300"
