"""The dearest move that a policy hides, found by trying every pair of records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blowfishdb.audit.definitions import Record, moves, records
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.plan.plan import Plan


def dearest_move(applied: Domain, policy: Policy, plan: Plan, row_of: Callable[[Record], np.ndarray]) -> int:
    """The largest weighted change of the measured rows by one person; `row_of` says what a record adds to them."""
    listed = list(records(applied))
    rows = np.array([row_of(record) for record in listed])
    worst = 0 if policy.presence == "public" else int((np.abs(rows) @ plan.weights).max())
    # From the dearest pair on: the first that is a hidden move is the worst of them.
    losses = np.array([np.abs(rows - row) @ plan.weights for row in rows])
    for place in np.argsort(-losses, axis=None):
        one, two = divmod(int(place), len(listed))
        loss = int(losses[one, two])
        if loss <= worst:
            break
        if one > two and moves(applied, policy, listed[one], listed[two]):
            worst = loss
    return worst * policy.rows_per_person
