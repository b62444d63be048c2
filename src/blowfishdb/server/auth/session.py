"""Login sessions, which end by themselves: begun with a password, whose failures wait, or by an OpenID provider."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import httpx

from blowfishdb.errors import CatalogError, ExtraMissing, ProviderUnavailable, SignInRefused
from blowfishdb.incidents import curator_log
from blowfishdb.server.auth.database import AuthCursor, Database
from blowfishdb.server.auth.grants import Principal, role_of
from blowfishdb.server.auth.users import Users, hash_secret, is_password

FREE_TRIES = 5
FREE_TRIES_OF_AN_ADDRESS = 50
"""Many people may share one address, so it waits much later than a name."""
LONGEST_WAIT = 15 * 60
IDLE = 60 * 60
LONGEST_LOGIN = 12 * 60 * 60
STALE = 60
"""A login session is noted as seen at most this often, so that reading a page writes little."""


@dataclass(frozen=True)
class LoginSession:
    """A login session that has just begun: the secret for the cookie, and whose it is."""

    secret: str
    identity: Principal
    ends: int


@dataclass(frozen=True, eq=False)
class LoginSessions:
    """All login sessions."""

    users: Users
    database: Database

    def sign_in(self, name: str, password: str, address: str) -> LoginSession:
        """A new login session; SignInRefused, which never says whether the name or the password was wrong."""
        self.check_password(name, password, address)
        return self.begin(name)

    def check_password(self, name: str, password: str, address: str) -> None:
        """SignInRefused unless the password is that of this user; failures count, wherever it is asked."""
        parties = (f"name {name[:100]}", f"address {address[:100]}")
        with self.database.write() as cursor:
            self._check_waiting(cursor, parties)
            row = cursor.row("SELECT password FROM users WHERE name = ? AND disabled = 0", name)
        if not is_password(password, row["password"] if row else None):
            with self.database.write() as cursor:
                for party in parties:
                    self._note_failure(cursor, party)
            raise SignInRefused(0)
        with self.database.write() as cursor:
            for party in parties:
                cursor.rows("DELETE FROM failure WHERE who = ?", party)

    def begin(self, name: str) -> LoginSession:
        """A login session of somebody who has shown who they are."""
        user = self.users.find(name)
        if user.is_disabled:
            raise SignInRefused(0)
        secret, csrf_token = secrets.token_urlsafe(32), secrets.token_urlsafe(24)
        now = self.database.clock.now()
        ends = now + LONGEST_LOGIN
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM login_session WHERE ends < ? OR seen < ?", now, now - IDLE)
            cursor.insert(
                "login_session",
                {"secret_hash": hash_secret(secret), "name": name, "csrf_token": csrf_token, "seen": now, "ends": ends},
            )
        identity = Principal(name, user.role, self.users.grants.scopes(name, user.role), csrf_token, user.must_change)
        return LoginSession(secret, identity, ends)

    def resume(self, secret: str) -> Principal | None:
        """Whose login session this is; None when it ended."""
        now = self.database.clock.now()
        row = self.database.row(
            "SELECT v.name, v.csrf_token, v.seen, v.ends, p.must_change, p.role FROM login_session v"
            " JOIN users p ON p.name = v.name WHERE v.secret_hash = ? AND p.disabled = 0",
            hash_secret(secret),
        )
        if row is None or row["ends"] <= now or row["seen"] <= now - IDLE:
            return None
        if row["seen"] < now - STALE:
            self.database.change("UPDATE login_session SET seen = ? WHERE secret_hash = ?", now, hash_secret(secret))
        role = role_of(row["role"])
        scopes = self.users.grants.scopes(row["name"], role)
        return Principal(row["name"], role, scopes, row["csrf_token"], bool(row["must_change"]))

    def sign_out(self, secret: str) -> None:
        """Ends a login session."""
        self.database.change("DELETE FROM login_session WHERE secret_hash = ?", hash_secret(secret))

    def _check_waiting(self, cursor: AuthCursor, parties: tuple[str, ...]) -> None:
        now = self.database.clock.now()
        for party in parties:
            row = cursor.row("SELECT until FROM failure WHERE who = ?", party)
            if row and row["until"] > now:
                raise SignInRefused(row["until"] - now)

    def _note_failure(self, cursor: AuthCursor, party: str) -> None:
        row = cursor.row("SELECT times FROM failure WHERE who = ?", party)
        times = (row["times"] if row else 0) + 1
        free = FREE_TRIES_OF_AN_ADDRESS if party.startswith("address ") else FREE_TRIES
        wait = 0 if times < free else min(LONGEST_WAIT, 2 ** min(times - free + 1, 20))
        cursor.rows("DELETE FROM failure WHERE who = ?", party)
        cursor.insert("failure", {"who": party, "times": times, "until": self.database.clock.now() + wait})


PATIENCE = 10.0
LONGEST_ANSWER = 2**20
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
"""Signatures with public keys alone: with others, whoever knows the client's secret could sign."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Provider:
    """Who vouches for people, how this server is known there, and which claims are a person's name and groups here."""

    issuer: str
    client: str
    secret: str
    claim: str
    callback: str
    groups: str | None = None

    def __post_init__(self) -> None:
        address = urlsplit(self.issuer)
        if address.scheme != "https" and not (address.scheme == "http" and address.hostname in LOOPBACK):
            raise CatalogError("server.oidc_issuer is the https address of an OpenID provider")


