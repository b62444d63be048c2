"""Synopses: published once by an analyst, then asked by everybody for ever, free."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from blowfishdb.engine.serialize import read_query
from blowfishdb.engine.synopsis import to_bytes
from blowfishdb.model.serialize import write
from blowfishdb.server.access import Member, app_state_of
from blowfishdb.server.rest.queries import JSON, PARQUET, Strict

router = APIRouter(prefix="/datasets/{name}/synopses", tags=["synopses"])


class AskSynopsis(Strict):
    """A question of a synopsis, and the probability with which its intervals may fail."""

    query: dict[str, Any]
    beta: float = 0.05


@router.get("")
def published(name: str, identity: Member, request: Request) -> list[dict[str, Any]]:
    """All synopses of a dataset, newest first."""
    return [write(one) for one in app_state_of(request).backend(identity.name).synopses(name)]


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
