"""Signing in and out, and who one is; users, and one's own API tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from blowfishdb.engine.request import spending_cap
from blowfishdb.errors import InvalidInput, NotAllowed, ProviderUnavailable, SignInRefused
from blowfishdb.model.serialize import write
from blowfishdb.server.auth.grants import Principal
from blowfishdb.server.auth.session import Provider, address_to_ask, new_attempt, read_attempt, vouched_by
from blowfishdb.server.auth.users import new_password
from blowfishdb.server.authentication import (
    AccountAuditor,
    AccountCurator,
    Anybody,
    AnyCaller,
    Caller,
    address_of,
    app_state_of,
    drop_cookie,
    secret_of,
    set_cookie,
)
from blowfishdb.server.rest import Strict
from blowfishdb.server.rest.access import follow_provider
from blowfishdb.server.state import AppState

ATTEMPT = "blowfish_attempt"
ATTEMPT_SECONDS = 600
# The length is checked together with the characters: half a character, which JSON can hold, cannot be kept.
Short = Annotated[str, Field(max_length=1000)]
sessions_router = APIRouter(prefix="/sessions", tags=["sessions"])


class SignIn(BaseModel):
    """A name and its password."""

    name: Short
    password: Short


class NewPassword(BaseModel):
    """The password that is in use and the one to use from now on."""

    password: Short
    new_password: Short


class Me(BaseModel):
    """Who is signed in. `csrf_token` goes with every change made with the cookie."""

    name: str
    role: str
    scopes: list[str]
    csrf_token: str | None
    must_change: bool


@sessions_router.post("")
def sign_in(sent: SignIn, request: Request, response: Response) -> Me:
    """Begins a login session: sets the cookie and gives the CSRF token."""
    app_state = app_state_of(request)
    try:
        login = app_state.logins.sign_in(sent.name, sent.password, address_of(request))
    except SignInRefused:
        app_state.audit_log.note(sent.name[:100], "sign-in refused", address_of(request))
        raise
    app_state.admission.signed_in(address_of(request), sent.name)
    app_state.audit_log.note(sent.name, "signed in", address_of(request))
    set_cookie(response, login, app_state)
    return described(login.identity)


@sessions_router.get("/current")
def who(caller: Anybody) -> Me:
    """Who is signed in."""
    return described(caller.identity)


@sessions_router.get("/oidc", response_class=RedirectResponse, status_code=303)
def ask_provider(request: Request) -> RedirectResponse:
    """Sends the browser to the OpenID provider, where there is one."""
    return _or_back(request, lambda: _asked(app_state_of(request)))


def _asked(app_state: AppState) -> RedirectResponse:
    attempt = new_attempt()
    answer = RedirectResponse(address_to_ask(_provider(app_state), attempt), 303)
    answer.set_cookie(
        ATTEMPT,
        attempt.cookie(),
        max_age=ATTEMPT_SECONDS,
        httponly=True,
        samesite="lax",
        secure=app_state.settings.is_secure,
        path="/api/v1/sessions/oidc",
    )
    return answer


@sessions_router.get("/oidc/callback", response_class=RedirectResponse, status_code=303)
def back_from_provider(request: Request, state: str = "", code: str = "") -> RedirectResponse:
    """Begins a login session of whoever the provider names, if a curator gave them an account."""
    return _or_back(request, lambda: _begun(request, state, code))


def _or_back(request: Request, work: Callable[[], RedirectResponse]) -> RedirectResponse:
    """Where the browser goes next: after a refusal, to the page that explains it; programs get the refusal itself."""
    try:
        return work()
    except (ProviderUnavailable, SignInRefused) as refusal:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        return RedirectResponse(f"/sign-in?refused={refusal.code}", 303)


def _begun(request: Request, state: str, code: str) -> RedirectResponse:
    app_state = app_state_of(request)
    provider = _provider(app_state)
    attempt = read_attempt(request.cookies.get(ATTEMPT, ""))
    name, groups = vouched_by(provider, attempt, state=state, code=code)
    detail = {"by": "oidc"}
    try:
        app_state.users.find(name)
        if groups is not None:
            detail["groups"] = ", ".join(follow_provider(app_state, name, groups))[:1000]
        login = app_state.logins.begin(name)
    except (InvalidInput, SignInRefused):
        app_state.audit_log.note(name[:100], "sign-in refused", address_of(request))
        raise SignInRefused(0) from None
    app_state.audit_log.note(name, "signed in", address_of(request), detail)
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(ATTEMPT, path="/api/v1/sessions/oidc")
    set_cookie(answer, login, app_state)
    return answer


@sessions_router.delete("/current", status_code=204)
def sign_out(caller: Anybody, request: Request, response: Response) -> None:
    """Ends the login session."""
    secret = secret_of(request)
    if secret is not None:
        caller.app_state.logins.sign_out(secret)
    caller.note("signed out")
    drop_cookie(response, caller.app_state)


@sessions_router.put("/current/password")
def change_password(sent: NewPassword, caller: Anybody, request: Request, response: Response) -> Me:
    """Changes one's own password; every other login session ends, and this one begins anew."""
    app_state, name = caller.app_state, caller.name
    app_state.logins.check_password(name, sent.password, address_of(request))
    app_state.users.set_password(name, sent.new_password)
    caller.note("changed own password")
    login = app_state.logins.begin(name)
    set_cookie(response, login, app_state)
    return described(login.identity)


