"""Keeps what engines say away from analysts: an incident number outside, the detail in the curator's log."""

from __future__ import annotations

import importlib
import logging
import uuid
from types import ModuleType, TracebackType

from blowfishdb.errors import BlowfishError, DriverMissing, SourceFailed

CURATOR_LOG = logging.getLogger("blowfishdb.curator")


class shielded:
    """A block in which whatever a driver raises becomes SourceFailed with an incident number; our own errors pass.

    The message of a driver may quote a person's row, so it goes nowhere but to the curator's log.
    """

    def __init__(self, source: str) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(problem, Exception) or isinstance(problem, BlowfishError):
            return
        incident = uuid.uuid4().hex[:12]
        CURATOR_LOG.error("incident %s at %s", incident, self._source, exc_info=problem)
        failure = SourceFailed(incident)
        # An exception carries the one it was raised after; the driver's must not travel with ours.
        failure.__suppress_context__ = True
        raise failure from None


def driver(module: str, scheme: str, extra: str) -> ModuleType:
    """The driver's module, or DriverMissing with the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise DriverMissing(scheme, extra) from None
