"""Addresses: what leads nowhere, which methods a route has, and which secrets an address of a dataset may name."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import CatalogError, NotAllowed
from blowfishdb.incidents import public_error
from tests.server.places import Place, code, opened
from tests.session.places import visits


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One server for the tests that change nothing on it."""
    with opened(tmp_path_factory.mktemp("clinic")) as found:
        yield found


NEW = {"name": "more", "domain": {"age": {"kind": "integers", "low": 0, "high": 9}}}


@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_a_method_that_a_route_does_not_have_is_told(place: Place, method: str) -> None:
    ana = place.program("ana")
    sent = ana.request(method, "/api/v1/datasets")
    assert (sent.status_code, sent.headers["allow"]) == (405, "GET, POST")
    assert ana.request(method, "/api/v1/datasets/visits/answers/7").headers["allow"] == "GET"
    assert ana.request(method, "/api/v1/nowhere").status_code == 404


def test_what_leads_nowhere_is_a_problem_that_says_where_the_routes_are(place: Place) -> None:
    ana = place.program("ana")
    nowhere, method = ana.get("/api/v1/nowhere"), ana.delete("/api/v1/datasets")
    assert (nowhere.status_code, code(nowhere)) == (404, "not-found")
    assert nowhere.headers["content-type"] == "application/problem+json"
    assert ana.get(nowhere.json()["detail"].split("; ")[1].split()[0]).status_code == 200
    assert (method.status_code, code(method)) == (405, "method-not-allowed")


def test_no_redirect_repeats_the_host_that_a_request_claims(place: Place) -> None:
    for path in ("/api/v1/datasets/", "/api/v1/", "/health/", "/api"):
        sent = place.program("ana").get(path, headers={"Host": "evil.example"})
        assert (sent.status_code, "location" in sent.headers) == (404, False)
        assert "evil.example" not in sent.text + str(sent.headers)


@pytest.mark.parametrize("name", ["a/b", "/", ".", "..", " a", "a "])
def test_a_name_that_no_address_can_name_is_refused(name: str) -> None:
    with pytest.raises(CatalogError, match="addresses can name it"):
        visits(name=name)


@pytest.mark.parametrize("listed", ["", 'variables = ["OTHER"]'])
def test_curators_do_not_send_secrets_to_an_address_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    monkeypatch.setenv("LEDGER_PASSWORD", "hush")
    monkeypatch.setenv("BLOWFISH_CLINIC", "clinic.duckdb")
    monkeypatch.setenv("OTHER", "clinic.duckdb")
    with opened(tmp_path, server=listed) as place:
        cora = place.program("cora")
        for source in ("postgresql://x:${LEDGER_PASSWORD}@evil.example/db#t", "duckdb:///${LEDGER_PASSWORD}#visits"):
            sent = cora.post("/api/v1/datasets", json={**NEW, "source": source})
            assert code(sent) == "invalid-catalog"
            assert "server.variables" in sent.text and "hush" not in sent.text
        named = cora.post("/api/v1/datasets", json={**NEW, "source": "duckdb:///${OTHER}#visits"})
        assert ("server.variables" in named.text) == (not listed)
        own = cora.post(
            "/api/v1/datasets", json={**NEW, "name": "third", "source": "duckdb:///${BLOWFISH_CLINIC}#visits"}
        )
        assert "server.variables" not in own.text


def test_an_address_that_the_file_names_already_stays_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "clinic.duckdb")
    dataset = visits()
    kept = bf.Dataset("visits", source="duckdb:///${WHERE}#visits", domain=dataset.domain, policy=dataset.policy)
    with opened(tmp_path, kept) as place:
        assert list(place.app_state.curator("cora").columns("duckdb:///${WHERE}#visits"))[:2] == ["id", "age"]


def test_a_refusal_of_a_page_is_no_incident(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "blowfishdb.curator"):
        public_error(NotAllowed("curate"))
        assert caplog.records == []
        public_error(RuntimeError("x"))
        assert len(caplog.records) == 1
