"""Accuracy where every answer is one noise variable: the tails are exact, no bound and no simulation."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.accuracy.grid import least_passing
from blowfishdb.accuracy.setting import Setting
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.noise import distribution


@dataclass(frozen=True, eq=False)
class ExactTails:
    """Tails of independent discrete Laplace variables; answers that share a variable count once."""

    setting: Setting
    direct: Ints
    together: bool

    def failure(self, epsilon: Fraction, alpha: float) -> float:
        """P(some answer is off by more than alpha), or the worst answer's own probability."""
        weights, counts = self._groups
        if weights.size == 0:
            return 0.0
        scales = float(self.setting.plan.unit / epsilon) / weights
        if self.together:
            return distribution.simultaneous_tail(scales, counts, alpha)
        return float(distribution.tail(scales, alpha).max())

    def least_epsilon(self, alpha: float, beta: float) -> Fraction:
        """The least grid epsilon that keeps the promise."""
        guess = self.setting.plan.unit / Fraction(max(alpha, 1.0))
        return least_passing(lambda epsilon: self.failure(epsilon, alpha) <= beta, guess)

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """The least whole alpha that holds at this epsilon."""
        weights, counts = self._groups
        if weights.size == 0:
            return 0.0
        return self._quantile(float(self.setting.plan.unit / epsilon) / weights, counts, beta)

    def price(self, beta: float) -> float:
        """alpha times epsilon where noise is so large that rounding does not matter."""
        weights, counts = self._groups
        if weights.size == 0:
            return 0.0
        coarse = self.setting.coarse_unit
        return self._quantile(coarse / weights, counts, beta) * float(self.setting.plan.unit) / coarse

    def _quantile(self, scales: Floats, counts: Ints, beta: float) -> float:
        if self.together:
            return float(distribution.simultaneous_quantile(scales, counts, beta))
        return float(distribution.quantile(scales, beta).max())

    @cached_property
    def _groups(self) -> tuple[Ints, Ints]:
        """Distinct weights of the variables in use, and how many variables have each."""
        used = np.zeros(self.setting.weights.size, dtype=np.bool_)
        used[self.direct[self.direct >= 0]] = True
        values, place = self.setting.weight_classes
        counts = np.bincount(place[used], minlength=values.size)
        return values[counts > 0], counts[counts > 0]
