"""What counts as a fault in a fuzz test, and its settings: inputs may be thrown away, and may be large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, settings

from blowfishdb.errors import BlowfishError, InternalError, ReleaseFailed, SourceFailed
from tests import effort as usual

FAULTS = (InternalError, ReleaseFailed, SourceFailed)
"""Typed, but they stand for an exception that nobody foresaw."""
Result = TypeVar("Result")


def effort(examples: int) -> settings:
    """The settings of a fuzz test."""
    return usual.effort(examples, HealthCheck.filter_too_much, HealthCheck.data_too_large)


def outcome(work: Callable[[], Result]) -> Result | BlowfishError:
    """The result, or the refusal; any other exception, and a fault in the disguise of a refusal, fails the test."""
    try:
        return work()
    except FAULTS as fault:
        raise AssertionError(f"a fault: {fault.code}") from fault
    except BlowfishError as refusal:
        if not refusal.message.strip():
            raise AssertionError("a refusal says what to do") from None
        return refusal
