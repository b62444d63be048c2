"""HTTP connections: their places, the time for a request to arrive, and how much may come before it is known."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from functools import partial
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from blowfishdb.errors import BlowfishError, ServerFull, TooLarge, TooManyAtOnce, TooSlow
from blowfishdb.server.admission import ConnectionPlaces, Party, account, address, members, strangers
from blowfishdb.server.problems import problem
from blowfishdb.server.settings import Settings

CONNECTION = "connection"
"""The entry of a request's state that is its connection."""
LARGEST_HEAD = 2**16
"""Bytes of a request beside its body."""
PER_BYTE = 8
"""Bytes around one of a body that is sent in the smallest pieces."""
FLUSHING = 2.0
"""Seconds in which a client that was refused may read why."""


class HTTPPort:
    """What the connections of the HTTP port share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.strangers: ConnectionPlaces[HTTPConnection] = strangers(settings, HTTPConnection.give_way)
        self.members: ConnectionPlaces[HTTPConnection] = members(settings, HTTPConnection.give_way)
        named = settings.proxies.split(",") if settings.behind_proxy else ()
        self._proxies = {part.strip() for part in named}
        self.encryption = settings.encryption()

    def party_of(self, peer: str) -> Party:
        """Who is counted for a new connection: whoever is at its other end, or a proxy, which bounds its clients."""
        is_proxy = bool(self._proxies & {peer, "*"})
        return Party("proxy", peer) if is_proxy else address(peer)

    def connection(self) -> Any:
        """What makes a connection of this port for the server."""
        return partial(HTTPConnection, self)


class HTTPConnection(HttpToolsProtocol):
    """One connection. It waits while no request is on its way; whoever waits makes room for others.

    It takes its place, and its time runs, before encryption is negotiated: not every client comes that far.
    """

    def __init__(
        self,
        port: HTTPPort,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, CONNECTION: self}, _loop)
        self.port = port
        self.places, self.party = port.strangers, Party("address", "")
        self.timer: asyncio.TimerHandle | None = None
        self.handshake: asyncio.Task[None] | None = None
        self.beside_body = 0
        """Bytes of this request that are not of its body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a place, or tells why there is none. It is called again when the connection has been encrypted."""
        super().connection_made(transport)
        if self.scheme == "https":
            return
        self.party = self.port.party_of(self.client[0] if self.client else "unknown")
        is_proxy = self.party.kind == "proxy"
        self.places = self.port.members if is_proxy else self.port.strangers
        try:
            self.places.enter(self.party, self, is_bounded=not is_proxy)
        except (TooManyAtOnce, ServerFull) as refusal:
            self.refuse(refusal)
        else:
            self._wait()
            if self.port.encryption is not None:
                # Nothing was read yet: the socket goes to a transport that encrypts.
                plug = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
                plug.setblocking(False)
                transport.set_protocol(asyncio.Protocol())
                transport.abort()
                self.handshake = self.loop.create_task(self._encrypt(plug, self.port.encryption))

    async def _encrypt(self, plug: socket.socket, context: ssl.SSLContext) -> None:
        """Negotiates encryption. Until that is done a client is told nothing: it reads no words in the clear."""
        try:
            await self.loop.connect_accepted_socket(lambda: self, plug, ssl=context)
        except (OSError, asyncio.CancelledError):
            self.connection_lost(None)
        finally:
            self.handshake = None

    def belongs_to(self, name: str) -> None:
        """Counts the connection with an account from now on, as somebody signed in over it.

        TooManyAtOnce where the account has as many as it may.
        """
        party = account(name)
        if self.party != party and self.party.kind != "proxy":
            self.port.members.enter(party, self)
            self.leave()
            self.places, self.party = self.port.members, party

    def leave(self) -> None:
        """Gives the place back."""
        self.places.leave(self.party, self)

    def data_received(self, data: bytes) -> None:
        """Reads a part of a request; one with too much beside its body is refused."""
        self.beside_body += len(data)
        super().data_received(data)
        if self.beside_body > LARGEST_HEAD and not self.transport.is_closing():
            self.refuse(TooLarge("bytes of a request beside its body", self.beside_body, LARGEST_HEAD, "Send less."))
        elif self._is_busy:
            self._work()

    def on_message_begin(self) -> None:
        """Begins a request."""
        super().on_message_begin()
        self.beside_body = 0

    def on_body(self, body: bytes) -> None:
        """Takes a part of a body."""
        self.beside_body = max(0, self.beside_body - (1 + PER_BYTE) * len(body))
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Waits for the next request, or for the client to take the rest of the last answer."""
        super().on_response_complete()
        if not self._is_busy:
            self._wait()

    def handle_websocket_upgrade(self) -> None:
        """Hands the connection on. The middleware takes a place for it again, once it knows whose it is."""
        self._work()
        self.leave()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gives the place back."""
        self._work()
        self.leave()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Ends with the server, once the answer that is on its way is sent."""
        if self.handshake is not None:
            self.give_way()
        else:
            super().shutdown()

    def give_way(self) -> None:
        """Closes a connection that waits."""
        if self.handshake is not None:
            self.handshake.cancel()
        self.transport.abort()

    def refuse(self, error: BlowfishError) -> None:
        """Tells an error in place of an answer, and closes the connection."""
        if self.port.encryption is not None and self.scheme == "http":
            self.give_way()
            return
        response = problem(error)
        lines = [STATUS_LINE[response.status_code], b"connection: close\r\n"]
        lines += [b"%s: %s\r\n" % header for header in response.raw_headers]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(response.body)]))
        self.transport.close()
        self._at(FLUSHING, self.transport.abort)

    @property
    def _is_busy(self) -> bool:
        return bool(self.pipeline) or (self.cycle is not None and not self.cycle.response_complete)

    def _wait(self) -> None:
        self.places.waits(self.party, self)
        self._at(self.port.settings.request_seconds, self._late)

    def _work(self) -> None:
        self.places.works(self.party, self)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _at(self, seconds: float, work: Any) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.loop.call_later(seconds, work)

    def _late(self) -> None:
        """Ends a connection whose client sent no whole request, or did not take the rest of an answer."""
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.give_way()
        else:
            self.refuse(TooSlow(self.port.settings.request_seconds))
