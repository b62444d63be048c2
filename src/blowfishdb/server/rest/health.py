"""For operators: whether the server runs, whether it is ready, and its numbers."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from blowfishdb.server.access import AUDITING, office_of

router = APIRouter(tags=["operations"])


@router.get("/health")
def health() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/ready")
def ready(request: Request) -> dict[str, str]:
    """The ledger and the database of people answer too; a problem with status 503 otherwise."""
    office_of(request).check_ready()
    return {"status": "ready"}


@router.get("/metrics", response_class=Response, dependencies=[AUDITING])
def metrics(request: Request) -> Response:
    """Prometheus' text format, for those who may audit: how long things take may depend on the data."""
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4")
