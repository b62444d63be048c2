"""Synopses: published once by an analyst, then asked by everybody for ever, free."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from blowfishdb.engine.serialize import read_query
from blowfishdb.engine.synopsis import to_bytes
from blowfishdb.model.serialize import write
from blowfishdb.server.access import Member
from blowfishdb.server.rest.queries import JSON, PARQUET, Strict

router = APIRouter(prefix="/datasets/{name}/synopses", tags=["synopses"])


class AskSynopsis(Strict):
    """A question of a synopsis, and the probability with which its intervals may fail."""

    query: dict[str, Any]
    beta: float = 0.05


@router.get("")
def published(name: str, caller: Member) -> list[dict[str, Any]]:
    """All synopses of a dataset, newest first."""
    return [write(one) for one in caller.backend().synopses(name)]


@router.get("/{number}", responses={200: {"content": {PARQUET: {}}}}, response_class=Response)
def file(name: str, number: int, caller: Member) -> Response:
    """The file of a synopsis, which any Parquet tool opens."""
    synopsis = caller.backend().synopsis(name, number)
    headers = {"Content-Disposition": f'attachment; filename="synopsis-{number}.parquet"'}
    return Response(to_bytes(synopsis.artefact), media_type=PARQUET, headers=headers)


@router.post("/{number}/answers", responses={200: {"content": {JSON: {}}}}, response_class=Response)
def ask(name: str, number: int, sent: AskSynopsis, caller: Member) -> Response:
    """An answer from a synopsis; nothing is charged, and no data is read."""
    synopsis = caller.backend().synopsis(name, number)
    return Response(synopsis.answer(read_query(sent.query), sent.beta).to_json(), media_type=JSON)
