"""Quotes: the least epsilon of each mechanism for an accuracy, or its accuracy for an epsilon; reads no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from blowfishdb.accuracy.assessment import Assessment, Method
from blowfishdb.accuracy.bound import Bound
from blowfishdb.accuracy.glance import Glance
from blowfishdb.accuracy.guarantee import Guarantee
from blowfishdb.accuracy.setting import Candidate, Setting, certified_strategy
from blowfishdb.errors import AccuracyError, BlowfishError, CannotCertify, Declined, TooLarge
from blowfishdb.mechanisms.strategy import Mechanism, Strategy
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.workload import AllRanges
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.plan.problem import Problem

SIMULATED = 2
"""So many of the best-ranked strategies are simulated; the others carry a proven price, "at most"."""
CLOSE = 1.6
"""A strategy priced this much above the best one may still turn out to be the best."""
MANY_CELLS = 20_000
"""From here on certificates take their time, and strategies that a glance shows to be dominated get none."""
DOMINATED = 2.0
"""A strategy is dominated if it costs, by a cautious estimate, so many times the best one."""
UNPRICED = "a quick look ranks it behind another offer, and at this size it is not examined further"
LOOSEST = 1e10
"""A larger alpha costs what this one does: the sampler serves no more noise anyway."""
REMEMBERED_CELLS = 5_000
"""Up to this many cells the certified strategies of recent problems are kept, so that asking again is quick."""


@dataclass(frozen=True, eq=False)
class Quote:
    """A promise and the very plan that keeps it: all answers (or each) within alpha, except with probability beta.

    `method` tells how the promise is known: exact tails, a proven bound, or a simulation with 99.9 % confidence.
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
    is_small = problem.graph.cells <= REMEMBERED_CELLS
    asked = _Ranking(problem.digest() if is_small else "", tuple(mechanisms.items()), guarantee, problem)
    ranked = _remembered(asked) if is_small else _ranked(asked)
    reasons = dict(ranked.reasons)
    offers: list[Quote] = []
    for place, (price, name, candidate, bound) in enumerate(ranked.priced):
        assessment = Assessment(candidate, guarantee, bound)
        if offers and assessment.is_large:
            reasons[name] = UNPRICED
            continue
        worth_it = assessment.is_large or (place < SIMULATED and price <= CLOSE * ranked.priced[0][0])
        try:
            offers.append(offer(candidate, assessment, worth_it))
        except (Declined, TooLarge) as refusal:
            reasons[name] = _reason(refusal)
    return Quotes(tuple(sorted(offers, key=rank)), reasons)


@dataclass(frozen=True)
class _Ranking:
    """Which strategies to rank; equal small problems are told by their digest, large ones are never remembered."""

    digest: str
    mechanisms: tuple[tuple[str, Mechanism], ...]
    guarantee: Guarantee
    problem: Problem = field(compare=False)


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Certified strategies with their prices, cheapest first, and why the others are not among them."""

    priced: tuple[tuple[float, str, Candidate, Bound | None], ...]
    reasons: Mapping[str, str]


def _ranked(asked: _Ranking) -> _Ranked:
    reasons: dict[str, str] = {}
    priced: list[tuple[float, str, Candidate, Bound | None]] = []
    best = math.inf
    for name, glance in _proposed(asked.problem, dict(asked.mechanisms), reasons):
        try:
            found = _priced(glance, asked.guarantee, best)
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = _reason(refusal)
            continue
        if found is None:
            reasons[name] = UNPRICED
        else:
            best = min(best, found[0])
            priced.append((found[0], name, *found[1:]))
    priced.sort(key=lambda entry: entry[:2])
    return _Ranked(tuple(priced), reasons)


@lru_cache(maxsize=64)
def _remembered(asked: _Ranking) -> _Ranked:
    """The same cells and policy at another accuracy need no new plans; nothing here depends on data."""
    return _ranked(asked)


def _proposed(
    problem: Problem, mechanisms: Mapping[str, Mechanism], reasons: dict[str, str]
) -> list[tuple[str, Glance]]:
    """The strategies; where cells are many, in the order of the least that they may cost."""
    found: list[tuple[float, str, Glance]] = []
    for name, mechanism in mechanisms.items():
        try:
            strategy = mechanism(problem)
            glance = Glance(Setting(problem, strategy, strategy.plan(Fraction(1))))
            found.append((glance.least_price() if problem.graph.cells > MANY_CELLS else 0.0, name, glance))
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = _reason(refusal)
    return [(name, glance) for _, name, glance in sorted(found, key=lambda entry: entry[0])]


def _priced(glance: Glance, guarantee: Guarantee, best: float) -> tuple[float, Candidate, Bound | None] | None:
    """The certified strategy with its rank; None where cells are many and a quick look puts it behind the best."""
    setting = glance.setting
    if setting.problem.graph.cells <= MANY_CELLS:
        candidate = certified_strategy(setting.problem, setting.strategy)
        assessment = Assessment(candidate, guarantee)
        bound = None if candidate.is_exact or candidate.strategy.direct is not None else assessment.bound
        return assessment.price(Glance(candidate)), candidate, bound
    early = Assessment(setting, guarantee)
    limit = best if early.is_large else DOMINATED * best
    if glance.least_price() > limit:
        return None
    price_per_loss = early.price(glance)
    if price_per_loss * glance.loss > limit:
        return None
    candidate = certified_strategy(setting.problem, setting.strategy)
    return price_per_loss * float(candidate.plan.unit), candidate, None


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
