"""One's own API tokens: made, listed and ended from a browser, never with another token."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from blowfishdb.errors import NotAllowed
from blowfishdb.server.access import Member, office_of
from blowfishdb.server.accounts.roles import Visitor
from blowfishdb.server.rest.asking import Strict

router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(Strict):
    """What a token is for, what it may do, and for how many days."""

    label: str
    scopes: list[str]
    days: int = 30


@router.get("")
def tokens(visitor: Member, request: Request) -> list[dict[str, Any]]:
    """One's own tokens, without their secrets."""
    return [asdict(token) for token in office_of(request).tokens.of(visitor.name)]


@router.post("", status_code=201)
def issue(sent: NewToken, visitor: Member, request: Request) -> dict[str, Any]:
    """A new token; its secret is shown this once."""
    _check_visit(visitor)
    office = office_of(request)
    secret, token = office.tokens.issue(visitor.name, sent.label, sent.scopes, sent.days)
    office.actions.note(visitor.name, "made a token", token.id, {"scopes": " ".join(token.scopes), "days": sent.days})
    return {**asdict(token), "secret": secret}


@router.delete("/{token}", status_code=204)
def revoke(token: str, visitor: Member, request: Request) -> None:
    """Ends one of one's own tokens."""
    _check_visit(visitor)
    office = office_of(request)
    office.tokens.revoke(visitor.name, token)
    office.actions.note(visitor.name, "ended a token", token)


def _check_visit(visitor: Visitor) -> None:
    """NotAllowed for a token: one with few scopes must not make one with more."""
    if visitor.proof is None:
        raise NotAllowed("manage tokens, for which one signs in with a password")
