"""Users and one's own API tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from blowfishdb.errors import InvalidInput, NotAllowed
from blowfishdb.server.access import AUDITING, Keeper, Member, app_state_of
from blowfishdb.server.auth.users import Visitor, new_password
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
    return [asdict(person) for person in app_state_of(request).people.all()]


@router.post("", status_code=201)
def add(sent: NewUser, visitor: Keeper, request: Request) -> dict[str, Any]:
    """A new person; the password is shown this once."""
    app_state, password = app_state_of(request), None if sent.elsewhere else new_password()
    person = app_state.people.add(sent.name, sent.role, password)
    app_state.actions.note(visitor.name, "added a person", person.name, {"role": person.role})
    return {"name": person.name, "role": person.role, "password": password}


@router.put("/{name}/disabled")
def disable(name: str, sent: Disabled, visitor: Keeper, request: Request) -> dict[str, Any]:
    """Shuts somebody out at once, visits and tokens included, or lets them in again."""
    if name == visitor.name:
        raise InvalidInput("nobody shuts themselves out: ask another curator")
    app_state = app_state_of(request)
    person = app_state.people.disable(name, disabled=sent.disabled)
    app_state.actions.note(visitor.name, "disabled a person" if sent.disabled else "enabled a person", name)
    return asdict(person)


@router.post("/{name}/password")
def new_one(name: str, visitor: Keeper, request: Request) -> dict[str, Any]:
    """A new one-time password for somebody who forgot theirs; their visits end."""
    app_state, password = app_state_of(request), new_password()
    app_state.people.set_password(name, password, must_change=True)
    app_state.actions.note(visitor.name, "gave a new password", name)
    return {"name": name, "password": password}


tokens_router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(Strict):
    """What a token is for, what it may do, and for how many days."""

    label: str
    scopes: list[str]
    days: int = 30


@tokens_router.get("")
def tokens(visitor: Member, request: Request) -> list[dict[str, Any]]:
    """One's own tokens, without their secrets."""
    return [asdict(token) for token in app_state_of(request).tokens.of(visitor.name)]


@tokens_router.post("", status_code=201)
def issue(sent: NewToken, visitor: Member, request: Request) -> dict[str, Any]:
    """A new token; its secret is shown this once."""
    _check_visit(visitor)
    app_state = app_state_of(request)
    secret, token = app_state.tokens.issue(visitor.name, sent.label, sent.scopes, sent.days)
    app_state.actions.note(
        visitor.name, "made a token", token.id, {"scopes": " ".join(token.scopes), "days": sent.days}
    )
    return {**asdict(token), "secret": secret}


@tokens_router.delete("/{token}", status_code=204)
def revoke(token: str, visitor: Member, request: Request) -> None:
    """Ends one of one's own tokens."""
    _check_visit(visitor)
    app_state = app_state_of(request)
    app_state.tokens.revoke(visitor.name, token)
    app_state.actions.note(visitor.name, "ended a token", token)


def _check_visit(visitor: Visitor) -> None:
    """NotAllowed for a token: one with few scopes must not make one with more."""
    if visitor.proof is None:
        raise NotAllowed("manage tokens, for which one signs in with a password")
