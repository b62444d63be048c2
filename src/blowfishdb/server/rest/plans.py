"""Plans: several questions of a dataset priced together, and released together."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from pydantic import Field

from blowfishdb.engine.request import read_query
from blowfishdb.engine.target import read_target_options
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.server.access import Analyst, Caller, worker_pools_of
from blowfishdb.server.rest import Strict
from blowfishdb.server.rest.queries import JSON, LONGEST_SQL
from blowfishdb.session.plan import Item, QuestionPlan
from blowfishdb.session.session import stated_items
from blowfishdb.sql import parse, split

LONGEST_KEY = 180
"""A key is made longer for each release of a plan."""
MOST_SENT = 64


class SentQuestion(Strict):
    """One query as `write_query` writes it, and its accuracy target."""

    query: dict[str, Any]
    accuracy_target: dict[str, Any] = Field(default_factory=dict)


class AskPlan(Strict):
    """Several questions, or `sql` with several statements; the accuracy of those without one; the most to charge."""

    questions: list[SentQuestion] | None = Field(default=None, max_length=MOST_SENT)
    sql: str | None = Field(default=None, max_length=LONGEST_SQL)
    accuracy_target: dict[str, Any] = Field(default_factory=dict)
    deadline: float | None = None
    spend: str | None = None


router = APIRouter(prefix="/datasets/{name}", tags=["plans"])
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=LONGEST_KEY)]


def read_plan(caller: Caller, name: str, sent: AskPlan) -> QuestionPlan:
    """The plan of what was sent; QueryError or AccuracyError for what makes no sense."""
    session, given = caller.app_state.session(caller.name), read_target_options(sent.accuracy_target)
    if (sent.questions is None) == (sent.sql is None):
        raise InvalidInput("send either questions or sql")
    items: list[Item] = []
    if sent.sql is not None:
        statements = [parse(one) for one in split(sent.sql)]
        if any(statement.table != name for statement in statements):
            raise QueryError(f"this address asks {name}, and one of the statements another table")
        items += stated_items(session, statements, given)
    for one in sent.questions or ():
        items.append((session[name].question(read_query(one.query)), dict(read_target_options(one.accuracy_target))))
    return session.plan_with(items, given)


@router.post("/plans")
async def plan(name: str, sent: AskPlan, caller: Analyst, request: Request) -> dict[str, Any]:
    """What several questions cost together, and each one's share. Reads no data and costs nothing."""
    return await worker_pools_of(request).quote(caller.name, lambda: read_plan(caller, name, sent).to_dict(), request)


@router.post("/plans/answers", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def release_plan(name: str, sent: AskPlan, caller: Analyst, request: Request, key: Key = None) -> Response:
    """The answers to several questions, in their order; all of them are charged, or nothing is."""

    def work() -> Response:
        planned = read_plan(caller, name, sent)
        caller.note("asked for several answers", name)
        answers = planned.release(key=key, deadline=sent.deadline, spend=sent.spend)
        return Response(f"[{','.join(answer.to_json() for answer in answers)}]", media_type=JSON)

    return await worker_pools_of(request).release(caller.name, work, request)
