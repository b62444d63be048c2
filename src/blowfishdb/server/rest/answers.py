"""Previews, answers and the history of an analyst."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from blowfishdb.engine.charged_release import Run
from blowfishdb.engine.synopsis.file import to_bytes
from blowfishdb.engine.synopsis.synopsis import Synopsis
from blowfishdb.server.access import Analyst, lanes_of, office_of
from blowfishdb.server.rest.asking import Ask, read_ask
from blowfishdb.session.wire import write_past

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
