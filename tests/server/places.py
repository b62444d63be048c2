"""A clinic's dataset with a server, three users and loopback, in a scratch folder."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI

import blowfishdb as bf
from blowfishdb.server.app import listening, rest_app
from blowfishdb.server.auth.database import Clock
from blowfishdb.server.settings import Settings
from blowfishdb.server.state import AppState, open_app_state
from tests.session.places import configuration, make_fixture

PASSWORD = "correct horse battery"
PEOPLE = {"cora": "curator", "ana": "analyst", "bob": "analyst", "aude": "auditor"}
SCOPES = {"curator": ["curate", "audit"], "analyst": ["ask"], "auditor": ["audit"]}
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Loading the usual certificates takes longer than most tests here."""
PATIENCE = 60.0
"""Seconds; on a busy machine an answer may take more than the 5 that clients usually wait."""
AGES = {"query": {"kind": "histogram", "axes": [{"attribute": "age"}]}, "accuracy_target": {"epsilon": "1/10"}}


@dataclass
class Place:
    """The application state behind a running server. `secrets` are tokens with everything that each role may do."""

    folder: Path
    app_state: AppState
    address: str
    time: list[float]
    secrets: dict[str, str]
    clients: list[httpx.Client] = field(default_factory=list)

    def browser(self, name: str | None = None) -> httpx.Client:
        """A browser in which somebody has signed in, or nobody."""
        client = httpx.Client(base_url=self.address, verify=NO_CERTIFICATES, timeout=PATIENCE)
        self.clients.append(client)
        if name is not None:
            login = self.app_state.logins.begin(name)
            client.cookies.set("blowfish_session", login.secret)
            client.headers["X-CSRF-Token"] = str(login.identity.csrf_token)
        return client

    def program(self, name: str) -> httpx.Client:
        """A program with a token of somebody."""
        return self.bearing(self.secrets[name])

    def bearing(self, secret: str) -> httpx.Client:
        """A program with any token."""
        headers = {"Authorization": f"Bearer {secret}"}
        client = httpx.Client(base_url=self.address, headers=headers, verify=NO_CERTIFICATES, timeout=PATIENCE)
        self.clients.append(client)
        return client


@contextmanager
def opened(folder: Path, dataset: bf.Dataset | None = None, server: str = "") -> Iterator[Place]:
    """The place, closed at the end."""
    make_fixture(folder, dataset)
    path = configuration(folder)
    path.write_text(f'{path.read_text()}\n[server]\nnew_datasets = "everyone"\n{server}\n')
    seconds = [1_700_000_000.0]
    app_state = open_app_state(configuration(folder), Clock(lambda: seconds[0]))
    secrets = {}
    for name, role in PEOPLE.items():
        app_state.users.add(name, role, None)
        secrets[name] = app_state.tokens.issue(name, "test", SCOPES[role], 300)[0]
    with served(rest_app(app_state), app_state.settings) as address:
        place = Place(folder, app_state, address, seconds, secrets)
        yield place
        for client in place.clients:
            client.close()
    app_state.close()


def free_door() -> socket.socket:
    """A socket on a port of its own, which nobody can take before the server listens there; the server closes it."""
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    return door


@contextmanager
def served(app: FastAPI, settings: Settings | None = None) -> Iterator[str]:
    """The address of a server that runs the app; its application state is closed by whoever opened it."""
    door = free_door()
    chosen = replace(settings or Settings(), host="127.0.0.1", port=door.getsockname()[1])
    config = listening(app, chosen)
    config.lifespan = "off"
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([door],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{chosen.port}"
    finally:
        server.should_exit = True
        thread.join()


def code(response: httpx.Response) -> str:
    """The code of a problem."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    return str(response.json()["code"])
