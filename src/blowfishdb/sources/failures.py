"""Keeps what engines say away from analysts: an incident number outside, the detail in the curator's log."""

from __future__ import annotations

import importlib
import logging
import uuid
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from blowfishdb.errors import BlowfishError, DriverMissing, SourceFailed

logger = logging.getLogger("blowfishdb.curator")
# Without any handler Python would print the detail, which may quote a row, on the analyst's screen.
logger.addHandler(logging.NullHandler())
Result = TypeVar("Result")


def shielded(source: str, work: Callable[[], Result]) -> Result:
    """The result of the work; whatever a driver raises becomes SourceFailed with an incident number.

    The message of a driver may quote a person's row, so it goes nowhere but to the curator's log, and SourceFailed
    is raised after the driver's exception is gone, so that it does not even travel as a context.
    """
    try:
        return work()
    except BlowfishError:
        raise
    except Exception:
        incident = uuid.uuid4().hex[:12]
        logger.exception("incident %s at %s", incident, source)
    raise SourceFailed(incident)


def driver(module: str, scheme: str, extra: str) -> ModuleType:
    """The driver's module, or DriverMissing with the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise DriverMissing(scheme, extra) from None
