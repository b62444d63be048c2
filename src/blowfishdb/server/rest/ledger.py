"""The ledger and the audit log, for those who keep or check them."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, StreamingResponse

from blowfishdb.catalog.record import record_page
from blowfishdb.ledger import Entry
from blowfishdb.server.authentication import LedgerReader
from blowfishdb.server.rest import fields_of
from blowfishdb.server.rest.access import recipients_of

router = APIRouter(prefix="/ledger", tags=["ledger"])


@router.get("/entries")
def entries(
    caller: LedgerReader,
    dataset: str | None = None,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    most: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[dict[str, Any]]:
    """Entries in order, after a number; those of one dataset, or of all that one may audit."""
    return [entry_content(entry) for entry in islice(caller.auditor().entries(dataset, after=after), most)]


@router.get("/verification")
def verification(caller: LedgerReader) -> dict[str, Any]:
    """Recomputes every hash and every balance."""
    outcome = caller.auditor().verify()
    return {"sound": outcome.is_sound, **fields_of(outcome, "entries", "head", "fault")}


@router.get("/export", response_class=StreamingResponse)
def export(caller: LedgerReader, dataset: str | None = None) -> StreamingResponse:
    """Every entry with its hashes, one JSON object per line."""
    caller.note("exported the ledger", dataset or "")
    entries = caller.auditor().entries(dataset)
    lines = (json.dumps(entry_content(entry), ensure_ascii=False) + "\n" for entry in entries)
    headers = {"Content-Disposition": 'attachment; filename="ledger.jsonl"'}
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


@router.get("/record", response_class=HTMLResponse)
def record(caller: LedgerReader, dataset: str) -> HTMLResponse:
    """The record of processing of a dataset, a page that stands alone."""
    auditor = caller.auditor()
    auditor.dataset(dataset)
    content = record_page(auditor, dataset, recipients_of(caller.app_state, dataset))
    caller.note("took the record of processing", dataset)
    return HTMLResponse(content, headers={"Content-Disposition": 'attachment; filename="record.html"'})


def entry_content(entry: Entry) -> dict[str, Any]:
    """An entry with its hashes."""
    return {"body": entry.fields, **fields_of(entry, "sequence", "kind", "account", "previous_hash", "hash")}


audit_log_router = APIRouter(prefix="/audit-log", tags=["audit log"])


@audit_log_router.get("")
def audit_log(
    caller: LedgerReader,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    most: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> list[dict[str, Any]]:
    """Lines after a number, oldest first: about datasets that one audits, for auditors by account others too."""
    return [asdict(entry) for entry in caller.app_state.audit_log.lines(after=after, most=most, shows=caller.reads)]


@audit_log_router.get("/verification")
def audit_log_verification(caller: LedgerReader) -> dict[str, Any]:
    """Whether a line is missing or was changed."""
    fault = caller.app_state.audit_log.first_fault()
    return {"sound": fault is None, "fault": fault}
