"""Previews, answers, points and the history of an analyst."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from blowfishdb.engine.charge import Run
from blowfishdb.engine.serialize import read_demand, read_query
from blowfishdb.engine.synopsis import to_bytes
from blowfishdb.engine.synopsis_answers import Synopsis
from blowfishdb.engine.target import Demand, demand, short_number
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.model.domain import Domain
from blowfishdb.model.query import Query
from blowfishdb.server.access import Analyst, lanes_of, office_of
from blowfishdb.server.state import Office
from blowfishdb.session.backend import Desk
from blowfishdb.session.remote import read_points, write_node_preview, write_past
from blowfishdb.session.session import Session

LONGEST_SQL = 100_000


class Strict(BaseModel):
    """A body in which unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


class Ask(Strict):
    """One question: `question` as write_query writes it, or `sql`. `demand` has alpha or epsilon, beta, mechanism."""

    question: dict[str, Any] | None = None
    sql: str | None = Field(default=None, max_length=LONGEST_SQL)
    demand: dict[str, Any] = Field(default_factory=dict)
    deadline: float | None = None


def read_ask(office: Office, who: str, name: str, sent: Ask) -> tuple[Desk, Query, Domain, Demand]:
    """The analyst's desk and what is asked there; QueryError or AccuracyError for what makes no sense."""
    desk = office.desk(who)
    domain, _ = desk.declared(name)
    asked, demanded = _read(office, who, name, sent)
    return desk, asked, domain, demanded


def _read(office: Office, who: str, name: str, sent: Ask) -> tuple[Query, Demand]:
    if (sent.question is None) == (sent.sql is None):
        raise InvalidInput("ask either a question or sql")
    if sent.sql is None:
        return read_query(sent.question), read_demand(sent.demand)
    return _read_sql(office.session(who), name, sent.sql, sent.demand)


def _read_sql(session: Session, name: str, text: str, written: dict[str, Any]) -> tuple[Query, Demand]:
    from blowfishdb.sql import accuracy_of, ask, merged, parse, read_question

    statement = parse(text)
    if statement.table != name:
        raise QueryError(f"this address asks {name}, and the statement another table")
    table = session[name]
    given = read_demand(written) if written else None
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
    found = demand(
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
async def preview(name: str, sent: Ask, visitor: Analyst, request: Request) -> dict[str, Any]:
    """What a question would cost, by every mechanism. Reads no data and costs nothing."""
    office = office_of(request)

    def work() -> dict[str, Any]:
        desk, asked, domain, demanded = read_ask(office, visitor.name, name, sent)
        return desk.preview(name, asked, domain, demanded).to_dict()

    return await lanes_of(request).quote(visitor.name, work)


@router.post("/answers", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def release(name: str, sent: Ask, visitor: Analyst, request: Request, key: Key = None) -> Response:
    """The answer, charged before any data is read. The same key, or the same question, never pays twice."""
    office = office_of(request)

    def work() -> str:
        desk, asked, domain, demanded = read_ask(office, visitor.name, name, sent)
        run = Run(key=key, deadline=sent.deadline)
        office.actions.note(visitor.name, "asked for an answer", name)
        return desk.release(name, asked, domain, demanded, run).to_json()

    return Response(await lanes_of(request).release(visitor.name, work), media_type=JSON)


@router.get("/answers")
def history(name: str, visitor: Analyst, request: Request) -> list[dict[str, Any]]:
    """What one asked before, newest first."""
    return [write_past(past) for past in office_of(request).desk(visitor.name).history(name)]


@router.get("/answers/{number}", responses={200: {"content": {JSON: {}, PARQUET: {}}}}, response_class=Response)
def reopen(name: str, number: int, visitor: Analyst, request: Request) -> Response:
    """One of one's own answers again, free; a synopsis comes as its file."""
    found = office_of(request).desk(visitor.name).reopen(name, number)
    if isinstance(found, Synopsis):
        return Response(to_bytes(found.artefact), media_type=PARQUET)
    return Response(found.to_json(), media_type=JSON)


points_router = APIRouter(prefix="/datasets/{name}/points", tags=["answers"])


class AskPoints(Strict):
    """Which columns, for how many clusters, at what price."""

    question: dict[str, Any]
    epsilon: str = Field(max_length=100)
    deadline: float | None = None


@points_router.post("/previews")
async def preview_points(name: str, sent: AskPoints, visitor: Analyst, request: Request) -> dict[str, Any]:
    """The grid that would be measured, and the others."""
    office = office_of(request)

    def work() -> dict[str, Any]:
        desk = office.desk(visitor.name)
        asked, epsilon = read_points(sent.question), short_number(sent.epsilon, "epsilon")
        return write_node_preview(desk.node_preview(name, asked, desk.declared(name)[0], epsilon))

    return await lanes_of(request).quote(visitor.name, work)


@points_router.post("", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def release_points(name: str, sent: AskPoints, visitor: Analyst, request: Request, key: Key = None) -> Response:
    """The weights, charged before any data is read."""
    office = office_of(request)

    def work() -> str:
        desk = office.desk(visitor.name)
        asked, epsilon = read_points(sent.question), short_number(sent.epsilon, "epsilon")
        run = Run(key=key, deadline=sent.deadline)
        office.actions.note(visitor.name, "asked for points", name)
        return desk.node_weights(name, asked, desk.declared(name)[0], epsilon, run).to_json()

    return Response(await lanes_of(request).release(visitor.name, work), media_type=JSON)
