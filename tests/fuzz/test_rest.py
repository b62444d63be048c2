"""REST, by its own description: whoever asks, and whatever they send, gets a declared answer and no server error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.effort import effort
from tests.fuzz.grammar import texts
from tests.fuzz.questions import ANY_TARGET, QUESTION
from tests.server.places import Place, opened
from tests.session.places import visits

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
CANARY = "CANARY-Lovelace-7741"
"""A ward that is not declared: it counts as another, and is in no answer and no message."""
REFUSALS = (400, 401, 402, 403, 404, 405, 409, 412, 413, 415, 422, 429)
STAYS = {("DELETE", "/api/v1/datasets/{name}"), ("PUT", "/api/v1/datasets/{name}/pause")}
"""What a curator may do to the dataset that the other examples need."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    limits = "requests_per_minute = 10000000\nsign_ins_per_minute = 10000000"
    with opened(tmp_path_factory.mktemp("rest"), visits(epsilon="1000000000"), server=limits) as made:
        with duckdb.connect(str(made.folder / "clinic.duckdb")) as connection:
            connection.execute(f"UPDATE visits SET ward = '{CANARY}' WHERE id % 5 = 0")
        yield made


@pytest.fixture(scope="module")
def operations(place: Place) -> list[Any]:
    schema = schemathesis.openapi.from_url(f"{place.address}/api/v1/openapi.json")
    return [found.ok() for found in schema.get_all_operations()]


def spent(place: Place) -> str:
    return str(place.app_state.backend("ana").budget("visits").spent)


@pytest.mark.parametrize("who", ["ana", "cora", "aude", None])
@given(data=st.data())
@effort(8)
def test_every_route(place: Place, operations: list[Any], who: str | None, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(operations))
    case = data.draw(operation.as_strategy())
    here = (case.method.upper(), operation.path)
    if "name" in (case.path_parameters or {}) and here not in STAYS and data.draw(st.booleans()):
        case.path_parameters["name"] = "visits"
    before = spent(place)
    headers = {} if who is None else {"Authorization": f"Bearer {place.secrets[who]}"}
    response = case.call(headers=headers)
    case.validate_response(response, checks=CHECKS)
    text = response.text + str(dict(response.headers))
    if response.status_code >= 400:
        assert response.status_code in REFUSALS, text
        assert response.headers["content-type"] == ["application/problem+json"]
        assert spent(place) == before
    assert CANARY not in text and "Traceback" not in text
    if who in ("ana", None):
        assert str(place.folder) not in text
    if who is None and operation.path.startswith("/api/v1") and "/sessions" not in operation.path:
        assert response.status_code in (401, 422)


ROUTES = ("previews", "answers", "synopses", "points", "points/previews", "risk", "what-if")


@given(
    route=st.sampled_from(ROUTES),
    body=st.fixed_dictionaries(
        {"accuracy_target": ANY_TARGET}, optional={"query": QUESTION, "sql": texts(), "deadline": st.floats(-5, 60)}
    ),
    key=st.none() | st.text(st.characters(codec="ascii"), max_size=5),
)
@effort(10)
def test_questions_over_rest(place: Place, route: str, body: dict[str, Any], key: str | None) -> None:
    before = spent(place)
    client = place.program("ana")
    headers = {"Content-Type": "application/json"}
    if key is not None and key.isprintable():
        headers["Idempotency-Key"] = key
    response = client.post(f"/api/v1/datasets/visits/{route}", content=_json(body), headers=headers)
    client.close()
    assert response.status_code == 200 or response.status_code in REFUSALS, response.text
    if response.status_code != 200:
        assert spent(place) == before
    assert CANARY not in response.text


def _json(body: dict[str, Any]) -> bytes:
    """As a careless client writes it: NaN, and half characters, too."""
    return json.dumps(body).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("name", ["%00", "%ff", "%2e%2e", "a%2fb", "visits%20", "VISITS", "💥", "x" * 3000])
def test_names_that_are_none(place: Place, name: str) -> None:
    for route in ("", "/budget", "/policy", "/answers", "/synopses"):
        assert place.program("ana").get(f"/api/v1/datasets/{name}{route}").status_code in (404, 422)


def test_the_canary_is_there(place: Place) -> None:
    """Otherwise nothing above would mean anything."""
    with duckdb.connect(str(Path(place.folder) / "clinic.duckdb"), read_only=True) as connection:
        found = connection.execute(f"SELECT count(*) FROM visits WHERE ward = '{CANARY}'").fetchone()
    assert found == (600,)
