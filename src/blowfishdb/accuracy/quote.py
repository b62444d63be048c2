"""Quotes: the least epsilon of each mechanism for an accuracy, or its accuracy for an epsilon; reads no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.assessment import Assessment, Guarantee, Method
from blowfishdb.accuracy.setting import Candidate, certified
from blowfishdb.errors import AccuracyError, BlowfishError, CannotCertify, Declined, TooLarge
from blowfishdb.mechanisms.strategy import Mechanism, Strategy
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.workload import AllRanges
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.plan.problem import Problem

SIMULATED = 2
"""So many of the best-ranked strategies are simulated; the others carry a proven price, "at most"."""
LOOSEST = 1e10
"""A larger alpha costs what this one does: the sampler serves no more noise anyway."""


@dataclass(frozen=True, eq=False)
class Quote:
    """A promise and the very plan that keeps it: all answers (or each) within alpha, except with probability beta.

    `method` tells how the promise is known: exact tails, a simulation with 99.9 % confidence, a proven
    bound, or (large problems) that bound estimated from some of the answers, without a stated confidence.
    `rmse` is the expected root mean squared error of the answers.
    """

    mechanism: str
    epsilon: Fraction
    alpha: float
    beta: float
    guarantee: Guarantee
    method: Method
    strategy: Strategy
    plan: Plan | EdgePlan
    certificate: Certificate
    rmse: float


@dataclass(frozen=True, eq=False)
class Quotes:
    """The offers, best first, and the mechanisms that made none, each with its reason."""

    offers: tuple[Quote, ...]
    declined: Mapping[str, str]

    @property
    def best(self) -> Quote:
        """The best offer; Declined when there is none."""
        if not self.offers:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.declined.items())
            raise Declined("every mechanism", reasons)
        return self.offers[0]


def quote(
    problem: Problem,
    alpha: float,
    beta: float,
    mechanisms: Mapping[str, Mechanism] = MECHANISMS,
    guarantee: Guarantee = "simultaneous",
) -> Quotes:
    """For each mechanism the least epsilon that keeps errors within alpha with probability 1 - beta, cheapest first."""
    _check_beta(beta)
    if not (math.isfinite(alpha) and alpha >= 0):
        raise AccuracyError(f"alpha is a number >= 0, not {alpha}")

    def offer(candidate: Candidate, assessment: Assessment, simulate: bool) -> Quote:
        epsilon, method = assessment.least_epsilon(min(float(alpha), LOOSEST), float(beta), simulate=simulate)
        return _quote(candidate, guarantee, epsilon, float(alpha), float(beta), method)

    return _collected(problem, mechanisms, guarantee, offer, lambda found: (found.epsilon, found.rmse))


def accuracy_at(
    problem: Problem,
    epsilon: Fraction,
    beta: float,
    mechanisms: Mapping[str, Mechanism] = MECHANISMS,
    guarantee: Guarantee = "simultaneous",
) -> Quotes:
    """For each mechanism the alpha that holds with probability 1 - beta at this epsilon, most accurate first."""
    _check_beta(beta)
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise AccuracyError(f"epsilon is a positive Fraction, not {epsilon!r}")

    def offer(candidate: Candidate, assessment: Assessment, simulate: bool) -> Quote:
        alpha, method = assessment.alpha(epsilon, float(beta), simulate=simulate)
        spent = Fraction(0) if candidate.is_exact else epsilon
        return _quote(candidate, guarantee, spent, alpha, float(beta), method)

    return _collected(problem, mechanisms, guarantee, offer, lambda found: (found.alpha, found.rmse))


def _check_beta(beta: float) -> None:
    if not 0 < beta < 1:
        raise AccuracyError(f"beta is a probability strictly between 0 and 1, not {beta}")


def _collected(
    problem: Problem,
    mechanisms: Mapping[str, Mechanism],
    guarantee: Guarantee,
    offer: Callable[[Candidate, Assessment, bool], Quote],
    rank: Callable[[Quote], tuple[float | Fraction, float]],
) -> Quotes:
    """Certifies every strategy once, ranks them quickly, and looks closely at the best few."""
    reasons: dict[str, str] = {}
    priced: list[tuple[float, str, Candidate, Assessment]] = []
    for name, mechanism in mechanisms.items():
        try:
            candidate = certified(problem, mechanism)
            assessment = Assessment(candidate, guarantee)
            priced.append((assessment.price(), name, candidate, assessment))
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = _reason(refusal)
    priced.sort(key=lambda entry: entry[:2])
    offers = []
    for place, (price, name, candidate, assessment) in enumerate(priced):
        worth_it = place < SIMULATED and price <= assessment.reach * priced[0][0]
        try:
            offers.append(offer(candidate, assessment, worth_it))
        except (Declined, TooLarge) as refusal:
            reasons[name] = _reason(refusal)
    return Quotes(tuple(sorted(offers, key=rank)), reasons)


def _reason(refusal: BlowfishError) -> str:
    return refusal.reason if isinstance(refusal, Declined) else refusal.message


def _quote(
    candidate: Candidate, guarantee: Guarantee, epsilon: Fraction, alpha: float, beta: float, method: Method
) -> Quote:
    plan, certificate = candidate.at(epsilon)
    return Quote(
        mechanism=candidate.strategy.mechanism,
        epsilon=epsilon,
        alpha=alpha,
        beta=beta,
        guarantee=guarantee,
        method=method,
        strategy=candidate.strategy,
        plan=plan,
        certificate=certificate,
        rmse=_rmse(candidate, epsilon),
    )


def _rmse(candidate: Candidate, epsilon: Fraction) -> float:
    if candidate.is_exact:
        return 0.0
    if candidate.is_coarse(epsilon) and not isinstance(candidate.problem.workload, AllRanges):
        unit = float(candidate.plan.unit / epsilon) / candidate.coarse_unit
        total = float(np.sum(candidate.coarse_answer_variances)) * unit**2
    else:
        total = candidate.total_variance(candidate.variances(epsilon))
    return math.sqrt(max(total, 0.0) / candidate.problem.workload.shape[0])
