"""Every face over a world: REST and Python over it, the PostgreSQL port, the command line, an assistant's tools."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import secrets
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg

from blowfishdb.audit.coupling import MADE_EQUAL, MadeEqual, RepeatedBytes
from blowfishdb.audit.twin_questions import Asked, account
from blowfishdb.audit.twins import ANALYST, Heard, Sitting, tell
from blowfishdb.cli import run
from blowfishdb.cli.mcp import Conversation
from blowfishdb.server.app import rest_app
from blowfishdb.server.auth.database import Clock
from blowfishdb.server.state import AppState, open_app_state
from blowfishdb.server.wire.connection import listening
from blowfishdb.session.session import SpendingCap, connect
from tests.server.places import NO_CERTIFICATES, PATIENCE, free_door, served

SERVED_EQUAL = (
    *MADE_EQUAL,
    MadeEqual("blowfishdb.server.auth.users", "secrets", lambda: RepeatedBytes(secrets), "tokens are random"),
    MadeEqual("blowfishdb.server.middleware", "uuid", lambda: RepeatedBytes(uuid), "a request has a random number"),
)
"""What is made equal in two worlds with a server."""


@contextmanager
def app_state_of(config: Path) -> Iterator[tuple[AppState, str]]:
    """An application over a world, whose clock stands, and a token of the analyst."""
    config.write_text(f"{config.read_text()}\n[server]\nnew_datasets = 'everyone'\nrequests_per_minute = 1000000\n")
    app_state = open_app_state(config, Clock(lambda: 1_700_000_000.0))
    try:
        app_state.users.add(ANALYST, "analyst", None)
        yield app_state, app_state.tokens.issue(ANALYST, "test", ["ask"], 300)[0]
    finally:
        app_state.close()


@dataclass
class Tap:
    """An app, and everything that it sends: status, headers and bodies, in order."""

    app: Any
    sent: list[tuple[str, bytes]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def heard(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.sent.append((f"{scope['path']}: start", f"{message['status']} {message['headers']}".encode()))
            elif message["type"] == "http.response.body":
                self.sent.append((f"{scope['path']}: body", message["body"]))
            await send(message)

        await self.app(scope, receive, heard)

    def take(self) -> list[tuple[str, bytes]]:
        """What was sent since the last time."""
        sent, self.sent = self.sent, []
        return sent


READ = ("", "/{name}", "/{name}/budget", "/{name}/answers", "/{name}/synopses", "/{name}/policy", "/{name}/domain")
REFUSED = ("/{name}/budgets", "/{name}/answers/999999", "/{name}/answers/1", "/{name}/ledger/entries")
ELSEWHERE = ("/health", "/ready", "/metrics", "/api/v1/ledger/entries", "/api/v1/ledger/export", "/api/v1/audit-log")


def rest(asked: Mapping[str, Mapping[str, Asked]]) -> Sitting:
    """REST, by a Python session over it and by requests: each response as it is sent."""

    def script(config: Path) -> Iterator[Heard]:
        with app_state_of(config) as (app_state, token):
            tap = Tap(rest_app(app_state))
            with served(tap, app_state.settings) as address, closing(connect(address, token=token)) as session:  # type: ignore[arg-type]
                for name, questions in asked.items():
                    for label, ask in {**questions, "account": account}.items():
                        yield from tell(f"{name}: {label}", partial(ask, session, name))
                        for part, content in tap.take():
                            yield Heard(f"{name}: {label}", part, content)
                headers = {"Authorization": f"Bearer {token}"}
                settings: Any = {"base_url": address, "headers": headers, "verify": NO_CERTIFICATES}
                with httpx.Client(**settings, timeout=PATIENCE) as client:
                    paths = [f"/api/v1/datasets{path.format(name=name)}" for name in asked for path in READ + REFUSED]
                    for path in (*paths, *ELSEWHERE):
                        client.get(path)
                        for part, content in tap.take():
                            yield Heard("read", part, content)

    return script


@contextmanager
def port_of(app_state: AppState) -> Iterator[int]:
    """The number of a running PostgreSQL port."""
    door, started, stop, loops = free_door(), threading.Event(), asyncio.Event(), list[asyncio.AbstractEventLoop]()
    number = door.getsockname()[1]

    async def serve() -> None:
        async with listening(app_state, door):
            loops.append(asyncio.get_running_loop())
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait()
    try:
        yield number
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()


SETTINGS = ("SET blowfish.spend = '100'", "SET blowfish.intervals = on")
CATALOG = (
    "SELECT relname, reltuples FROM pg_catalog.pg_class ORDER BY relname",
    "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY 1, 2",
    "SELECT obj_description(oid) FROM pg_catalog.pg_class",
    "SHOW server_version",
)


def port(statements: Mapping[str, Sequence[str]]) -> Sitting:
    """The PostgreSQL port: each message of both sides after signing in, with its length."""

    def script(config: Path) -> Iterator[Heard]:
        with app_state_of(config) as (app_state, token), port_of(app_state) as number:
            url = f"postgresql://{ANALYST}:{token}@127.0.0.1:{number}/blowfish"
            with tempfile.TemporaryFile() as trace, psycopg.connect(url, autocommit=True) as connection:
                connection.pgconn.trace(trace.fileno())
                connection.pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)
                listed = [text.replace("{}", name) for name, texts in statements.items() for text in texts]
                for text in (*SETTINGS, *listed, *CATALOG):
                    with contextlib.suppress(psycopg.Error):
                        connection.execute(text.encode())
                connection.pgconn.untrace()
                trace.seek(0)
                for number, line in enumerate(trace):
                    yield Heard("port", f"message {number}", line)

    return script


def command_line(commands: Mapping[str, Sequence[Sequence[str]]]) -> Sitting:
    """The command line: exit codes, and what is printed."""

    def script(config: Path) -> Iterator[Heard]:
        for name, several in commands.items():
            for command in several:
                arguments = [word.replace("{}", name) for word in command]
                out, errors = io.StringIO(), io.StringIO()
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                    code = run([*arguments, "--config", str(config)])
                for part, content in (("out", out.getvalue()), ("err", errors.getvalue()), ("code", str(code))):
                    yield Heard(f"{name}: {' '.join(arguments)}", part, content.encode())
                for path in sorted(config.parent.glob("out.*")):
                    yield Heard(f"{name}: {' '.join(arguments)}", path.name, path.read_bytes())
                    path.unlink()

    return script


def assistant(statements: Mapping[str, Sequence[str]]) -> Sitting:
    """The tools of an assistant: what each gives, refusals included."""

    def script(config: Path) -> Iterator[Heard]:
        with connect(config, analyst=ANALYST) as session:
            conversation = Conversation(session, SpendingCap(Fraction(100)))

            def content(tool: Callable[[], object]) -> str:
                return json.dumps(tool(), default=str)

            yield from tell("datasets", partial(content, conversation.datasets))
            for name, texts in statements.items():
                for text in texts:
                    asked = text.replace("{}", name)
                    yield from tell(f"{name}: {text}", partial(content, partial(conversation.preview, asked)))
                    yield from tell(f"{name}: {text}", partial(content, partial(conversation.release, asked)))
                yield from tell(f"{name}: history", partial(content, partial(conversation.history, name)))
                yield from tell(f"{name}: answer", partial(content, partial(conversation.answer, name, 3)))

    return script
