"""A backend on a server: the same functions as a local one, each a request with the same typed errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run, decode
from blowfishdb.engine.compile import LONGEST_COUNT
from blowfishdb.engine.points import PointPreview
from blowfishdb.engine.preview import AnyPreview, Preview
from blowfishdb.engine.request import write_query
from blowfishdb.engine.synopsis import Synopsis, from_bytes
from blowfishdb.engine.synopsis_release import SynopsisPreview
from blowfishdb.errors import (
    BlowfishError,
    DocumentError,
    InvalidInput,
    PasswordMustChange,
    ServerUnreachable,
    error_types,
)
from blowfishdb.model.document import read_document
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.serialize import Field
from blowfishdb.present.export import needed
from blowfishdb.session.backend import Backend, Budget, ListPart, Past, Published, ReleaseRequest
from blowfishdb.sources.base import Join
from blowfishdb.sources.calls import Calls, severed, stopped_by

if TYPE_CHECKING:
    import httpx


PREVIEWS = {"synopsis": SynopsisPreview, "points": PointPreview}
Send = Callable[..., "httpx.Response"]
"""A function that sends a request: method, path, and what goes with it by name."""
PATIENCE = 600.0
"""Seconds that a reply without a count may take; connecting takes far fewer."""
CONNECTING = 10.0
MOST_RELEASES = 1_000
"""Releases that one session may have under way."""
SPARE = 60.0
"""Seconds beyond the deadline of a count in which its answer may still come."""
AMOUNTS = ("requested", "remaining_dataset", "remaining_analyst", "epsilon", "nearest_above", "allowed")
"""Fields of errors that are exact numbers."""
MEDIA_TYPES = ("application/json", "application/vnd.apache.parquet")
"""What a server answers with; anything else comes from another program, or from a proxy in between."""
FIELD = re.compile(r"[a-z][a-z_]{0,40}")
NUMBER = re.compile(r"-?\d{1,400}(/\d{1,400})?")
KNOWN = {kind.code: kind for kind in error_types().values()}


def is_server(address: object) -> bool:
    """Whether this is the address of a server rather than a configuration file."""
    return isinstance(address, str) and urlsplit(address).scheme in ("http", "https")


def open_remote(
    address: str, *, token: str | None = None, name: str | None = None, password: str | None = None
) -> Backend:
    """The backend of whoever the token, or the name and password, belongs to."""
    if (token is None) == (password is None):
        raise InvalidInput("connect to a server with a token, or with analyst= and password=")
    http = needed("httpx", "client")
    base = address.rstrip("/") + "/api/v1"
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    foreign = f"{address} answers, but not as BlowfishDB does: check the address and its port."
    timeout = http.Timeout(PATIENCE, connect=CONNECTING)
    # Certificates take longer to read than a small answer takes to come.
    trusted = http.create_ssl_context()
    client: httpx.Client = http.Client(base_url=base, headers=headers, timeout=timeout, verify=trusted)
    send: Send = client.request
    leaving = Calls(most=MOST_RELEASES, pause=0)

    def ask(method: str, path: str, body: object = None, key: str | None = None, by: Send = send) -> httpx.Response:
        sent = {} if key is None else {"Idempotency-Key": key}
        try:
            response = by(method, path, json=body, headers=sent)
        except (http.HTTPError, UnicodeError):
            response = None
        if response is None:
            same = "the same key" if key is None else f"the key {key!r}"
            raise ServerUnreachable(f"{address} does not answer. Ask again with {same}: nothing is paid twice.")
        if response.status_code >= 300:
            raise error_of(response)
        if response.content and not response.headers.get("content-type", "").startswith(MEDIA_TYPES):
            raise ServerUnreachable(foreign)
        return response

    def told(reply: httpx.Response, name: str) -> object:
        try:
            return reply.json()[name]
        except (ValueError, KeyError, TypeError):
            raise ServerUnreachable(foreign) from None

    def release(path: str, body: object, run: Run, key: str | None = None) -> httpx.Response:
        """The reply of a server that counts; whoever leaves takes the connection along, which ends the count."""
        limit = http.Timeout(max(PATIENCE, SPARE + (run.deadline or LONGEST_COUNT)), connect=CONNECTING)

        def by(method: str, path: str, **sent: Any) -> httpx.Response:
            # A connection of its own, so that it is known which one to cut.
            with ExitStack() as opened:
                same = {"headers": client.headers, "cookies": client.cookies, "verify": trusted}
                own = opened.enter_context(http.Client(base_url=base, timeout=limit, **same))

                def watch(event: str, known: Mapping[str, Any]) -> None:
                    if event == "connection.connect_tcp.complete":
                        held = known["return_value"].get_extra_info("socket").fileno()
                        opened.enter_context(stopped_by(opened.enter_context(severed(held))))

                response: httpx.Response = own.request(method, path, **sent, extensions={"trace": watch})
                return response

        return leaving.run(lambda: ask("POST", path, body, key, by), None)

    try:
        if password is not None:
            signed = ask("POST", "/sessions", {"name": name or "", "password": password})
            client.headers["X-CSRF-Token"] = str(told(signed, "csrf_token"))
        me = ask("GET", "/sessions/current")
        if told(me, "must_change"):
            raise PasswordMustChange
    except BaseException:
        client.close()
        raise

    def place(dataset: object, *rest: object) -> str:
        return "/".join(["/datasets", quote(str(dataset), safe=""), *map(str, rest)])

    def names() -> list[str]:
        return [str(one["name"]) for one in ask("GET", "/datasets").json()]

    def declared(dataset: str) -> tuple[Domain, Policy]:
        reply = ask("GET", place(dataset)).json()
        text = json.dumps({"version": 1, "domain": reply["domain"], "policy": reply["policy"]})
        document = read_document(text, "json")
        return document.domain, document.policy

    def joins(dataset: str) -> tuple[Join, ...]:
        listed = ask("GET", place(dataset)).json().get("joins", [])
        return tuple(Join(**one) for one in listed)

    def get(kind: Any, *path: object) -> Any:
        """What the server has at a path, read as the given type."""
        return Field(ask("GET", place(*path)).json(), "the server's reply", DocumentError).read(kind)

    def preview(request: ReleaseRequest) -> AnyPreview:
        reply = ask("POST", place(request.dataset, "previews"), _body(request)).json()
        content, kind = Field(reply, "the server's reply", DocumentError), PREVIEWS.get(request.query.kind)
        return Preview.read(content) if kind is None else cast(AnyPreview, content.read(kind))

    def payload(request: ReleaseRequest, run: Run) -> bytes:
        run.report("charge")
        body, key = (
            {**_body(request), "deadline": run.deadline, "spend": _spend(run)},
            run.for_target(request.target).key,
        )
        content = release(place(request.dataset, "answers"), body, run, key).content
        run.report_done()
        return bytes(content)

    def release_all(requests: Sequence[tuple[ReleaseRequest, Run]]) -> list[Answer]:
        releases = [{**_body(request), "key": run.key, "spend": _spend(run)} for request, run in requests]
        runs = [run for _, run in requests]
        runs[0].report("charge")
        body = {"releases": releases, "deadline": runs[0].deadline}
        replies = release(place(requests[0][0].dataset, "plans", "answers"), body, runs[0]).json()
        if not isinstance(replies, list) or len(replies) != len(requests):
            raise DocumentError("the server's reply does not hold an answer to each question")
        for run in runs:
            run.report_done()
        return [Answer.from_json(json.dumps(reply)) for reply in replies]

    def close() -> None:
        leaving.close()
        if password is not None:
            with suppress(BlowfishError):
                ask("DELETE", "/sessions/current")
        client.close()

    return Backend(
        analyst=str(told(me, "name")),
        names=names,
        declared=declared,
        joins=joins,
        budget=lambda dataset: cast(Budget, get(Budget, dataset, "budget")),
        preview=preview,
        payload=payload,
        release_all=release_all,
        history=lambda dataset, part: list(get(tuple[Past, ...], dataset, f"answers?{_words(part)}")),
        reopen=lambda dataset, number: decode(ask("GET", place(dataset, "answers", int(number))).content),
        synopses=lambda dataset, part: list(get(tuple[Published, ...], dataset, f"synopses?{_words(part)}")),
        synopsis=lambda dataset, number: Synopsis(
            from_bytes(ask("GET", place(dataset, "synopses", int(number))).content)
        ),
        close=close,
    )


def _words(part: ListPart) -> str:
    return urlencode({name: value for name, value in vars(part).items() if value is not None})


def error_of(response: httpx.Response) -> BlowfishError:
    """The typed error that a problem describes."""
    try:
        problem = response.json()
        kind, message, fields = KNOWN[problem["code"]], str(problem["detail"]), dict(problem["fields"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServerUnreachable(f"the server answered {response.status_code}, but not as BlowfishDB does")
    # Without the constructor, which would write the sentence again from fields that did not travel.
    error = kind.__new__(kind)
    BlowfishError.__init__(error, message)
    for name, value in fields.items():
        if not FIELD.fullmatch(name) or hasattr(BlowfishError, name):
            continue
        is_amount = name in AMOUNTS and isinstance(value, str) and NUMBER.fullmatch(value)
        setattr(error, name, Fraction(value) if is_amount else tuple(value) if isinstance(value, list) else value)
    return error


def _body(request: ReleaseRequest) -> dict[str, Any]:
    return {"query": write_query(request.query), "accuracy_target": request.target.to_dict()}


def _spend(run: Run) -> str | None:
    return None if run.spend is None else str(run.spend)
