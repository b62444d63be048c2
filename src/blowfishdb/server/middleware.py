"""The middleware around every request: its id, size and rate limits, headers, the log, and faults of ours."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import uuid
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection as Asked
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blowfishdb.errors import (
    BlowfishError,
    CsrfTokenMissing,
    ForeignOrigin,
    NotSignedIn,
    ServerFull,
    TooLarge,
    TooManyAtOnce,
    TooSlow,
)
from blowfishdb.incidents import new_incident, public_error
from blowfishdb.server.admission import LARGEST_OF_STRANGERS, SMALL, Admission, Party, account, address
from blowfishdb.server.authentication import READING, WHO, address_of, identity_of, looked_up, signed_in
from blowfishdb.server.connections import CONNECTION, HTTPConnection
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


class ServerMiddleware:
    """Wraps the whole app. Of websockets it sees to the app state and to where they come from."""

    def __init__(self, app: ASGIApp, app_state: AppState) -> None:
        self.app, self.app_state = app, app_state
        self.admission = app_state.admission

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
        """A websocket of the pages, for whoever has signed in: pages of others have none.

        Errors of pages are told there; what comes out here is a message out of form.
        """
        connection = connection_of(scope)
        try:
            identity = await run_in_threadpool(identity_of, Asked(scope))
            if identity is None:
                raise NotSignedIn
            if connection is not None:
                connection.belongs_to(identity.name)
            await self.app(scope, receive, send)
        except BlowfishError:
            await send({"type": "websocket.close", "code": FORBIDDEN})
        except Exception:  # noqa: BLE001  # whatever the framework makes of such a message
            logger.warning(UNREADABLE)
            with suppress(Exception):
                await send({"type": "websocket.close", "code": UNSUPPORTED})
        finally:
            if connection is not None:
                connection.leave()

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, request_id = time.monotonic(), uuid.uuid4().hex[:16]
        scope["state"]["request_id"] = request_id
        # A list that copies of the state share: the app of the pages works on a copy.
        scope["state"][WHO] = []
        answer = AnswerSender(self, scope, send, request_id)
        try:
            await self._admitted(scope, receive, answer)
            if answer.refusal is not None:
                await answer.problem(answer.refusal)
        except BlowfishError as error:
            await answer.problem(error)
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            await answer.problem(public_error(error))
        finally:
            seconds, who = time.monotonic() - began, next(iter(scope["state"][WHO]), None)
            log_request(self.app_state, request_id, scope["method"], route_of(scope), answer.status, seconds, who)

    async def _admitted(self, scope: Scope, receive: Receive, answer: AnswerSender) -> None:
        """Lets a request in: what comes from other sites, is too large, or comes too often is refused unread.

        So is what a stranger sends, but for a sign-in.
        """
        path, request = scope["path"], Request(scope)
        is_reading = scope["method"] in READING and not path.startswith(SOCKETS)
        if not is_reading and not is_own(scope, self.app_state.settings):
            raise ForeignOrigin
        is_api, is_sent = path.startswith(API), has_body(request)
        if is_api:
            self._check_declared(scope, request)
        if not (is_api or is_sent or path.startswith(SOCKETS)):
            await self.app(scope, receive, answer.send)
            return
        stranger = address(address_of(request))
        is_sign_in = path == SIGN_IN and scope["method"] == "POST"
        name: str | None = None
        refusal: BlowfishError | None = None
        try:
            name = None if is_sign_in else await self._name(request, is_api=is_api)
        except (NotSignedIn, CsrfTokenMissing) as error:
            refusal = error
        party = stranger if name is None else account(name)
        if is_api:
            self.admission.requests.check(party)
        if is_sign_in:
            self.admission.sign_ins.check(stranger)
        elif refusal is not None and (is_sent or not is_api):
            raise refusal
        connection = connection_of(scope)
        if name is not None and connection is not None:
            connection.belongs_to(name)
        with self.admission.slots.taken(party), Kept(self.admission, party) as kept:
            answer.kept = kept
            limited = self._limited(scope, receive, kept, LARGEST_OF_STRANGERS if is_sign_in else None)
            # Read here and whole: what reads it later would turn the refusal into one of its own.
            await self.app(scope, await _whole(limited) if is_api else limited, answer.send)

    async def _name(self, request: Request, *, is_api: bool) -> str:
        """The account that sends a request, or NotSignedIn; with a change by the API also that a page of ours does."""
        if is_api:
            return (await looked_up(request, lambda: signed_in(request))).name
        identity = await run_in_threadpool(identity_of, request)
        if identity is None:
            raise NotSignedIn
        return identity.name

    def _check_declared(self, scope: Scope, request: Request) -> None:
        length = request.headers.get("content-length", "0")
        self._check_size(scope, int(length) if length.isdecimal() and len(length) <= 15 else 10**15)

    def _limited(self, scope: Scope, receive: Receive, kept: Kept, most: int | None) -> Receive:
        """Counts what is received, for requests that do not say how long they are, and waits so long for the rest."""
        seen, piece, pace = 0, 0, self.admission.pace()
        is_whole = False

        async def counted() -> Message:
            nonlocal seen, piece, is_whole
            if is_whole:
                return await receive()
            message = await pace.wait_for(receive(), piece)
            piece = len(message.get("body", b""))
            seen += piece
            is_whole = not message.get("more_body", False)
            self._check_size(scope, seen, most)
            if scope["path"].startswith(API):
                kept.take(piece)
            return message

        return counted

    def _check_size(self, scope: Scope, size: int, most: int | None = None) -> None:
        settings = self.app_state.settings
        usual = settings.largest_body if scope["path"].startswith(API) else settings.largest_upload
        largest = usual if most is None else min(usual, most)
        if size > largest:
            raise TooLarge("bytes of a request", size, largest, "Send less at once.")

    def add_headers(self, scope: Scope, headers: MutableHeaders, request_id: str) -> None:
        """Adds what every answer says."""
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


@dataclass(eq=False)
class Kept(AbstractContextManager["Kept"]):
    """The bytes that are kept of one request and its answer, until its end. Small ones are not counted."""

    admission: Admission
    party: Party
    size: int = 0
    counted: int = 0

    def take(self, size: int) -> None:
        """Notes more of them; TooManyAtOnce or ServerFull where they cannot be kept."""
        self.size += size
        if self.size > SMALL and self.size > self.counted:
            self.admission.buffers.take(self.party, self.size - self.counted)
            self.counted = self.size

    def __exit__(self, *raised: object) -> None:
        self.admission.buffers.give_back(self.party, self.counted)


@dataclass(eq=False)
class AnswerSender:
    """How an answer leaves: with the headers of all answers, in pieces, and to whoever reads it in time."""

    middleware: ServerMiddleware
    scope: Scope
    passed_on: Send
    request_id: str
    status: int = 500
    kept: Kept | None = None
    refusal: BlowfishError | None = None
    """Why the answer does not leave. The app is not told: it would look for a fault of its own."""
    _start: Message | None = None
    _is_sent: bool = False

    def __post_init__(self) -> None:
        self.pace = self.middleware.admission.pace()

    async def send(self, message: Message) -> None:
        """Sends a message. The first one waits for the second: an answer that cannot be kept is none."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self.refusal is None:
            try:
                await self._body(message)
            except (TooManyAtOnce, ServerFull, TooSlow) as refusal:
                self.refusal = refusal

    async def problem(self, error: BlowfishError) -> None:
        """Tells an error, unless an answer has begun: whoever does not read that one is disconnected."""
        connection = connection_of(self.scope)
        if not self._is_sent:
            self.kept = self.refusal = None
            await problem(error)(self.scope, _nothing, self.send)
        elif connection is not None:
            connection.transport.abort()
            # The server notices before it looks for the rest of the answer.
            await asyncio.sleep(0)

    async def _body(self, message: Message) -> None:
        body = message.get("body", b"")
        if self.kept is not None:
            self.kept.take(len(body))
        await self._begin()
        pieces = [body[at : at + SMALL] for at in range(0, len(body), SMALL)] or [b""]
        for place, piece in enumerate(pieces, 1):
            more = place < len(pieces) or message.get("more_body", False)
            sending = self.passed_on({**message, "body": piece, "more_body": more})
            await self.pace.wait_for(sending, len(piece))

    async def _begin(self) -> None:
        if self._start is not None:
            start, self._start, self._is_sent = self._start, None, True
            self.status = start["status"]
            self.middleware.add_headers(self.scope, MutableHeaders(scope=start), self.request_id)
            await self.passed_on(start)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def connection_of(scope: Scope) -> HTTPConnection | None:
    """The connection of a request; None where another server than ours took it."""
    connection: HTTPConnection | None = scope["state"].get(CONNECTION)
    return connection


def has_body(request: Request) -> bool:
    """Whether a request says that something follows its head."""
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


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
