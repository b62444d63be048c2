"""Who sends a request: by a cookie from a browser, with a CSRF token for every change, or by a token from a program."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, TypeAlias, TypeVar

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from blowfishdb.catalog.curator import Curator
from blowfishdb.errors import CsrfTokenMissing, NotAllowed, NotSignedIn, PasswordMustChange
from blowfishdb.ledger import Charge
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.server.auth.audit_log import NOTHING, AuditEntry
from blowfishdb.server.auth.grants import Principal, Scope
from blowfishdb.server.auth.session import LoginSession
from blowfishdb.server.state import AppState
from blowfishdb.session.session import Session

Result = TypeVar("Result")
COOKIE = "blowfish_session"
CSRF_HEADER = "X-CSRF-Token"
READING = ("GET", "HEAD", "OPTIONS")
LONGEST_SECRET = 200


CALLER = "caller"
"""The entry of a request's state that is whoever sent it, once somebody has looked."""
WHO = "who"
"""The entry of a request's state that names whoever sent it, for the log."""


def app_state_of(request: HTTPConnection) -> AppState:
    """The app state that serves this request; pages find it in the request of their client."""
    app_state: AppState = request.scope["state"]["app_state"]
    return app_state


def secret_of(request: HTTPConnection) -> str | None:
    """The secret of the login session that the cookie names."""
    secret = request.cookies.get(COOKIE)
    return secret if secret and len(secret) <= LONGEST_SECRET else None


def identity_of(request: HTTPConnection) -> Principal | None:
    """Whoever signed in with this browser; None for nobody. For pages, whose first request only reads."""
    secret = secret_of(request)
    identity = None if secret is None else app_state_of(request).logins.resume(secret)
    if identity is not None:
        request.scope["state"].get(WHO, []).append(identity.name)
    return identity


def address_of(request: Request) -> str:
    """Where the request comes from."""
    return request.client.host if request.client is not None else "unknown"


@dataclass(frozen=True, eq=False)
class Caller:
    """Whoever sends a request, and what of the app state is theirs."""

    identity: Principal
    app_state: AppState

    @property
    def name(self) -> str:
        """The name that they signed in with."""
        return self.identity.name

    def session(self, *scopes: Scope) -> Session:
        """Their session over the datasets on which they have one of these rights; without any, all that they see."""
        return self.app_state.session_of(self.identity, *scopes)

    def declared(self, dataset: str) -> tuple[Domain, Policy]:
        """The domain and the policy of a dataset, both as they are at one moment."""
        return self.app_state.backend_of(self.identity).declared(dataset)

    def curator(self) -> Curator:
        """The curator's side of the datasets that they curate."""
        return self.app_state.curator_of(self.identity, "curate")

    def auditor(self) -> Curator:
        """The same of the datasets whose books they may read; for what changes nothing."""
        return self.app_state.curator_of(self.identity, "audit")

    def check(self, dataset: str, *scopes: Scope) -> None:
        """UnknownDataset for one that they may not see or that is not there; NotAllowed without one of the rights."""
        owner = self.app_state.seen_dataset(self.identity, dataset)
        if not self.app_state.grants.may(self.identity, owner, *scopes):
            raise NotAllowed(" or to ".join(scopes), owner)

    def reads(self, line: AuditEntry) -> bool:
        """Whether a line of the audit log is theirs to read: about a dataset they audit, or about none."""
        return self.app_state.reads(self.identity, line)

    async def quote(self, work: Callable[[], Result], request: Request) -> Result:
        """The result of their work that computes, in its turn."""
        return await self.app_state.worker_pools.quote(self.name, work, request)

    async def release(self, work: Callable[[], Result], request: Request) -> Result:
        """The result of their work that reads data, in its turn."""
        return await self.app_state.worker_pools.release(self.name, work, request)

    async def look_up(self, work: Callable[[], Result], request: Request) -> Result:
        """The result of their look at what is stored, in its turn."""
        return await self.app_state.worker_pools.look_up(self.name, work, request)

    def note(
        self,
        action: str,
        target: str = "",
        detail: Mapping[str, str | int | None] = NOTHING,
        *,
        durable: bool = True,
    ) -> None:
        """Writes a line into the audit log."""
        self.app_state.audit_log.note(self.name, action, target, detail, durable=durable)


