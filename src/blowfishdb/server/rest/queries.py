"""Previews and answers, of one question or of several as a plan; the history of an analyst, and synopses."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import Field
from pydantic_core import to_json

from blowfishdb.engine.charge import Released, Run, decode
from blowfishdb.engine.request import (
    AccuracyTarget,
    accuracy_target,
    read_query,
    read_target,
    read_target_options,
    spending_cap,
)
from blowfishdb.engine.synopsis import Synopsis, to_bytes
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.model.query import PUBLISHED
from blowfishdb.model.query import Query as ModelQuery
from blowfishdb.model.serialize import write
from blowfishdb.server.authentication import Analyst, Caller, Payment, Reader
from blowfishdb.server.rest import Strict
from blowfishdb.session.backend import MOST_LISTED, ReleaseRequest
from blowfishdb.session.plan import QuestionPlan, with_own
from blowfishdb.session.session import stated_items, stated_question, target_for
from blowfishdb.session.table import Question
from blowfishdb.sql import merged, split

LONGEST_SQL = 100_000


class QueryBody(Strict):
    """One query as `write_query` writes it, or `sql`; its accuracy target, and the most that a release may charge."""

    query: dict[str, Any] | None = None
    sql: str | None = Field(default=None, max_length=LONGEST_SQL)
    accuracy_target: dict[str, Any] = Field(default_factory=dict)
    deadline: float | None = None
    spend: str | None = None


SHORT = 2000


def sent_query(content: dict[str, Any] | None) -> ModelQuery:
    """The query of a body; what is short and was sent before, by whomever, need not be read again."""
    text = json.dumps(content)
    return _read_again(text) if len(text) <= SHORT else read_query(content)


@lru_cache(maxsize=256)
def _read_again(text: str) -> ModelQuery:
    return read_query(json.loads(text))


def read_body(caller: Caller, name: str, sent: QueryBody) -> tuple[Question, AccuracyTarget]:
    """The question and its accuracy target; QueryError or AccuracyError for what makes no sense."""
    session = caller.session("ask")
    table = session[name]
    if (sent.query is None) == (sent.sql is None):
        raise InvalidInput("send either a query or sql")
    if sent.sql is None:
        return table.question(sent_query(sent.query)), read_target(sent.accuracy_target)
    statement = session.statement(sent.sql)
    if statement.table != name:
        raise QueryError(f"this address is for {name}, and the statement another table")
    question = stated_question(table, statement)
    options = merged(statement.options, read_target_options(sent.accuracy_target))
    return question, target_for(question.query, options)


router = APIRouter(prefix="/datasets/{name}", tags=["answers"])
PARQUET = "application/vnd.apache.parquet"
JSON = "application/json"
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]
Most = Annotated[int, Query(ge=1, le=MOST_LISTED)]
Before = Annotated[int | None, Query(ge=1, lt=2**63)]
NOTES = {"synopsis": "asked for a synopsis", "points": "asked for points"}
"""What the audit log says of a release, where it is not an answer."""
EITHER: dict[int | str, dict[str, Any]] = {200: {"content": {JSON: {}, PARQUET: {}}}}


def reply(released: Released | bytes) -> Response:
    """What was released, or its payload: an answer or point weights as JSON, a synopsis as its file."""
    if isinstance(released, bytes):
        if released.startswith(b"{"):
            return Response(released, media_type=JSON)
        released = decode(released)
    if isinstance(released, Synopsis):
        return Response(to_bytes(released.artefact), media_type=PARQUET)
    return Response(released.to_json(), media_type=JSON)


@router.post("/previews", response_model=dict[str, Any])
async def preview(name: str, sent: QueryBody, caller: Analyst, request: Request) -> Response:
    """What a query would cost, by every mechanism. Reads nothing secret and costs nothing."""

    def work() -> Response:
        question, target = read_body(caller, name, sent)
        return Response(to_json(question.preview_at(target).to_dict(), inf_nan_mode="null"), media_type=JSON)

    return await caller.quote(work, request)


@router.post("/answers", responses=EITHER, response_class=Response)
async def release(
    name: str, sent: QueryBody, caller: Analyst, request: Request, key: IdempotencyKey = None
) -> Response:
    """The answer, synopsis or weights, charged before any data is read. The same key, or query, never pays twice."""

    def work() -> Response:
        question, target = read_body(caller, name, sent)
        with Payment(caller, NOTES.get(question.query.kind, "asked for an answer"), name) as payment:
            run = Run(key, None, sent.deadline, spending_cap(sent.spend), payment)
            return reply(question.payload_at(target, run))

    return await caller.release(work, request)


@router.get("/answers")
async def history(
    name: str,
    caller: Analyst,
    request: Request,
    most: Most = MOST_LISTED,
    before: Before = None,
    key: str | None = None,
) -> list[dict[str, Any]]:
    """Earlier answers of the caller, newest first; `before` the last number gives the next. `key`: one plan's."""

    def work() -> list[dict[str, Any]]:
        return [write(past) for past in caller.session("ask").history(name, most=most, before=before, key=key)]

    return await caller.look_up(work, request)


@router.get("/answers/{number}", responses=EITHER, response_class=Response)
async def reopen(name: str, number: int, caller: Analyst, request: Request) -> Response:
    """One of one's own answers again, free; a synopsis comes as its file."""
    return await caller.look_up(lambda: reply(caller.session("ask").reopen(name, number)), request)


synopses_router = APIRouter(prefix="/datasets/{name}/synopses", tags=["synopses"])


