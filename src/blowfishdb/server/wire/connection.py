"""Connections of the PostgreSQL port: from the first message through signing in to the last statement."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import count, pairwise
from typing import ClassVar, TypeVar

from anyio import to_thread

from blowfishdb import errors
from blowfishdb.errors import BlowfishError, InvalidInput, NotAllowed, NotSignedIn, ProtocolViolation, SignInRefused
from blowfishdb.incidents import public_error
from blowfishdb.server.admission import (
    LARGEST_OF_STRANGERS,
    SMALL,
    ConnectionPlaces,
    ReadingPace,
    account,
    address,
    members,
    strangers,
)
from blowfishdb.server.auth.grants import Principal
from blowfishdb.server.auth.users import MECHANISM, Exchange
from blowfishdb.server.authentication import Caller
from blowfishdb.server.middleware import log_request
from blowfishdb.server.problems import status_of
from blowfishdb.server.state import AppState
from blowfishdb.server.wire import messages
from blowfishdb.server.wire.catalog import SETTINGS, Catalogs
from blowfishdb.server.wire.messages import Body, PortColumn, message, text
from blowfishdb.server.wire.statements import (
    StatementResult,
    Statements,
    declared_cursor,
    first_word,
    parameter_count,
    read_question,
    split,
    with_parameters,
)

Result = TypeVar("Result")
MOST_PREPARED = 1000
"""Prepared statements and portals of one connection."""
CHUNK = 500
"""Rows that are sent before the client is waited for."""
FLUSHING = 2.0
"""Seconds in which a client that is told good-bye takes what it was sent."""

STATES: tuple[tuple[type[BlowfishError], str], ...] = (
    (ProtocolViolation, "08P01"),
    (errors.TransactionFailed, "25P02"),
    (SignInRefused, "28P01"),
    (NotSignedIn, "28000"),
    (errors.RateLimited, "53400"),
    (errors.TooManyAtOnce, "53300"),
    (errors.ServerFull, "53300"),
    (errors.TooSlow, "57P05"),
    (errors.ConnectionIdle, "57P05"),
    (errors.AccessError, "42501"),
    (errors.UnknownDataset, "42P01"),
    (errors.SpendingCapReached, "53400"),
    (errors.BudgetExceeded, "53400"),
    (errors.WorkCancelled, "57014"),
    (errors.ReleaseCancelled, "57014"),
    (errors.SourceBusy, "53000"),
    (errors.DeadlinePassed, "57014"),
    (errors.TooLarge, "54000"),
    (errors.TooExpensive, "54000"),
    (errors.QueryError, "42601"),
    (InvalidInput, "22023"),
    (errors.InternalError, "XX000"),
    (BlowfishError, "58000"),
)
"""Errors and their SQLSTATE; the first line that fits counts. None depends on the data."""


def state_of(error: BlowfishError) -> str:
    """The SQLSTATE of an error."""
    return next(state for kind, state in STATES if isinstance(error, kind))


@dataclass(eq=False)
class Portal:
    """A statement with its parameters, and what is left of its result once it runs."""

    text: str
    formats: tuple[int, ...]
    result: StatementResult | None = None
    sent: int = 0
    is_counted: bool = False
    """Whether the rate limit has counted it: a driver describes a portal and then runs it."""


@dataclass(eq=False)
class WireServer:
    """What all connections share."""

    app_state: AppState
    context: ssl.SSLContext | None = None
    connections: dict[int, Connection] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.admission = self.app_state.admission
        self.catalogs = Catalogs(self.app_state)
        self.strangers: ConnectionPlaces[Connection] = strangers(self.app_state.settings, Connection.give_way)
        self.members: ConnectionPlaces[Connection] = members(self.app_state.settings, Connection.give_way)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from its first byte to its last. Of those that have not signed in, the oldest make room."""
        connection = Connection(self, next(self._numbers), reader, writer)
        self.connections[connection.number] = connection
        place = connection.place
        self.strangers.enter(place, connection)
        self.strangers.waits(place, connection)
        try:
            await connection.serve()
        finally:
            self.strangers.leave(place, connection)
            connection.leave()
            del self.connections[connection.number]
            writer.close()
            with suppress(Exception):
                async with asyncio.timeout(FLUSHING):
                    await writer.wait_closed()
            writer.transport.abort()

    def cancel(self, number: int, secret: int) -> None:
        """Stops what runs on a connection, if the client knows its secret."""
        connection = self.connections.get(number)
        if connection is not None and connection.secret == secret:
            connection.cancelled.set()