@dataclass(eq=False)
class Payment(AbstractContextManager["Payment"]):
    """What is kept of a release beside the ledger: its line in the audit log, and what its token has spent.

    `Run.before_charge` calls it with the price, and with what is taken back. The line is on disk before anything is
    charged; about what is free it is written before the answer leaves, and no disk is waited for.
    """

    caller: Caller
    action: str
    target: str
    detail: Mapping[str, str | int | None] = field(default_factory=dict)
    price: Fraction = Fraction(0)
    """What was charged, all charges of the release together."""
    _is_noted: bool = False

    def __call__(self, price: Fraction, charges: Sequence[Charge]) -> None:
        del charges
        if not self._is_noted:
            self.caller.note(self.action, self.target, self.detail)
            self._is_noted = True
        token = self.caller.identity.token
        if price and token is not None:
            self.caller.app_state.tokens.spend(token, price)
        self.price += price

    def __exit__(self, *raised: object) -> None:
        if not self._is_noted:
            self.caller.note(self.action, self.target, self.detail, durable=False)


def signed_in(request: Request) -> Caller:
    """Whoever sends this request; NotSignedIn or CsrfTokenMissing otherwise."""
    known: Caller | None = request.scope["state"].get(CALLER)
    if known is not None:
        return known
    app_state = app_state_of(request)
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme:
        is_token = scheme.lower() == "bearer" and 0 < len(secret) <= LONGEST_SECRET
        identity = app_state.tokens.resume(secret) if is_token else None
    else:
        identity = identity_of(request)
        if identity is not None and request.method not in READING:
            sent = request.headers.get(CSRF_HEADER, "")
            if identity.csrf_token is None or not hmac.compare_digest(identity.csrf_token.encode(), sent.encode()):
                raise CsrfTokenMissing
    if identity is None:
        raise NotSignedIn
    request.scope["state"].get(WHO, []).append(identity.name)
    caller = request.scope["state"][CALLER] = Caller(identity, app_state)
    return caller


def _with_rights(request: Request, scopes: Sequence[Scope], *, everywhere: bool = False) -> Caller:
    """Whoever sends this request, with one of these rights somewhere and a password of theirs."""
    caller = signed_in(request)
    if caller.identity.must_change:
        raise PasswordMustChange
    may = caller.identity.may_everywhere if everywhere else caller.identity.may
    if not may(*scopes):
        raise NotAllowed(" or to ".join(scopes))
    return caller


async def looked_up(request: Request, look: Callable[[], Caller]) -> Caller:
    """Whom a look-up finds: at once where that is quicker than to hand it to a thread.

    For a cookie it may also be written down when it was last seen, which waits for other writers and the disk.
    """
    is_quick = "authorization" in request.headers and app_state_of(request).users.database.is_quick
    return look() if is_quick else await run_in_threadpool(look)


Check: TypeAlias = Callable[..., Awaitable[Caller]]


def needs(*scopes: Scope, everywhere: bool = False) -> Check:
    """Lets a user pass with one of these rights somewhere, or with their account itself, and a password of theirs."""

    async def allowed(request: Request) -> Caller:
        return await looked_up(request, lambda: _with_rights(request, scopes, everywhere=everywhere))

    return allowed


def needs_on_dataset(*scopes: Scope) -> Check:
    """Lets a user pass who has one of these rights on the dataset that the path names, if they see it at all."""

    async def allowed(request: Request) -> Caller:
        def look() -> Caller:
            caller = _with_rights(request, ("ask", "curate", "audit"))
            caller.check(request.path_params["name"], *scopes)
            return caller

        return await looked_up(request, look)

    return allowed


Anybody = Annotated[Caller, Depends(signed_in)]
"""Whoever is signed in, even with a first password that must be changed."""
AnyCaller = Annotated[Caller, Depends(needs("ask", "curate", "audit"))]
"""Whoever has any right at all."""
LedgerReader = Annotated[Caller, Depends(needs("audit"))]
"""Whoever audits some dataset."""
AccountCurator = Annotated[Caller, Depends(needs("curate", everywhere=True))]
"""Whose account has the role curator: adds datasets and users."""
AUDITING = Depends(needs("audit", everywhere=True))
AccountAuditor = Annotated[Caller, AUDITING]
Reader = Annotated[Caller, Depends(needs_on_dataset("ask", "curate", "audit"))]
"""Whoever has a role on the dataset of the path; so have the next three."""
Analyst = Annotated[Caller, Depends(needs_on_dataset("ask"))]
DataCurator = Annotated[Caller, Depends(needs_on_dataset("curate"))]
Auditor = Annotated[Caller, Depends(needs_on_dataset("audit"))]


def set_cookie(response: Response, login: LoginSession, app_state: AppState) -> None:
    """Gives the browser its secret: no script reads it, and no other site sends it."""
    response.set_cookie(
        COOKIE,
        login.secret,
        max_age=login.ends - app_state.logins.database.clock.now(),
        httponly=True,
        samesite="lax",
        secure=app_state.settings.is_secure,
        path="/",
    )


def drop_cookie(response: Response, app_state: AppState) -> None:
    """Takes the secret back."""
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=app_state.settings.is_secure, path="/")
