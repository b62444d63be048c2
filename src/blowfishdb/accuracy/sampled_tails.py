"""The union bound for large problems: proven tails of a weighted sample of the answers stand for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.accuracy.bound import PRECISION, REFERENCE_BETA, ROUGHLY, WRITTEN_OUT, Tails, least_alpha
from blowfishdb.accuracy.grid import first_passing, least_passing
from blowfishdb.accuracy.setting import GivesCoefficients, Setting
from blowfishdb.accuracy.sum_tails import from_coefficients
from blowfishdb.model.arrays import Floats

SAMPLED = 64
"""Answers that are looked at; fewer where their coefficients would fill the memory."""
FEWEST = 8
AT_A_GLANCE = 2
NUMBERS = 1_200_000
"""Coefficients that are computed in all."""
GOLDEN = (5**0.5 - 1) / 2
"""Spreads the sample within its strata, so that it never keeps step with the strategy's blocks."""
MARGIN = 1.5
"""The estimated sum of tails is multiplied by this; tests show that its error is far smaller."""
TYPICAL = 4.0
"""The number of standard deviations at which answers of different variance are weighed against each other."""
LEAST_SHARE = 0.05
"""No answer is looked at much more rarely than the worst one, so none can stand for very many."""


@dataclass(frozen=True, eq=False)
class SampledTails:
    """Answers are chosen in proportion to about exp(-z^2 / 2 variance), so those that matter are looked at most."""

    setting: Setting

    @staticmethod
    def serves(setting: Setting) -> bool:
        """Whether the strategy can write out chosen answers and has too many to write out all."""
        answers = setting.problem.workload.shape[0]
        return isinstance(setting.strategy, GivesCoefficients) and answers * setting.weights.size > WRITTEN_OUT

    def least_epsilon(self, alpha: float, beta: float, limit: Fraction | None = None) -> Fraction | None:
        """The first grid epsilon that passes; None when it is not below `limit`."""
        unit = float(self.setting.plan.unit)
        guess = Fraction(unit / max(alpha, 1.0))
        start = least_passing(
            lambda e: self._coarse.failure(unit / float(e), alpha) <= beta or self.setting.silence(e) <= beta, guess
        )
        _, highest = self.setting.served()
        stop = highest if limit is None else min(limit, highest)
        return first_passing(lambda e: self._failure_at(e, alpha) <= beta, start, stop)

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """The least alpha that passes at this epsilon, from above."""
        tails = self._tails_at(epsilon)
        unit = float(self.setting.plan.unit / epsilon)
        return least_alpha(lambda a: tails.failure(unit, a) <= beta, unit, PRECISION)

    def _failure_at(self, epsilon: Fraction, alpha: float) -> float:
        found = self._tails_at(epsilon).failure(float(self.setting.plan.unit / epsilon), alpha)
        return min(found, self.setting.silence(epsilon))

    def _tails_at(self, epsilon: Fraction) -> Tails:
        """Least squares weighs noise by its variance, which whole numbers change only where scales are small."""
        if self.setting.is_coarse(epsilon):
            return self._coarse
        return self._tails(self.setting.variances(epsilon), self._size)

    def price(self) -> float:
        """About alpha times epsilon at the reference beta, from very few answers."""
        tails, unit = self._tails(self.setting.coarse_variances, AT_A_GLANCE), self.setting.coarse_unit
        found = least_alpha(lambda a: tails.failure(unit, a) <= REFERENCE_BETA, unit, ROUGHLY)
        return found / unit * float(self.setting.plan.unit)

    @cached_property
    def _coarse(self) -> Tails:
        return self._tails(self.setting.coarse_variances, self._size)

    @property
    def _size(self) -> int:
        return int(min(SAMPLED, max(FEWEST, NUMBERS // self.setting.weights.size)))

    def _tails(self, variances: Floats, size: int) -> Tails:
        """One answer from each of equally weighty stretches, weighted by the inverse of its chance to be chosen."""
        strategy, weights = self.setting.strategy, self.setting.weights
        found = self.setting.coarse_answer_variances
        relative = found.max() / np.maximum(found, found.max() / 100.0)
        share = LEAST_SHARE + np.exp(TYPICAL**2 / 2.0 * (1.0 - relative))
        mass = np.cumsum(share)
        jitter = ((np.arange(size) + 0.5) * GOLDEN) % 1.0
        chosen = np.searchsorted(mass, (np.arange(size) + jitter) / size * mass[-1])
        count = MARGIN * mass[-1] / (size * share[chosen])
        if not isinstance(strategy, GivesCoefficients):
            return from_coefficients(np.zeros((size, 0)), np.zeros(0), count)
        return from_coefficients(strategy.coefficients(chosen, variances), 1.0 / weights, count)