class AskSynopsis(Strict):
    """A question of a synopsis, and the probability with which its intervals may fail."""

    query: dict[str, Any]
    beta: float = 0.05


@synopses_router.get("")
def synopses(name: str, caller: Reader, most: Most = MOST_LISTED, before: Before = None) -> list[dict[str, Any]]:
    """The synopses of a dataset, newest first; `before` the last number gives the next ones."""
    return [write(one) for one in caller.session().synopses(name, most=most, before=before)]


@synopses_router.get("/{number}", responses={200: {"content": {PARQUET: {}}}}, response_class=Response)
async def synopsis_file(name: str, number: int, caller: Reader, request: Request) -> Response:
    """The file of a synopsis, which any Parquet tool opens."""

    def work() -> Response:
        synopsis = caller.session().synopsis(name, number)
        headers = {"Content-Disposition": f'attachment; filename="synopsis-{number}.parquet"'}
        return Response(to_bytes(synopsis.artefact), media_type=PARQUET, headers=headers)

    return await caller.look_up(work, request)


@synopses_router.post("/{number}/answers", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def ask_synopsis(name: str, number: int, sent: AskSynopsis, caller: Reader, request: Request) -> Response:
    """An answer from a synopsis; nothing is charged, and no data is read."""

    def work() -> Response:
        synopsis = caller.session().synopsis(name, number)
        return Response(synopsis.answer_json(read_query(sent.query), sent.beta), media_type=JSON)

    return await caller.quote(work, request)


LONGEST_KEY = 180
"""A key is made longer for each release of a plan."""
MOST_SENT = 64


class SentQuestion(Strict):
    """One query as `write_query` writes it, and its accuracy target."""

    query: dict[str, Any]
    accuracy_target: dict[str, Any] = Field(default_factory=dict)


class SentRelease(SentQuestion):
    """One release of a plan that was made before, with its own key and the most that it may charge."""

    key: str | None = Field(default=None, max_length=200)
    spend: str | None = None


class AskPlan(Strict):
    """Several questions, or `sql` with several statements; the accuracy of those without one; the most to charge."""

    questions: list[SentQuestion] | None = Field(default=None, max_length=MOST_SENT)
    sql: str | None = Field(default=None, max_length=LONGEST_SQL)
    accuracy_target: dict[str, Any] = Field(default_factory=dict)
    deadline: float | None = None
    spend: str | None = None


class AskPlanned(AskPlan):
    """What `AskPlan` takes; or `releases`, the plan itself, as a Python session made it from the prices it was told."""

    releases: list[SentRelease] | None = Field(default=None, min_length=1, max_length=MOST_SENT)


plans_router = APIRouter(prefix="/datasets/{name}", tags=["plans"])
PlanKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=LONGEST_KEY)]


def read_plan(caller: Caller, name: str, sent: AskPlan) -> QuestionPlan:
    """The plan of what was sent; QueryError or AccuracyError for what makes no sense."""
    session, given = caller.session("ask"), read_target_options(sent.accuracy_target)
    if (sent.questions is None) == (sent.sql is None):
        raise InvalidInput("send either questions or sql")
    items: list[tuple[Question, AccuracyTarget]] = []
    if sent.sql is not None:
        statements = [session.statement(one) for one in split(sent.sql)]
        if any(statement.table != name for statement in statements):
            raise QueryError(f"this address is for {name}, and one of the statements another table")
        items += stated_items(session, statements, given)
    for one in sent.questions or ():
        target = accuracy_target(**with_own(read_target_options(one.accuracy_target), given))
        items.append((session[name].question(read_query(one.query)), target))
    return session.plan_at(items)


def read_releases(caller: Caller, name: str, sent: AskPlanned, payment: Payment) -> list[tuple[ReleaseRequest, Run]]:
    """The releases of a plan; QueryError or AccuracyError for what makes no sense."""
    table = caller.session("ask")[name]
    if sent.questions is not None or sent.sql is not None or sent.accuracy_target or sent.spend is not None:
        raise InvalidInput("releases have an accuracy and a cap each: send nothing beside them but a deadline")
    requests: list[tuple[ReleaseRequest, Run]] = []
    for one in sent.releases or ():
        question = table.question(read_query(one.query))
        if question.query.kind in PUBLISHED:
            raise QueryError("synopses and points are released by themselves, at the address that ends in answers")
        run = Run(one.key, None, sent.deadline, spending_cap(one.spend), payment)
        requests.append((question.request(read_target(one.accuracy_target)), run))
    return requests


@plans_router.post("/plans")
async def plan(name: str, sent: AskPlan, caller: Analyst, request: Request) -> dict[str, Any]:
    """What several questions cost together, and each one's share. Reads no data and costs nothing."""
    return await caller.quote(lambda: read_plan(caller, name, sent).to_dict(), request)


@plans_router.post("/plans/answers", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def release_plan(name: str, sent: AskPlanned, caller: Analyst, request: Request, key: PlanKey = None) -> Response:
    """The answers to several questions, in their order; all of them are charged, or nothing is."""

    def work() -> Response:
        with Payment(caller, "asked for several answers", name) as payment:
            if sent.releases is None:
                planned = read_plan(caller, name, sent)
                answers = planned.release(key=key, deadline=sent.deadline, spend=sent.spend, before_charge=payment)
            else:
                answers = caller.session("ask").release_all(read_releases(caller, name, sent, payment))
        return Response(f"[{','.join(answer.to_json() for answer in answers)}]", media_type=JSON)

    return await caller.release(work, request)