@dataclass(frozen=True)
class Attempt:
    """What one browser must bring back: it is kept in a cookie of that browser and nowhere else."""

    state: str
    nonce: str
    verifier: str

    def cookie(self) -> str:
        """The value of the cookie."""
        return ".".join((self.state, self.nonce, self.verifier))


def new_attempt() -> Attempt:
    """An attempt that nobody guesses."""
    return Attempt(*(secrets.token_urlsafe(32) for _ in range(3)))


def read_attempt(cookie: str) -> Attempt:
    """The attempt of a cookie; SignInRefused when it is none."""
    parts = cookie.split(".")
    if len(parts) != 3 or not all(parts):
        raise SignInRefused(0)
    return Attempt(*parts)


def address_to_ask(provider: Provider, attempt: Attempt) -> str:
    """Where the browser goes to sign in."""
    described = _described(provider)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).rstrip(b"=").decode()
    scopes, supported = ["openid", "email", "profile"], described.get("scopes_supported")
    # Some providers tell groups only to who asks for a scope of that name; others refuse scopes that they do not list.
    if isinstance(supported, list) and provider.groups in supported:
        scopes.append(str(provider.groups))
    parameters = {
        "response_type": "code",
        "client_id": provider.client,
        "redirect_uri": provider.callback,
        "scope": " ".join(scopes),
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{described['authorization_endpoint']}?{urlencode(parameters)}"


def vouched_by(provider: Provider, attempt: Attempt, *, state: str, code: str) -> tuple[str, tuple[str, ...] | None]:
    """Whom the provider named, and the groups it counts them among, None where no claim tells; else SignInRefused."""
    if not hmac.compare_digest(state.encode(), attempt.state.encode()):
        raise SignInRefused(0)
    described = _described(provider)
    sent = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": provider.callback,
        "client_id": provider.client,
        "client_secret": provider.secret,
        "code_verifier": attempt.verifier,
    }
    tokens = _fetched("POST", described["token_endpoint"], sent)
    keys = _fetched("GET", described["jwks_uri"])
    claims = _claims(provider, attempt, str(tokens.get("id_token", "")), keys)
    name = claims.get(provider.claim)
    if not isinstance(name, str) or (provider.claim == "email" and claims.get("email_verified") is not True):
        raise SignInRefused(0)
    if provider.groups is None:
        return name, None
    listed = claims.get(provider.groups)
    # A claim that is missing or no list of texts names no group: then nothing is held by one.
    return name, tuple(g for g in listed if isinstance(g, str)) if isinstance(listed, list) else ()


def _claims(provider: Provider, attempt: Attempt, token: str, keys: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        from joserfc import jwt
        from joserfc.jwk import KeySet
    except ImportError:
        raise ExtraMissing("joserfc", "oidc") from None
    try:
        claims = jwt.decode(token, KeySet.import_key_set(cast(Any, keys)), algorithms=list(ALGORITHMS)).claims
        jwt.JWTClaimsRegistry(
            iss={"essential": True, "value": provider.issuer},
            aud={"essential": True, "value": provider.client},
            exp={"essential": True},
            nonce={"essential": True, "value": attempt.nonce},
        ).validate(claims)
    except Exception:  # noqa: BLE001  # whatever is wrong with a token, it opens nothing
        raise SignInRefused(0) from None
    return claims


def _described(provider: Provider) -> Mapping[str, Any]:
    described = _fetched("GET", provider.issuer.rstrip("/") + "/.well-known/openid-configuration")
    needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    if described.get("issuer") != provider.issuer or not all(isinstance(described.get(name), str) for name in needed):
        raise _unavailable(provider.issuer, "it does not describe itself as the issuer in the settings")
    return described


def _fetched(method: str, address: str, sent: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """The object at an address of the provider; SignInRefused where it refuses what was sent."""
    try:
        answer = httpx.request(method, address, data=sent, timeout=PATIENCE, follow_redirects=False)
        is_refusal = sent is not None and answer.is_client_error
        content = answer.json() if answer.status_code == 200 and len(answer.content) <= LONGEST_ANSWER else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as fault:
        raise _unavailable(address, type(fault).__name__) from None
    if is_refusal:
        raise SignInRefused(0)
    if not isinstance(content, dict):
        raise _unavailable(address, f"it answered with status {answer.status_code} and no object")
    return content


def _unavailable(address: str, why: str) -> ProviderUnavailable:
    """The error for whoever signs in; the address and what was wrong go to the curator's log."""
    curator_log.error("the OpenID provider at %s cannot be used: %s", urlsplit(address).netloc, why)
    return ProviderUnavailable()
