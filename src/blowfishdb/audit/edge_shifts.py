"""Which shift of the noise on edges hides a move of the answers, and what the cheapest one costs."""

from __future__ import annotations

import numpy as np
from scipy.optimize import LinearConstraint, milp

from blowfishdb.model.arrays import Ints
from blowfishdb.plan.plan import EdgePlan


def smallest_shift(plan: EdgePlan, moved: Ints) -> Ints | None:
    """Whole numbers h with decoder @ h == moved, at the least weighted sum of |h|; None when there are none.

    What an edge plan publishes is workload x + decoder noise, so noise shifted by -h on the neighbour gives the same.
    """
    decoder = plan.decoder.toarray().astype(np.int64)
    weights = plan.weights.astype(np.float64)
    both = np.hstack([decoder, -decoder]).astype(np.float64)
    found = milp(
        np.concatenate([weights, weights]),
        constraints=LinearConstraint(both, moved.astype(np.float64), moved.astype(np.float64)),
        integrality=np.ones(2 * weights.size),
    )
    if found.x is None:
        return None
    whole = np.round(found.x).astype(np.int64)
    shift = whole[: weights.size] - whole[weights.size :]
    return shift if np.array_equal(decoder @ shift, moved) else None
