"""The noise of cells and of running totals in a strategy's estimate: what bounds the noise of any sum of cells."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms import identity
from blowfishdb.mechanisms.axis import LEAST_VARIANCE, EstimatingStrategy
from blowfishdb.mechanisms.kronecker import KroneckerStrategy
from blowfishdb.mechanisms.strategy import LineStrategy, Strategy
from blowfishdb.model.numbers import Floats
from blowfishdb.model.workload import Prefix, as_intervals
from blowfishdb.plan.plan import EdgePlan, Measurement, Plan


def own_variances(strategy: Strategy, plan: Plan | EdgePlan, variances: Floats) -> Floats:
    """For each cell the variance of its own measurement: 0 where it is exact, infinite where it has none.

    `variances` are those of the noisy rows. Where answers are least squares they vary no more than the same answers
    from these measurements alone (Gauss and Markov); strategies that are not have infinite ones.
    """
    cells = np.full(plan.cells, np.inf)
    if not isinstance(plan, Plan):
        return cells
    if isinstance(strategy, KroneckerStrategy):
        return np.asarray(variances) if all(axis.level is None for axis in strategy.axes) else cells
    if not isinstance(strategy, EstimatingStrategy) and strategy.mechanism != identity.NAME:
        return cells
    first = 0
    for part in plan.parts:
        spread = variances[first : first + part.weights.size]
        first += part.weights.size
        spans = as_intervals(part.rows) if isinstance(part, Measurement) else None
        if spans is not None:
            single = spans.high - spans.low == 1
            np.minimum.at(cells, spans.low[single], spread[single])
    exact = None if plan.exact is None else as_intervals(plan.exact)
    if exact is not None:
        cells[exact.low[exact.high - exact.low == 1]] = 0.0
    return cells


MOST_WRITTEN_OUT = 2048
"""Up to this many answers and noise variables it is written out how each depends on each."""
AT_ONCE = 256


def running_variances(strategy: Strategy, plan: Plan | EdgePlan, variances: Floats) -> Floats | None:
    """The variance of the total of the first 1, 2, ... cells where every cell is counted; None if it is not known."""
    cells = plan.cells
    if isinstance(strategy, LineStrategy):
        return strategy.variances_of(Prefix(cells), variances)
    if isinstance(strategy, EstimatingStrategy):
        return strategy.estimator.answer_variances(Prefix(cells), np.maximum(variances, LEAST_VARIANCE))
    if max(cells, variances.size) > MOST_WRITTEN_OUT:
        return None
    exact = plan.exact.shape[0] if isinstance(plan, Plan) and plan.exact is not None else 0
    running = np.zeros(cells)
    for start in range(0, variances.size, AT_ONCE):
        some = variances[start : start + AT_ONCE]
        one_each = np.eye(variances.size, some.size, -start)
        totals = np.cumsum(strategy.decode(one_each, np.zeros((exact, some.size)), variances), axis=0)
        running += totals**2 @ some
    return running
