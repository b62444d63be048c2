"""The PostgreSQL port below its clients: signing in, TLS, limits, cancelling, and messages out of form."""

from __future__ import annotations

import os
import random
import socket
import ssl
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from blowfishdb.errors import InvalidInput, ProtocolViolation, SignInRefused
from blowfishdb.server.app import rest_app
from blowfishdb.server.auth.users import Exchange
from blowfishdb.server.state import open_app_state
from blowfishdb.server.wire.messages import Body, PortColumn, literal, message, read_bind, shown, text
from blowfishdb.server.wire.statements import StatementResult, _copy
from tests.server.places import PATIENCE
from tests.server.test_serving import make_certificate
from tests.server.wire.places import (
    GENEROUS,
    STARTUP,
    WirePlace,
    first_message,
    forget_verifiers,
    password_message,
    wire_place,
)
from tests.session.places import configuration, make_fixture

KINDS = "RKZSTDCEN1234tnsIHdcv"
"""The types of all messages that the port sends."""


READY = message("Z", b"I")


def received(plug: socket.socket, until: bytes | None = None) -> list[tuple[str, bytes]]:
    """All messages until these bytes, or until the port closes, because nothing more will be sent.

    Each is whole and of a known type.
    """
    data, listed = b"", []
    with suppress(ConnectionError):
        if until is None:
            plug.shutdown(socket.SHUT_WR)
        while (until is None or not data.endswith(until)) and (part := plug.recv(65_536)):
            data += part
    while data:
        size = struct.unpack("!I", data[1:5])[0]
        assert chr(data[0]) in KINDS
        assert len(data) > size
        listed.append((chr(data[0]), data[5 : size + 1]))
        data = data[size + 1 :]
    return listed


def states(replies: list[tuple[str, bytes]]) -> list[str]:
    """The SQLSTATE of each error."""
    return [body.split(b"\0C")[1][:5].decode() for kind, body in replies if kind == "E"]


def dialed(port: WirePlace) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port.port), timeout=PATIENCE)


@pytest.mark.parametrize(
    ("name", "secret"),
    [("ana", "bfdb_wrong"), ("nobody", "bfdb_wrong"), ("ana", ""), ("bob", "another's"), ("ana", "x" * 300)],
)
def test_a_wrong_token_and_an_unknown_name_are_refused_alike(port: WirePlace, name: str, secret: str) -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(host="127.0.0.1", port=port.port, user=name, password=secret or "x", dbname="x")
    assert "the name or the password is wrong" in str(refused.value)
    lines = [line for line in port.app_state.audit_log.last(5) if line.action == "sign-in refused"]
    assert lines[-1].who == name


def test_each_of_several_tokens_signs_in_until_it_ends(port: WirePlace) -> None:
    tokens = port.app_state.tokens
    second, token = tokens.issue("ana", "second", ["ask"], 1)
    with psycopg.connect(port.url(secret=second), autocommit=True) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("ana",)
        tokens.revoke("ana", token.id)
        with pytest.raises(psycopg.Error) as refused:
            connection.execute("SELECT 1")
        assert refused.value.sqlstate == "28000"
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(port.url(secret=second))
    with port.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("name", ["cora", "aude"])
def test_only_analysts_come_in(port: WirePlace, name: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="ask"):
        port.connect(name)


def test_tokens_from_before_the_port_do_not_sign_in(tmp_path: Path) -> None:
    with wire_place(tmp_path) as port:
        forget_verifiers(port.app_state.tokens)
        with pytest.raises(psycopg.OperationalError, match="the name or the password is wrong"):
            port.connect()


def test_a_scram_exchange_checks_every_part() -> None:
    for first in (b"p=tls-unique,,n=,r=abc", b"n,,r=abc", b"n,,n=,r=", b"\xff", b""):
        with pytest.raises(ProtocolViolation):
            Exchange("ana", [], first)
    for last in (b"", b"c=biws,r=other,p=AAAA", b"c=biws", b"\xff"):
        with pytest.raises(ProtocolViolation):
            Exchange("ana", [], b"n,,n=,r=abc").finish(last)
    exchange = Exchange("ana", [], b"n,,n=,r=abc")
    nonce = exchange.challenge.decode().partition(",")[0]
    with pytest.raises(ProtocolViolation, match="base64"):
        exchange.finish(f"c=biws,{nonce},p=%%%".encode())
    with pytest.raises(SignInRefused):
        exchange.finish(f"c=biws,{nonce},p=AAAA".encode())


