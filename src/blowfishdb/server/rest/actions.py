"""The audit log: who did what on this server."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from blowfishdb.server.access import AUDITING, office_of

router = APIRouter(prefix="/actions", tags=["audit log"])


@router.get("", dependencies=[AUDITING])
def actions(
    request: Request,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    most: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> list[dict[str, Any]]:
    """Lines after a number, oldest first."""
    return [asdict(action) for action in office_of(request).actions.lines(after=after, most=most)]


@router.get("/verification", dependencies=[AUDITING])
def verification(request: Request) -> dict[str, Any]:
    """Whether a line is missing or was changed."""
    fault = office_of(request).actions.first_fault()
    return {"sound": fault is None, "fault": fault}
