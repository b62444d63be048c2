"""The middleware around every request: its id, size and rate limits, headers, the log, and faults of ours."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import uuid
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blowfishdb.errors import BlowfishError, ForeignOrigin, TooLarge
from blowfishdb.incidents import new_incident, public_error
from blowfishdb.server.access import READING, WHO, address_of
from blowfishdb.server.problems import problem
from blowfishdb.server.settings import Settings
from blowfishdb.server.state import AppState
from blowfishdb.server.worker_pools import RateLimit

REQUESTS = "blowfishdb.requests"
"""The logger of finished requests."""


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what `extra={"fields": ...}` gave stands beside the message.

    Of an exception only the kind is written: its text may quote a row, and belongs into the curator's log.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info is not None:
            kind = getattr(record.exc_info[0], "__name__", "an exception")
            line["message"] = f"{kind}; the curator's log has more"
        return json.dumps(line, ensure_ascii=False)


FRAMEWORK = ("engineio", "nicegui", "socketio")
SOCKET_LOGGERS = ("asyncio", "engineio.server", "socketio.server")
UNREADABLE = "a message to the socket of the pages could not be read"


class Unreadable(logging.Filter):
    """One line, without the message and frames, for what the pages' framework could not read; else an incident."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info is not None else None
        if isinstance(error, Exception):
            record.msg, record.args, record.exc_info = UNREADABLE, (), None
            if _raised_in(error) in FRAMEWORK:
                record.levelno, record.levelname = logging.WARNING, "WARNING"
            else:
                record.msg = f"incident {new_incident(error)}"
        return True


def _raised_in(error: Exception) -> str:
    """The package whose code raised an error."""
    trace, name = error.__traceback__, ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return name.partition(".")[0]


def log_to_stderr() -> None:
    """Sends requests, the server's own messages and warnings to stderr. The curator's log stays in its file."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in (REQUESTS, "uvicorn", "uvicorn.error", "nicegui"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
    for name in SOCKET_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.filters = [handler], [Unreadable()]
        logger.setLevel(logging.WARNING)
        logger.propagate = False


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, eq=False)
class Metrics:
    """Counters of one server. For operators only: how long a release takes may depend on the data."""

    _requests: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(int))
    _seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _within: dict[tuple[str, float], int] = field(default_factory=lambda: defaultdict(int))
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Notes one finished request."""
        with self._turn:
            self._requests[method if method in METHODS else "other", route, status] += 1
            self._seconds[route] += seconds
            for bucket in BUCKETS:
                if seconds <= bucket:
                    self._within[route, bucket] += 1

    def text(self) -> str:
        """Everything, one number per line."""
        with self._turn:
            requests, seconds, within = dict(self._requests), dict(self._seconds), dict(self._within)
        lines = ["# TYPE blowfish_requests_total counter"]
        lines += [
            f'blowfish_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}'
            for (method, route, status), number in sorted(requests.items())
        ]
        lines.append("# TYPE blowfish_request_seconds histogram")
        for route in sorted(seconds):
            total = sum(number for (_, named, _), number in requests.items() if named == route)
            for bucket in BUCKETS:
                count = within.get((route, bucket), 0)
                lines.append(f'blowfish_request_seconds_bucket{{route="{route}",le="{bucket:g}"}} {count}')
            lines.append(f'blowfish_request_seconds_bucket{{route="{route}",le="+Inf"}} {total}')
            lines.append(f'blowfish_request_seconds_sum{{route="{route}"}} {seconds[route]:.6f}')
            lines.append(f'blowfish_request_seconds_count{{route="{route}"}} {total}')
        return "\n".join(lines) + "\n"


