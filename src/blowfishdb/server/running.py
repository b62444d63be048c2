"""Runs the app until it is told to stop; releases that run then are finished first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from blowfishdb.server.app import create_app
from blowfishdb.server.office import Office
from blowfishdb.server.settings import Settings

LARGEST_MESSAGE = 4 * 2**20
POLL = 0.02


def run_server(office: Office, when_ready: Callable[[], None]) -> None:
    """Serves until a signal; `when_ready` is called once the server answers. The office is closed at the end."""
    server = uvicorn.Server(server_config(office, office.settings))

    def ready() -> None:
        when_ready()
        office.warm_up()

    threading.Thread(target=_announce, args=(server, ready), daemon=True).start()
    server.run()


def server_config(office: Office, settings: Settings) -> uvicorn.Config:
    """How the server of REST and pages listens."""
    return listening(create_app(office), settings)


def listening(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """How an app listens. What a proxy says of its clients is believed only where the settings name it."""
    certificate, key = settings.certificate, settings.key
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        ssl_certfile=None if certificate is None else str(settings.file(certificate)),
        ssl_keyfile=None if key is None else str(settings.file(key)),
        proxy_headers=settings.behind_proxy,
        forwarded_allow_ips=settings.proxies if settings.behind_proxy else "",
        server_header=False,
        access_log=False,
        log_config=None,
        ws_max_size=LARGEST_MESSAGE,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )


def _announce(server: uvicorn.Server, when_ready: Callable[[], None]) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(POLL)
    when_ready()
