"""A backend on a server: the same functions as a local one, each a request with the same typed errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run
from blowfishdb.engine.points import PointPreview, PointQuery, PointWeights
from blowfishdb.engine.preview import DearColumn, Offer, Preview
from blowfishdb.engine.serialize import read_query, read_target, write_query
from blowfishdb.engine.synopsis import from_bytes
from blowfishdb.engine.synopsis_answers import Synopsis, SynopsisPreview, read_synopsis_preview
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import (
    BlowfishError,
    ExtraMissing,
    InvalidInput,
    PasswordMustChange,
    QueryError,
    ServerUnreachable,
    error_types,
)
from blowfishdb.model.document import read_document
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.session.backend import Backend, Budget, Past, Published, Reopened, read_payload

if TYPE_CHECKING:
    import httpx


Plain = dict[str, Any]


def write_budget(budget: Budget) -> Plain:
    """A budget, exact numbers as text."""
    return _exact_as_text(asdict(budget))


def read_budget(written: Mapping[str, Any]) -> Budget:
    """The budget that was written."""
    return Budget(
        dataset=str(written["dataset"]),
        analyst=str(written["analyst"]),
        spent=Fraction(written["spent"]),
        limit=_amount(written["limit"]),
        remaining=Fraction(written["remaining"]),
        dataset_limit=Fraction(written["dataset_limit"]),
        dataset_remaining=Fraction(written["dataset_remaining"]),
    )


def write_past(past: Past) -> Plain:
    """A charge of the past."""
    return _exact_as_text(asdict(past))


def read_past(written: Mapping[str, Any]) -> Past:
    """The charge that was written."""
    return Past(
        number=int(written["number"]),
        dataset=str(written["dataset"]),
        at=str(written["at"]),
        question=str(written["question"]),
        mechanism=str(written["mechanism"]),
        epsilon=Fraction(written["epsilon"]),
        key=str(written["key"]),
        policy_version=int(written["policy_version"]),
        is_synopsis=bool(written["is_synopsis"]),
        is_current=bool(written["is_current"]),
    )


def write_published(one: Published) -> Plain:
    """A published synopsis in the list."""
    return _exact_as_text(asdict(one))


def read_published(written: Mapping[str, Any]) -> Published:
    """The line that was written."""
    return Published(
        number=int(written["number"]),
        dataset=str(written["dataset"]),
        at=str(written["at"]),
        title=str(written["title"]),
        mechanism=str(written["mechanism"]),
        epsilon=Fraction(written["epsilon"]),
        policy_version=int(written["policy_version"]),
    )


def read_preview(written: Mapping[str, Any]) -> Preview:
    """The preview that `Preview.to_dict` wrote."""
    return Preview(
        dataset=str(written["dataset"]),
        kind=written["kind"],
        title=str(written["question"]),
        cells=int(written["cells"]),
        answers=int(written["answers"]),
        target=read_target(written["accuracy_target"]),
        offers=tuple(
            Offer(offer["mechanism"], Fraction(offer["epsilon"]), offer["alpha"], offer["rmse"], offer["method"])
            for offer in written["offers"]
        ),
        declined={str(name): str(reason) for name, reason in written["declined"].items()},
        why=str(written["why"]),
        worst_pair=str(written["worst_pair"]),
        protected=tuple(written["protected"]),
        unprotected=tuple(written["not_protected"]),
        dear=tuple(
            DearColumn(dear["column"], dear["now"], dear["if_public"], dear["if_partitioned"])
            for dear in written["dear_columns"]
        ),
        constraint_note=str(written["constraint_note"]),
        left=_amount(written["left"]),
    )


def write_points(asked: PointQuery) -> Plain:
    """A question about columns as points."""
    inner = write_query(Query(kind="histogram", axes=asked.columns, where=asked.where))
    return {"axes": inner["axes"], "where": inner["where"], "clusters": asked.clusters, "rows": asked.rows}


def read_points(written: object) -> PointQuery:
    """The question that was written; QueryError for anything else."""
    if not isinstance(written, Mapping) or set(written) != {"axes", "where", "clusters", "rows"}:
        raise QueryError("a question about points is an object with axes, where, clusters and rows")
    inner = read_query({"kind": "histogram", "axes": written["axes"], "where": written["where"]})
    return PointQuery(inner.axes, inner.where, written["clusters"], written["rows"])


def write_point_preview(found: PointPreview) -> Plain:
    """A grid and those that were passed over."""
    own = _exact_as_text(asdict(replace(found, others=())))
    return {
        **own,
        "grid_points": list(found.grid_points),
        "others": [write_point_preview(other) for other in found.others],
    }


def read_point_preview(written: Mapping[str, Any]) -> PointPreview:
    """The grids that were written."""
    return PointPreview(
        kind=str(written["kind"]),
        grid_points=tuple(int(number) for number in written["grid_points"]),
        scale=float(written["scale"]),
        epsilon=Fraction(written["epsilon"]),
        predicted_excess=float(written["predicted_excess"]),
        others=tuple(read_point_preview(other) for other in written["others"]),
    )


def _exact_as_text(fields: Mapping[str, Any]) -> Plain:
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in fields.items()}


def _amount(written: str | None) -> Fraction | None:
    return None if written is None else Fraction(written)


PATIENCE = 600.0
"""So many seconds an answer may take; connecting takes far fewer."""
CONNECTING = 10.0
AMOUNTS = ("requested", "remaining_dataset", "remaining_analyst", "epsilon", "nearest_above", "allowed")
"""Fields of errors that are exact numbers."""
FIELD = re.compile(r"[a-z][a-z_]{0,40}")
NUMBER = re.compile(r"-?\d{1,400}(/\d{1,400})?")
KNOWN = {kind.code: kind for kind in error_types().values()}


def is_server(address: object) -> bool:
    """Whether this is the address of a server rather than a configuration file."""
    return isinstance(address, str) and urlsplit(address).scheme in ("http", "https")


def open_remote(
    address: str, *, token: str | None = None, name: str | None = None, password: str | None = None
) -> Backend:
    """The desk of whoever the token, or the name and password, belongs to."""
    if (token is None) == (password is None):
        raise InvalidInput("connect to a server with a token, or with analyst= and password=")
    http = _httpx()
    base = address.rstrip("/") + "/api/v1"
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    timeout = http.Timeout(PATIENCE, connect=CONNECTING)
    client: httpx.Client = http.Client(base_url=base, headers=headers, timeout=timeout, follow_redirects=False)

    def ask(method: str, path: str, body: object = None, key: str | None = None) -> httpx.Response:
        sent = {} if key is None else {"Idempotency-Key": key}
        try:
            found = client.request(method, path, json=body, headers=sent)
        except (http.HTTPError, UnicodeError):
            found = None
        if found is None:
            raise ServerUnreachable(f"{address} does not answer. Ask again with the same key: nothing is paid twice.")
        if found.status_code >= 400:
            raise error_of(found)
        return found

    try:
        if password is not None:
            signed = ask("POST", "/sessions", {"name": name or "", "password": password}).json()
            client.headers["X-CSRF-Token"] = str(signed["csrf_token"])
        me = ask("GET", "/sessions/current").json()
        if me.get("must_change"):
            raise PasswordMustChange
    except BaseException:
        client.close()
        raise

    def place(dataset: str, *rest: object) -> str:
        return "/".join(["/datasets", quote(dataset, safe=""), *map(str, rest)])

    def names() -> list[str]:
        return [str(one["name"]) for one in ask("GET", "/datasets").json()]

    def declared(dataset: str) -> tuple[Domain, Policy]:
        found = ask("GET", place(dataset)).json()
        text = json.dumps({"version": 1, "domain": found["domain"], "policy": found["policy"]})
        document = read_document(text, "json")
        return document.domain, document.policy

    def budget(dataset: str) -> Budget:
        return read_budget(ask("GET", place(dataset, "budget")).json())

    def preview(dataset: str, asked: Query, domain: Domain, target: AccuracyTarget) -> Preview:
        del domain
        return read_preview(ask("POST", place(dataset, "previews"), _asked(asked, target)).json())

    def paid(path: str, body: dict[str, Any], run: Run) -> bytes:
        run.report("charge")
        found = ask("POST", path, {**body, "deadline": run.deadline}, run.key).content
        run.report_done()
        return found

    def release(dataset: str, asked: Query, domain: Domain, target: AccuracyTarget, run: Run) -> Answer:
        del domain
        return Answer.from_json(paid(place(dataset, "answers"), _asked(asked, target), run))

    def publish_preview(dataset: str, asked: Query, domain: Domain, target: AccuracyTarget) -> SynopsisPreview:
        del domain
        found = ask("POST", place(dataset, "synopses", "previews"), _asked(asked, target))
        return read_synopsis_preview(found.json())

    def publish(dataset: str, asked: Query, domain: Domain, target: AccuracyTarget, run: Run) -> Synopsis:
        del domain
        return Synopsis(from_bytes(paid(place(dataset, "synopses"), _asked(asked, target), run)))

    def point_preview(dataset: str, asked: PointQuery, domain: Domain, epsilon: Fraction) -> PointPreview:
        del domain
        body = {"query": write_points(asked), "epsilon": str(epsilon)}
        return read_point_preview(ask("POST", place(dataset, "points", "previews"), body).json())

    def point_weights(dataset: str, asked: PointQuery, domain: Domain, epsilon: Fraction, run: Run) -> PointWeights:
        del domain
        body = {"query": write_points(asked), "epsilon": str(epsilon)}
        return PointWeights.from_json(paid(place(dataset, "points"), body, run))

    def history(dataset: str) -> list[Past]:
        return [read_past(past) for past in ask("GET", place(dataset, "answers")).json()]

    def reopen(dataset: str, number: int) -> Reopened:
        return read_payload(ask("GET", place(dataset, "answers", int(number))).content)

    def synopses(dataset: str) -> list[Published]:
        return [read_published(one) for one in ask("GET", place(dataset, "synopses")).json()]

    def synopsis(dataset: str, number: int) -> Synopsis:
        return Synopsis(from_bytes(ask("GET", place(dataset, "synopses", int(number))).content))

    def close() -> None:
        if password is not None:
            with suppress(BlowfishError):
                ask("DELETE", "/sessions/current")
        client.close()

    return Backend(
        analyst=str(me["name"]),
        names=names,
        declared=declared,
        budget=budget,
        preview=preview,
        release=release,
        publish_preview=publish_preview,
        publish=publish,
        point_preview=point_preview,
        point_weights=point_weights,
        history=history,
        reopen=reopen,
        synopses=synopses,
        synopsis=synopsis,
        close=close,
    )


def error_of(response: httpx.Response) -> BlowfishError:
    """The typed error that a problem describes."""
    try:
        found = response.json()
        kind, said, fields = KNOWN[found["code"]], str(found["detail"]), dict(found["fields"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServerUnreachable(f"the server answered {response.status_code}, and not as BlowfishDB does")
    # Without the constructor, which would write the sentence again from fields that did not travel.
    error = kind.__new__(kind)
    BlowfishError.__init__(error, said)
    for name, value in fields.items():
        if not FIELD.fullmatch(name) or hasattr(BlowfishError, name):
            continue
        is_amount = name in AMOUNTS and isinstance(value, str) and NUMBER.fullmatch(value)
        setattr(error, name, Fraction(value) if is_amount else tuple(value) if isinstance(value, list) else value)
    return error


def _asked(asked: Query, target: AccuracyTarget) -> dict[str, Any]:
    return {"query": write_query(asked), "accuracy_target": target.written()}


def _httpx() -> ModuleType:
    try:
        import httpx
    except ImportError:
        raise ExtraMissing("httpx", "client") from None
    return httpx
