"""The middleware around every request: its id, size and rate limits, headers, the log, and faults of ours."""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blowfishdb.errors import BlowfishError, ForeignOrigin, RateLimited, TooLarge
from blowfishdb.incidents import new_incident, public_error
from blowfishdb.server.authentication import READING, WHO, address_of
from blowfishdb.server.problems import problem
from blowfishdb.server.settings import Settings
from blowfishdb.server.state import AppState

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


MOST_PARTIES = 10_000


@dataclass(frozen=True, eq=False)
class RateLimit:
    """A limit of requests per minute for each party; the longest silent are forgotten."""

    per_minute: int
    seconds: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def check(self, party: str) -> None:
        """Takes one request from the party's bucket; RateLimited when it is empty."""
        with self._turn:
            now = self.seconds()
            left, seen = self._left.pop(party, (float(self.per_minute), now))
            left = min(float(self.per_minute), left + (now - seen) * self.per_minute / 60)
            self._left[party] = (max(0.0, left - 1), now) if left >= 1 else (left, now)
            while len(self._left) > MOST_PARTIES:
                self._left.popitem(last=False)
        if left < 1:
            raise RateLimited(math.ceil((1 - left) * 60 / self.per_minute))


class ServerMiddleware:
    """Wraps the whole app. Of websockets it sees to the app state and to where they come from."""

    def __init__(self, app: ASGIApp, app_state: AppState) -> None:
        self.app, self.app_state = app, app_state
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
            seconds, who = time.monotonic() - began, next(iter(scope["state"][WHO]), None)
            log_request(self.app_state, request_id, scope["method"], route_of(scope), status, seconds, who)

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


def log_request(
    app_state: AppState, request_id: str, method: str, route: str, status: int, seconds: float, who: str | None
) -> None:
    """Notes a finished request, or a statement of the PostgreSQL port, in the log and in the metrics."""
    app_state.metrics.count(method, route, status, seconds)
    fields = {"request": request_id, "method": method, "route": route, "status": status}
    logger.info("request", extra={"fields": fields | {"milliseconds": round(1000 * seconds, 1), "who": who}})


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
    """The route as it is declared, so that logs and metrics hold no names; one name for all pages."""
    declared = getattr(scope.get("route"), "path", None)
    if scope["path"].startswith(API):
        # A route knows its path below the prefix of the API, or all of it.
        return f"{V1}{declared}" if declared and not declared.startswith(API) else declared or API
    if scope["path"].startswith("/_nicegui"):
        return "/_nicegui"
    return declared if declared in OPERATIONS else "page"
