"""Previews, answers, points and the history of an analyst."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from blowfishdb.engine.charge import Run
from blowfishdb.engine.serialize import read_query, read_target
from blowfishdb.engine.synopsis import to_bytes
from blowfishdb.engine.synopsis_answers import Synopsis
from blowfishdb.engine.target import AccuracyTarget, accuracy_target, short_number
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.model.domain import Domain
from blowfishdb.model.query import Query
from blowfishdb.server.access import Analyst, app_state_of, worker_pools_of
from blowfishdb.server.state import AppState
from blowfishdb.session.backend import Backend
from blowfishdb.session.remote import read_points, write_past, write_point_preview
from blowfishdb.session.session import Session

LONGEST_SQL = 100_000


class Strict(BaseModel):
    """A body in which unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


class Ask(Strict):
    """One query as `write_query` writes it, or `sql`; and its accuracy target."""

    query: dict[str, Any] | None = None
    sql: str | None = Field(default=None, max_length=LONGEST_SQL)
    accuracy_target: dict[str, Any] = Field(default_factory=dict)
    deadline: float | None = None


def read_ask(app_state: AppState, who: str, name: str, sent: Ask) -> tuple[Backend, Query, Domain, AccuracyTarget]:
    """The analyst's backend and what is asked there; QueryError or AccuracyError for what makes no sense."""
    backend = app_state.backend(who)
    domain, _ = backend.declared(name)
    asked, target = _read(app_state, who, name, sent)
    return backend, asked, domain, target


def _read(app_state: AppState, who: str, name: str, sent: Ask) -> tuple[Query, AccuracyTarget]:
    if (sent.query is None) == (sent.sql is None):
        raise InvalidInput("send either a query or sql")
    if sent.sql is None:
        return read_query(sent.query), read_target(sent.accuracy_target)
    return _read_sql(app_state.session(who), name, sent.sql, sent.accuracy_target)


def _read_sql(session: Session, name: str, text: str, written: dict[str, Any]) -> tuple[Query, AccuracyTarget]:
    from blowfishdb.sql import accuracy_of, ask, merged, parse, read_question

    statement = parse(text)
    if statement.table != name:
        raise QueryError(f"this address asks {name}, and the statement another table")
    table = session[name]
    given = read_target(written) if written else None
    wanted = merged(
        statement.options,
        accuracy_of(
            None if given is None else given.alpha,
            None if given is None else given.beta,
            None if given is None else given.epsilon,
            None,
            None,
            None if given is None else given.mechanism,
            None if given is None else given.guarantee == "per-query" or None,
        ),
    )
    found = accuracy_target(
        wanted.alpha,
        wanted.beta,
        wanted.epsilon,
        mechanism=wanted.mechanism,
        per_query=bool(wanted.per_query),
    )
    return ask(table, read_question(statement, table.domain)).query, found


router = APIRouter(prefix="/datasets/{name}", tags=["answers"])
PARQUET = "application/vnd.apache.parquet"
JSON = "application/json"
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


@router.post("/previews")
async def preview(name: str, sent: Ask, identity: Analyst, request: Request) -> dict[str, Any]:
    """What a question would cost, by every mechanism. Reads no data and costs nothing."""
    app_state = app_state_of(request)

    def work() -> dict[str, Any]:
        backend, asked, domain, target = read_ask(app_state, identity.name, name, sent)
        return backend.preview(name, asked, domain, target).to_dict()

    return await worker_pools_of(request).quote(identity.name, work)


@router.post("/answers", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def release(name: str, sent: Ask, identity: Analyst, request: Request, key: Key = None) -> Response:
    """The answer, charged before any data is read. The same key, or the same question, never pays twice."""
    app_state = app_state_of(request)

    def work() -> str:
        backend, asked, domain, target = read_ask(app_state, identity.name, name, sent)
        run = Run(key=key, deadline=sent.deadline)
        app_state.audit_log.note(identity.name, "asked for an answer", name)
        return backend.release(name, asked, domain, target, run).to_json()

    return Response(await worker_pools_of(request).release(identity.name, work), media_type=JSON)


@router.get("/answers")
def history(name: str, identity: Analyst, request: Request) -> list[dict[str, Any]]:
    """What one asked before, newest first."""
    return [write_past(past) for past in app_state_of(request).backend(identity.name).history(name)]


@router.get("/answers/{number}", responses={200: {"content": {JSON: {}, PARQUET: {}}}}, response_class=Response)
def reopen(name: str, number: int, identity: Analyst, request: Request) -> Response:
    """One of one's own answers again, free; a synopsis comes as its file."""
    found = app_state_of(request).backend(identity.name).reopen(name, number)
    if isinstance(found, Synopsis):
        return Response(to_bytes(found.artefact), media_type=PARQUET)
    return Response(found.to_json(), media_type=JSON)


points_router = APIRouter(prefix="/datasets/{name}/points", tags=["answers"])


class AskPoints(Strict):
    """Which columns, for how many clusters, at what price."""

    query: dict[str, Any]
    epsilon: str = Field(max_length=100)
    deadline: float | None = None


@points_router.post("/previews")
async def preview_points(name: str, sent: AskPoints, identity: Analyst, request: Request) -> dict[str, Any]:
    """The grid that would be measured, and the others."""
    app_state = app_state_of(request)

    def work() -> dict[str, Any]:
        backend = app_state.backend(identity.name)
        asked, epsilon = read_points(sent.query), short_number(sent.epsilon, "epsilon")
        return write_point_preview(backend.point_preview(name, asked, backend.declared(name)[0], epsilon))

    return await worker_pools_of(request).quote(identity.name, work)


@points_router.post("", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def release_points(name: str, sent: AskPoints, identity: Analyst, request: Request, key: Key = None) -> Response:
    """The weights, charged before any data is read."""
    app_state = app_state_of(request)

    def work() -> str:
        backend = app_state.backend(identity.name)
        asked, epsilon = read_points(sent.query), short_number(sent.epsilon, "epsilon")
        run = Run(key=key, deadline=sent.deadline)
        app_state.audit_log.note(identity.name, "asked for points", name)
        return backend.point_weights(name, asked, backend.declared(name)[0], epsilon, run).to_json()

    return Response(await worker_pools_of(request).release(identity.name, work), media_type=JSON)
