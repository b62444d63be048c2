"""The noise of running totals: it bounds the noise of every range of cells, whatever their noise has in common."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.one_axis.estimator import LEAST_VARIANCE, EstimatingStrategy, answer_variances
from blowfishdb.mechanisms.ordered import OrderedStrategy
from blowfishdb.mechanisms.strategy import Strategy
from blowfishdb.model.arrays import Floats
from blowfishdb.model.workload import Prefix
from blowfishdb.plan.plan import EdgePlan, Plan

MOST_WRITTEN_OUT = 2048
"""Up to this many answers and noise variables it is written out how each depends on each."""
AT_ONCE = 256


def running_variances(strategy: Strategy, plan: Plan | EdgePlan, variances: Floats) -> Floats | None:
    """The variance of the total of the first 1, 2, ... cells where every cell is counted; None if it is not known."""
    cells = plan.cells if isinstance(plan, Plan) else plan.workload.shape[1]
    if isinstance(strategy, OrderedStrategy):
        return strategy.variances_of(Prefix(cells), variances)
    if isinstance(strategy, EstimatingStrategy):
        return answer_variances(strategy.estimator, Prefix(cells), np.maximum(variances, LEAST_VARIANCE))
    if max(cells, variances.size) > MOST_WRITTEN_OUT:
        return None
    exact = plan.exact.shape[0] if isinstance(plan, Plan) and plan.exact is not None else 0
    found = np.zeros(cells)
    for start in range(0, variances.size, AT_ONCE):
        some = variances[start : start + AT_ONCE]
        one_each = np.eye(variances.size, some.size, -start)
        totals = np.cumsum(strategy.decode(one_each, np.zeros((exact, some.size)), variances), axis=0)
        found += totals**2 @ some
    return found