def test_with_a_certificate_nothing_is_said_in_the_clear(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    with wire_place(tmp_path, server=f'certificate = "cert.pem"\nkey = "key.pem"\n{GENEROUS}') as port:
        root = tmp_path / "cert.pem"
        verified = f"?sslmode=verify-full&sslrootcert={root}"
        url = port.url(options=verified).replace("127.0.0.1", "localhost")
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(port.url(options="?sslmode=disable"))
        # What comes before encryption must not count as if it had been encrypted.
        with dialed(port) as plug:
            plug.sendall(struct.pack("!II", 8, 80_877_103) + first_message())
            assert states(received(plug)) == ["08P01"]
        with dialed(port) as plug:
            plug.sendall(struct.pack("!II", 8, 80_877_103))
            assert plug.recv(1) == b"S"
            context = ssl.create_default_context(cafile=str(root))
            with context.wrap_socket(plug, server_hostname="localhost") as wrapped:
                wrapped.sendall(first_message())
                assert wrapped.recv(1) == b"R"


def test_requests_and_sign_ins_are_limited(tmp_path: Path) -> None:
    with wire_place(tmp_path, server="requests_per_minute = 3\nsign_ins_per_minute = 2") as port:
        with port.connect() as connection:
            for _ in range(3):
                connection.execute("SELECT 1")
            with pytest.raises(errors.ConfigurationLimitExceeded):
                connection.execute("SELECT 1")
        port.connect().close()
        with pytest.raises(psycopg.OperationalError):
            port.connect()


def test_describing_needs_a_token_that_has_not_ended_and_counts_as_asking(tmp_path: Path) -> None:
    parse = message("P", b"\0SELECT ward, COUNT(*) FROM visits GROUP BY ward\0\0\0")
    describe = message("B", b"\0\0\0\0\0\0\0\0") + message("D", b"P\0")
    run = message("E", b"\0\0\0\0\0") + message("S")
    with (
        wire_place(tmp_path, server="requests_per_minute = 3\nsign_ins_per_minute = 9") as port,
        signed_in(port) as plug,
    ):
        # Described and run: one request, refused for want of an accuracy alone.
        plug.sendall(parse + describe + run)
        assert states(received(plug, READY)) == ["22023"]
        plug.sendall((describe + message("S")) * 3)
        replies = received(plug, READY)
        while sum(kind == "Z" for kind, _ in replies) < 3:
            replies += received(plug, READY)
        assert states(replies) == ["53400"]
        assert sum(kind == "T" for kind, _ in replies) == 2
    (tmp_path / "second").mkdir()
    with wire_place(tmp_path / "second") as port, signed_in(port) as plug:
        (token,) = port.app_state.tokens.of("ana")
        port.app_state.tokens.revoke("ana", token.id)
        plug.sendall(parse + describe + message("S"))
        assert states(received(plug, READY)) == ["28000"]


def send(port: WirePlace, data: bytes) -> None:
    with dialed(port) as plug:
        plug.sendall(data)
        received(plug)


def test_a_client_cancels_its_own_statement_alone(port: WirePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    from blowfishdb.errors import WorkCancelled
    from blowfishdb.server.wire.statements import Statements
    from blowfishdb.sources.calls import is_cancelled

    def wait(self: object, question: object) -> None:
        until = time.monotonic() + 30
        while not is_cancelled.get()():
            if time.monotonic() > until:
                return
            time.sleep(0.01)
        raise WorkCancelled

    with port.connect() as connection:
        monkeypatch.setattr(Statements, "run", wait)
        # Somebody who does not know the secret of the connection stops nothing.
        number = connection.pgconn.backend_pid
        with dialed(port) as plug:
            plug.sendall(struct.pack("!IIII", 16, 80_877_102, number, 1))
            assert received(plug) == []
        assert not port.wire.connections[number].cancelled.is_set()
        request = struct.pack("!IIII", 16, 80_877_102, number, port.wire.connections[number].secret)
        threading.Timer(0.3, send, [port, request]).start()
        with pytest.raises(errors.QueryCanceled):
            connection.execute("EXPLAIN SELECT COUNT(*) FROM visits OPTIONS (epsilon = 1)")


def test_an_unexpected_error_leaves_nothing_but_an_incident(port: WirePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("row 17: Ada Lovelace")

    with port.connect(spend="1") as connection:
        monkeypatch.setattr("blowfishdb.server.wire.statements._rows", fail)
        with pytest.raises(errors.InternalError_) as refused:
            connection.execute("SELECT COUNT(*) FROM visits WHERE age < 5 OPTIONS (epsilon = 0.1)")
        assert "Ada" not in str(refused.value)
        assert "incident" in str(refused.value)
        monkeypatch.undo()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_rows_come_in_pieces_where_the_client_asks_for_few(port: WirePlace) -> None:
    query = b"SELECT relname FROM pg_class UNION ALL SELECT nspname FROM pg_namespace ORDER BY 1"
    parts = [message("P", b"\0" + query + b"\0\0\0"), message("B", b"\0\0\0\0\0\0\0\0")]
    parts += [
        message("D", b"P\0"),
        message("E", b"\0", struct.pack("!i", 3)),
        message("E", b"\0\0\0\0\0"),
        message("S"),
    ]
    with signed_in(port) as plug:
        plug.sendall(b"".join(parts))
        kinds = "".join(kind for kind, _ in received(plug))
    assert kinds == "12TDDDsDCZ"


def test_a_prepared_statement_is_described_for_nothing_and_charged_once_it_runs(port: WirePlace) -> None:
    query = b"SELECT ward, COUNT(*) FROM visits WHERE age < $1 GROUP BY ward OPTIONS (epsilon = 0.2)"
    budget = port.app_state.session("bob").budget
    with signed_in(port, "bob") as plug:
        plug.sendall(message("Q", b"SET blowfish.spend = 1\0") + message("P", b"q\0" + query + b"\0\0\0"))
        plug.sendall(message("D", b"Sq\0") + message("S"))
        replies = received(plug, READY)
        while len(replies) < 6:
            replies += received(plug, READY)
        assert "".join(kind for kind, _ in replies) == "CZ1tTZ"
        assert replies[3][1] == struct.pack("!hI", 1, 25)
        assert b"ward\0" in replies[4][1]
        assert b"count\0" in replies[4][1]
        assert budget("visits").spent == 0
        plug.sendall(message("B", b"\0q\0\0\0\0\1\0\0\0\x02", b"40", b"\0\1\0\1"))
        plug.sendall(message("E", b"\0\0\0\0\0") + message("S"))
        assert "".join(kind for kind, _ in received(plug, READY)) == "2NDDDCZ"
        assert float(budget("visits").spent) == 0.2


def signed_in(port: WirePlace, name: str = "ana") -> socket.socket:
    """A socket on which somebody has signed in by hand, ready for messages."""
    import base64
    import hashlib
    import hmac

    from blowfishdb.server.auth.users import SCRAM_ROUNDS, scram_salt

    plug = dialed(port)
    plug.sendall(first_message(struct.pack("!I", 196_608) + b"user\0" + name.encode() + b"\0\0"))
    plug.recv(1000)
    plug.sendall(password_message(b"n,,n=,r=abc", is_first=True))
    challenge = plug.recv(1000)[9:].decode()
    without_proof = f"c=biws,{challenge.partition(',')[0]}"
    salted = hashlib.pbkdf2_hmac("sha256", port.secrets[name].encode(), scram_salt(name), SCRAM_ROUNDS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signed = f"n=,r=abc,{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(one ^ two for one, two in zip(client_key, signature, strict=True))).decode()
    plug.sendall(password_message(f"{without_proof},p={proof}".encode()))
    data = b""
    while not data.endswith(b"Z\0\0\0\5I"):
        data += plug.recv(1000)
    return plug


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        first_message(struct.pack("!I", 131_072) + b"\0"),
        first_message(STARTUP[:-1]),
        first_message(struct.pack("!I", 196_608) + b"user\0\xff\0\0"),
        first_message() + message("Q", b"SELECT 1\0"),
        first_message() + message("p", text("SCRAM-SHA-256-PLUS"), b"\0\0\0\0"),
        first_message() + b"p" + struct.pack("!I", 2**31),
        first_message() + b"p\0\0\0\1",
        first_message() + password_message(b"n,,n=,r=abc", is_first=True) + password_message(b"c=biws"),
    ],
)
def test_messages_out_of_form_before_signing_in_end_the_connection(port: WirePlace, sent: bytes) -> None:
    with dialed(port) as plug:
        plug.sendall(sent)
        replies = received(plug)
    assert states(replies) in (["08P01"], ["54000"])
    assert "Z" not in [kind for kind, _ in replies]


@pytest.mark.parametrize(
    "sent",
    [
        message("Q", b"SELECT 1"),
        message("Q", b"\xff\0"),
        message("Q", b"SELECT 1\0more\0"),
        message("P", b"\0"),
        message("P", b"\0SELECT 1\0\xff\xff"),
        message("B", b"\0\0\0\1\0\7\0\0\0\0"),
        message("D", b"X\0"),
        message("C", b"X\0"),
        message("E", b"\0"),
        message("y", b""),
        message("S", b"x"),
        b"Q\0\0\0\3",
        b"Q\x7f\xff\xff\xff",
    ],
)
def test_messages_out_of_form_after_signing_in_end_the_connection(port: WirePlace, sent: bytes) -> None:
    with signed_in(port) as plug:
        plug.sendall(sent)
        assert states(received(plug)) in (["08P01"], ["54000"])


@pytest.mark.parametrize(
    ("sent", "state"),
    [
        (message("E", b"none\0\0\0\0\0"), "22023"),
        (message("D", b"Snone\0"), "22023"),
        (message("B", b"\0none\0\0\0\0\0\0\0"), "22023"),
        (message("P", b"\0SELECT 1; SELECT 2\0\0\0"), "42601"),
        (message("P", b"\0SELECT $1\0\0\0") + message("B", b"\0\0\0\0\0\0\0\0"), "22023"),
        (message("P", b"a\0SELECT 1\0\0\0") + message("P", b"a\0SELECT 1\0\0\0"), "22023"),
    ],
)
def test_messages_out_of_order_are_refused_and_passed_over_until_sync(port: WirePlace, sent: bytes, state: str) -> None:
    with signed_in(port) as plug:
        plug.sendall(sent + message("E", b"\0\0\0\0\0") + message("S") + message("Q", b"SELECT 1\0"))
        replies = received(plug)
    assert states(replies) == [state]
    assert "".join(kind for kind, _ in replies).endswith("EZTDCZ")


def test_an_empty_statement_has_an_empty_answer(port: WirePlace) -> None:
    with signed_in(port) as plug:
        plug.sendall(message("Q", b" ; \0") + message("P", b"\0\0\0\0") + message("B", b"\0\0\0\0\0\0\0\0"))
        plug.sendall(message("D", b"P\0") + message("E", b"\0\0\0\0\0") + message("C", b"P\0") + message("S"))
        assert "".join(kind for kind, _ in received(plug)) == "IZ12nI3Z"


@pytest.mark.parametrize(
    ("value", "oid", "is_binary", "written"),
    [
        (None, 25, False, "NULL"),
        (b"\0\0\0\7", 23, True, "7"),
        (b"\xff\xff", 21, True, "(-1)"),
        (struct.pack("!d", 0.5), 701, True, "0.5"),
        (b"-1.5e3", 1700, False, "(-1.5e3)"),
        (b"t", 16, False, "TRUE"),
        (b"\0", 16, True, "FALSE"),
        (b"O'Hara", 0, False, "'O''Hara'"),
        (b"A1", 25, True, "'A1'"),
    ],
)
def test_parameters_become_literals(value: bytes | None, oid: int, is_binary: bool, written: str) -> None:
    assert literal(value, oid, is_binary=is_binary) == written


@pytest.mark.parametrize(
    ("value", "oid", "is_binary", "error"),
    [
        (b"\0", 23, True, ProtocolViolation),
        (struct.pack("!d", float("nan")), 701, True, InvalidInput),
        (b"1; DROP", 23, False, InvalidInput),
        (b"1", 2950, True, InvalidInput),
        (b"\xff", 25, False, ProtocolViolation),
        (b"a\0b", 25, False, ProtocolViolation),
    ],
)
def test_parameters_that_are_none_are_refused(value: bytes, oid: int, is_binary: bool, error: type[Exception]) -> None:
    with pytest.raises(error):
        literal(value, oid, is_binary=is_binary)


def test_values_are_written_as_postgresql_writes_them() -> None:
    cells = (True, False, 12.0, 0.25, float("inf"), float("-inf"), float("nan"), None, "x", 7)
    assert [shown(cell) for cell in cells] == ["t", "f", "12", "0.25", "Infinity", "-Infinity", "NaN", "", "x", "7"]
    with pytest.raises(ProtocolViolation):
        read_bind(Body(b"\0\0\0\0\xff\xff\0\0"))


def test_the_app_opens_and_closes_the_port(tmp_path: Path) -> None:
    import asyncio
    from dataclasses import replace

    make_fixture(tmp_path)
    app_state = open_app_state(configuration(tmp_path))
    app_state.users.add("ana", "analyst", None)
    secret = app_state.tokens.issue("ana", "test", ["ask"], 1)[0]

    async def run() -> None:
        for _ in range(20):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                number = probe.getsockname()[1]
            app = rest_app(replace(app_state, settings=replace(app_state.settings, postgres=number)))
            # Somebody else may have taken the port meanwhile.
            with suppress(OSError):
                async with app.router.lifespan_context(app):
                    url = f"postgresql://ana:{secret}@127.0.0.1:{number}/x"
                    async with await psycopg.AsyncConnection.connect(url) as connection:
                        cursor = await connection.execute("SELECT 1")
                        assert await cursor.fetchone() == (1,)
                break
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", number)).close()

    asyncio.run(run())


WORDS = [b"SELECT", b"1", b"FROM", b"pg_class", b"visits", b"COUNT(*)", b"ward", b"GROUP BY", b"'", b'"', b"(", b")"]
WORDS += [b";", b"$1", b"/*", b"*/", b"--", b"SET", b"blowfish.within", b"=", b"50", b"EXPLAIN", b"BEGIN", b"COPY"]
WORDS += [b"OPTIONS", b"::regclass", b"unnest", b"WITH", b"AS", b"UNION", b",", b"age", b"\xc3\xa4", b"\xff", b"SHOW"]
WORDS += [b"DECLARE", b"c", b"CURSOR", b"WITH HOLD", b"FOR", b"FETCH", b"MOVE", b"ALL", b"CLOSE"]


def fuzzed(chance: random.Random) -> bytes:
    """One message: of a known type or not, well formed or not, whole or not."""
    query = b" ".join(chance.choices(WORDS, k=chance.randrange(12)))
    name = chance.choice([b"", b"a", b"b"])
    few = [0] * 40 + [1, 1, -1]
    bodies = {
        "Q": query + b"\0",
        "P": name + b"\0" + query + b"\0" + struct.pack("!h", chance.choice(few)),
        "B": name + b"\0" + name + b"\0" + struct.pack("!hhh", *chance.choices(few, k=3)),
        "D": chance.choice([b"S", b"P"]) + name + b"\0",
        "E": name + b"\0" + struct.pack("!i", chance.choice([0, 1, -1])),
        "C": chance.choice([b"S", b"P"]) + name + b"\0",
        "S": b"",
        "H": b"",
        "d": query,
    }
    kind = chance.choice([*bodies, "S", "Q"])
    body = bodies[kind]
    if chance.random() < 0.01:
        body = bytes(chance.randrange(256) for _ in range(chance.randrange(40)))
    if chance.random() < 0.005:
        kind = chr(chance.randrange(128))
    sent = message(kind, body)
    return sent[: chance.randrange(len(sent))] if chance.random() < 0.002 else sent


def fuzz(port: WirePlace, number: int, seed: int) -> None:
    """Sends so many messages, on as many connections as it takes; every reply is whole, and every error typed."""
    chance, sent, seen = random.Random(seed), 0, set()
    while sent < number:
        with signed_in(port) as plug:
            batch = [fuzzed(chance) for _ in range(min(60, number - sent))]
            sent += len(batch)
            with suppress(ConnectionError):
                plug.sendall(b"".join(batch))
            seen |= {*states(received(plug))}
    assert seen <= {"08P01", "22023", "25P02", "42601", "42P01", "53400", "54000"}
    assert len(seen) >= 3
    # Nothing was allowed to be spent, and the port goes on.
    assert port.app_state.session("ana").budget("visits").spent == 0
    with port.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_random_messages_find_no_untyped_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with wire_place(tmp_path) as port:
        fuzz(port, 600, seed=1)
    assert "incident" not in caplog.text


@pytest.mark.nightly
def test_many_random_messages_find_no_untyped_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with wire_place(tmp_path) as port:
        fuzz(port, 100_000, seed=int.from_bytes(os.urandom(4)))
    assert "incident" not in caplog.text


def test_a_copy_tells_null_from_an_empty_text() -> None:
    result = StatementResult("SELECT 2", (PortColumn("ward"), PortColumn("n")), [(None, 1.0), ("", 2.0)])
    assert _copy(result, "").lines == ("\\N\t1\n", "\t2\n")
