"""Half-widths for the answers of a plan: one per answer, and one that holds for all of them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.assessment import Assessment
from blowfishdb.accuracy.bound import rounding, variances_alone, written_out
from blowfishdb.accuracy.equal_terms import equal_term_tails, many_terms, rounded_terms
from blowfishdb.accuracy.setting import CountsTerms, Setting
from blowfishdb.errors import AccuracyError
from blowfishdb.mechanisms.strategy import Strategy
from blowfishdb.model.arrays import Floats
from blowfishdb.noise import distribution
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.plan.problem import Problem

HALVINGS = 40
"""Steps of the search for each half-width; the upper end is reported."""


@dataclass(frozen=True, eq=False)
class HalfWidths:
    """With probability 1 - beta an answer is off by at most its `per_answer`, and all by at most `simultaneous`."""

    per_answer: Floats
    simultaneous: float

    def widened(self, by: Floats) -> HalfWidths:
        """Those of answers that may be off by so much more, each by its own part."""
        return HalfWidths(self.per_answer + by, self.simultaneous + float(by.max(initial=0.0)))


def intervals(
    problem: Problem, strategy: Strategy, plan: Plan | EdgePlan, beta: float, promised: float | None = None
) -> HalfWidths:
    """The half-widths at beta of the answers that this very plan gives.

    `promised` is what all of them are known to stay within at beta, where a simulation has shown it before.
    """
    if not 0 < beta < 1:
        raise AccuracyError(f"beta is a probability strictly between 0 and 1, not {beta}")
    setting = Setting(problem, strategy, plan)
    if setting.is_exact:
        return HalfWidths(np.zeros(problem.workload.shape[0]), 0.0)
    together = promised
    if together is None:
        together, _ = Assessment(setting, "simultaneous").alpha(Fraction(1), beta, simulate=True)
    return HalfWidths(np.minimum(_per_answer(setting, beta), together), together)


def _per_answer(setting: Setting, beta: float) -> Floats:
    """Exact where an answer is one noise variable, else the least that its tail bound proves."""
    strategy, scales = setting.strategy, setting.scales(Fraction(1))
    if strategy.direct is not None:
        quantiles = np.append(distribution.quantile(scales, beta), 0)
        return quantiles[strategy.direct].astype(np.float64)
    terms = strategy.answer_terms() if isinstance(strategy, CountsTerms) else None
    if terms is not None and scales.min() == scales.max():
        classes, place = rounded_terms(terms)
        many = many_terms(classes)
        scale = float(scales[0])
        found = _solve(lambda alpha: equal_term_tails(classes, many, scale, alpha), beta, scale * np.sqrt(classes))
        return np.floor(found)[place]
    variances, unit = setting.variances(Fraction(1)), float(setting.plan.unit)
    if not setting.is_wide:
        sums = written_out(setting, variances)
        return _solve(lambda alpha: sums.tails(unit, alpha), beta, unit * sums.norm)
    known, place = variances_alone(setting)
    sums = known.inflated(rounding(setting, Fraction(1)))
    return _solve(lambda alpha: sums.tails(unit, alpha), beta, unit * np.sqrt(sums.rest))[place]


def _solve(tails: Callable[[Floats], Floats], beta: float, guess: Floats) -> Floats:
    """For each answer the least alpha, from above, at which its tail is at most beta."""
    high = np.maximum(guess, 1.0)
    while np.any(missing := tails(high) > beta):
        high = np.where(missing, 2.0 * high, high)
    low = np.zeros_like(high)
    high = np.where(tails(low) <= beta, low, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        holds = tails(middle) <= beta
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return high
