"""Incidents: analysts see a number and a typed error, the curator's log has what an engine or a bug said."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from blowfishdb.errors import BlowfishError, EngineError, InternalError, SourceFailed

CURATOR = "blowfishdb.curator"
"""The name of the curator's log."""
curator_log = logging.getLogger(CURATOR)
# Without any handler Python would print the detail, which may quote a row, on the analyst's screen.
curator_log.addHandler(logging.NullHandler())

Result = TypeVar("Result")


def new_incident(error: Exception, place: str = "") -> str:
    """The number of a new incident; the error and its traceback go to the curator's log only."""
    incident = os.urandom(6).hex()
    curator_log.error("incident %s%s", incident, f" in {place}" if place else "", exc_info=error)
    return incident


def public_error(error: Exception) -> BlowfishError:
    """The error as others may see it: ours unchanged, any other as InternalError with its incident number."""
    return error if isinstance(error, BlowfishError) else InternalError(new_incident(error))


_secrets: ContextVar[frozenset[str] | None] = ContextVar("secrets", default=None)
"""What not even a curator reads; None while whoever asks may be an analyst."""
MOST_WORDS = 600


@contextmanager
def told_to_curator(secrets: Iterable[str]) -> Iterator[None]:
    """Work for a curator: a source that fails before it reads a row is told in its own words, without the secrets."""
    token = _secrets.set(frozenset(secret for secret in secrets if secret))
    try:
        yield
    finally:
        _secrets.reset(token)


def _source_failure(incident: str, error: Exception, *, reads_rows: bool) -> SourceFailed:
    """The failure of a data source: with its words for a curator where they quote no row, else with a number alone."""
    secrets = _secrets.get()
    if secrets is None or reads_rows:
        return SourceFailed(incident)
    words = str(error).strip() or type(error).__name__
    for secret in sorted(secrets, key=len, reverse=True):
        words = words.replace(secret, "...")
    return EngineError(incident, words if len(words) <= MOST_WORDS else f"{words[:MOST_WORDS]} ...")


def redact_errors(
    work: Callable[[], Result],
    failed: Callable[[str], BlowfishError] = InternalError,
    place: str = "",
    *,
    reads_rows: bool = True,
) -> Result:
    """The result of the work; errors leave without frames and contexts, which could hold counts or quote a row.

    What is no error of ours becomes `failed` with an incident number; a failed source tells a curator its words. It is
    raised after the other exception is gone, so that the other one does not even travel as a context.
    """
    failure: BlowfishError
    try:
        return work()
    except BlowfishError as error:
        failure = error
    except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
        incident = new_incident(error, place)
        is_source = failed is SourceFailed
        failure = _source_failure(incident, error, reads_rows=reads_rows) if is_source else failed(incident)
    failure.__cause__ = failure.__context__ = None
    raise failure.with_traceback(None)
