"""Sudden death of clients: at named points of a release, and at random moments, many processes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tools.faults.lab import STORES, Lab
from tools.faults.outcome import Outcome
from tools.faults.swarm import DELAYS, POINTS

POINTS_OF_A_RELEASE = 280
"""About so many points lie in the opening of a ledger and two releases."""
LIFE = 0.4
"""Seconds that a client lives at most while deaths are wanted."""


def kill_at_points(lab: Lab) -> Iterator[Outcome]:
    """Death before or after any statement, commit, mark write, read of data or showing of an answer."""
    yield from _killed(lab, "kill -9 at a named point", POINTS, POINTS_OF_A_RELEASE)


def kill_at_moments(lab: Lab) -> Iterator[Outcome]:
    """Death at any moment, inside system calls as well."""
    yield from _killed(lab, "kill -9 at a random moment", DELAYS, LIFE)


def _killed(lab: Lab, fault: str, killing: str, span: float) -> Iterator[Outcome]:
    for store in STORES:
        place = lab.place(store)
        plan = replace(lab.plan(place), killing=killing, span=span, deaths=place.releases)
        done = lab.worker_pool.run(plan)
        yield lab.verdict(fault, place, done["deaths"], done["unsettled"])
