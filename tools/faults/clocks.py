"""Clocks that jump: each client lives in another year, and time runs backwards between two releases."""

from __future__ import annotations

import datetime as real
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from tools.faults.lab import STORES, Lab
from tools.faults.outcome import Outcome

YEAR = 365 * 86_400.0
LEAPS = (0.0, 20 * YEAR, -30 * YEAR, 3600.0, -3600.0, 900 * YEAR)


def skew(number: int) -> None:
    """Moves the clock of this process, at every reading by another leap; for a process that serves only this."""
    from blowfishdb.ledger import ledger

    plain, readings = time.time, count(number)

    def skewed() -> float:
        return plain() + LEAPS[next(readings) % len(LEAPS)]

    class Skewed(real.datetime):
        @classmethod
        def now(cls, tz: real.tzinfo | None = None) -> Any:
            return real.datetime.fromtimestamp(plain(), tz) + real.timedelta(seconds=skewed() - plain())

    clock: Any = time
    clock.time = skewed
    module: Any = ledger
    module.datetime = Skewed


def clock_skew(lab: Lab) -> Iterator[Outcome]:
    """Releases under clocks that are decades off and run backwards."""
    for store in STORES:
        place = lab.place(store)
        plan = replace(lab.plan(place), install=["tools.faults.clocks:skew"])
        done = lab.worker_pool.run(plan)
        yield lab.verdict("clock skew", place, place.releases, done["unsettled"])
