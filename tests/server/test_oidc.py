"""Signing in with an OpenID provider: a provider of our own on loopback, honest and not."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI, Form
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey

from blowfishdb.errors import CatalogError
from blowfishdb.server.auth.session import Provider
from tests.server.places import NO_CERTIFICATES, PATIENCE, Place, code, opened, served

WORD = "the client's own word"
NAME = "ana@example.org"
FAR = 4_102_444_800
KEY = ECKey.generate_key("P-256", {"kid": "1"})


@dataclass
class Elsewhere:
    """The provider: what it was asked, and what it will claim."""

    address: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"email": NAME, "email_verified": True})
    asked: dict[str, str] = field(default_factory=dict)
    scopes: list[str] = field(default_factory=lambda: ["openid", "email", "profile"])
    key: ECKey | OctKey = field(default_factory=lambda: KEY)
    algorithm: str = "ES256"

    def token(self) -> str:
        usual = {"iss": self.address, "aud": "blowfish", "exp": FAR, "nonce": self.asked["nonce"]}
        return jwt.encode({"alg": self.algorithm, "kid": "1"}, {**usual, **self.claims}, self.key, [self.algorithm])


def provider_app(elsewhere: Elsewhere) -> FastAPI:
    app = FastAPI()

    @app.get("/.well-known/openid-configuration")
    def description() -> dict[str, Any]:
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        described = {"issuer": elsewhere.address, "scopes_supported": elsewhere.scopes}
        return described | {name: f"{elsewhere.address}/{path}" for name, path in paths.items()}

    @app.get("/keys")
    def keys() -> dict[str, Any]:
        return dict(KeySet([KEY]).as_dict(private=False))

    @app.post("/token")
    def token(
        code: Annotated[str, Form()], code_verifier: Annotated[str, Form()], client_secret: Annotated[str, Form()]
    ) -> dict[str, str]:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).rstrip(b"=").decode()
        is_fit = (code, client_secret, challenge) == ("right", WORD, elsewhere.asked["code_challenge"])
        return {"id_token": elsewhere.token()} if is_fit else {}

    return app


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    found = Elsewhere()
    with served(provider_app(found)) as address:
        found.address = address
        yield found


@pytest.fixture
def place(tmp_path: Path, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("WORD", WORD)
    keys = {"oidc_issuer": elsewhere.address, "oidc_client": "blowfish", "oidc_secret": "${WORD}"}
    with opened(tmp_path, server="\n".join(f'{name} = "{value}"' for name, value in keys.items())) as found:
        found.app_state.users.add(NAME, "analyst", None)
        yield found


def asked(place: Place, elsewhere: Elsewhere) -> httpx.Client:
    """A browser that was sent to the provider."""
    browser = httpx.Client(base_url=place.address, verify=NO_CERTIFICATES, timeout=PATIENCE)
    place.clients.append(browser)
    sent = browser.get("/api/v1/sessions/oidc")
    assert sent.status_code == 303
    assert sent.headers["location"].startswith(f"{elsewhere.address}/authorize?")
    assert WORD not in sent.headers["location"]
    elsewhere.asked = {name: value[0] for name, value in parse_qs(urlsplit(sent.headers["location"]).query).items()}
    return browser


def back(browser: httpx.Client, state: str, given: str = "right") -> httpx.Response:
    return browser.get("/api/v1/sessions/oidc/callback", params={"state": state, "code": given})


def test_who_the_provider_names_gets_in(place: Place, elsewhere: Elsewhere) -> None:
    browser = asked(place, elsewhere)
    answer = back(browser, elsewhere.asked["state"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert browser.get("/api/v1/sessions/current").json()["name"] == NAME
    assert place.program("aude").get("/api/v1/audit-log").json()[-1]["detail"] == {"by": "oidc"}


def test_groups_come_and_go_with_the_claim(tmp_path: Path, elsewhere: Elsewhere) -> None:
    keys = {"oidc_issuer": elsewhere.address, "oidc_client": "blowfish", "oidc_secret": WORD, "oidc_groups": "groups"}
    with opened(tmp_path, server="\n".join(f'{name} = "{value}"' for name, value in keys.items())) as place:
        grants = place.app_state.grants
        place.app_state.users.add(NAME, "analyst", None)
        grants.hand_over("visits", "cora", everyone=False)
        grants.set_group("@cardiology", ["bob"])
        cora = place.browser("cora")
        path = "/api/v1/datasets/visits/access/@oidc:cardiology"
        assert cora.put(path, json={"role": "analyst", "epsilon": "1/8"}).status_code == 200
        assert code(cora.put("/api/v1/groups/@oidc:cardiology", json={"members": ["bob"]})) == "invalid-input"

        def seen(claims: dict[str, Any]) -> int:
            elsewhere.claims = {"email": NAME, "email_verified": True} | claims
            browser = asked(place, elsewhere)
            assert back(browser, elsewhere.asked["state"]).status_code == 303
            return len(browser.get("/api/v1/datasets").json())

        assert seen({}) == 0
        assert elsewhere.asked["scope"] == "openid email profile"
        elsewhere.scopes.append("groups")
        assert seen({"groups": ["cardiology", "a/b", "", 3, " x"]}) == 1
        assert grants.groups() == {"@cardiology": ["bob"], "@oidc:cardiology": [NAME]}
        assert elsewhere.asked["scope"] == "openid email profile groups", "where the provider has such a scope"
        assert place.app_state.session(NAME).budget("visits").limit == Fraction(1, 8)
        assert seen({"groups": "cardiology"}) == 0, "a text is no list"
        assert seen({"groups": ["cardiology"]}) == 1
        assert seen({"groups": ["surgery"]}) == 0
        assert grants.groups() == {"@cardiology": ["bob"], "@oidc:surgery": [NAME]}
        elsewhere.claims |= {"email": "stranger@example.org"}
        assert code(back(asked(place, elsewhere), elsewhere.asked["state"])) == "sign-in-refused"
        assert grants.groups() == {"@cardiology": ["bob"], "@oidc:surgery": [NAME]}


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "stranger@example.org"},
        {"email_verified": False},
        {"email": ["ana@example.org"]},
        {"iss": "https://evil.example"},
        {"aud": "another"},
        {"exp": 1},
        {"nonce": "another"},
    ],
)
def test_claims_that_do_not_fit_open_nothing(place: Place, elsewhere: Elsewhere, claims: dict[str, Any]) -> None:
    elsewhere.claims |= claims
    browser = asked(place, elsewhere)
    assert code(back(browser, elsewhere.asked["state"])) == "sign-in-refused"
    assert code(browser.get("/api/v1/sessions/current")) == "not-signed-in"


def test_states_codes_and_keys_are_not_forged(place: Place, elsewhere: Elsewhere) -> None:
    browser = asked(place, elsewhere)
    assert code(back(browser, "another")) == "sign-in-refused"
    assert code(back(browser, elsewhere.asked["state"], "wrong")) == "sign-in-refused"
    assert code(back(place.browser(), elsewhere.asked["state"])) == "sign-in-refused"
    elsewhere.key = ECKey.generate_key("P-256", {"kid": "1"})
    assert code(back(browser, elsewhere.asked["state"])) == "sign-in-refused"
    elsewhere.key, elsewhere.algorithm = OctKey.import_key("word" * 8), "HS256"
    assert code(back(browser, elsewhere.asked["state"])) == "sign-in-refused"


def test_the_disabled_stay_out(place: Place, elsewhere: Elsewhere) -> None:
    place.app_state.users.disable(NAME)
    browser = asked(place, elsewhere)
    assert code(back(browser, elsewhere.asked["state"])) == "sign-in-refused"


def test_a_provider_that_is_away_or_another_opens_nothing(place: Place, elsewhere: Elsewhere) -> None:
    browser = asked(place, elsewhere)
    elsewhere.address = "https://evil.example"
    assert code(back(browser, elsewhere.asked["state"])) == "provider-unavailable"


def test_no_provider_and_no_password(tmp_path: Path) -> None:
    with opened(tmp_path) as place:
        assert code(place.browser().get("/api/v1/sessions/oidc")) == "invalid-input"
        sent = place.browser().post("/api/v1/sessions", json={"name": "ana", "password": ""})
        assert code(sent) == "sign-in-refused"
    with pytest.raises(CatalogError, match="https"):
        Provider("http://example.org", "c", "s", "email", "x")


def test_a_provider_that_does_not_answer_is_no_wrong_password(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object, **__: object) -> httpx.Response:
        raise httpx.ConnectError("no route to the provider's secret address")

    monkeypatch.setattr("blowfishdb.server.auth.session.httpx.request", away)
    answer = place.browser().get("/api/v1/sessions/oidc")
    assert (answer.status_code, code(answer)) == (503, "provider-unavailable")
    assert "password is wrong" not in answer.text
    assert "OpenID provider at 127.0.0.1" in caplog.text
    back = place.browser().get("/api/v1/sessions/oidc", headers={"Accept": "text/html"})
    assert (back.status_code, back.headers["Location"]) == (303, "/sign-in?refused=provider-unavailable")


def test_people_whom_the_provider_does_not_name_are_led_back(place: Place) -> None:
    back = place.browser().get("/api/v1/sessions/oidc/callback", headers={"Accept": "text/html"})
    assert (back.status_code, back.headers["Location"]) == (303, "/sign-in?refused=sign-in-refused")


@pytest.mark.parametrize("status", [200, 404, 500])
def test_a_provider_that_answers_nonsense_is_no_wrong_password(
    place: Place, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    reply = httpx.Response(status, json=[], request=httpx.Request("GET", "http://127.0.0.1"))
    monkeypatch.setattr("blowfishdb.server.auth.session.httpx.request", lambda *_, **__: reply)
    assert code(place.browser().get("/api/v1/sessions/oidc")) == "provider-unavailable"
