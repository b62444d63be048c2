"""Columns as points: the weights on a grid that analyses such as k-means need."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from blowfishdb.engine.charged_release import Run
from blowfishdb.engine.demand import short_number
from blowfishdb.server.access import Analyst, lanes_of, office_of
from blowfishdb.server.rest.answers import JSON, Key
from blowfishdb.server.rest.asking import Strict
from blowfishdb.session.wire import read_points, write_node_preview

router = APIRouter(prefix="/datasets/{name}/points", tags=["answers"])


class AskPoints(Strict):
    """Which columns, for how many clusters, at what price."""

    question: dict[str, Any]
    epsilon: str = Field(max_length=100)
    deadline: float | None = None


@router.post("/previews")
async def preview(name: str, sent: AskPoints, visitor: Analyst, request: Request) -> dict[str, Any]:
    """The grid that would be measured, and the others."""
    office = office_of(request)

    def work() -> dict[str, Any]:
        desk = office.desk(visitor.name)
        asked, epsilon = read_points(sent.question), short_number(sent.epsilon, "epsilon")
        return write_node_preview(desk.node_preview(name, asked, desk.declared(name)[0], epsilon))

    return await lanes_of(request).quote(visitor.name, work)


@router.post("", responses={200: {"content": {JSON: {}}}}, response_class=Response)
async def release(name: str, sent: AskPoints, visitor: Analyst, request: Request, key: Key = None) -> Response:
    """The weights, charged before any data is read."""
    office = office_of(request)

    def work() -> str:
        desk = office.desk(visitor.name)
        asked, epsilon = read_points(sent.question), short_number(sent.epsilon, "epsilon")
        run = Run(key=key, deadline=sent.deadline)
        office.actions.note(visitor.name, "asked for points", name)
        return desk.node_weights(name, asked, desk.declared(name)[0], epsilon, run).to_json()

    return Response(await lanes_of(request).release(visitor.name, work), media_type=JSON)
