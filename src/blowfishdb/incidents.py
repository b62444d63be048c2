"""Incidents: analysts see a number and a typed error, the curator's log has what an engine or a bug said."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from blowfishdb.errors import BlowfishError, InternalError

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


def redact_errors(
    work: Callable[[], Result], failed: Callable[[str], BlowfishError] = InternalError, place: str = ""
) -> Result:
    """The result of the work; errors leave without frames and contexts, which could hold counts or quote a row.

    What is no error of ours becomes `failed` with an incident number. It is raised after the other exception is gone,
    so that the other one does not even travel as a context.
    """
    failure: BlowfishError
    try:
        return work()
    except BlowfishError as error:
        failure = error
    except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
        failure = failed(new_incident(error, place))
    failure.__cause__ = failure.__context__ = None
    raise failure.with_traceback(None)