logger = logging.getLogger(REQUESTS)
API = "/api/"
V1 = "/api/v1"
SOCKETS = "/_nicegui_ws"
FORBIDDEN = 1008
"""The code of a websocket that breaks a rule."""
UNSUPPORTED = 1003
"""The code of a websocket that sent what cannot be read."""
SIGN_IN = f"{V1}/sessions"
OPERATIONS = ("/health", "/ready", "/metrics")
PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""Everything comes from this server. The pages' own framework compiles templates, which needs eval and inline parts."""
API_POLICY = "default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class ServerMiddleware:
    """Wraps the whole app. Of websockets it sees to the app state and to where they come from."""

    def __init__(self, app: ASGIApp, app_state: AppState, metrics: Metrics) -> None:
        self.app, self.app_state, self.metrics = app, app_state, metrics
        self.requests = RateLimit(app_state.settings.requests_per_minute)
        self.sign_ins = RateLimit(app_state.settings.sign_ins_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["app_state"] = self.app_state
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif is_own(scope, self.app_state.settings):
            await self._socket(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": FORBIDDEN})

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A websocket of the pages. Errors of pages are told there; what comes out here is a message out of form."""
        try:
            await self.app(scope, receive, send)
        except Exception:  # noqa: BLE001  # whatever the framework makes of such a message
            logger.warning(UNREADABLE)
            with suppress(Exception):
                await send({"type": "websocket.close", "code": UNSUPPORTED})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, request_id = time.monotonic(), uuid.uuid4().hex[:16]
        scope["state"]["request_id"] = request_id
        # A list that copies of the state share: the app of the pages works on a copy.
        scope["state"][WHO] = []
        status = 500
        is_sent = False

        async def answer(message: Message) -> None:
            nonlocal status, is_sent
            if message["type"] == "http.response.start":
                is_sent, status = True, message["status"]
                self._add_headers(scope, MutableHeaders(scope=message), request_id)
            await send(message)

        try:
            self._check(scope)
            limited = self._limited(scope, receive)
            # Read here and whole: what reads it later would turn the refusal into one of its own.
            taken = await _whole(limited) if scope["path"].startswith(API) else limited
            await self.app(scope, taken, answer)
        except BlowfishError as error:
            if not is_sent:
                await problem(error)(scope, receive, answer)
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            response = problem(public_error(error))
            if not is_sent:
                await response(scope, receive, answer)
        finally:
            self._note(scope, status, time.monotonic() - began, request_id)

    def _check(self, scope: Scope) -> None:
        """Refuses, unread, what comes from other sites, is too large or comes too often."""
        path, request = scope["path"], Request(scope)
        is_reading = scope["method"] in READING and not path.startswith(SOCKETS)
        if not is_reading and not is_own(scope, self.app_state.settings):
            raise ForeignOrigin
        if not path.startswith(API):
            return
        self.requests.check(address_of(request))
        if path == SIGN_IN and scope["method"] == "POST":
            self.sign_ins.check(address_of(request))
        length = request.headers.get("content-length", "0")
        self._check_size(scope, int(length) if length.isdecimal() and len(length) <= 15 else 10**15)

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Counts what is received, for requests that do not say how long they are."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            self._check_size(scope, seen)
            return message

        return counted

    def _check_size(self, scope: Scope, size: int) -> None:
        settings = self.app_state.settings
        largest = settings.largest_body if scope["path"].startswith(API) else settings.largest_upload
        if size > largest:
            raise TooLarge("bytes of a request", size, largest, "Send less at once.")

    def _add_headers(self, scope: Scope, headers: MutableHeaders, request_id: str) -> None:
        is_api = scope["path"].startswith(API)
        for name, value in HEADERS.items():
            headers[name] = value
        headers["X-Request-ID"] = request_id
        headers["Content-Security-Policy"] = API_POLICY if is_api else PAGE_POLICY
        if is_api or "cache-control" not in headers:
            headers["Cache-Control"] = "no-store"
        elif headers["cache-control"].startswith("public"):
            # The same for everybody: with a cookie, or told apart by one, it would be fetched anew after signing in.
            del headers["set-cookie"]
            headers["Vary"] = "Accept-Encoding"
        if self.app_state.settings.is_secure:
            headers["Strict-Transport-Security"] = "max-age=31536000"

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = route_of(scope)
        self.metrics.count(scope["method"], route, status, seconds)
        fields: dict[str, Any] = {
            "request": request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "milliseconds": round(1000 * seconds, 1),
            "who": next(iter(scope["state"][WHO]), None),
        }
        logger.info("request", extra={"fields": fields})


def is_own(scope: Scope, settings: Settings) -> bool:
    """Whether a page of this server sent the request, or no page at all: browsers name the site of the page."""
    headers = Headers(scope=scope)
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc in (headers.get("host"), urlsplit(settings.url).netloc)


async def _whole(receive: Receive) -> Receive:
    """The body as one message, received already; what comes after it comes as it does."""
    first = await receive()
    parts, last = [first.get("body", b"")], first
    while last["type"] == "http.request" and last.get("more_body", False):
        last = await receive()
        parts.append(last.get("body", b""))
    whole: list[Message] = [{"type": last["type"], "body": b"".join(parts), "more_body": False}]

    async def again() -> Message:
        return whole.pop() if whole else await receive()

    return again


def route_of(scope: Scope) -> str:
    """The route as it is declared, so that logs and metrics hold no names; pages all alike."""
    declared = getattr(scope.get("route"), "path", None)
    if scope["path"].startswith(API):
        # A route knows its path below the prefix of the API, or all of it.
        return f"{V1}{declared}" if declared and not declared.startswith(API) else declared or API
    if scope["path"].startswith("/_nicegui"):
        return "/_nicegui"
    return declared if declared in OPERATIONS else "page"
