"""One mechanism's strategy for a problem, certified once: its noise at any epsilon follows by scaling."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from blowfishdb.errors import AccuracyError
from blowfishdb.mechanisms.strategy import Strategy
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints, distinct
from blowfishdb.noise import distribution
from blowfishdb.plan.certificate import Certificate, calibrate, certify, rescaled
from blowfishdb.plan.plan import EdgePlan, Plan, Problem

WRITTEN_OUT = 3_000_000
"""Coefficients (answers times noise variables) up to which every answer's tail is bounded separately."""
COARSE = 1e4
LARGE_SCALE = 10.0
LEAST_SCALE = 0.01
"""Noise of a smaller scale is zero for all purposes; formulas treat it as if it had this one."""


OF_ALL_LEVELS = ("weights", "weight_classes", "coarse_variances", "coarse_answer_variances")
"""What a candidate works out at most once, whatever the noise level."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A strategy and its plan at one noise level, called epsilon 1; every other level follows by scaling."""

    problem: Problem
    strategy: Strategy
    plan: Plan | EdgePlan

    @property
    def is_exact(self) -> bool:
        """Whether the answers carry no noise at all."""
        return self.weights.size == 0

    @property
    def is_wide(self) -> bool:
        """Whether answers and noise variables are too many to write out every coefficient."""
        return self.problem.workload.shape[0] * self.weights.size > WRITTEN_OUT

    @cached_property
    def weights(self) -> Ints:
        return self.plan.weights

    @cached_property
    def weight_classes(self) -> tuple[Ints, Ints]:
        """The distinct weights, and which of them each noise variable has."""
        if self.weights.min() == self.weights.max():
            return self.weights[:1], np.zeros(self.weights.size, dtype=np.int64)
        values = distinct(self.weights)
        return values, np.searchsorted(values, self.weights)

    @property
    def exact_rows(self) -> int:
        return self.plan.exact.shape[0] if isinstance(self.plan, Plan) and self.plan.exact is not None else 0

    @cached_property
    def plan_digest(self) -> str:
        """The digest of the plan."""
        return self.plan.digest()

    def scales(self, epsilon: Fraction) -> Floats:
        """The scale of each noise variable."""
        return float(self.plan.unit / epsilon) / self.weights

    def variances(self, epsilon: Fraction) -> Floats:
        """The variance of each noise variable."""
        return np.asarray(distribution.variance(self._class_scales(epsilon))[self.weight_classes[1]])

    def silence(self, epsilon: Fraction) -> float:
        """The probability that some noise variable is not 0."""
        return distribution.simultaneous_tail(self._class_scales(epsilon), np.bincount(self.weight_classes[1]), 0.0)

    def _class_scales(self, epsilon: Fraction) -> Floats:
        return np.maximum(float(self.plan.unit / epsilon) / self.weight_classes[0], LEAST_SCALE)

    @property
    def coarse_unit(self) -> float:
        """A unit at which rounding noise to whole numbers does not matter."""
        return COARSE * float(self.weights.max())

    @cached_property
    def coarse_variances(self) -> Floats:
        """The variances of continuous noise at that unit."""
        return np.asarray(2.0 * (self.coarse_unit / self.weights) ** 2)

    @cached_property
    def coarse_answer_variances(self) -> Floats:
        """The expected squared error of each answer at that unit."""
        return self.strategy.answer_variances(self.coarse_variances)

    def at_level(self, plan: Plan | EdgePlan) -> Candidate:
        """The strategy with its plan at another noise level; what no level changes is not worked out again."""
        level = Candidate(self.problem, self.strategy, plan)
        vars(level).update({name: known for name, known in vars(self).items() if name in OF_ALL_LEVELS})
        return level

    def is_coarse(self, epsilon: Fraction) -> bool:
        """Whether all noise is large enough for least squares to weigh it like continuous noise, to 0.1 %."""
        return float(self.plan.unit / epsilon) >= LARGE_SCALE * float(self.weights.max())

    def is_steady(self, epsilon: Fraction) -> bool:
        """Whether answers combine the noise exactly as they would combine continuous noise."""
        steady = self.strategy.steady_scale
        return steady is not None and self.plan.unit / epsilon >= steady * int(self.weights.max())

    def served(self) -> tuple[Fraction, Fraction]:
        """The epsilons between which every noise scale is one that the sampler serves."""
        lightest, heaviest = int(self.weights.min()), int(self.weights.max())
        low = self.plan.unit / (lightest * distribution.MAX_SCALE)
        return low, self.plan.unit / (heaviest * distribution.MIN_SCALE)


