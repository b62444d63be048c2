"""A PostgreSQL port over the clinic's dataset, on loopback, in a thread."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

import blowfishdb as bf
from blowfishdb.server.auth.users import MECHANISM, Tokens
from blowfishdb.server.state import AppState, open_app_state
from blowfishdb.server.wire.connection import WireServer, listening
from blowfishdb.server.wire.messages import message, text
from tests.server.places import PEOPLE, SCOPES, free_door
from tests.session.places import configuration, make_fixture

GENEROUS = "requests_per_minute = 1000000\nsign_ins_per_minute = 1000000"
"""Limits that no test reaches."""


@dataclass
class WirePlace:
    """A running port, and a token of each user."""

    app_state: AppState
    wire: WireServer
    port: int
    secrets: dict[str, str]
    loop: asyncio.AbstractEventLoop

    def url(self, name: str = "ana", secret: str | None = None, options: str = "") -> str:
        """The address that a driver takes."""
        password = self.secrets[name] if secret is None else secret
        return f"postgresql://{name}:{password}@127.0.0.1:{self.port}/blowfish{options}"

    def connect(self, name: str = "ana", spend: str | None = None) -> psycopg.Connection[tuple[object, ...]]:
        """A connection of psycopg, which may spend so much."""
        connection = psycopg.connect(self.url(name), autocommit=True)
        if spend is not None:
            connection.execute(f"SET blowfish.spend = '{spend}'".encode())
        return connection


@contextmanager
def wire_place(folder: Path, dataset: bf.Dataset | None = None, server: str = GENEROUS) -> Iterator[WirePlace]:
    """A port that is closed at the end."""
    make_fixture(folder, dataset)
    path = configuration(folder)
    path.write_text(f"{path.read_text()}\n[server]\nnew_datasets = 'everyone'\n{server}\n")
    app_state = open_app_state(path)
    secrets = {}
    for name, role in PEOPLE.items():
        app_state.users.add(name, role, None)
        secrets[name] = app_state.tokens.issue(name, "test", SCOPES[role], 300)[0]
    door, started = free_door(), threading.Event()
    place: list[WirePlace] = []
    stop = asyncio.Event()

    async def serve() -> None:
        async with listening(app_state, door) as wire:
            port = door.getsockname()[1]
            place.append(WirePlace(app_state, wire, port, secrets, asyncio.get_running_loop()))
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait()
    try:
        yield place[0]
    finally:
        place[0].loop.call_soon_threadsafe(stop.set)
        thread.join()
        app_state.close()


STARTUP = struct.pack("!I", 196_608) + b"user\0ana\0database\0x\0\0"


def first_message(body: bytes = STARTUP) -> bytes:
    """A message without a type."""
    return struct.pack("!I", len(body) + 4) + body


def password_message(data: bytes, *, is_first: bool = False) -> bytes:
    """A message of SCRAM."""
    return message("p", text(MECHANISM), struct.pack("!i", len(data)), data) if is_first else message("p", data)


def forget_verifiers(tokens: Tokens) -> None:
    """Makes all tokens such as were issued before the port was there."""
    with tokens.database.write() as cursor:
        cursor.rows("DELETE FROM token_verifier")
