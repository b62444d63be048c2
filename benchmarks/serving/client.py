"""A small HTTP client on one open connection: it costs next to nothing, so that what is measured is the server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

END_OF_HEAD = b"\r\n\r\n"
LONGEST = 2**24
IDLE = 3.0
"""Servers hang up on connections that are silent for some seconds; ours is made anew before that."""


@dataclass(frozen=True)
class Reply:
    """What came back, and after how many seconds."""

    status: int
    body: bytes
    seconds: float


@dataclass(eq=False)
class Caller:
    """One analyst's connection, kept open; requests follow one another."""

    port: int
    token: str
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None
    _used: float = 0.0

    async def ask(self, method: str, path: str, sent: Mapping[str, Any] | None = None) -> Reply:
        """The reply to one request; the connection is opened outside of its time."""
        if time.perf_counter() - self._used > IDLE:
            self.close()
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port, limit=LONGEST)
        body = b"" if sent is None else json.dumps(sent).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        began = time.perf_counter()
        self._writer.write(head.encode() + body)
        received = (await self._reader.readuntil(END_OF_HEAD)).decode("latin-1").lower()
        found = await self._reader.readexactly(_length(received))
        self._used = time.perf_counter()
        return Reply(int(received.split(" ", 2)[1]), found, self._used - began)

    def close(self) -> None:
        """Hangs up."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def _length(head: str) -> int:
    return next(int(line.partition(":")[2]) for line in head.split("\r\n") if line.startswith("content-length:"))
