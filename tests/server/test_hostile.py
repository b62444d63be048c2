"""A hostile analyst with browser tools and curl."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import duckdb
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from blowfishdb.server.auth.session import IDLE
from blowfishdb.sources.duckdb import DuckDB
from tests.server.places import AGES, PASSWORD, Place, code, opened

ANSWERS = "/api/v1/datasets/visits/answers"
PREVIEWS = "/api/v1/datasets/visits/previews"


def test_cookies_and_proofs_are_not_forged(place: Place) -> None:
    ana = place.browser("ana")
    good = ana.headers["X-CSRF-Token"]
    for csrf_token in ("", "x", good[:-1], good + "x", str(place.browser("bob").headers["X-CSRF-Token"])):
        assert code(ana.post(PREVIEWS, json=AGES, headers={"X-CSRF-Token": csrf_token})) == "csrf-token-missing"
    assert ana.post(PREVIEWS, json=AGES).status_code == 200
    secret = ana.cookies["blowfish_session"]
    for forged in (secret[:-1], secret + "x", "x" * 5000, "cora", ""):
        stranger = place.browser()
        stranger.cookies.set("blowfish_session", forged)
        assert code(stranger.get("/api/v1/datasets")) == "not-signed-in"
    for header in ("Bearer", "Basic YW5hOng=", f"Bearer {secret}", "bearer " + "x" * 5000):
        sent = place.browser().get("/api/v1/datasets", headers={"Authorization": header})
        assert code(sent) == "not-signed-in"


def test_a_bad_token_is_not_helped_by_a_good_cookie(place: Place) -> None:
    ana = place.browser("ana")
    assert code(ana.get("/api/v1/datasets", headers={"Authorization": "Bearer bfdb_x"})) == "not-signed-in"


def test_visits_end_and_the_disabled_are_out(place: Place) -> None:
    ana, bob = place.browser("ana"), place.browser("bob")
    place.browser("cora").put("/api/v1/users/bob/disabled", json={"disabled": True})
    assert code(bob.get("/api/v1/datasets")) == "not-signed-in"
    assert code(place.program("bob").get("/api/v1/datasets")) == "not-signed-in"
    place.time[0] += IDLE + 1
    assert code(ana.get("/api/v1/datasets")) == "not-signed-in"


def test_signing_in_says_nothing_and_slows_down(place: Place) -> None:
    place.app_state.users.set_password("ana", PASSWORD)
    said = {
        place.browser().post("/api/v1/sessions", json={"name": name, "password": "wrong password"}).text
        for name in ("ana", "nobody", "cora")
    }
    assert len(said) == 1
    for _ in range(6):
        place.browser().post("/api/v1/sessions", json={"name": "ana", "password": "wrong password"})
    waiting = place.browser().post("/api/v1/sessions", json={"name": "ana", "password": PASSWORD})
    assert waiting.status_code == 401
    assert int(waiting.headers["retry-after"]) > 0


@pytest.mark.parametrize(("server", "seen"), [("", "127.0.0.1"), ("behind_proxy = true", "9.9.9.9")])
def test_a_proxy_is_believed_only_where_told(tmp_path: Path, server: str, seen: str) -> None:
    with opened(tmp_path, server=server) as place:
        said = {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https"}
        place.browser().post("/api/v1/sessions", json={"name": "ana", "password": "wrong password"}, headers=said)
        (line,) = place.app_state.audit_log.last(1)
        assert (line.action, line.target) == ("sign-in refused", seen)


def test_a_form_of_another_site_does_not_sign_in(place: Place) -> None:
    sent = place.browser().post("/api/v1/sessions", data={"name": "ana", "password": PASSWORD})
    assert sent.status_code == 422
    assert "set-cookie" not in sent.headers


def test_pages_of_other_sites_change_nothing(place: Place) -> None:
    ana = place.browser("ana")
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        assert code(ana.post(PREVIEWS, json=AGES, headers={"Origin": origin})) == "foreign-origin"
        assert code(ana.get("/_nicegui_ws/socket.io/", headers={"Origin": origin})) == "foreign-origin"
        assert ana.get("/api/v1/datasets", headers={"Origin": origin}).status_code == 200
        with pytest.raises(InvalidStatus) as refused:
            connect(place.address.replace("http", "ws") + "/_nicegui_ws/socket.io/", origin=Origin(origin))
        assert refused.value.response.status_code == 403
    assert ana.post(PREVIEWS, json=AGES, headers={"Origin": place.address}).status_code == 200


def test_a_key_of_somebody_else_gives_nothing(place: Place) -> None:
    first = place.program("ana").post(ANSWERS, json=AGES, headers={"Idempotency-Key": "k"})
    again = place.program("ana").post(ANSWERS, json=AGES, headers={"Idempotency-Key": "k"})
    assert first.json()["raw"] == again.json()["raw"]
    fresh = {**AGES, "accuracy_target": {**AGES["accuracy_target"], "fresh": True}}
    other = place.program("bob").post(ANSWERS, json=fresh, headers={"Idempotency-Key": "k"})
    assert other.status_code == 200
    assert other.json()["raw"] != first.json()["raw"]
    spent = {name: place.program(name).get("/api/v1/datasets/visits/budget").json()["spent"] for name in ("ana", "bob")}
    assert spent == {"ana": "1/10", "bob": "1/10"}
    number = place.program("ana").get(ANSWERS).json()[0]["number"]
    for wanted in (number, number + 10**6, 0, -1):
        sent = place.program("bob").get(f"{ANSWERS}/{wanted}")
        assert sent.status_code in (404, 422)
    assert code(place.program("bob").get(f"{ANSWERS}/{number}")) == "unknown-answer"
    dearer = {**AGES, "accuracy_target": {"epsilon": "1/5"}}
    assert code(place.program("ana").post(ANSWERS, json=dearer, headers={"Idempotency-Key": "k"})) == "key-reused"


def test_huge_requests_are_not_read(tmp_path: Path) -> None:
    with opened(tmp_path, server="largest_body = 10000") as place:
        ana = place.program("ana")
        assert code(ana.post(PREVIEWS, content=b"x" * 10_001)) == "too-large"

        def pieces() -> object:
            for _ in range(100):
                yield b"[" * 1000

        assert code(ana.post(PREVIEWS, content=pieces())) == "too-large"  # type: ignore[arg-type]
        host, port = place.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as line:
            line.sendall(f"POST {PREVIEWS} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n".encode())
            assert line.recv(100).startswith(b"HTTP/1.1 413")


def test_requests_are_limited(tmp_path: Path) -> None:
    with opened(tmp_path, server="requests_per_minute = 6") as place:
        client = place.program("ana")
        sent = [client.get("/api/v1/datasets") for _ in range(12)]
        assert sent[0].status_code == 200
        assert code(sent[-1]) == "rate-limited"
        assert int(sent[-1].headers["retry-after"]) > 0
        assert client.get("/health").status_code == 200


ODD = [
    "null",
    "[]",
    '"x"',
    "{",
    "NaN",
    "[" * 50_000,
    '{"query": {"kind": "histogram"}}',
    '{"query": {"kind": "rows", "axes": []}, "accuracy_target": {"epsilon": "1"}}',
    '{"query":{"kind":"histogram", "axes":[{"attribute":"cost", "width":-1}]}, "accuracy_target":{"epsilon":"1"}}',
    '{"query": {"kind": "histogram", "axes": [{"attribute": "__class__"}]}, "accuracy_target": {"epsilon": "1"}}',
    '{"query": {"kind": "histogram", "axes": [{"attribute": "age"}]}, "accuracy_target": {"epsilon": NaN}}',
    '{"query": {"kind": "histogram", "axes": [{"attribute": "age"}]}, "accuracy_target": {"epsilon": -1}}',
    '{"query": {"kind": "histogram", "axes": [{"attribute": "age"}]}, "accuracy_target": {"epsilon": 1e999}}',
    '{"query":{"kind":"histogram", "axes":[{"attribute":"age"}]}, "accuracy_target":{"epsilon":true, "alpha":{}}}',
    '{"query": {"kind": "histogram", "axes": [{"attribute": "age"}]}, "accuracy_target": {"epsilon": [1]}}',
    '{"query": {"kind": "histogram", "axes": [{"attribute": "age"}]}, "accuracy_target": {"epsilon": "1/0"}}',
    '{"query":{"kind":"histogram", "axes":[{"attribute":"age"}]}, "accuracy_target":{"epsilon":"1"}, "analyst":"bob"}',
    '{"query": {"kind": "count", "where": ["==", "patient", 17]}, "accuracy_target": {"epsilon": "1"}}',
    '{"query": {"kind": "count", "where": ["Negation"]}, "accuracy_target": {"epsilon": "1"}}',
    '{"query": {"kind": "count", "where": ["==", "age", ["int", "9999999999999999999999"]]}, "accuracy_target": {}}',
    '{"query": {"kind": "count", "where": ["==", "age", "\\u0000"]}, "accuracy_target": {"epsilon": "1"}}',
    '{"query":{"kind":"quantiles", "axes":[{"attribute":"age"}], "levels":["7"]}, "accuracy_target":{"epsilon":"1"}}',
    '{"query": {"kind": "quantiles", "axes": [{"attribute": "age"}]}, "accuracy_target": {"epsilon": "1"}}',
    '{"sql": "SELECT * FROM visits"}',
    '{"sql": "SELECT COUNT(*) FROM ledger"}',
    '{"sql": "SELECT COUNT(*) FROM visits; DROP TABLE visits", "accuracy_target": {"epsilon": "1"}}',
    '{"sql": "SELECT COUNT(*) FROM visits", "query": {"kind": "count"}, "accuracy_target": {"epsilon": "1"}}',
    '{"query": {"kind": "histogram", "axes": [{"attribute": "age"}]}, "accuracy_target": {"mechanism": "os.system"}}',
]


def test_odd_bodies_are_refused_and_charge_nothing(place: Place) -> None:
    ana = place.program("ana")
    wrong = []
    for body in ODD:
        for path in (PREVIEWS, ANSWERS):
            sent = ana.post(path, content=body, headers={"Content-Type": "application/json"})
            is_problem = sent.headers["content-type"] == "application/problem+json"
            if sent.status_code not in (400, 404, 413, 422) or not is_problem:
                wrong.append((path, body[:200], sent.status_code, sent.text[:200]))
    assert wrong == []
    assert ana.get("/api/v1/datasets/visits/budget").json()["spent"] == "0"


ODD_NAMES = (
    "../blowfish.toml",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "visits%0d%0aX-Evil:1",
    "x" * 3000,
    "VISITS",
    "'",
    "💥",
)


def test_half_a_character_and_endless_numbers_are_no_faults(place: Place) -> None:
    json = {"Content-Type": "application/json"}
    for body in (r'{"name": "\ud800", "password": "x"}', r'{"name": "ana", "password": "\ud800"}'):
        assert code(place.browser().post("/api/v1/sessions", content=body, headers=json)) == "invalid-input"
    own = r'{"password": "\ud800", "new_password": "x"}'
    sent = place.browser("ana").put("/api/v1/sessions/current/password", content=own, headers=json)
    assert code(sent) == "invalid-input"
    for path in ("ledger/entries", "audit-log"):
        assert code(place.browser("cora").get(f"/api/v1/{path}?after={10**30}")) == "invalid-input"


def test_odd_names_lead_nowhere(place: Place) -> None:
    for name in ODD_NAMES:
        sent = place.program("ana").get(f"/api/v1/datasets/{name}")
        assert sent.status_code in (404, 422), name
        assert "x-evil" not in sent.headers
        assert str(place.folder) not in sent.text
        assert "Traceback" not in sent.text


def test_a_key_that_cannot_be_kept_is_refused(place: Place) -> None:
    for key in ("x" * 201, "tab\tinside"):
        sent = place.program("ana").post(ANSWERS, json=AGES, headers={"Idempotency-Key": key})
        assert sent.status_code == 422
    assert code(place.program("ana").post(ANSWERS, json={**AGES, "deadline": -5})) == "invalid-accuracy"
    assert place.program("ana").get("/api/v1/datasets/visits/budget").json()["spent"] == "0"


def test_a_failing_source_tells_no_row(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: DuckDB, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        raise duckdb.ConversionException("cannot cast 'Ada Lovelace, ward A3'")

    monkeypatch.setattr(DuckDB, "fetch_columns", fail)
    with caplog.at_level(logging.INFO):
        sent = place.program("ana").post(ANSWERS, json=AGES)
    assert code(sent) == "release-failed"
    assert sent.status_code == 502
    assert "Lovelace" not in sent.text + str(sent.headers)
    incident = sent.json()["fields"]["incident"]
    told = [record for record in caplog.records if record.name != "blowfishdb.curator"]
    assert "Lovelace" not in "".join(record.getMessage() + str(record.exc_info) for record in told)
    assert any(incident in record.getMessage() for record in caplog.records if record.name == "blowfishdb.curator")
    assert place.program("ana").get("/api/v1/datasets/visits/budget").json()["spent"] == "1/10"
    monkeypatch.undo()
    assert place.program("ana").post(ANSWERS, json=AGES).status_code == 200
    assert place.program("ana").get("/api/v1/datasets/visits/budget").json()["spent"] == "1/10"


def test_a_source_that_is_gone_tells_no_folder(place: Place) -> None:
    (place.folder / "clinic.duckdb").rename(place.folder / "moved.duckdb")
    place.app_state._live.now().sources.clear()
    for sent in (
        place.program("ana").post(ANSWERS, json=AGES),
        place.program("ana").post(PREVIEWS, json=AGES),
        place.program("ana").get("/api/v1/datasets/visits/budget"),
    ):
        assert sent.status_code == 422
        assert str(place.folder) not in sent.text


def test_a_fault_of_ours_tells_an_incident_and_no_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise RuntimeError("Ada Lovelace")

    monkeypatch.setattr("blowfishdb.server.state.AppState.check_ready", fail)
    sent = place.browser().get("/ready")
    assert code(sent) == "internal-error"
    assert "Lovelace" not in sent.text
    monkeypatch.setattr("blowfishdb.server.rest.queries.read_body", lambda *_: fail(None))
    assert code(place.program("ana").post(ANSWERS, json=AGES)) == "internal-error"


def test_nothing_an_analyst_reads_holds_a_true_count(place: Place) -> None:
    """The planted table has 3000 rows, 30 of each age and 1000 of each ward; small noise would not hide these."""
    ana = place.program("ana")
    paths = ("", "/visits", "/visits/policy", "/visits/synopses", "/visits/budget", "/visits/answers")

    def told() -> list[str]:
        return [ana.post(PREVIEWS, json=AGES).text, *(ana.get(f"/api/v1/datasets{path}").text for path in paths)]

    before = told()
    duckdb_file = place.folder / "clinic.duckdb"
    with duckdb.connect(str(duckdb_file)) as connection:
        connection.execute("DELETE FROM visits WHERE ward = 'A1'")
    assert before == told()
    answer = ana.post(ANSWERS, json=AGES).json()
    assert not {"counts", "truth", "true"} & set(answer)


def test_every_response_carries_the_headers(place: Place) -> None:
    for path in ("/api/v1/datasets", "/api/v1/nowhere", "/health", "/nowhere"):
        sent = place.browser().get(path)
        assert sent.headers["x-content-type-options"] == "nosniff"
        assert sent.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in sent.headers["content-security-policy"]
        assert sent.headers["cache-control"] == "no-store"
        assert sent.headers["x-request-id"]
    signed = place.app_state
    signed.users.set_password("ana", PASSWORD)
    cookie = place.browser().post("/api/v1/sessions", json={"name": "ana", "password": PASSWORD}).headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Secure" not in cookie