@asynccontextmanager
async def listening(app_state: AppState, door: socket.socket | None = None) -> AsyncIterator[WireServer]:
    """The PostgreSQL port while the server runs: the one of the settings, or a socket that is bound already."""
    settings = app_state.settings
    wire = WireServer(app_state, settings.encryption())
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(wire.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    if door is None:
        server = await asyncio.start_server(connected, settings.host, settings.postgres)
    else:
        server = await asyncio.start_server(connected, sock=door)
    try:
        yield wire
    finally:
        server.close()
        for connection in list(wire.connections.values()):
            connection.stop()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(eq=False)
class Outgoing:
    """What is told to a client: kept together until it is sent, so that an answer of many messages wakes it once."""

    writer: asyncio.StreamWriter
    pace: ReadingPace
    _waiting: list[bytes] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        """Adds a message."""
        self._waiting.append(data)

    async def drain(self) -> None:
        """Sends everything, and waits until the client has taken most of it; TooSlow for one that does not."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        self.writer.write(data)
        await self.pace.wait_for(self.writer.drain(), len(data))


class Connection:
    """One client."""

    def __init__(
        self, server: WireServer, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server, self.number, self.reader = server, number, reader
        self.writer = Outgoing(writer, server.admission.pace())
        self.secret = int.from_bytes(os.urandom(4))
        self.cancelled = asyncio.Event()
        self.token = ""
        self.prepared: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.portals: dict[str, Portal] = {}
        self.is_skipping = False
        """Whether messages are passed over until Sync, because one of them failed."""
        peer = writer.get_extra_info("peername")
        self.address = str(peer[0]) if peer else "unknown"
        self.place = address(self.address)
        self.member = self.place
        """Whom the connection is counted with: an address, and once somebody has signed in, their account."""
        self.kept = 0
        """Bytes of messages, statements and results that are kept of it, as far as they are counted."""

    async def serve(self) -> None:
        """Everything from the first message to the last; what is out of form ends it."""
        # Small messages leave at once. Otherwise each waits until the client has confirmed the one before, up to 40 ms.
        self.writer.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.timeout(self.server.app_state.settings.request_seconds):
                statements = await self._start()
            if statements is not None:
                self.statements = statements
                await self._talk()
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
            return
        except errors.TooSlow as error:
            self.end(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            with suppress(ConnectionError, errors.TooSlow):
                self._fail(public_error(error), "FATAL")
                await self.writer.drain()

    def stop(self) -> None:
        """Tells the client that the server stops."""
        self._tell(messages.report("E", "FATAL", "57P01", "the server stops"))

    def end(self, error: BlowfishError) -> None:
        """Ends the connection and tells the client why, if it still reads."""
        self._tell(messages.report("E", "FATAL", state_of(error), error.message, error.code))
        self.writer.writer.close()

    def give_way(self) -> None:
        """Ends the connection, which waits for its client, because another one needs its place."""
        is_signed_in = self.member.is_account
        most = self.server.app_state.settings.connections_of_an_address
        what = "connections that have not signed in"
        self.end(errors.ConnectionIdle() if is_signed_in else errors.TooManyAtOnce(what, most, 0))

    def leave(self) -> None:
        """Gives back what is counted of the connection."""
        self.server.members.leave(self.member, self)
        self.server.admission.buffers.give_back(self.member, self.kept)

    def _tell(self, report: bytes) -> None:
        with suppress(ConnectionError, RuntimeError):
            self.writer.writer.write(report)

    async def _start(self) -> Statements | None:
        """Encryption where the server has a certificate, then signing in; None for a client that wants no more."""
        is_secure = False
        for _ in range(3):
            code, body = await messages.read_first(self.reader)
            if code == messages.CANCEL:
                self.server.cancel(body.number("!I"), body.number("!I"))
                return None
            if code not in (messages.TLS, messages.GSS):
                break
            wants_tls = code == messages.TLS and self.server.context is not None and not is_secure
            # What was sent before encryption began must not count as if it had been encrypted.
            if getattr(self.reader, "_buffer"):  # noqa: B009
                raise ProtocolViolation("nothing is sent before the server has answered")
            self.writer.write(b"S" if wants_tls else b"N")
            await self.writer.drain()
            if wants_tls and self.server.context is not None:
                await self.writer.writer.start_tls(self.server.context)
                is_secure = True
        if code >> 16 != 3:
            raise ProtocolViolation("this port speaks the PostgreSQL protocol, version 3")
        parameters = messages.read_parameters(body)
        if code != messages.PROTOCOL:
            foreign = [name for name in parameters if name.startswith("_pq_.")]
            options = b"".join(map(text, foreign))
            self.writer.write(message("v", struct.pack("!II", 0, len(foreign)), options))
        if self.server.context is not None and not is_secure:
            raise NotSignedIn
        identity = await self._signed_in(parameters.get("user", ""))
        token = await to_thread.run_sync(self.server.app_state.tokens.find, self.token)
        allowed = Fraction(0) if token.cap is None else max(Fraction(0), token.cap - token.spent)
        statements = Statements(Caller(identity, self.server.app_state), self.server.catalogs, allowed)
        for name, value in _startup_settings(parameters):
            statements.set(name, value)
        status = SETTINGS | {"session_authorization": identity.name}
        status["application_name"] = parameters.get("application_name", "")
        self.writer.write(message("R", struct.pack("!I", 0)))
        for name, value in status.items():
            self.writer.write(message("S", text(name), text(value)))
        self.writer.write(message("K", struct.pack("!II", self.number, self.secret)))
        await self._ready(statements)
        return statements

    async def _signed_in(self, name: str) -> Principal:
        """Whoever has a token of this user, by SCRAM; SignInRefused, which never tells what was wrong."""
        app_state = self.server.app_state
        self.server.admission.sign_ins.check(self.place)
        self.writer.write(message("R", struct.pack("!I", 10), text(MECHANISM), b"\0"))
        first = await self._sasl()
        if first.text() != MECHANISM:
            raise ProtocolViolation(f"sign in by {MECHANISM}")
        verifiers = await to_thread.run_sync(app_state.tokens.verifiers, name)
        exchange = Exchange(name, verifiers, first.bytes_or_null() or b"")
        first.end()
        self.writer.write(message("R", struct.pack("!I", 11), exchange.challenge))
        last = await self._sasl()
        try:
            verifier, told = exchange.finish(last.data)
            identity = await to_thread.run_sync(app_state.tokens.holder, verifier.token)
            if identity is None:
                raise SignInRefused(0)
        except SignInRefused:
            await to_thread.run_sync(app_state.audit_log.note, name[:100], "sign-in refused", self.address)
            raise
        if not identity.may("ask"):
            raise NotAllowed("ask")
        self.server.admission.signed_in(self.address, name)
        self._enter(name)
        await to_thread.run_sync(app_state.audit_log.note, name, "signed in", self.address, {"by": "postgres"})
        self.token = verifier.token
        self.writer.write(message("R", struct.pack("!I", 12), told))
        return identity

    def _enter(self, name: str) -> None:
        """Counts the connection with the account from now on; TooManyAtOnce where that has as many as it may."""
        member = account(name)
        self.server.members.enter(member, self)
        self.server.strangers.leave(self.place, self)
        self.member = member

    async def _sasl(self) -> Body:
        await self.writer.drain()
        kind, size = await messages.read_head(self.reader, LARGEST_OF_STRANGERS)
        if kind != "p":
            raise ProtocolViolation("a message of SCRAM is expected here") if kind != "X" else ConnectionError
        return await messages.read_body(self.reader, size)

    async def _ready(self, statements: Statements) -> None:
        self.writer.write(message("Z", statements.status.encode()))
        await self.writer.drain()

    async def _message(self) -> tuple[str, Body]:
        """The next message, for which a client may take long to begin and not to end; what is kept is counted."""
        settings = self.server.app_state.settings
        self.server.members.waits(self.member, self)
        try:
            async with asyncio.timeout(settings.idle_seconds):
                kind, size = await messages.read_head(self.reader, settings.largest_body)
        except TimeoutError:
            raise errors.ConnectionIdle from None
        finally:
            self.server.members.works(self.member, self)
        if size > SMALL:
            self._keep(size)
        return kind, await self.server.admission.pace().wait_for(messages.read_body(self.reader, size), size)

    def _keep(self, size: int) -> None:
        """Counts bytes that are kept; TooManyAtOnce or ServerFull where they cannot be."""
        self.server.admission.buffers.take(self.member, size)
        self.kept += size

    def _settle(self) -> None:
        """Gives back what was counted and is kept no more."""
        if self.kept:
            kept = sum(len(query) for query, _ in self.prepared.values())
            kept += sum(portal.result.size for portal in self.portals.values() if portal.result is not None)
            kept += self.statements.cursors.size
            self.server.admission.buffers.give_back(self.member, self.kept - kept)
            self.kept = kept

    async def _talk(self) -> None:
        while True:
            self._settle()
            try:
                kind, body = await self._message()
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if kind == "X":
                return
            if kind == "S":
                body.end()
                self.is_skipping = False
                self._close_portals()
                await self._ready(self.statements)
            elif kind == "Q":
                await self._query(body)
            elif kind == "H":
                await self.writer.drain()
            elif kind in ("d", "c", "f"):
                # Of a COPY from the client that was refused before.
                continue
            elif kind not in self._EXTENDED:
                raise ProtocolViolation("a message of this type is not known here")
            elif not self.is_skipping:
                await self._extended(kind, body)

    async def _query(self, body: Body) -> None:
        """The simple protocol: one or several statements in one text."""
        query = body.text()
        body.end()
        self.is_skipping = False
        self._close_portals()
        try:
            statements = split(query)
            if not statements:
                self.writer.write(message("I"))
            for one in statements:
                result = await self._run(one)
                columns = result.columns or ()
                formats = (0,) * len(columns)
                if result.columns is not None and result.lines is None:
                    self.writer.write(messages.row_description(columns, formats))
                await self._send(result, columns, formats)
        except (ConnectionError, errors.TooSlow):
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            self._fail(public_error(error))
        await self._ready(self.statements)

    async def _extended(self, kind: str, body: Body) -> None:
        """A message of the extended protocol. One out of form ends the connection, as one that cannot be read."""
        try:
            await self._EXTENDED[kind](self, body)
        except (ConnectionError, ProtocolViolation, errors.TooSlow):
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            self._fail(public_error(error))
            self.is_skipping = True

    async def _parse(self, body: Body) -> None:
        name, query, types = body.text(), body.text(), body.numbers("!I")
        body.end()
        statements = split(query)
        if len(statements) > 1:
            raise errors.QueryError("a prepared statement is one statement")
        if name and name in self.prepared:
            raise InvalidInput("there is a prepared statement of that name already")
        self._check_room()
        text_of = statements[0] if statements else ""
        number = parameter_count(text_of) if text_of else 0
        self._keep(len(text_of))
        self.prepared[name] = (text_of, tuple((*types, *(0,) * number)[: max(number, len(types))]))
        self.writer.write(message("1"))

    async def _bind(self, body: Body) -> None:
        bind = messages.read_bind(body)
        query, types = self._statement(bind.statement)
        forms = bind.formats if len(bind.formats) > 1 else (bind.formats or (0,)) * len(bind.values)
        oids = (*types, *(0,) * len(bind.values))
        literals = [
            messages.literal(value, oid, is_binary=bool(form))
            for value, oid, form in zip(bind.values, oids, forms, strict=False)
        ]
        if bind.portal and bind.portal in self.portals:
            raise InvalidInput("there is a portal of that name already")
        self._check_room()
        self.portals[bind.portal] = Portal(with_parameters(query, literals) if query else "", bind.results)
        self.writer.write(message("2"))

    async def _describe(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        body.end()
        # Cursors are described as portals are, by their names.
        columns = self.statements.cursors.columns(name) if kind == b"P" and name not in self.portals else None
        if columns is not None:
            formats = (0,) * len(columns)
        elif kind == b"P":
            portal = self._portal(name)
            if not portal.is_counted:
                self.server.admission.requests.check(self.member)
                portal.is_counted = True
            columns = await self._described(portal.text)
            formats = _formats(portal.formats, columns or ())
        elif kind == b"S":
            query, types = self._statement(name)
            self.server.admission.requests.check(self.member)
            self.writer.write(
                message("t", struct.pack("!h", len(types)), *(struct.pack("!I", oid or 25) for oid in types))
            )
            columns = await self._described(with_parameters(query, ["NULL"] * len(types)) if query else "")
            formats = (0,) * len(columns or ())
        else:
            raise ProtocolViolation("a statement (S) or a portal (P) is described")
        self.writer.write(message("n") if columns is None else messages.row_description(columns, formats))

    async def _execute(self, body: Body) -> None:
        name, most = body.text(), body.number("!i")
        body.end()
        portal = self._portal(name)
        if portal.result is None:
            if not portal.text:
                self.writer.write(message("I"))
                return
            portal.result = await self._run(portal.text, is_counted=portal.is_counted)
        columns = portal.result.columns or ()
        await self._send(portal.result, columns, _formats(portal.formats, columns), portal, most)

    async def _close(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        body.end()
        if kind not in (b"P", b"S"):
            raise ProtocolViolation("a statement (S) or a portal (P) is closed")
        if kind == b"P":
            self.portals.pop(name, None)
        else:
            self.prepared.pop(name, None)
        self.writer.write(message("3"))

    _EXTENDED: ClassVar = {"P": _parse, "B": _bind, "D": _describe, "E": _execute, "C": _close}

    def _statement(self, name: str) -> tuple[str, tuple[int, ...]]:
        if name not in self.prepared:
            raise InvalidInput("there is no prepared statement of that name")
        return self.prepared[name]

    def _portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise InvalidInput("there is no portal of that name")
        return self.portals[name]

    def _deallocate(self, query: str) -> None:
        """Forgets the prepared statement that DEALLOCATE names, or all."""
        first, *names = query.rstrip("; \n").split()
        if names and first.upper() in ("DEALLOCATE", "DISCARD"):
            if names[-1].upper() == "ALL":
                self.prepared.clear()
            else:
                self.prepared.pop(names[-1].strip('"'), None)

    def _check_room(self) -> None:
        if len(self.prepared) + len(self.portals) >= MOST_PREPARED:
            raise errors.TooLarge("prepared statements", MOST_PREPARED + 1, MOST_PREPARED, "Close some.")

    def _close_portals(self) -> None:
        """Portals end with their transaction."""
        if self.statements.status == "I":
            self.portals.clear()

    async def _described(self, query: str) -> tuple[PortColumn, ...] | None:
        """The columns of a statement, which is not run; None where it gives no rows."""
        first = first_word(query)
        if first == "SHOW":
            result = self.statements.control(query)
            return None if result is None else result.columns
        if first == "FETCH":
            return self.statements.cursors.fetched_columns(query)
        if first not in ("SELECT", "WITH", "EXPLAIN", "VALUES"):
            return None
        describe = partial(self._admitted, partial(self.statements.describe, query))
        return await self._looked_up(describe)

    async def _run(self, query: str, *, is_counted: bool = False) -> StatementResult:
        """What a statement gives; noted in the log and held to the limits that every request is."""
        began, status, what = time.monotonic(), 200, "control"
        try:
            if not is_counted:
                self.server.admission.requests.check(self.member)
            result = self.statements.control(query)
            if result is not None:
                self._deallocate(query)
                return result
            declaration = declared_cursor(query)
            if declaration is None:
                what, result = await self._question(query)
                return result
            cursors = self.statements.cursors
            cursors.check(declaration, in_transaction=self.statements.status == "T")
            what, result = await self._question(declaration.question)
            cursors.open(declaration, result)
            return StatementResult("DECLARE CURSOR", notices=result.notices)
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            shown = public_error(error)
            status = status_of(shown)
            raise shown from None
        finally:
            seconds, name, request_id = time.monotonic() - began, self.statements.caller.name, uuid.uuid4().hex[:16]
            log_request(self.server.app_state, request_id, "SQL", f"postgres/{what}", status, seconds, name)

    async def _question(self, query: str) -> tuple[str, StatementResult]:
        pools, name, question = self.server.app_state.worker_pools, self.statements.caller.name, read_question(query)
        self.cancelled.clear()
        if question.kind == "catalog":
            result = await self._looked_up(partial(self._admitted, partial(self.statements.look_up, question)))
            if result is not None:
                self._keep(result.size)
                return "catalog", result
        what, pool = ("preview", pools.quotes) if question.kind == "preview" else ("answer", pools.releases)
        ask = partial(self._admitted, partial(self.statements.run, question))
        result = await pools.run(name, ask, pool, self._is_gone)
        self._keep(result.size)
        return what, result

    async def _looked_up(self, work: Callable[[], Result]) -> Result:
        """The result of a look-up, of which each user makes one at a time and need not wait for an answer."""
        pools = self.server.app_state.worker_pools
        return await pools.run(self.statements.caller.name, work, pools.look_ups, self._is_gone)

    def _admitted(self, work: Callable[[], Result]) -> Result:
        """What the work gives; NotSignedIn once the token has ended."""
        if self.server.app_state.tokens.holder(self.token) is None:
            raise NotSignedIn
        return work()

    def _is_gone(self) -> bool:
        """Whether the client has cancelled the statement or gone away."""
        return self.cancelled.is_set() or self.reader.at_eof()

    async def _send(
        self,
        result: StatementResult,
        columns: Sequence[PortColumn],
        formats: Sequence[int],
        portal: Portal | None = None,
        most: int = 0,
    ) -> None:
        """Notices, rows from where they were left, and the tag; or a portal that waits with the rest of its rows."""
        begin = 0 if portal is None else portal.sent
        if begin == 0:
            for sentence in result.notices:
                self.writer.write(messages.report("N", "NOTICE", "00000", sentence))
        if result.lines is not None:
            self.writer.write(message("H", struct.pack("!bh", 0, len(columns)), struct.pack("!h", 0) * len(columns)))
            for start in range(0, len(result.lines), CHUNK):
                for line in result.lines[start : start + CHUNK]:
                    self.writer.write(message("d", line.encode("utf-8", "replace")))
                await self.writer.drain()
            self.writer.write(message("c"))
        end = len(result.rows) if most <= 0 else min(len(result.rows), begin + most)
        for start in range(begin, end, CHUNK):
            rows = result.rows[start : min(start + CHUNK, end)]
            self.writer.write(messages.data_rows(rows, columns, formats))
            await self.writer.drain()
        if portal is not None:
            portal.sent = end
            if end < len(result.rows):
                self.writer.write(message("s"))
                return
        self.writer.write(message("C", text(result.tag)))

    def _fail(self, error: BlowfishError, severity: str = "ERROR") -> None:
        """Tells an error: its sentence, its stable code, and the line that helps."""
        statements: Statements | None = getattr(self, "statements", None)
        if statements is not None and statements.status == "T":
            statements.status = "E"
        hint = "" if statements is None else statements.hint(error)
        self.writer.write(messages.report("E", severity, state_of(error), error.message, error.code, hint))


def _formats(results: Sequence[int], columns: Sequence[PortColumn]) -> tuple[int, ...]:
    """Text or binary for each column: one choice for all, or one for each."""
    if len(results) in (0, 1):
        return (results[0] if results else 0,) * len(columns)
    if len(results) != len(columns):
        raise InvalidInput("result formats are one for all columns, or one for each")
    return tuple(results)


def _startup_settings(parameters: dict[str, str]) -> list[tuple[str, str]]:
    """The settings of a first message: by name, and as -c name=value in its options."""
    listed = [
        (name, value)
        for name, value in parameters.items()
        if name not in ("user", "database", "options", "replication") and not name.startswith("_pq_.")
    ]
    words = parameters.get("options", "").replace("\\ ", " ").split()
    for flag, pair in pairwise(words):
        if flag == "-c" and "=" in pair:
            listed.append((pair.partition("=")[0], pair.partition("=")[2]))
    for word in words:
        if word.startswith(("-c", "--")) and "=" in word[2:]:
            listed.append((word[2:].partition("=")[0].replace("-", "_"), word.partition("=")[2]))
    return listed
