"""Users and one's own API tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from blowfishdb.engine.request import spending_cap
from blowfishdb.errors import InvalidInput, NotAllowed
from blowfishdb.model.serialize import write
from blowfishdb.server.auth.users import new_password
from blowfishdb.server.authentication import AccountAuditor, AccountCurator, Caller, Member
from blowfishdb.server.rest import Strict

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
        raise InvalidInput("nobody shuts themselves out: ask another curator")
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
def tokens(caller: Member) -> list[dict[str, Any]]:
    """One's own tokens, without their secrets."""
    return [write(token) for token in caller.app_state.tokens.of(caller.name)]


@tokens_router.post("", status_code=201)
def issue(sent: NewToken, caller: Member) -> dict[str, Any]:
    """A new token; its secret is shown this once."""
    _check_login(caller)
    secret, token = caller.app_state.tokens.issue(caller.name, sent.label, sent.scopes, sent.days)
    caller.note("made a token", token.id, {"scopes": " ".join(token.scopes), "days": sent.days})
    return {**write(token), "secret": secret}


@tokens_router.delete("/{token}", status_code=204)
def revoke(token: str, caller: Member) -> None:
    """Ends one of one's own tokens."""
    _check_login(caller)
    caller.app_state.tokens.revoke(caller.name, token)
    caller.note("ended a token", token)


def _check_login(caller: Caller) -> None:
    """NotAllowed for a token: one with few scopes must not make one with more."""
    if caller.identity.csrf_token is None:
        raise NotAllowed("manage tokens, for which one signs in with a password")
