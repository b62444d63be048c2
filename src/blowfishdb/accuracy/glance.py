"""Quick looks that rank strategies before any is examined closely; no promise ever rests on them."""

from __future__ import annotations

import math

import numpy as np

from blowfishdb.accuracy.bound import REFERENCE_BETA, ROUGHLY, least_alpha
from blowfishdb.accuracy.setting import GivesCoefficients, Setting
from blowfishdb.accuracy.sum_tails import from_coefficients
from blowfishdb.model.arrays import Floats
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import AllRanges, as_intervals
from blowfishdb.plan.plan import Measurement, Plan

LOOKED_AT = 2_000
"""Answers whose variances are looked at."""
TYPICAL = 4.0
"""The number of standard deviations at which answers of different variance are weighed against each other."""
LIKELY_LARGEST = 5.5
"""How many standard deviations off the worst of many answers is, where nothing better is known."""
AT_LEAST = 4.5
"""The same, with some certainty too small."""
EDGES = 4
"""Edges whose loss is looked at before a certificate looks at all of them."""


def glance_price(setting: Setting) -> float:
    """About alpha times epsilon at the reference beta, from some variances and the worst answer's coefficients."""
    strategy, unit = setting.strategy, setting.coarse_unit
    scale = float(setting.plan.unit) / unit
    if isinstance(setting.problem.workload, AllRanges):
        typical = setting.total_variance(setting.coarse_variances) / setting.problem.workload.shape[0]
        return LIKELY_LARGEST * math.sqrt(typical) * scale
    if not isinstance(strategy, GivesCoefficients):
        return LIKELY_LARGEST * math.sqrt(float(setting.coarse_answer_variances.max())) * scale
    chosen, found = strategy.some_variances(LOOKED_AT, setting.coarse_variances)
    worst = int(found.argmax())
    relative = found[worst] / np.maximum(found, found[worst] / 100.0)
    alike = float(np.mean(np.exp(TYPICAL**2 / 2.0 * (1.0 - relative)))) * setting.problem.workload.shape[0]
    coefficients = strategy.coefficients(chosen[worst : worst + 1], setting.coarse_variances)
    tails = from_coefficients(coefficients, 1.0 / setting.weights, np.array([alike]))
    return least_alpha(lambda alpha: tails.failure(unit, alpha) <= REFERENCE_BETA, unit, ROUGHLY) * scale


def least_price(setting: Setting) -> float:
    """About the least that alpha times epsilon may turn out to be, before the plan (at unit 1) is certified.

    0 where a glance tells nothing.
    """
    loss = _some_loss(setting)
    if loss == 0.0 or isinstance(setting.problem.workload, AllRanges) or setting.is_exact:
        return 0.0
    return AT_LEAST * math.sqrt(float(_some_variances(setting).max())) / setting.coarse_unit * loss


def _some_variances(setting: Setting) -> Floats:
    if isinstance(setting.strategy, GivesCoefficients):
        return setting.strategy.some_variances(LOOKED_AT, setting.coarse_variances)[1]
    return setting.coarse_answer_variances


def _some_loss(setting: Setting) -> float:
    """The largest loss of a few long edges of one ordered axis."""
    graph, plan = setting.problem.graph, setting.plan
    window = graph.factors[0]
    if len(graph.factors) > 1 or not isinstance(window, WindowGraph) or not isinstance(plan, Plan):
        return 0.0
    losses = np.zeros(EDGES)
    starts = np.linspace(0, window.size - 1, EDGES + 1).astype(np.int64)[:-1]
    for part in plan.parts:
        spans = as_intervals(part.rows) if isinstance(part, Measurement) else None
        if spans is None:
            return 0.0
        for place, (first, last) in enumerate(zip(starts, window.reach[starts], strict=True)):
            differs = ((spans.low <= first) & (first < spans.high)) != ((spans.low <= last) & (last < spans.high))
            losses[place] += float(part.weights @ differs)
    return float(losses.max()) * graph.rows_per_person
