"""Proven accuracy of any linear strategy: a union bound over the answers' tails."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.candidates import LEAST_SCALE, Candidate, CountsTerms, WritesOut, first_passing, least_passing
from blowfishdb.accuracy.tails import LaplaceSums, Tails, equal_sums, from_coefficients, from_variances
from blowfishdb.errors import TooLarge
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise import distribution

MOST_ANSWERS = 4_000_000
"""Answers whose variances are listed at most."""
CLASS_WIDTH = 0.01
"""Variances are rounded up by at most this much, in logarithms, so that a million answers are few classes."""
SMALLEST = 1e-6
"""The least variance that an answer is given, as a part of the largest."""
REFERENCE_BETA = 0.05
"""The beta at which strategies are ranked before any is simulated: no ranking depends on the accuracy target."""
ROUGHLY = 1e-3
PRECISION = 1e-6
"""How closely alpha is found, relative to itself; the upper end is reported."""
NUDGE = 0.45
"""How far beside the expected end a search looks, in units of its precision."""
HALVE_EVERY = 4
TINY = 1e-300
"""A failure that is as good as 0; its logarithm is a number."""


def tails_of(candidate: Candidate, variances: Floats) -> tuple[Tails, bool]:
    """The sharpest bounds that the size allows, and whether they hold at every noise level.

    Where only variances are used they do up to the factor that `rounding` gives.
    """
    strategy, weights = candidate.strategy, candidate.weights
    if isinstance(strategy, CountsTerms) and weights.min() == weights.max():
        terms = strategy.term_counts()
        if terms is not None:
            return equal_sums(*terms, int(weights[0]))[0], True
    answers = candidate.problem.workload.shape[0]
    if answers > MOST_ANSWERS:
        raise TooLarge("answers to bound one by one", answers, MOST_ANSWERS, "Ask for fewer ranges.")
    if not candidate.is_wide:
        return written_out(candidate, variances), False
    sums, place = variances_alone(candidate)
    return replace(sums, count=np.bincount(place).astype(np.float64)), False


def written_out(candidate: Candidate, variances: Floats) -> LaplaceSums:
    """Bounds from the coefficients of every answer on every noise variable."""
    size, answers, strategy = candidate.weights.size, candidate.problem.workload.shape[0], candidate.strategy
    if answers < size and isinstance(strategy, WritesOut):
        coefficients = strategy.coefficients(np.arange(answers), variances)
    else:
        coefficients = strategy.decode(np.eye(size), np.zeros((candidate.exact_rows, size)), variances)
    return from_coefficients(coefficients, 1.0 / candidate.weights, np.ones(coefficients.shape[0]))


def variances_alone(candidate: Candidate) -> tuple[LaplaceSums, Ints]:
    """Bounds from the answers' variances, rounded up to a few classes, and the class of each answer."""
    variances = candidate.coarse_answer_variances
    largest = max(float(variances.max()), np.finfo(np.float64).tiny)
    steps = np.ceil(np.log(np.maximum(variances / largest, SMALLEST)) / CLASS_WIDTH).astype(np.int64)
    classes = np.flatnonzero(np.bincount(-steps))[::-1]
    place = np.searchsorted(-classes, steps)
    classes = -classes
    half = largest * np.exp(classes * CLASS_WIDTH) / (2.0 * candidate.coarse_unit**2)
    norms = np.sqrt(half) * float(candidate.weights.max())
    return from_variances(half, norms, np.ones(half.shape)), place


def rounding(candidate: Candidate, epsilon: Fraction) -> float:
    """How much larger than the discrete variances the continuous ones are at most.

    Least squares at this level does no worse than with the weights of another, so sum (c_j / w_j)^2 and |c|^2 grow
    at most by this factor over their values for continuous noise.
    """
    scale = float(candidate.plan.unit / epsilon) / float(candidate.weights.max())
    return float(2.0 * scale**2 / distribution.variance(max(scale, LEAST_SCALE)))


