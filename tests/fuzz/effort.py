"""How long each fuzz test searches: a moment in every run, minutes with HYPOTHESIS_PROFILE=nightly."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, settings

from blowfishdb.errors import BlowfishError, InternalError, ReleaseFailed, SourceFailed

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
LONGER = 40
FAULTS = (InternalError, ReleaseFailed, SourceFailed)
"""Typed, but they stand for an exception that nobody foresaw."""
Result = TypeVar("Result")


def effort(examples: int) -> settings:
    """The settings of a fuzz test: so many examples in every run, and many times more at night."""
    return settings(
        max_examples=examples * LONGER if NIGHTLY else examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


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
