"""A TCP proxy before a server that can swallow packets, as a broken network does: nothing arrives and nothing ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

CHUNK = 65_536


@dataclass(eq=False)
class SilentProxy:
    """Forwards connections to a port on loopback until it is told to swallow; connections from then are lost."""

    server: int
    port: int = 0
    _is_silent: bool = False
    _sockets: list[socket.socket] = field(default_factory=list)
    _lost: set[socket.socket] = field(default_factory=set)

    def swallow(self) -> None:
        """From now on nothing is forwarded, though connections stay open and new ones are let in."""
        self._is_silent = True
        self._lost = set(self._sockets)

    def forward(self) -> None:
        """New connections are forwarded again; those that were open meanwhile stay lost."""
        self._lost = set(self._sockets)
        self._is_silent = False

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(CHUNK):
                if self._is_silent or source in self._lost:
                    # Read, so that the sender does not even notice a full buffer.
                    continue
                target.sendall(content)
        if source not in self._lost:
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def _connected(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.server))
        self._sockets += [client, server]
        if self._is_silent:
            self._lost |= {client, server}
        for pair in ((client, server), (server, client)):
            threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _serve(self, door: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = door.accept()
                with suppress(OSError):
                    self._connected(client)


@contextmanager
def silent_proxy(server: int) -> Iterator[SilentProxy]:
    """A proxy before a server's port on loopback; it ends, with all connections, when the block does."""
    proxy = SilentProxy(server)
    with socket.create_server(("127.0.0.1", 0)) as door:
        proxy.port = int(door.getsockname()[1])
        threading.Thread(target=proxy._serve, args=(door,), daemon=True).start()
        try:
            yield proxy
        finally:
            for one in proxy._sockets:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
