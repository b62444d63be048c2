"""What a request leaves behind: in logs and metrics neither questions nor secrets, in the audit log who did what."""

from __future__ import annotations

import json
import logging

import pytest

from blowfishdb.server.middleware import REQUESTS, JsonLines
from tests.server.places import AGES, Place

MARK = "visible-only-to-its-owner"


def test_no_question_body_or_secret_is_logged(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    ana = place.program("ana")
    marked = {"query": {"kind": "count", "where": ["==", "ward", MARK]}, "accuracy_target": {"epsilon": "1"}}
    with caplog.at_level(logging.INFO):
        ana.post("/api/v1/datasets/visits/previews", json=marked)
        ana.post("/api/v1/datasets/visits/answers", json=AGES, headers={"Idempotency-Key": MARK})
        ana.get(f"/api/v1/datasets/{MARK}")
        place.browser().post("/api/v1/sessions", json={"name": "ana", "password": MARK})
    # The access log of the web server is switched off where a server runs; here the test itself listens to it.
    own = [record for record in caplog.records if record.name.startswith(("blowfishdb", "uvicorn.error", "nicegui"))]
    lines = [JsonLines().format(record) for record in own]
    assert [json.loads(line)["status"] for line in lines if json.loads(line)["logger"] == REQUESTS] == [
        422,
        200,
        404,
        401,
    ]
    for secret in (MARK, place.secrets["ana"], "histogram"):
        assert [line for line in lines if secret in line] == []
    metrics = place.program("aude").get("/metrics").text
    assert MARK not in metrics and "/api/v1/datasets/{name}" in metrics


def test_the_audit_log_names_who_asked_and_not_what(place: Place) -> None:
    place.program("ana").post("/api/v1/datasets/visits/answers", json=AGES)
    (line,) = place.app_state.audit_log.last(1)
    assert (line.who, line.action, line.target) == ("ana", "asked for an answer", "visits")
    assert "age" not in str(line)
