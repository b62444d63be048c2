"""The app: REST under /api/v1 and the web pages behind one middleware; and how the server runs until it is stopped."""

from __future__ import annotations

import gc
import os
import re
import resource
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from http import HTTPMethod
from importlib import import_module
from typing import Any

import uvicorn
from anyio import to_thread
from fastapi import APIRouter, FastAPI, HTTPException, Response
from fastapi.responses import HTMLResponse
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import compile_path

from blowfishdb.errors import BlowfishError, sentence
from blowfishdb.incidents import public_error
from blowfishdb.present.answer_values import software_version
from blowfishdb.server.auth.users import new_password
from blowfishdb.server.authentication import AUDITING, COOKIE, CSRF_HEADER, app_state_of
from blowfishdb.server.connections import HTTPPort
from blowfishdb.server.middleware import V1, ServerMiddleware
from blowfishdb.server.problems import MEDIA_TYPE, add_handlers, status_of
from blowfishdb.server.rest import access, datasets, ledger, queries, users
from blowfishdb.server.settings import Settings
from blowfishdb.server.state import AppState

ROUTERS = (
    users.sessions_router,
    datasets.router,
    datasets.policy_router,
    datasets.declaration_router,
    queries.router,
    queries.synopses_router,
    queries.plans_router,
    datasets.budgets_router,
    access.router,
    access.groups_router,
    datasets.what_if_router,
    ledger.router,
    ledger.audit_log_router,
    users.router,
    users.tokens_router,
)
"""The nouns of the API."""
TITLE = "BlowfishDB"
LONGEST_SILENCE = 30.0
"""Seconds for which a page may lose its connection and keep what was typed and shown; then it loads anew."""
SIGNED_IN = {
    "HTTPBearer": {
        "type": "http",
        "description": "A token, for programs",
        "scheme": "bearer",
        "bearerFormat": "bfdb_...",
    },
    "APIKeyCookie": {
        "type": "apiKey",
        "description": f"A login session, for browsers; {CSRF_HEADER} with changes",
        "in": "cookie",
        "name": COOKIE,
    },
}
"""Tells readers of the description how to sign in; who may do what is decided route by route."""
PROBLEM = {"description": "A problem with a stable code", "content": {MEDIA_TYPE: {}}}


health_router = APIRouter(tags=["operations"])


@health_router.get("/health")
def health() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@health_router.get("/ready")
def ready(request: Request) -> dict[str, str]:
    """The ledger, the users' database and the data sources answer too; a problem with status 503 otherwise."""
    app_state_of(request).check_ready()
    return {"status": "ready"}


@health_router.get("/metrics", response_class=Response, dependencies=[AUDITING])
def metrics(request: Request) -> Response:
    """Prometheus' text format, for those who may audit: how long things take may depend on the data."""
    return Response(app_state_of(request).metrics.text(), media_type="text/plain; version=0.0.4")


class RestApp(FastAPI):
    """REST, whose description says how to sign in; a dependency would say so too, and be solved for every request."""

    def openapi(self) -> dict[str, Any]:
        """The description of all routes."""
        is_new, described = self.openapi_schema is None, super().openapi()
        if is_new:
            described["components"]["securitySchemes"] = SIGNED_IN
            for path, methods in described["paths"].items():
                for method in methods.values() if path.startswith(V1) else ():
                    method["security"] = [{scheme: []} for scheme in SIGNED_IN]
        return described


def create_app(app_state: AppState) -> FastAPI:
    """REST and pages over one app state, which is closed when the server stops; pages are served once per process."""
    app = rest_app(app_state)
    _add_pages(app, is_secure=app_state.settings.is_secure)
    return app


