"""Proven accuracy of any linear strategy: a union bound over the answers' tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np

from blowfishdb.accuracy.candidate import Candidate, CountsTerms
from blowfishdb.accuracy.equal_terms import EqualTerms
from blowfishdb.accuracy.grid import first_passing, least_passing
from blowfishdb.accuracy.sum_tails import from_coefficients, from_variances
from blowfishdb.model.arrays import Floats

WRITTEN_OUT = 3_000_000
"""Coefficients (answers times noise variables) up to which every answer's tail is bounded on its own."""
COARSE = 1e4
"""A noise scale at which whole numbers are as good as real ones."""
CLASS_WIDTH = 0.01
"""Variances are rounded up by at most this much, in logarithms, so that a million answers are few classes."""
SMALLEST = 1e-6
"""Answers that vary less than this part of the worst one count as if they varied so much."""
REFERENCE_BETA = 0.05
"""The beta at which strategies are ranked before any is simulated, so that the ranking never depends on the demand."""
ROUGHLY = 1e-3
PRECISION = 1e-6
"""How closely alpha is found, relative to itself; the upper end is reported."""


class Tails(Protocol):
    """Bounds on the failure of a strategy whose noise variables have scale unit / weight."""

    def failure(self, unit: float, alpha: float) -> float: ...

    def worst(self, unit: float, alpha: float) -> float: ...


def tails_of(candidate: Candidate, variances: Floats) -> tuple[Tails, bool]:
    """The sharpest bounds that the size allows, and whether they hold at every noise level."""
    strategy, weights = candidate.strategy, candidate.weights
    if isinstance(strategy, CountsTerms) and weights.min() == weights.max():
        found = strategy.term_counts()
        if found is not None:
            return EqualTerms(*found, weight=int(weights[0])), True
    answers = candidate.problem.workload.shape[0]
    if answers * weights.size <= WRITTEN_OUT:
        units = np.eye(weights.size)
        written = strategy.decode(units, np.zeros((candidate.exact_rows, weights.size)), variances)
        return from_coefficients(written, 1.0 / weights, np.ones(answers)), False
    return _from_variances_alone(candidate, variances), False


def _from_variances_alone(candidate: Candidate, variances: Floats) -> Tails:
    """Bounds from each answer's variance, rounded up to a few classes; the discrete noise varies a little less."""
    found = candidate.strategy.answer_variances(variances)
    largest = max(float(found.max()), np.finfo(np.float64).tiny)
    steps = np.ceil(np.log(np.maximum(found / largest, SMALLEST)) / CLASS_WIDTH)
    classes, count = np.unique(steps, return_counts=True)
    rounded = largest * np.exp(classes * CLASS_WIDTH)
    per_unit = float(np.max(1.0 / (candidate.weights.astype(np.float64) ** 2 * variances)))
    return from_variances(rounded * per_unit, np.sqrt(rounded / variances.min()), count.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Bound:
    """P(some answer off by more than alpha) is at most the sum of the answers' own probabilities."""

    candidate: Candidate
    together: bool

    def least_epsilon(self, alpha: float, beta: float, limit: Fraction | None = None) -> Fraction | None:
        """The least grid epsilon proven to keep the promise; None when it is not below `limit`."""
        tails, at_every_level = self._coarse
        unit = float(self.candidate.plan.unit)
        guess = Fraction(self.price / max(alpha, 1.0))
        start = least_passing(lambda e: self._failure(tails, unit / float(e), alpha) <= beta, guess)
        if at_every_level:
            return start if limit is None or start < limit else None
        return first_passing(lambda e: self._failure_at(e, alpha) <= beta, start, limit)

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """An alpha proven to hold at this epsilon, the least up to PRECISION."""
        tails, at_every_level = self._coarse
        if not at_every_level:
            tails, _ = tails_of(self.candidate, self.candidate.variances(epsilon))
        unit = float(self.candidate.plan.unit / epsilon)
        return least_alpha(lambda a: self._failure(tails, unit, a) <= beta, self.price / float(epsilon), PRECISION)

    @property
    def is_sharp(self) -> bool:
        """Whether the bound knows more of each answer than its variance."""
        answers = self.candidate.problem.workload.shape[0]
        return self._coarse[1] or answers * self.candidate.weights.size <= WRITTEN_OUT

    @cached_property
    def price(self) -> float:
        """About alpha times epsilon at the reference beta, where noise is so large that rounding does not matter."""
        tails, _ = self._coarse
        coarse = COARSE * float(self.candidate.weights.max())
        found = least_alpha(lambda a: self._failure(tails, coarse, a) <= REFERENCE_BETA, coarse, ROUGHLY)
        return found / coarse * float(self.candidate.plan.unit)

    def _failure_at(self, epsilon: Fraction, alpha: float) -> float:
        tails, _ = tails_of(self.candidate, self.candidate.variances(epsilon))
        return self._failure(tails, float(self.candidate.plan.unit / epsilon), alpha)

    def _failure(self, tails: Tails, unit: float, alpha: float) -> float:
        return tails.failure(unit, alpha) if self.together else tails.worst(unit, alpha)

    @cached_property
    def _coarse(self) -> tuple[Tails, bool]:
        weights = self.candidate.weights
        return tails_of(self.candidate, 2.0 * (COARSE * weights.max() / weights) ** 2)


def least_alpha(passes: Callable[[float], bool], guess: float, precision: float) -> float:
    """The least alpha that passes, from above; for a test that every larger alpha passes too."""
    high = max(guess, 1.0)
    while not passes(high):
        high *= 2.0
    low = 0.0
    if passes(low):
        return low
    while high - low > precision * high:
        middle = (low + high) / 2.0
        if passes(middle):
            high = middle
        else:
            low = middle
    return high
