"""Synopses: published once by an analyst, then asked by everybody for ever, free."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from blowfishdb.engine.charge import Run
from blowfishdb.engine.serialize import read_query
from blowfishdb.engine.synopsis import to_bytes
from blowfishdb.server.access import Analyst, Member, app_state_of, worker_pools_of
from blowfishdb.server.rest.queries import JSON, PARQUET, Ask, Key, Strict, read_ask
from blowfishdb.session.remote import write_published

router = APIRouter(prefix="/datasets/{name}/synopses", tags=["synopses"])


class AskSynopsis(Strict):
    """A question of a synopsis, and the probability with which its intervals may fail."""

    query: dict[str, Any]
    beta: float = 0.05


@router.get("")
def published(name: str, identity: Member, request: Request) -> list[dict[str, Any]]:
    """All synopses of a dataset, newest first."""
    return [write_published(one) for one in app_state_of(request).backend(identity.name).synopses(name)]


@router.post("/previews")
async def preview(name: str, sent: Ask, identity: Analyst, request: Request) -> dict[str, Any]:
    """What a synopsis would cost and answer, and how far off, where that is known. Reads no data and costs nothing."""
    app_state = app_state_of(request)

    def work() -> dict[str, Any]:
        backend, asked, domain, target = read_ask(app_state, identity.name, name, sent)
        return backend.publish_preview(name, asked, domain, target).to_dict()

    return await worker_pools_of(request).quote(identity.name, work)


@router.post("", responses={200: {"content": {PARQUET: {}}}}, response_class=Response)
async def publish(name: str, sent: Ask, identity: Analyst, request: Request, key: Key = None) -> Response:
    """Publishes a synopsis, charged before any data is read; the answer is its file."""
    app_state = app_state_of(request)

    def work() -> bytes:
        backend, asked, domain, target = read_ask(app_state, identity.name, name, sent)
        run = Run(key=key, deadline=sent.deadline)
        app_state.audit_log.note(identity.name, "asked for a synopsis", name)
        return to_bytes(backend.publish(name, asked, domain, target, run).artefact)

    return Response(await worker_pools_of(request).release(identity.name, work), media_type=PARQUET)


@router.get("/{number}", responses={200: {"content": {PARQUET: {}}}}, response_class=Response)
def file(name: str, number: int, identity: Member, request: Request) -> Response:
    """The file of a synopsis, which any Parquet tool opens."""
    found = app_state_of(request).backend(identity.name).synopsis(name, number)
    headers = {"Content-Disposition": f'attachment; filename="synopsis-{number}.parquet"'}
    return Response(to_bytes(found.artefact), media_type=PARQUET, headers=headers)


@router.post("/{number}/answers", responses={200: {"content": {JSON: {}}}}, response_class=Response)
def ask(name: str, number: int, sent: AskSynopsis, identity: Member, request: Request) -> Response:
    """An answer from a synopsis; nothing is charged, and no data is read."""
    found = app_state_of(request).backend(identity.name).synopsis(name, number)
    return Response(found.answer(read_query(sent.query), sent.beta).to_json(), media_type=JSON)
