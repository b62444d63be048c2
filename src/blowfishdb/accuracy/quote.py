"""Quotes: the least epsilon of each mechanism for an accuracy, or its accuracy for an epsilon; reads no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from blowfishdb.accuracy.bounds import LOOKED_AT
from blowfishdb.accuracy.candidates import Candidate, CertifiedCandidate, Guarantee, certified_strategy, check_guarantee
from blowfishdb.accuracy.intervals import Assessment, Method
from blowfishdb.accuracy.ranking import Placed, contenders, ranked, reason_of, unasked
from blowfishdb.errors import AccuracyError, CannotCertify, Declined, TooLarge
from blowfishdb.mechanisms.strategy import Mechanism, Strategy
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.workload import AllRanges
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import EdgePlan, Plan, Problem

SIMULATED = 2
"""So many of the best-ranked strategies are simulated; the others carry a proven price, "at most"."""
CLOSE = 1.35
"""A strategy ranked this much above the best one may still turn out to be the best once both are simulated."""
PRICED_CELLS = 200_000
"""Up to this many cells even those that a quick look puts behind are certified and priced for a price list."""
UNPRICED = "a quick look ranks it behind another offer, and at this size it is not examined further"
SURELY = 0.95
"""Room for whole numbers, and for sums whose law lies between the normal and the Laplace law."""
LOOSEST = 1e10
"""A larger alpha costs what this one does: the sampler serves no more noise anyway."""


@dataclass(frozen=True, eq=False)
class Quote:
    """A promise and the very plan that keeps it: all answers (or each) within alpha, except with probability beta.

    `method` tells how the promise is known: exact tails, a proven bound, or a simulation with 99.9 % confidence.
    `rmse` is the expected root mean squared error of the answers. Plan and certificate of an offer are worked out when
    they are read: of most offers nobody reads more than the price.
    """

    certified_candidate: CertifiedCandidate = field(repr=False)
    epsilon: Fraction
    alpha: float
    beta: float
    guarantee: Guarantee
    method: Method
    rmse: float

    @property
    def mechanism(self) -> str:
        """The name users see."""
        return self.certified_candidate.strategy.mechanism

    @property
    def strategy(self) -> Strategy:
        """How answers are read off the plan."""
        return self.certified_candidate.strategy

    @property
    def plan(self) -> Plan | EdgePlan:
        """The measurements with the noise that costs epsilon."""
        return self._calibrated[0]

    @property
    def certificate(self) -> Certificate:
        """The proof that they do."""
        return self._calibrated[1]

    @cached_property
    def _calibrated(self) -> tuple[Plan | EdgePlan, Certificate]:
        return self.certified_candidate.at(self.epsilon)

    @property
    def shown(self) -> float | None:
        """What a simulation has shown all answers to stay within; None where there was none."""
        return self.alpha if self.method == "simulated" and self.guarantee == "simultaneous" else None


@dataclass(frozen=True, eq=False)
class Quotes:
    """What mechanisms offer for one demand. The best offer is found first; the price list of the others when read.

    `make` turns a candidate and its assessment into an offer, with or without a simulation. A strategy priced beside
    the contest is not offered for less than the winner, who was looked at more closely. `rank` compares offers.
    """

    problem: Problem
    mechanisms: Mapping[str, Mechanism]
    guarantee: Guarantee
    make: Callable[[CertifiedCandidate, Assessment, bool, Quote | None], Quote]
    rank: Callable[[Quote], tuple[float | Fraction, float]]

    @property
    def best(self) -> Quote:
        """The best offer; Declined when there is none."""
        if not self._contest.offers:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.declined.items())
            raise Declined("every mechanism", reasons)
        return self._contest.offers[0]

    @property
    def offers(self) -> tuple[Quote, ...]:
        """The best offer, then the others by rank; those that could not win carry a proven price."""
        return self._price_list[0]

    @property
    def declined(self) -> Mapping[str, str]:
        """The mechanisms that made no offer, each with its reason."""
        return self._price_list[1]

    @cached_property
    def _contest(self) -> _Contest:
        able = contenders(self.problem, self.mechanisms)
        found = self._contested(able)
        return found if found.offers or len(able) == len(self.mechanisms) else self._contested(self.mechanisms)

    def _contested(self, able: Mapping[str, Mechanism]) -> _Contest:
        """The best-ranked are simulated; the others are priced by their bounds unless they are clearly behind."""
        ranking = ranked(self.problem, able, self.guarantee)
        reasons = dict(ranking.reasons)
        offers: list[Quote] = []
        later: list[Placed] = []
        for place, entry in enumerate(ranking.placed):
            assessment = entry.assessment(self.guarantee)
            is_close = place < SIMULATED and (entry.is_overpriced or entry.price <= CLOSE * ranking.placed[0].price)
            if offers and (assessment.is_large or (not is_close and is_behind(entry.certified_candidate, offers[0]))):
                later.append(entry)
                continue
            try:
                offers.append(self.make(entry.certified_candidate, assessment, assessment.is_large or is_close, None))
            except (Declined, TooLarge) as refusal:
                reasons[entry.name] = reason_of(refusal)
            offers.sort(key=self.rank)
        others = {name: mechanism for name, mechanism in self.mechanisms.items() if name not in able}
        return _Contest(tuple(offers), reasons, tuple(later), ranking.behind, others)

    @cached_property
    def _price_list(self) -> tuple[tuple[Quote, ...], Mapping[str, str]]:
        contest = self._contest
        left_out = unasked(self.problem, contest.others)
        asked = {name: mechanism for name, mechanism in contest.others.items() if name not in left_out}
        rest = ranked(self.problem, asked, self.guarantee)
        reasons, offers = {**contest.reasons, **left_out, **rest.reasons}, list(contest.offers[1:])
        winner = contest.offers[0] if contest.offers else None
        for entry in (*contest.later, *rest.placed):
            try:
                offers.append(self.make(entry.certified_candidate, entry.assessment(self.guarantee), False, winner))
            except (Declined, TooLarge) as refusal:
                reasons[entry.name] = reason_of(refusal)
        for name, candidate in (*contest.behind.items(), *rest.behind.items()):
            if self.problem.graph.cells > PRICED_CELLS:
                reasons[name] = UNPRICED
                continue
            try:
                certified_candidate = certified_strategy(self.problem, candidate.strategy)
                offers.append(
                    self.make(certified_candidate, Assessment(certified_candidate, self.guarantee), False, winner)
                )
            except (Declined, TooLarge, CannotCertify) as refusal:
                reasons[name] = reason_of(refusal)
        return (*contest.offers[:1], *sorted(offers, key=self.rank)), reasons


@dataclass(frozen=True, eq=False)
class _Contest:
    """Offers so far, best first; strategies still to be priced, some uncertified; mechanisms not asked yet."""

    offers: tuple[Quote, ...]
    reasons: Mapping[str, str]
    later: tuple[Placed, ...]
    behind: Mapping[str, Candidate]
    others: Mapping[str, Mechanism]


def quote(
    problem: Problem,
    alpha: float,
    beta: float,
    mechanisms: Mapping[str, Mechanism] = MECHANISMS,
    guarantee: Guarantee = "simultaneous",
) -> Quotes:
    """For each mechanism the least epsilon that keeps errors within alpha with probability 1 - beta, cheapest first."""
    check_guarantee(guarantee)
    _check_beta(beta)
    if not (math.isfinite(alpha) and alpha >= 0):
        raise AccuracyError(f"alpha is a number >= 0, not {alpha}")

    def make(
        certified_candidate: CertifiedCandidate, assessment: Assessment, simulate: bool, winner: Quote | None
    ) -> Quote:
        epsilon, method = assessment.least_epsilon(min(float(alpha), LOOSEST), float(beta), simulate=simulate)
        if winner is not None and epsilon > 0:
            epsilon = max(epsilon, winner.epsilon)
        return _quote(certified_candidate, guarantee, epsilon, float(alpha), float(beta), method)

    return Quotes(problem, mechanisms, guarantee, make, lambda found: (found.epsilon, found.rmse))


def accuracy_at(
    problem: Problem,
    epsilon: Fraction,
    beta: float,
    mechanisms: Mapping[str, Mechanism] = MECHANISMS,
    guarantee: Guarantee = "simultaneous",
) -> Quotes:
    """For each mechanism the alpha that holds with probability 1 - beta at this epsilon, most accurate first."""
    check_guarantee(guarantee)
    _check_beta(beta)
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise AccuracyError(f"epsilon is a positive Fraction, not {epsilon!r}")

    def make(
        certified_candidate: CertifiedCandidate, assessment: Assessment, simulate: bool, winner: Quote | None
    ) -> Quote:
        alpha, method = assessment.alpha(epsilon, float(beta), simulate=simulate)
        if winner is not None and alpha > 0:
            alpha = max(alpha, winner.alpha)
        spent = Fraction(0) if certified_candidate.is_exact else epsilon
        return _quote(certified_candidate, guarantee, spent, alpha, float(beta), method)

    return Quotes(problem, mechanisms, guarantee, make, lambda found: (found.alpha, found.rmse))


def is_behind(certified_candidate: CertifiedCandidate, rival: Quote) -> bool:
    """Whether the worst answer alone would be off by more than the rival allows, at the rival's epsilon.

    A sum of Laplace variables exceeds its standard deviation times the lesser of the normal and the Laplace quantile.
    """
    if certified_candidate.is_exact or rival.epsilon == 0 or not certified_candidate.is_coarse(rival.epsilon):
        return False
    if certified_candidate.problem.workload.shape[0] > LOOKED_AT:
        return False
    spread = math.sqrt(float(certified_candidate.coarse_answer_variances.max())) / certified_candidate.coarse_unit
    quantile = min(float(ndtri(1.0 - rival.beta / 2.0)), -math.log(rival.beta) / math.sqrt(2.0))
    return rival.alpha < SURELY * quantile * spread * float(certified_candidate.plan.unit / rival.epsilon)


def _check_beta(beta: float) -> None:
    if not 0 < beta < 1:
        raise AccuracyError(f"beta is a probability strictly between 0 and 1, not {beta}")


def _quote(
    certified_candidate: CertifiedCandidate,
    guarantee: Guarantee,
    epsilon: Fraction,
    alpha: float,
    beta: float,
    method: Method,
) -> Quote:
    return Quote(
        certified_candidate=certified_candidate,
        epsilon=epsilon,
        alpha=alpha,
        beta=beta,
        guarantee=guarantee,
        method=method,
        rmse=_rmse(certified_candidate, epsilon),
    )


def _rmse(certified_candidate: CertifiedCandidate, epsilon: Fraction) -> float:
    if certified_candidate.is_exact:
        return 0.0
    if certified_candidate.is_coarse(epsilon) and not isinstance(certified_candidate.problem.workload, AllRanges):
        unit = float(certified_candidate.plan.unit / epsilon) / certified_candidate.coarse_unit
        total = float(np.sum(certified_candidate.coarse_answer_variances)) * unit**2
    else:
        total = certified_candidate.total_variance(certified_candidate.variances(epsilon))
    return math.sqrt(max(total, 0.0) / certified_candidate.problem.workload.shape[0])