def rest_app(app_state: AppState) -> FastAPI:
    """REST alone."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if app_state.settings.postgres is None:
            yield
        else:
            from blowfishdb.server.wire.connection import listening as postgres_port

            async with postgres_port(app_state):
                yield
        # In a thread: releases that end need the loop.
        await to_thread.run_sync(app_state.close)

    app = RestApp(
        title=TITLE,
        version=software_version(),
        openapi_url=f"{V1}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        middleware=[Middleware(ServerMiddleware, app_state=app_state)],
    )
    add_handlers(app)
    # Routes are tried in this order, once for each level: what is asked most comes first, and there is one level.
    for router in sorted(ROUTERS, key=lambda one: one not in (queries.router, datasets.budgets_router)):
        app.include_router(router, prefix=V1, responses={"default": PROBLEM})
    app.include_router(health_router, responses={"default": PROBLEM})

    @cache
    def routes() -> list[tuple[re.Pattern[str], list[str]]]:
        """The paths with their methods, those without parts to fill in first; listed when one is missed."""
        paths = sorted(app.openapi()["paths"].items(), key=lambda item: "{" in item[0])
        return [(compile_path(path)[0], [method.upper() for method in methods]) for path, methods in paths]

    @app.api_route("/api/{path:path}", methods=list(HTTPMethod), include_in_schema=False)
    def nowhere(request: Request) -> None:
        """Keeps unknown routes under /api away from the pages; a method that a route lacks is a 405."""
        allowed = next((methods for path, methods in routes() if path.fullmatch(request.scope["path"])), None)
        if allowed is None:
            raise HTTPException(404)
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})

    return app


def fault_page(error: Exception) -> HTMLResponse:
    """The page in place of one that failed: what an error of ours says, of others an incident number alone."""
    from blowfishdb.server.pages.layout import refusal_page

    shown = public_error(error)
    return refusal_page("That did not work", sentence(shown.message), status_of(shown))


def _add_pages(app: FastAPI, *, is_secure: bool) -> None:
    """Mounts the pages, which load their framework here: commands that serve nothing do without it."""
    from nicegui import app as pages
    from nicegui import ui

    from blowfishdb.server.pages import PAGES

    for name in PAGES:
        import_module(f"blowfishdb.server.pages.{name}")

    # The framework would print the exception on the page; it may quote a row.
    async def fault(_: Request, error: Exception) -> HTMLResponse:
        return fault_page(error)

    pages.on_exception(public_error)
    # A redirect to the address with or without a slash would repeat whatever host a request claims.
    pages.router.redirect_slashes = False
    pages.add_exception_handler(BlowfishError, fault)
    pages.add_exception_handler(Exception, fault)
    # Its bar of progress has no name for those who do not see it, and the pages tell themselves when they work.
    pages.config.quasar_config["loadingBar"]["skipHijack"] = True
    ui.run_with(
        app,
        title=TITLE,
        storage_secret=new_password(),
        session_middleware_kwargs={"https_only": is_secure},
        show_welcome_message=False,
        tailwind=False,
        reconnect_timeout=LONGEST_SILENCE,
    )


LARGEST_MESSAGE = 4 * 2**20
POLL = 0.02
OTHER_FILES = 512
"""Files that a server opens beside its connections."""
TELLING_SECONDS = 4
"""Seconds after the time for running releases in which those whose counts were ended are told so."""
LAST_SECONDS = 10.0
"""Seconds after the time for running releases in which the process ends in any case."""


def allow_files(number: int) -> None:
    """Lets this process open so many files, as far as the machine allows: a connection that has none is not taken."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if most == resource.RLIM_INFINITY else min(number, most)
    if usual != resource.RLIM_INFINITY and usual < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def run_server(app_state: AppState, when_ready: Callable[[], None]) -> None:
    """Serves until a signal; `when_ready` is called once the server answers. The app state is closed at the end."""
    # On each of two ports, those that have signed in and half as many that have not.
    allow_files(3 * app_state.settings.connections + OTHER_FILES)
    server = uvicorn.Server(listening(create_app(app_state), app_state.settings))

    def announce() -> None:
        while not server.started:
            if server.should_exit:
                return
            time.sleep(POLL)
        when_ready()
        app_state.warm_up()
        # What is here by now stays: to look through it for garbage again and again would take a part of every request.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)

    def end_in_time() -> None:
        while not server.should_exit:
            time.sleep(POLL * 10)
        time.sleep(app_state.settings.shutdown_seconds)
        # While somebody may still read that their count was ended.
        app_state.end_counts()
        time.sleep(LAST_SECONDS)
        # The ledger survives any death; a thread in a driver that hangs would keep the process for ever.
        os._exit(1)

    for work in (announce, end_in_time):
        threading.Thread(target=work, daemon=True).start()
    server.run()


def listening(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """How an app listens. What a proxy says of its clients is believed only where the settings name it."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        proxy_headers=settings.behind_proxy,
        forwarded_allow_ips=settings.proxies if settings.behind_proxy else "",
        server_header=False,
        access_log=False,
        log_config=None,
        http=HTTPPort(settings).connection(),
        ws_max_size=LARGEST_MESSAGE,
        timeout_graceful_shutdown=settings.shutdown_seconds + TELLING_SECONDS,
    )