@dataclass(frozen=True, eq=False)
class Bound:
    """P(some answer off by more than alpha) is at most the sum of the probabilities of the answers."""

    candidate: Candidate
    together: bool

    def least_epsilon(self, alpha: float, beta: float, limit: Fraction | None = None) -> Fraction | None:
        """The least grid epsilon proven to keep the promise; None when it is above `limit`."""
        tails, at_every_level = self._coarse
        unit = float(self.candidate.plan.unit)
        guess = Fraction(self.price / max(alpha, 1.0))
        start = least_passing(
            lambda e: self._failure(tails, unit / float(e), alpha) <= beta or self.candidate.silence(e) <= beta, guess
        )
        if at_every_level:
            return start if limit is None or start <= limit else None
        _, highest = self.candidate.served()
        stop = highest if limit is None else min(limit, highest)
        return first_passing(lambda e: self._failure_at(e, alpha) <= beta, start, stop)

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """An alpha proven to hold at this epsilon, the least up to PRECISION; a whole number where errors are."""
        if self.candidate.silence(epsilon) <= beta:
            return 0.0
        _, at_every_level = self._coarse
        tails, unit = self._tails_at(epsilon), float(self.candidate.plan.unit / epsilon)
        alpha = least_alpha(lambda a: self._failure(tails, unit, a), beta, self.price / float(epsilon), PRECISION)
        return float(np.floor(alpha)) if at_every_level else alpha

    @property
    def is_sharp(self) -> bool:
        """Whether the bound knows more of each answer than its variance."""
        return self._coarse[1] or not self.candidate.is_wide

    @cached_property
    def price(self) -> float:
        """About alpha times epsilon at the reference beta, where noise is so large that rounding does not matter."""
        tails, _ = self._coarse
        coarse = self.candidate.coarse_unit
        alpha = least_alpha(lambda a: self._failure(tails, coarse, a), REFERENCE_BETA, coarse, ROUGHLY)
        return alpha / coarse * float(self.candidate.plan.unit)

    def _failure_at(self, epsilon: Fraction, alpha: float) -> float:
        proven = self._failure(self._tails_at(epsilon), float(self.candidate.plan.unit / epsilon), alpha)
        return min(proven, self.candidate.silence(epsilon))

    def _tails_at(self, epsilon: Fraction) -> Tails:
        tails, at_every_level = self._coarse
        if at_every_level or self.candidate.is_steady(epsilon):
            return tails
        if self.is_sharp or not isinstance(tails, LaplaceSums):
            is_same = self.candidate.has_fixed_coefficients
            return tails if is_same else tails_of(self.candidate, self.candidate.variances(epsilon))[0]
        return tails.inflated(rounding(self.candidate, epsilon))

    def _failure(self, tails: Tails, unit: float, alpha: float) -> float:
        return tails.failure(unit, alpha) if self.together else tails.worst(unit, alpha)

    @cached_property
    def _coarse(self) -> tuple[Tails, bool]:
        return tails_of(self.candidate, self.candidate.coarse_variances)


def least_alpha(failure: Callable[[float], float], beta: float, guess: float, precision: float) -> float:
    """The least alpha, from above, whose failure is at most beta; failures fall in alpha, about exponentially."""

    def excess(alpha: float) -> float:
        return math.log(max(failure(alpha), TINY) / beta)

    low, high = 0.0, max(guess, 1.0)
    above, below = math.inf, excess(high)
    while below > 0.0:
        low, high, above = high, 2.0 * high, below
        below = excess(high)
    if low == 0.0:
        above = excess(low)
        if above <= 0.0:
            return low
    # Where a straight line would meet 0, a little to either side in turn so that both ends close in; now and then half.
    side, steps = 1.0, 0
    while high - low > precision * high:
        crossing = low + (high - low) * above / (above - below) + side * NUDGE * precision * high
        steps += 1
        middle = crossing if low < crossing < high and steps % HALVE_EVERY else (low + high) / 2.0
        gap = excess(middle)
        if gap <= 0.0:
            high, below, side = middle, gap, -1.0
        else:
            low, above, side = middle, gap, 1.0
    return high
