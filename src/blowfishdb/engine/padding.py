"""Padding: an answer leaves a whole number of steps after its charge, however long the data took in between.

Steps are counted from the charge, because everything before it depends on nothing secret. Had they been counted from
the request, the scatter of the public part would carry small differences across a boundary, where averages show them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from blowfishdb.errors import CatalogError

Result = TypeVar("Result")
SHORTEST, LONGEST = Fraction(1, 1000), Fraction(600)


@dataclass(frozen=True)
class Pace:
    """The clock that padding reads and how it waits; tests bring their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def check_step(step: Fraction) -> None:
    """CatalogError for a step that is no sensible time."""
    if not SHORTEST <= step <= LONGEST:
        raise CatalogError("pad_to is a time in seconds, from 0.001 to 600, such as '0.25'")


def padded(step: Fraction | None, work: Callable[[], Result], pace: Pace | None = None) -> Result:
    """The result of the work, handed over a whole number of steps after its beginning; failures wait as long."""
    if step is None:
        return work()
    clock = pace or Pace()
    began = clock.now()
    try:
        result = work()
    except Exception:
        _hold(began, float(step), clock)
        raise
    _hold(began, float(step), clock)
    return result


def whole_steps(seconds: float, step: Fraction | None) -> float:
    """A deadline rounded up to a multiple of the step: a shorter one would tell how long the data took."""
    return seconds if step is None else float(math.ceil(Fraction(seconds) / step) * step)


def _hold(began: float, step: float, clock: Pace) -> None:
    """Sleeps until the next multiple of the step; a sleep that ends early is taken up again."""
    until = began + max(1, math.ceil((clock.now() - began) / step)) * step
    while (left := until - clock.now()) > 0:
        clock.sleep(left)
