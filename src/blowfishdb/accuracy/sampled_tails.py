"""The union bound for large problems: proven tails of a weighted sample of the answers stand for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.accuracy.bound import COARSE, PRECISION, WRITTEN_OUT, Tails, least_alpha
from blowfishdb.accuracy.candidate import Candidate, GivesCoefficients
from blowfishdb.accuracy.grid import first_passing, least_passing
from blowfishdb.accuracy.sum_tails import from_coefficients
from blowfishdb.model.arrays import Floats

SAMPLED = 64
"""Answers that are looked at; fewer where their coefficients would fill the memory."""
MARGIN = 1.5
"""The estimated sum of tails is multiplied by this; tests show that its error is far smaller."""
TYPICAL = 5.0
"""The number of standard deviations at which answers of different variance are weighed against each other."""


@dataclass(frozen=True, eq=False)
class SampledTails:
    """Answers are drawn in proportion to exp(-z^2 / 2 variance), so those that matter are looked at most."""

    candidate: Candidate

    @staticmethod
    def serves(candidate: Candidate) -> bool:
        """Whether the strategy can write out chosen answers and has too many to write out all."""
        answers = candidate.problem.workload.shape[0]
        return isinstance(candidate.strategy, GivesCoefficients) and answers * candidate.weights.size > WRITTEN_OUT

    def least_epsilon(self, alpha: float, beta: float, limit: Fraction | None = None) -> Fraction | None:
        """The first grid epsilon that passes; None when it is not below `limit`."""
        unit = float(self.candidate.plan.unit)
        guess = Fraction(unit / max(alpha, 1.0))
        start = least_passing(lambda e: self._coarse.failure(unit / float(e), alpha) <= beta, guess)
        return first_passing(lambda e: self._failure_at(e, alpha) <= beta, start, limit)

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """The least alpha that passes at this epsilon, from above."""
        tails = self._tails(self.candidate.variances(epsilon))
        unit = float(self.candidate.plan.unit / epsilon)
        return least_alpha(lambda a: tails.failure(unit, a) <= beta, unit, PRECISION)

    def _failure_at(self, epsilon: Fraction, alpha: float) -> float:
        tails = self._tails(self.candidate.variances(epsilon))
        return tails.failure(float(self.candidate.plan.unit / epsilon), alpha)

    @cached_property
    def _coarse(self) -> Tails:
        weights = self.candidate.weights
        return self._tails(2.0 * (COARSE * weights.max() / weights) ** 2)

    def _tails(self, variances: Floats) -> Tails:
        """A systematic sample along the answers, each weighted by the inverse of its chance to be in it."""
        strategy, weights = self.candidate.strategy, self.candidate.weights
        found = strategy.answer_variances(variances)
        share = np.exp(TYPICAL**2 / 2.0 * (1.0 - found.max() / np.maximum(found, found.max() / 100.0)))
        mass = np.cumsum(share)
        size = int(min(SAMPLED, max(8, 2 * WRITTEN_OUT // weights.size)))
        chosen = np.searchsorted(mass, (np.arange(size) + 0.5) / size * mass[-1])
        count = MARGIN * mass[-1] / (size * share[chosen])
        if not isinstance(strategy, GivesCoefficients):
            return from_coefficients(np.zeros((size, 0)), np.zeros(0), count)
        return from_coefficients(strategy.coefficients(chosen, variances), 1.0 / weights, count)