@dataclass(frozen=True, eq=False)
class CertifiedCandidate(Candidate):
    """A strategy with its plan and certificate at epsilon 1 (at epsilon 0 when it releases exact rows only)."""

    certificate: Certificate

    def at(self, epsilon: Fraction) -> tuple[Plan | EdgePlan, Certificate]:
        """Plan and certificate at another epsilon."""
        if self.is_exact:
            return self.plan, self.certificate
        return rescaled(self.plan, self.certificate, epsilon)


def certified_strategy(problem: Problem, strategy: Strategy) -> CertifiedCandidate:
    """A strategy with its plan calibrated to epsilon 1."""
    plan = strategy.plan(Fraction(1))
    if plan.weights.size == 0:
        return CertifiedCandidate(problem, strategy, plan, certify(plan, problem.graph))
    return CertifiedCandidate(problem, strategy, *calibrate(plan, problem.graph, Fraction(1)))


MANTISSAS = (*range(100, 200), *range(200, 500, 2), *range(500, 1000, 5))


def point(index: int) -> Fraction:
    """The grid's epsilon with this number; larger numbers are larger epsilons."""
    decade, place = divmod(index, len(MANTISSAS))
    return Fraction(MANTISSAS[place]) * _power_of_ten(decade - 2)


def index_at_least(epsilon: Fraction) -> int:
    """The number of the least grid point that is not below a positive epsilon."""
    decade = 0
    while epsilon >= _power_of_ten(decade + 1):
        decade += 1
    while epsilon < _power_of_ten(decade):
        decade -= 1
    return decade * len(MANTISSAS) + bisect_left(MANTISSAS, epsilon * _power_of_ten(2 - decade))


def round_up(epsilon: Fraction) -> Fraction:
    """The least grid point that is not below a positive epsilon."""
    return point(index_at_least(epsilon))


def least_passing(passes: Callable[[Fraction], bool], guess: Fraction) -> Fraction:
    """The least grid point that passes, for a test that every larger epsilon passes too."""
    high = index_at_least(guess)
    step = 1
    while not passes(point(high)):
        high, step = high + step, 2 * step
    low, step = high - 1, 1
    while passes(point(low)):
        high, low, step = low, low - step, 2 * step
    return point(low + 1 + bisect_left(range(low + 1, high), True, key=lambda index: passes(point(index))))


def first_passing(passes: Callable[[Fraction], bool], start: Fraction, limit: Fraction) -> Fraction | None:
    """The first grid point from `start` on that passes; None when there is none up to `limit`."""
    index = index_at_least(start)
    while point(index) <= limit:
        if passes(point(index)):
            return point(index)
        index += 1
    return None


def _power_of_ten(exponent: int) -> Fraction:
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)


@dataclass(frozen=True)
class QuotientColumn:
    """A column of a table that is a quotient, or a weighted sum, of two blocks of rows, for `count` groups.

    `factors` are what the noise of both blocks counts for at most in a quotient times its divisor; that stays within
    `reach` times alpha, or nothing is promised of it where that is None.
    """

    column: int
    blocks: tuple[int, int]
    factors: tuple[float, float]
    count: int
    reach: float | None = 1.0


@dataclass(frozen=True)
class ColumnsGuarantee:
    """What is promised of the columns of a table; a single mean is a table of one quotient (docs/proofs/joint.md).

    The answers are rows in blocks of these `sizes`. Those of the blocks `boxed` stay within `reach` times alpha each,
    and quotients within theirs: all of them `together`, or each by itself.
    """

    sizes: tuple[int, ...]
    boxed: tuple[int, ...]
    reach: float
    quotients: tuple[QuotientColumn, ...]
    together: bool = True

    @property
    def box(self) -> float:
        """The part of alpha within which all rows keep every promise."""
        promised = (one.reach / sum(one.factors) for one in self.quotients if one.reach is not None)
        return min([*promised, *([self.reach] if self.boxed else [])], default=1.0)


AnswerGuarantee = Literal["simultaneous", "per-query"]
"""What an analyst may ask to stay within alpha: all answers at once, or each by itself."""
Guarantee = AnswerGuarantee | ColumnsGuarantee
"""What stays within alpha: every answer, each answer, or the columns that are read off the answers."""


def check_guarantee(guarantee: Guarantee) -> None:
    """AccuracyError for anything else."""
    if not isinstance(guarantee, ColumnsGuarantee) and guarantee not in ("simultaneous", "per-query"):
        raise AccuracyError(f"a guarantee is 'simultaneous' or 'per-query', not {guarantee!r}")


def check_beta(beta: float) -> None:
    """AccuracyError for anything but a probability between 0 and 1."""
    if not 0 < beta < 1:
        raise AccuracyError(f"beta is a probability strictly between 0 and 1, not {beta}")
