"""What counts as a fault in a fuzz test, and its settings: inputs may be thrown away, and may be large."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from hypothesis import HealthCheck

from blowfishdb.errors import BlowfishError, InternalError, ReleaseFailed, SourceFailed
from tests import effort as usual

FAULTS = (InternalError, ReleaseFailed, SourceFailed)
"""Typed, but they stand for an exception that nobody foresaw."""
Result = TypeVar("Result")


Test = TypeVar("Test", bound=Callable[..., None])
inputs = 0
"""The number of inputs that fuzz tests have made in this process."""


def effort(examples: int) -> Callable[[Test], Test]:
    """A decorator with the settings of a fuzz test, whose inputs are counted."""
    chosen = usual.effort(examples, HealthCheck.filter_too_much, HealthCheck.data_too_large)

    def decorated(test: Test) -> Test:
        @functools.wraps(test)
        def counted(*given: Any, **named: Any) -> None:
            global inputs
            inputs += 1
            test(*given, **named)

        return cast(Test, chosen(counted))

    return decorated


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
