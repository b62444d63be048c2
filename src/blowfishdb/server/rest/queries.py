"""Previews, answers, the history of an analyst, and published synopses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from pydantic import Field

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Released, Run
from blowfishdb.engine.postprocess import EVERYTHING, Selection, select_rows
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import read_query
from blowfishdb.engine.synopsis import Synopsis, to_bytes
from blowfishdb.engine.target import AccuracyTarget, accuracy_target, read_target, read_target_options, spending_cap
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.model.domain import Domain
from blowfishdb.model.query import Query
from blowfishdb.model.serialize import write
from blowfishdb.server.access import Analyst, Caller, Member, worker_pools_of
from blowfishdb.server.rest import Strict
from blowfishdb.session.backend import Backend
from blowfishdb.session.session import Session, stated_question, with_alpha
from blowfishdb.session.sizes import sized_question
from blowfishdb.session.table import Question, with_note

LONGEST_SQL = 100_000


class Ask(Strict):
    """One query as `write_query` writes it, or `sql`; its accuracy target, and the most that a release may charge."""

    query: dict[str, Any] | None = None
    sql: str | None = Field(default=None, max_length=LONGEST_SQL)
    accuracy_target: dict[str, Any] = Field(default_factory=dict)
    deadline: float | None = None
    spend: str | None = None


@dataclass(frozen=True, eq=False)
class ParsedAsk:
    """What is asked of an analyst's backend, and what is done to the answer."""

    backend: Backend
    query: Query
    domain: Domain
    target: AccuracyTarget
    selection: Selection = EVERYTHING
    note: str = ""


def read_ask(caller: Caller, name: str, sent: Ask) -> ParsedAsk:
    """The analyst's backend and what is asked there; QueryError or AccuracyError for what makes no sense."""
    backend = caller.backend()
    domain, _ = backend.declared(name)
    if (sent.query is None) == (sent.sql is None):
        raise InvalidInput("send either a query or sql")
    if sent.sql is None:
        query, target = read_query(sent.query), read_target(sent.accuracy_target)
        sized = sized_question(backend, name, query, domain, target)
        return ParsedAsk(backend, sized.query, domain, sized.target, note=sized.note)
    question, target = _read_sql(caller.app_state.session(caller.name), name, sent.sql, sent.accuracy_target)
    sized = sized_question(backend, name, question.query, domain, target)
    return ParsedAsk(backend, sized.query, domain, sized.target, question.selection, sized.note)


def _read_sql(session: Session, name: str, text: str, target: dict[str, Any]) -> tuple[Question, AccuracyTarget]:
    from blowfishdb.sql import merged, parse

    statement = parse(text)
    if statement.table != name:
        raise QueryError(f"this address asks {name}, and the statement another table")
    options = merged(statement.options, read_target_options(target))
    question = stated_question(session[name], statement)
    return question, accuracy_target(**with_alpha(options, question.query))


router = APIRouter(prefix="/datasets/{name}", tags=["answers"])
PARQUET = "application/vnd.apache.parquet"
JSON = "application/json"
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]
NOTES = {"synopsis": "asked for a synopsis", "points": "asked for points"}
"""What the audit log says of a release, where it is not an answer."""
EITHER: dict[int | str, dict[str, Any]] = {200: {"content": {JSON: {}, PARQUET: {}}}}


def reply(released: Released) -> Response:
    """What was released: an answer or point weights as JSON, a synopsis as its file."""
    if isinstance(released, Synopsis):
        return Response(to_bytes(released.artefact), media_type=PARQUET)
    return Response(released.to_json(), media_type=JSON)


@router.post("/previews")
async def preview(name: str, sent: Ask, caller: Analyst, request: Request) -> dict[str, Any]:
    """What a query would cost, by every mechanism. Reads nothing secret and costs nothing."""

    def work() -> dict[str, Any]:
        parsed = read_ask(caller, name, sent)
        preview = parsed.backend.preview(name, parsed.query, parsed.domain, parsed.target)
        return (replace(preview, relative=parsed.note) if isinstance(preview, Preview) else preview).to_dict()

    return await worker_pools_of(request).quote(caller.name, work, request)


@router.post("/answers", responses=EITHER, response_class=Response)
async def release(name: str, sent: Ask, caller: Analyst, request: Request, key: Key = None) -> Response:
    """The answer, synopsis or weights, charged before any data is read. The same key, or query, never pays twice."""

    def work() -> Response:
        parsed = read_ask(caller, name, sent)
        run = Run(key=key, deadline=sent.deadline, spend=spending_cap(sent.spend))
        caller.note(NOTES.get(parsed.query.kind, "asked for an answer"), name)
        released = parsed.backend.release(name, parsed.query, parsed.domain, parsed.target, run)
        if isinstance(released, Answer):
            released = select_rows(with_note(released, parsed.note), parsed.selection)
        return reply(released)

    return await worker_pools_of(request).release(caller.name, work, request)


@router.get("/answers")
def history(name: str, caller: Analyst) -> list[dict[str, Any]]:
    """What one asked before, newest first."""
    return [write(past) for past in caller.backend().history(name)]


@router.get("/answers/{number}", responses=EITHER, response_class=Response)
def reopen(name: str, number: int, caller: Analyst) -> Response:
    """One of one's own answers again, free; a synopsis comes as its file."""
    return reply(caller.backend().reopen(name, number))


synopses_router = APIRouter(prefix="/datasets/{name}/synopses", tags=["synopses"])


class AskSynopsis(Strict):
    """A question of a synopsis, and the probability with which its intervals may fail."""

    query: dict[str, Any]
    beta: float = 0.05


@synopses_router.get("")
def synopses(name: str, caller: Member) -> list[dict[str, Any]]:
    """All synopses of a dataset, newest first."""
    return [write(one) for one in caller.backend().synopses(name)]


@synopses_router.get("/{number}", responses={200: {"content": {PARQUET: {}}}}, response_class=Response)
def synopsis_file(name: str, number: int, caller: Member) -> Response:
    """The file of a synopsis, which any Parquet tool opens."""
    synopsis = caller.backend().synopsis(name, number)
    headers = {"Content-Disposition": f'attachment; filename="synopsis-{number}.parquet"'}
    return Response(to_bytes(synopsis.artefact), media_type=PARQUET, headers=headers)


@synopses_router.post("/{number}/answers", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def ask_synopsis(name: str, number: int, sent: AskSynopsis, caller: Member, request: Request) -> Response:
    """An answer from a synopsis; nothing is charged, and no data is read."""

    def work() -> Response:
        synopsis = caller.backend().synopsis(name, number)
        return Response(synopsis.answer_json(read_query(sent.query), sent.beta), media_type=JSON)

    return await worker_pools_of(request).quote(caller.name, work, request)
