"""Every route and every role: who gets through, as the page of routes says it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from blowfishdb.server.app import rest_app
from blowfishdb.server.state import open_app_state
from tests.server.places import PASSWORD, PEOPLE, Place, code, opened
from tests.session.places import make_fixture

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "rest.md").read_text()
LINE = re.compile(r"^\| `(GET|POST|PUT|DELETE) (/\S+)` \| ([^|]+) \|", re.MULTILINE)
WHO = {
    "anybody": {"nobody", "curator", "analyst", "auditor"},
    "signed in": {"curator", "analyst", "auditor"},
    "all roles": {"curator", "analyst", "auditor"},
    "curator, auditor": {"curator", "auditor"},
    "curator": {"curator"},
    "analyst": {"analyst"},
}
OPERATIONS = {("GET", "/health"): "anybody", ("GET", "/ready"): "anybody", ("GET", "/metrics"): "curator, auditor"}
TABLE = {(method, f"/api/v1{path}"): who.strip() for method, path, who in LINE.findall(PAGE)} | OPERATIONS
PARTS = {"name": "visits", "number": "999", "analyst": "ana", "token": "x", "holder": "nobody", "group": "x"}
ELSEWHERE = {("PUT", "/api/v1/users/{name}/disabled"), ("DELETE", "/api/v1/datasets/{name}")}
"""Routes that would do it to whom the next one needs, when somebody gets through."""


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    for path, methods in app.openapi()["paths"].items():
        yield from ((method.upper(), path) for method in methods)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened(tmp_path_factory.mktemp("clinic")) as found:
        yield found


def test_the_page_lists_every_route(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    app_state = open_app_state(tmp_path / "blowfish.toml")
    try:
        app = rest_app(app_state)
        assert set(routes(app)) == set(TABLE)
        described = app.openapi()
        assert set(described["components"]["securitySchemes"]) == {"HTTPBearer", "APIKeyCookie"}
        ways = [{"HTTPBearer": []}, {"APIKeyCookie": []}]
        for path, methods in described["paths"].items():
            signed = {json.dumps(one.get("security")) for one in methods.values()}
            assert signed == {json.dumps(ways if path.startswith("/api/") else None)}, path
        paid = described["paths"]["/api/v1/datasets/{name}/answers"]["post"]
        assert "application/problem+json" in paid["responses"]["default"]["content"]
    finally:
        app_state.close()


@pytest.mark.parametrize("role", ["nobody", "curator", "analyst", "auditor"])
def test_who_gets_through(place: Place, role: str) -> None:
    names = {role: name for name, role in PEOPLE.items()}
    wrong = []
    for (method, path), who in TABLE.items():
        client = place.browser(names.get(role))
        is_in = role in WHO[who]
        address = path.format(**PARTS | ({"name": "nobody"} if is_in and (method, path) in ELSEWHERE else {}))
        sent = client.request(method, address, json=None if method in ("GET", "DELETE") else {})
        if sent.status_code not in (401, 403):
            got = "in"
        else:
            got = code(sent)
        expected = "in" if is_in else "not-signed-in" if role == "nobody" else "not-allowed"
        if got != expected:
            wrong.append((method, path, expected, got))
        client.close()
    assert wrong == []


def test_tokens_do_no_more_than_their_scopes(place: Place) -> None:
    secret, _ = place.app_state.tokens.issue("cora", "books", ["audit"], 1)
    token = place.bearing(secret)
    assert token.get("/api/v1/ledger/entries").status_code == 200
    assert code(token.post("/api/v1/users", json={"name": "eve", "role": "curator"})) == "not-allowed"
    assert code(token.put("/api/v1/datasets/visits/budgets", json={"epsilon": "99", "reason": "x"})) == "not-allowed"


def test_a_token_makes_no_token(place: Place) -> None:
    secret, _ = place.app_state.tokens.issue("cora", "books", ["audit"], 1)
    for token in (place.bearing(secret), place.program("cora")):
        sent = token.post("/api/v1/tokens", json={"label": "x", "scopes": ["curate"], "days": 1})
        assert code(sent) == "not-allowed"
    made = place.browser("ana").post("/api/v1/tokens", json={"label": "x", "scopes": ["ask"], "days": 1})
    assert made.status_code == 201
    assert place.bearing(made.json()["secret"]).get("/api/v1/datasets").status_code == 200
    more = place.browser("ana").post("/api/v1/tokens", json={"label": "x", "scopes": ["ask", "curate"], "days": 1})
    assert code(more) == "invalid-input"


def test_a_first_password_opens_nothing_but_its_own_change(place: Place) -> None:
    place.app_state.users.add("nina", "analyst", PASSWORD)
    client = place.browser()
    me = client.post("/api/v1/sessions", json={"name": "nina", "password": PASSWORD}).json()
    assert me["must_change"] and me["scopes"] == []
    client.headers["X-CSRF-Token"] = me["csrf_token"]
    assert code(client.get("/api/v1/datasets")) == "password-must-change"
    assert code(client.get("/api/v1/tokens")) == "password-must-change"
    wrong = {"password": "not the right one", "new_password": "a new long password"}
    assert code(client.put("/api/v1/sessions/current/password", json=wrong)) == "sign-in-refused"
    right = {"password": PASSWORD, "new_password": "a new long password"}
    changed = client.put("/api/v1/sessions/current/password", json=right)
    assert changed.status_code == 200 and not changed.json()["must_change"]
    assert client.get("/api/v1/datasets").status_code == 200
