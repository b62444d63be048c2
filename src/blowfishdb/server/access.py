"""Who sends a request: by a cookie from a browser, with a proof for every change, or by a token from a program."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from blowfishdb.errors import NotAllowed, NotSignedIn, PasswordMustChange, ProofMissing
from blowfishdb.server.auth.session import Visit
from blowfishdb.server.auth.users import Scope, Visitor
from blowfishdb.server.state import AppState
from blowfishdb.server.worker_pools import Lanes

COOKIE = "blowfish_visit"
PROOF = "X-Blowfish-Proof"
READING = ("GET", "HEAD", "OPTIONS")
LONGEST_SECRET = 200


def app_state_of(request: Request) -> AppState:
    """The office that serves this request; pages find it in the request of their client."""
    app_state = request.scope["state"]["office"]
    if not isinstance(app_state, AppState):
        raise NotSignedIn
    return app_state


def lanes_of(request: Request) -> Lanes:
    """The worker threads of this server."""
    lanes: Lanes = request.app.state.lanes
    return lanes


def secret_of(request: Request) -> str | None:
    """The secret of the visit that the cookie names."""
    found = request.cookies.get(COOKIE)
    return found if found and len(found) <= LONGEST_SECRET else None


def visitor_of(request: Request) -> Visitor | None:
    """Whoever signed in with this browser; None for nobody. For pages, whose first request only reads."""
    secret = secret_of(request)
    return None if secret is None else app_state_of(request).visits.resume(secret)


def address_of(request: Request) -> str:
    """Where the request comes from."""
    return request.client.host if request.client is not None else "unknown"


def signed_in(request: Request) -> Visitor:
    """Whoever sends this request; NotSignedIn or ProofMissing otherwise."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme:
        is_token = scheme.lower() == "bearer" and 0 < len(secret) <= LONGEST_SECRET
        found = app_state_of(request).tokens.resume(secret) if is_token else None
    else:
        found = visitor_of(request)
        if found is not None and request.method not in READING:
            _check_proof(found, request.headers.get(PROOF, ""))
    if found is None:
        raise NotSignedIn
    request.scope["state"]["who"] = found.name
    return found


def _check_proof(visitor: Visitor, sent: str) -> None:
    if visitor.proof is None or not hmac.compare_digest(visitor.proof.encode(), sent.encode()):
        raise ProofMissing


def needs(*scopes: Scope) -> Callable[[Visitor], Coroutine[Any, Any, Visitor]]:
    """Lets a visitor pass who has one of these rights, and a password of their own."""

    # No function of a worker thread: it waits for nothing.
    async def allowed(visitor: Annotated[Visitor, Depends(signed_in)]) -> Visitor:
        if visitor.must_change:
            raise PasswordMustChange
        if not visitor.may(*scopes):
            raise NotAllowed(" or to ".join(scopes))
        return visitor

    return allowed


Anybody = Annotated[Visitor, Depends(signed_in)]
"""Whoever is signed in, even with a first password that must be changed."""
Analyst = Annotated[Visitor, Depends(needs("ask"))]
Keeper = Annotated[Visitor, Depends(needs("curate"))]
AUDITING = Depends(needs("audit"))
Auditor = Annotated[Visitor, AUDITING]
Member = Annotated[Visitor, Depends(needs("ask", "curate", "audit"))]
"""Whoever has any right at all."""


def set_cookie(response: Response, visit: Visit, app_state: AppState) -> None:
    """Gives the browser its secret: no script reads it, and no other site sends it."""
    response.set_cookie(
        COOKIE,
        visit.secret,
        max_age=visit.ends - app_state.visits.clock.now(),
        httponly=True,
        samesite="lax",
        secure=app_state.settings.is_secure,
        path="/",
    )


def drop_cookie(response: Response, app_state: AppState) -> None:
    """Takes the secret back."""
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=app_state.settings.is_secure, path="/")
