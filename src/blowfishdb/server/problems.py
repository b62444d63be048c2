"""Errors as application/problem+json: a stable code and a sentence; of the unexpected, only an incident number."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from blowfishdb import errors
from blowfishdb.errors import BlowfishError
from blowfishdb.incidents import public_error

MEDIA_TYPE = "application/problem+json"
NOTHING: Mapping[str, Any] = MappingProxyType({})
CLIENT_CLOSED, CLOSED = 499, "Client Closed Request"
"""Status and title of work that ended because nobody waited for it: in common use, though no standard has them."""
STATUS: tuple[tuple[type[BlowfishError], int], ...] = (
    (errors.NotSignedIn, 401),
    (errors.SignInRefused, 401),
    (errors.UnknownAnswer, 404),
    (errors.DatasetPaused, 409),
    (errors.WaitsForApproval, 409),
    (errors.VersionMismatch, 412),
    (errors.RateLimited, 429),
    (errors.TooManyAtOnce, 429),
    (errors.ServerFull, 503),
    (errors.TooSlow, 408),
    (errors.ConnectionIdle, 408),
    (errors.AccountsUnavailable, 503),
    (errors.ProviderUnavailable, 503),
    (errors.AccessError, 403),
    (errors.BudgetExceeded, 402),
    (errors.SpendingCapReached, 402),
    (errors.AllowanceExceeded, 402),
    (errors.KeyReused, 409),
    (errors.ChargeClosed, 409),
    (errors.StaleVersion, 409),
    (errors.ChainMoved, 409),
    (errors.ContentChanged, 409),
    (errors.AccountConflict, 409),
    (errors.ChangeRefused, 409),
    (errors.UnknownAccount, 404),
    (errors.AmountTooFine, 422),
    (errors.LedgerError, 503),
    (errors.DigestMismatch, 409),
    (errors.UnknownDataset, 404),
    (errors.NotInForce, 409),
    (errors.SchemaDrift, 409),
    (errors.SourceChanging, 503),
    (errors.TooLarge, 413),
    (errors.TooExpensive, 413),
    (errors.WorkCancelled, CLIENT_CLOSED),
    (errors.SourcesUnavailable, 503),
    (errors.SourceBusy, 503),
    (errors.SourceFailed, 502),
    (errors.ReleaseCancelled, CLIENT_CLOSED),
    (errors.ReleaseFailed, 502),
    (errors.DeadlinePassed, 504),
    (errors.InternalError, 500),
    (errors.ExtraMissing, 501),
    (BlowfishError, 422),
)
"""Errors and their status; the first line that fits counts. No status depends on the data."""


WAITING = (errors.RateLimited, errors.SignInRefused, errors.TooManyAtOnce, errors.ServerFull)
"""Errors that tell when to try again."""


ASTRAY = {
    400: ("unreadable-body", "the body of this request cannot be read: send JSON, in UTF-8"),
    404: ("not-found", "there is no such route; /api/v1/openapi.json lists all routes"),
    405: ("method-not-allowed", "this route does not allow that method; the header Allow lists those that it does"),
}
"""What is said of a request that leads to no route or into none: its code and a sentence, by status."""


def status_of(error: BlowfishError) -> int:
    """The HTTP status of an error."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


def problem(error: BlowfishError) -> JSONResponse:
    """The error as a response: what it says, its code and its typed fields."""
    status = status_of(error)
    fields = {name: _plain(value) for name, value in vars(error).items() if name != "message"}
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, errors.NotSignedIn) else {}
    if isinstance(error, WAITING) and error.wait:
        headers["Retry-After"] = str(error.wait)
    return _response(status, error.code, error.message, fields, headers)


def _response(
    status: int, code: str, detail: str, fields: Mapping[str, Any] = NOTHING, headers: Mapping[str, str] = NOTHING
) -> JSONResponse:
    content = {
        "type": f"urn:blowfishdb:{code}",
        "title": CLOSED if status == CLIENT_CLOSED else HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "fields": dict(fields),
    }
    return JSONResponse(content, status, headers, MEDIA_TYPE)


def add_handlers(app: FastAPI) -> None:
    """Makes the app answer every error as a problem."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        return problem(public_error(error))

    async def misread(_: Request, error: Exception) -> JSONResponse:
        places = error.errors() if isinstance(error, RequestValidationError) else []
        where = "; ".join(".".join(map(str, place["loc"])) + f": {place['msg']}" for place in places[:5])
        return _response(422, "invalid-input", f"this request is not valid: {where}"[:1000])

    async def nowhere(_: Request, error: Exception) -> JSONResponse:
        status = error.status_code if isinstance(error, HTTPException) else 500
        code, text = ASTRAY.get(status, ("http-error", HTTPStatus(status).phrase))
        return _response(status, code, text, headers=getattr(error, "headers", None) or NOTHING)

    app.add_exception_handler(BlowfishError, ours)
    app.add_exception_handler(RequestValidationError, misread)
    app.add_exception_handler(HTTPException, nowhere)


def _plain(value: object) -> Any:
    """A field of an error as JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Fraction | float):
        return str(value)
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else str(value)