def _provider(app_state: AppState) -> Provider:
    provider = app_state.settings.provider
    if provider is None:
        raise InvalidInput("this server has no OpenID provider; use a name and a password")
    return provider


def described(identity: Principal) -> Me:
    """The user as the page sees them."""
    return Me.model_validate(vars(identity) | {"scopes": [] if identity.must_change else sorted(identity.scopes)})


router = APIRouter(prefix="/users", tags=["users"])


class NewUser(Strict):
    """A name and a role: curator, analyst or auditor. Who signs in `elsewhere` gets no password."""

    name: str
    role: str
    elsewhere: bool = False


class Disabled(Strict):
    """Whether somebody is shut out."""

    disabled: bool


@router.get("")
def users(caller: AccountAuditor) -> list[dict[str, Any]]:
    """Everybody who has an account."""
    return [asdict(user) for user in caller.app_state.users.all()]


@router.post("", status_code=201)
def add(sent: NewUser, caller: AccountCurator) -> dict[str, Any]:
    """A new user; the password is shown this once."""
    password = None if sent.elsewhere else new_password()
    user = caller.app_state.users.add(sent.name, sent.role, password)
    caller.note("added a user", user.name, {"role": user.role})
    return {"name": user.name, "role": user.role, "password": password}


@router.put("/{name}/disabled")
def disable(name: str, sent: Disabled, caller: AccountCurator) -> dict[str, Any]:
    """Shuts somebody out at once, login sessions and tokens included, or lets them in again."""
    if name == caller.name:
        raise InvalidInput("you cannot shut yourself out: ask another curator")
    user = caller.app_state.users.disable(name, disabled=sent.disabled)
    caller.note("disabled a user" if sent.disabled else "enabled a user", name)
    return asdict(user)


@router.post("/{name}/password")
def new_one(name: str, caller: AccountCurator) -> dict[str, Any]:
    """A new one-time password for somebody who forgot theirs; their login sessions end."""
    password = new_password()
    caller.app_state.users.set_password(name, password, must_change=True)
    caller.note("gave a new password", name)
    return {"name": name, "password": password}


class Cap(Strict):
    """The most epsilon that may be spent with a token in all; null for no cap."""

    epsilon: str | None


@router.get("/{name}/tokens")
def tokens_of(name: str, caller: AccountAuditor) -> list[dict[str, Any]]:
    """Somebody's tokens, without their secrets: their caps, and what was spent with them."""
    return [write(token) for token in caller.app_state.tokens.of(caller.app_state.users.find(name).name)]


@router.put("/{name}/tokens/{token}/cap")
def set_cap(name: str, token: str, sent: Cap, caller: AccountCurator) -> dict[str, Any]:
    """Sets how much may be spent with a token of somebody's in all, at once and without a word of the tool."""
    if caller.app_state.tokens.find(token).name != name:
        raise InvalidInput("there is no such token")
    changed = caller.app_state.tokens.set_cap(token, spending_cap(sent.epsilon))
    caller.note("set the cap of a token", token, {"of": name, "epsilon": sent.epsilon})
    return dict(write(changed))


tokens_router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(Strict):
    """What a token is for, what it may do, and for how many days."""

    label: str
    scopes: list[str]
    days: int = 30


@tokens_router.get("")
def tokens(caller: AnyCaller) -> list[dict[str, Any]]:
    """One's own tokens, without their secrets."""
    return [write(token) for token in caller.app_state.tokens.of(caller.name)]


@tokens_router.post("", status_code=201)
def issue(sent: NewToken, caller: AnyCaller) -> dict[str, Any]:
    """A new token; its secret is shown this once."""
    _check_login(caller)
    secret, token = caller.app_state.tokens.issue(caller.name, sent.label, sent.scopes, sent.days)
    caller.note("made a token", token.id, {"scopes": " ".join(token.scopes), "days": sent.days})
    return {**write(token), "secret": secret}


@tokens_router.delete("/{token}", status_code=204)
def revoke(token: str, caller: AnyCaller) -> None:
    """Ends one of one's own tokens."""
    _check_login(caller)
    caller.app_state.tokens.revoke(caller.name, token)
    caller.note("ended a token", token)


def _check_login(caller: Caller) -> None:
    """NotAllowed for a token: one with few scopes must not make one with more."""
    if caller.identity.csrf_token is None:
        raise NotAllowed("manage tokens, for which one signs in with a password")
