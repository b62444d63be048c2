"""Users and one's own API tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from blowfishdb.errors import InvalidInput, NotAllowed
from blowfishdb.server.access import AUDITING, DataCurator, Member, app_state_of
from blowfishdb.server.auth.users import Identity, new_password
from blowfishdb.server.rest.queries import Strict

router = APIRouter(prefix="/users", tags=["users"])


class NewUser(Strict):
    """A name and a role: curator, analyst or auditor. Who signs in `elsewhere` gets no password."""

    name: str
    role: str
    elsewhere: bool = False


class Disabled(Strict):
    """Whether somebody is shut out."""

    disabled: bool


@router.get("", dependencies=[AUDITING])
def users(request: Request) -> list[dict[str, Any]]:
    """Everybody who has an account."""
    return [asdict(user) for user in app_state_of(request).users.all()]


@router.post("", status_code=201)
def add(sent: NewUser, identity: DataCurator, request: Request) -> dict[str, Any]:
    """A new user; the password is shown this once."""
    app_state, password = app_state_of(request), None if sent.elsewhere else new_password()
    user = app_state.users.add(sent.name, sent.role, password)
    app_state.audit_log.note(identity.name, "added a user", user.name, {"role": user.role})
    return {"name": user.name, "role": user.role, "password": password}


@router.put("/{name}/disabled")
def disable(name: str, sent: Disabled, identity: DataCurator, request: Request) -> dict[str, Any]:
    """Shuts somebody out at once, login sessions and tokens included, or lets them in again."""
    if name == identity.name:
        raise InvalidInput("nobody shuts themselves out: ask another curator")
    app_state = app_state_of(request)
    user = app_state.users.disable(name, disabled=sent.disabled)
    app_state.audit_log.note(identity.name, "disabled a user" if sent.disabled else "enabled a user", name)
    return asdict(user)


@router.post("/{name}/password")
def new_one(name: str, identity: DataCurator, request: Request) -> dict[str, Any]:
    """A new one-time password for somebody who forgot theirs; their login sessions end."""
    app_state, password = app_state_of(request), new_password()
    app_state.users.set_password(name, password, must_change=True)
    app_state.audit_log.note(identity.name, "gave a new password", name)
    return {"name": name, "password": password}


tokens_router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(Strict):
    """What a token is for, what it may do, and for how many days."""

    label: str
    scopes: list[str]
    days: int = 30


@tokens_router.get("")
def tokens(identity: Member, request: Request) -> list[dict[str, Any]]:
    """One's own tokens, without their secrets."""
    return [asdict(token) for token in app_state_of(request).tokens.of(identity.name)]


@tokens_router.post("", status_code=201)
def issue(sent: NewToken, identity: Member, request: Request) -> dict[str, Any]:
    """A new token; its secret is shown this once."""
    _check_login(identity)
    app_state = app_state_of(request)
    secret, token = app_state.tokens.issue(identity.name, sent.label, sent.scopes, sent.days)
    app_state.audit_log.note(
        identity.name, "made a token", token.id, {"scopes": " ".join(token.scopes), "days": sent.days}
    )
    return {**asdict(token), "secret": secret}


@tokens_router.delete("/{token}", status_code=204)
def revoke(token: str, identity: Member, request: Request) -> None:
    """Ends one of one's own tokens."""
    _check_login(identity)
    app_state = app_state_of(request)
    app_state.tokens.revoke(identity.name, token)
    app_state.audit_log.note(identity.name, "ended a token", token)


def _check_login(identity: Identity) -> None:
    """NotAllowed for a token: one with few scopes must not make one with more."""
    if identity.csrf_token is None:
        raise NotAllowed("manage tokens, for which one signs in with a password")
