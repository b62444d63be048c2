"""Quotes: the least epsilon of each mechanism for an accuracy, or its accuracy for an epsilon; reads no data.

Exponential quantiles, which measure no rows, are quoted by the ranks that they promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from threading import RLock
from typing import TypeAlias

import numpy as np
from scipy.special import ndtri

from blowfishdb.accuracy.candidates import (
    Candidate,
    CertifiedCandidate,
    ColumnsGuarantee,
    Guarantee,
    certified_strategy,
    check_beta,
    check_guarantee,
    round_up,
)
from blowfishdb.accuracy.intervals import Assessment, HalfWidths, Method, intervals
from blowfishdb.accuracy.ranking import (
    LOOKED_AT,
    RankedCandidate,
    RankingKey,
    forget_rankings,
    key_of,
    ranking_of,
    reason_of,
    shortlist,
    unpriced,
)
from blowfishdb.errors import AccuracyError, CannotCertify, Declined, TooLarge
from blowfishdb.mechanisms.data_aware import hides_anything
from blowfishdb.mechanisms.strategy import Mechanism, Strategy
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.workload import AllRanges
from blowfishdb.noise.distribution import MAX_SCALE, MIN_SCALE, quantile
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import EdgePlan, Plan, Problem, check_positive
from blowfishdb.plan.program import (
    EXPONENTIAL_QUANTILES,
    GROUP_SELECTION,
    POSITIONS,
    GroupSelection,
    QuantilePlan,
    certify_quantiles,
    certify_selection,
)

SIMULATED = 2
"""The number of best-ranked strategies that are simulated; the others carry a proven price, "at most"."""
CLOSE = 1.35
"""A strategy ranked this much above the best one may still turn out to be the best once both are simulated."""
ALIKE = 1.05
"""At a given epsilon, strategies whose expected error is within this factor of the least compete by their promises."""
PRICED_CELLS = 200_000
"""Up to this many cells even those that a quick look puts behind are certified and priced for a price list."""
UNPRICED = "a quick look ranks it behind another offer, and at this size it is not examined further"
SURELY = 0.95
"""Room for whole numbers, and for sums whose law lies between the normal and the Laplace law."""
LOOSEST = 1e10
"""A larger alpha costs what this one does: the sampler serves no more noise anyway."""


@dataclass(frozen=True, eq=False)
class Quote:
    """A promise and the plan that keeps it: all answers (or each) within alpha, except with probability beta.

    `method` tells how the promise is known: exact tails, a proven bound, or a simulation with 99.9 % confidence.
    `rmse` is the expected root mean squared error of the answers. Plan and certificate are computed when they are read:
    of most offers nobody reads more than the price.
    """

    candidate: CertifiedCandidate = field(repr=False)
    epsilon: Fraction
    alpha: float
    beta: float
    guarantee: Guarantee
    method: Method
    rmse: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rmse", expected_rmse(self.candidate, self.epsilon))

    @property
    def mechanism(self) -> str:
        """The name users see."""
        return self.candidate.strategy.mechanism

    @property
    def strategy(self) -> Strategy:
        """How answers are read off the plan."""
        return self.candidate.strategy

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
        return self.candidate.at(self.epsilon)

    @cached_property
    def widths(self) -> HalfWidths:
        """The half-widths at beta of the answers that the plan gives."""
        return intervals(self.candidate.at_level(self.plan), self.beta, self.shown)

    @property
    def shown(self) -> float | None:
        """What a simulation has shown all answers to stay within; None where there was none."""
        if self.method != "simulated" or self.guarantee == "per-query":
            return None
        return self.alpha * self.guarantee.box if isinstance(self.guarantee, ColumnsGuarantee) else self.alpha


def expected_rmse(candidate: CertifiedCandidate, epsilon: Fraction) -> float:
    """The expected root mean squared error of the answers of a strategy at an epsilon."""
    if candidate.is_exact:
        return 0.0
    if candidate.is_coarse(epsilon) and not isinstance(candidate.problem.workload, AllRanges):
        unit = float(candidate.plan.unit / epsilon) / candidate.coarse_unit
        total = float(np.sum(candidate.coarse_answer_variances)) * unit**2
    else:
        total = candidate.strategy.total_variance(candidate.variances(epsilon))
    return math.sqrt(max(total, 0.0) / candidate.problem.workload.shape[0])


@dataclass(frozen=True, eq=False)
class Quotes:
    """Offers of mechanisms for one accuracy target. The best one is found first, the others when their list is read.

    `make` turns a candidate and its assessment into an offer, with or without a simulation. A strategy priced beside
    the contest is not offered for less epsilon than the winner, who was looked at more closely. Where an accuracy is
    wanted, the least epsilon wins. Where `epsilon` is given, the closest promise wins among the strategies whose
    expected error is within ALIKE of the least.
    """

    problem: Problem
    mechanisms: Mapping[str, Mechanism]
    guarantee: Guarantee
    make: Callable[[CertifiedCandidate, Assessment, bool, Quote | None], Quote]
    epsilon: Fraction | None = None
    _turn: RLock = field(default_factory=RLock, repr=False)

    @property
    def best(self) -> Quote:
        """The best offer; Declined when there is none."""
        if not self._contest.offers:
            if len(self.declined) == 1:
                raise Declined(*next(iter(self.declined.items())))
            raise Declined("", "; ".join(f"{name}: {reason}" for name, reason in self.declined.items()))
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
        # Many who ask the same at once wait for one, where each would make the others slower.
        with self._turn:
            contest: _Contest = vars(self).get("_contest") or vars(self).setdefault("_contest", self._decided())
            return contest

    def _decided(self) -> _Contest:
        able = shortlist(self.problem, self.mechanisms, self.epsilon)
        contest = self._contested(able)
        return contest if contest.offers or len(able) == len(self.mechanisms) else self._contested(self.mechanisms)

    def _contested(self, able: Mapping[str, Mechanism]) -> _Contest:
        """The best-ranked are simulated; the others are priced by their bounds unless they are clearly behind."""
        ranking = ranking_of(self.problem, able, self.guarantee)
        entries, later = self._entries(ranking.ranked)
        reasons = dict(ranking.reasons)
        offers: list[Quote] = []
        for place, entry in enumerate(entries):
            assessment = entry.assessment
            is_close = place < SIMULATED and (entry.is_overpriced or entry.price <= CLOSE * entries[0].price)
            if offers and (assessment.is_large or (not is_close and self._is_behind(entry, offers[0]))):
                later.append(entry)
                continue
            try:
                offers.append(self.make(entry.candidate, assessment, assessment.is_large or is_close, None))
            except (Declined, TooLarge) as refusal:
                reasons[entry.name] = reason_of(refusal)
            offers.sort(key=lambda offer: (offer.epsilon, offer.alpha, offer.rmse))
        others = {name: mechanism for name, mechanism in self.mechanisms.items() if name not in able}
        return _Contest(tuple(offers), reasons, tuple(later), ranking.behind, others)

    def _is_behind(self, entry: RankedCandidate, rival: Quote) -> bool:
        """Whether the rival is surely the better offer, by a quick look."""
        if is_behind(entry.candidate, rival):
            return True
        alpha = min(rival.alpha, LOOSEST)
        return (
            self.epsilon is None and rival.epsilon > 0 and entry.assessment.costs_more(rival.epsilon, alpha, rival.beta)
        )

    def _entries(self, ranked: tuple[RankedCandidate, ...]) -> tuple[list[RankedCandidate], list[RankedCandidate]]:
        """The strategies that may win, and those that an epsilon leaves with too large an expected error."""
        if self.epsilon is None:
            return list(ranked), []
        errors = [expected_rmse(entry.candidate, self.epsilon) for entry in ranked]
        limit = ALIKE * min(errors, default=0.0)
        able = [entry for entry, error in zip(ranked, errors, strict=True) if error <= limit]
        return able, [entry for entry, error in zip(ranked, errors, strict=True) if error > limit]

    @cached_property
    def _price_list(self) -> _PriceList:
        with self._turn:
            listed: _PriceList = vars(self).get("_price_list") or vars(self).setdefault("_price_list", self._listed())
            return listed

    def _listed(self) -> _PriceList:
        contest = self._contest
        left_out = unpriced(self.problem, contest.others)
        priced = {name: mechanism for name, mechanism in contest.others.items() if name not in left_out}
        rest = ranking_of(self.problem, priced, self.guarantee)
        reasons, offers = {**contest.reasons, **left_out, **rest.reasons}, list(contest.offers[1:])
        winner = contest.offers[0] if contest.offers else None
        for entry in (*contest.later, *rest.ranked):
            try:
                offers.append(self.make(entry.candidate, entry.assessment, False, winner))
            except (Declined, TooLarge) as refusal:
                reasons[entry.name] = reason_of(refusal)
        for name, early in (*contest.behind.items(), *rest.behind.items()):
            if self.problem.graph.cells > PRICED_CELLS:
                reasons[name] = UNPRICED
                continue
            try:
                certified = certified_strategy(self.problem, early.strategy)
                offers.append(self.make(certified, Assessment(certified, self.guarantee), False, winner))
            except (Declined, TooLarge, CannotCertify) as refusal:
                reasons[name] = reason_of(refusal)
        listed = sorted(offers, key=lambda offer: (offer.epsilon, offer.rmse, offer.alpha))
        return (*contest.offers[:1], *listed), reasons


_PriceList: TypeAlias = tuple[tuple[Quote, ...], Mapping[str, str]]


@dataclass(frozen=True, eq=False)
class _Contest:
    """Offers so far, best first; strategies still to be priced, some uncertified; mechanisms not asked yet."""

    offers: tuple[Quote, ...]
    reasons: Mapping[str, str]
    later: tuple[RankedCandidate, ...]
    behind: Mapping[str, Candidate]
    others: Mapping[str, Mechanism]


@dataclass(frozen=True)
class WithinAlpha:
    """Makes offers of the least epsilon that keeps errors within alpha with probability 1 - beta."""

    alpha: float
    beta: float
    guarantee: Guarantee

    def __call__(
        self, candidate: CertifiedCandidate, assessment: Assessment, simulate: bool, winner: Quote | None
    ) -> Quote:
        epsilon, method = assessment.least_epsilon(min(self.alpha, LOOSEST), self.beta, simulate=simulate)
        if winner is not None and epsilon > 0:
            epsilon = max(epsilon, winner.epsilon)
        return Quote(candidate, epsilon, self.alpha, self.beta, self.guarantee, method)


@dataclass(frozen=True)
class AtEpsilon:
    """Makes offers of the alpha that holds with probability 1 - beta at this epsilon."""

    epsilon: Fraction
    beta: float
    guarantee: Guarantee

    def __call__(
        self, candidate: CertifiedCandidate, assessment: Assessment, simulate: bool, winner: Quote | None
    ) -> Quote:
        del winner
        alpha, method = assessment.alpha(self.epsilon, self.beta, simulate=simulate)
        spent = Fraction(0) if candidate.is_exact else self.epsilon
        return Quote(candidate, spent, alpha, self.beta, self.guarantee, method)


@checked()
def quote(
    problem: Problem,
    alpha: float,
    beta: float,
    mechanisms: Mapping[str, Mechanism] = MECHANISMS,
    guarantee: Guarantee = "simultaneous",
) -> Quotes:
    """For each mechanism the least epsilon that keeps errors within alpha with probability 1 - beta, cheapest first."""
    check_guarantee(guarantee)
    check_beta(beta)
    if not (math.isfinite(alpha) and alpha >= 0):
        raise AccuracyError(f"alpha is a number >= 0, not {alpha}")
    return _quotes(problem, mechanisms, WithinAlpha(float(alpha), float(beta), guarantee))


@checked()
def accuracy_at(
    problem: Problem,
    epsilon: Fraction,
    beta: float,
    mechanisms: Mapping[str, Mechanism] = MECHANISMS,
    guarantee: Guarantee = "simultaneous",
) -> Quotes:
    """For each mechanism the alpha that holds with probability 1 - beta at this epsilon, least expected error first."""
    check_guarantee(guarantee)
    check_beta(beta)
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise AccuracyError(f"epsilon is a positive Fraction, not {epsilon!r}")
    return _quotes(problem, mechanisms, AtEpsilon(epsilon, float(beta), guarantee))


def _quotes(problem: Problem, mechanisms: Mapping[str, Mechanism], make: WithinAlpha | AtEpsilon) -> Quotes:
    """The quotes; those of small problems are cached. They follow from the problem and the accuracy target alone."""
    key = key_of(problem, mechanisms, make.guarantee)
    return _made(problem, mechanisms, make) if key is None else _cached_quotes(key, make)


@lru_cache(maxsize=128)
def _cached_quotes(key: RankingKey, make: WithinAlpha | AtEpsilon) -> Quotes:
    return _made(key.problem, dict(key.mechanisms), make)


def _made(problem: Problem, mechanisms: Mapping[str, Mechanism], make: WithinAlpha | AtEpsilon) -> Quotes:
    epsilon = make.epsilon if isinstance(make, AtEpsilon) else None
    return Quotes(problem, mechanisms, make.guarantee, make, epsilon)


def forget() -> None:
    """Clears what is cached of quotes and rankings, for those who change what they depend on."""
    _cached_quotes.cache_clear()
    forget_rankings()


def is_behind(candidate: CertifiedCandidate, rival: Quote) -> bool:
    """Whether the worst answer alone would be off by more than the rival allows, at the rival's epsilon.

    A sum of Laplace variables exceeds its standard deviation times the lesser of the normal and the Laplace quantile.
    """
    if candidate.is_exact or rival.epsilon == 0 or not candidate.is_coarse(rival.epsilon):
        return False
    if candidate.problem.workload.shape[0] > LOOKED_AT:
        return False
    spread = math.sqrt(float(candidate.coarse_answer_variances.max())) / candidate.coarse_unit
    quantile = min(float(ndtri(1.0 - rival.beta / 2.0)), -math.log(rival.beta) / math.sqrt(2.0))
    return rival.alpha < SURELY * quantile * spread * float(candidate.plan.unit / rival.epsilon)


MOST_LEVELS = 64
MOST_GROUPS = 64
COUNTED = Fraction(3, 2)
"""The part of epsilon that a published number of records takes, times the number of intervals between quantiles."""


def propose_quantiles(
    graph: CellGraph, cells: int, levels: tuple[Fraction, ...], epsilon: Fraction, axis: int = 0
) -> QuantilePlan:
    """The plan that costs epsilon; Declined where nothing is hidden or too much is asked at once.

    The values in order are the first `cells` places along an axis of the graph, the other axes are groups.
    """
    check_positive("epsilon", epsilon)
    if cells < 1:
        raise Declined(EXPONENTIAL_QUANTILES, "the filter keeps no value of the attribute")
    if not hides_anything(graph):
        raise Declined(EXPONENTIAL_QUANTILES, "no move is hidden, so the CDF is exact and free")
    ordered = sorted(set(levels))
    if len(ordered) > MOST_LEVELS:
        raise Declined(EXPONENTIAL_QUANTILES, f"it chooses at most {MOST_LEVELS} quantiles at once")
    shares = tuple(high - low for low, high in zip([Fraction(0), *ordered], [*ordered, Fraction(1)], strict=True))
    groups = graph.cells // graph.shape[axis]
    if groups > MOST_GROUPS:
        raise Declined(EXPONENTIAL_QUANTILES, f"it chooses quantiles of at most {MOST_GROUPS} groups at once")
    plan = QuantilePlan(Fraction(1), shares, cells, None, groups, axis)
    plan = replace(plan, unit=plan.loss(graph) / epsilon)
    part, rows = COUNTED / len(shares), graph.rows_per_person
    # Where records only appear or vanish, a number of records that is published first nearly halves the loss.
    if not graph.has_value_edges and part < 1:
        counted = replace(plan, unit=rows / (epsilon * (1 - part)), count_unit=rows / (epsilon * part))
        plan = min(plan, counted, key=lambda one: one.unit)
    if not all(MIN_SCALE <= unit <= MAX_SCALE for unit in (plan.unit, plan.count_unit or plan.unit)):
        raise Declined(EXPONENTIAL_QUANTILES, "this epsilon needs a noise scale outside the range of the sampler")
    return plan


@dataclass(frozen=True, eq=False)
class QuantileQuote:
    """A plan of quantiles with its certificate, and what it promises except with probability beta."""

    plan: QuantilePlan
    certificate: Certificate
    beta: float
    mechanism: str = EXPONENTIAL_QUANTILES

    @property
    def epsilon(self) -> Fraction:
        """The price."""
        return self.certificate.epsilon

    @property
    def alpha(self) -> float:
        """The number of ranks within which all quantiles lie, except with probability beta, whatever the data."""
        return promised_ranks(self.plan, self.beta)

    @property
    def rmse(self) -> float:
        """The root mean square of their errors in ranks, where values lie evenly."""
        return expected_ranks(self.plan)


def quantiles_at(
    graph: CellGraph, cells: int, levels: tuple[Fraction, ...], epsilon: Fraction, beta: float, axis: int = 0
) -> QuantileQuote:
    """The quote at a price; Declined where the mechanism does not serve it."""
    check_beta(beta)
    plan = propose_quantiles(graph, cells, levels, epsilon, axis)
    return QuantileQuote(plan, certify_quantiles(plan, graph), beta)


def quantiles_within(
    graph: CellGraph, cells: int, levels: tuple[Fraction, ...], alpha: float, beta: float, axis: int = 0
) -> QuantileQuote:
    """The quote of the least epsilon, rounded up, that promises all ranks within alpha."""
    if alpha <= 0:
        raise Declined(EXPONENTIAL_QUANTILES, "it needs a positive alpha")
    # The promise is in proportion to 1 / epsilon, but for whole-number noise, which a little more makes up for.
    epsilon = round_up(Fraction(quantiles_at(graph, cells, levels, Fraction(1), beta, axis).alpha / alpha))
    quote = quantiles_at(graph, cells, levels, epsilon, beta, axis)
    while quote.alpha > alpha:
        epsilon = round_up(epsilon * Fraction(101, 100))
        quote = quantiles_at(graph, cells, levels, epsilon, beta, axis)
    return quote


@dataclass(frozen=True, eq=False)
class SelectionQuote:
    """A selection of groups with its certificate, and what it promises except with probability beta.

    `reach` is how far below the last that belongs there a listed group may be, or how far on the wrong side of the
    least count; `alpha` the accuracy at which counts of all groups promise the same list.
    """

    plan: GroupSelection
    certificate: Certificate
    beta: float
    mechanism: str = GROUP_SELECTION

    @property
    def epsilon(self) -> Fraction:
        """The price."""
        return self.certificate.epsilon

    @property
    def reach(self) -> int:
        """The records by which a listed group may be off, whatever the data."""
        return promised_reach(self.plan, self.beta)

    @property
    def alpha(self) -> float:
        """The accuracy of counts that promise the same list: two counts, each off, swap groups twice as far apart."""
        return self.reach / 2.0 if self.plan.most is not None else float(self.reach)


def select_at(plan: GroupSelection, graph: CellGraph, epsilon: Fraction, beta: float) -> SelectionQuote:
    """The quote of a selection at a price; Declined where nothing is hidden or the sampler does not serve it."""
    check_beta(beta)
    check_positive("epsilon", epsilon)
    if not hides_anything(graph):
        raise Declined(GROUP_SELECTION, "no move is hidden, so all counts are exact and free")
    scaled = replace(plan, unit=replace(plan, unit=Fraction(1)).loss(graph) / epsilon)
    if not MIN_SCALE <= scaled.unit <= MAX_SCALE:
        raise Declined(GROUP_SELECTION, "this epsilon needs a noise scale outside the range of the sampler")
    return SelectionQuote(scaled, certify_selection(scaled, graph), beta)


def select_within(plan: GroupSelection, graph: CellGraph, alpha: float, beta: float) -> SelectionQuote:
    """The quote of the least epsilon, rounded up, whose list is as good as that of counts within alpha."""
    if alpha <= 0:
        raise Declined(GROUP_SELECTION, "it needs a positive alpha")
    steps = math.floor(alpha * (2 if plan.most is not None else 1)) + 1
    chances = selection_chances(plan) / beta
    # To begin with, ties count as failures: half of the noise would do, and more noise makes them likelier still.
    scale = steps / max(math.log(chances), 1.0 / steps)
    scale = steps / max(math.log(max(chances / (1.0 + math.exp(-1.0 / scale)), 1.0)), 1.0 / steps)
    epsilon = round_up(replace(plan, unit=Fraction(1)).loss(graph) / Fraction(scale))
    quote = select_at(plan, graph, epsilon, beta)
    while quote.alpha > alpha:
        epsilon = round_up(epsilon * Fraction(101, 100))
        quote = select_at(plan, graph, epsilon, beta)
    return quote


def selection_chances(plan: GroupSelection) -> int:
    """In how many ways a list can go wrong: groups on the wrong side, or pairs of a round's best and another."""
    return plan.groups if plan.most is None else sum(max(plan.groups - place, 0) for place in range(1, plan.most + 1))


def promised_reach(plan: GroupSelection, beta: float) -> int:
    """The least a with ways * q^(a + 1) / (1 + q) <= beta, q = exp(-1 / unit) (docs/proofs/selection.md)."""
    ways, rate = selection_chances(plan), 1.0 / float(plan.unit)
    if ways == 0:
        return 0
    return max(0, math.ceil((math.log(ways / beta) - math.log1p(math.exp(-rate))) / rate - 1.0 + 1e-9))


def promised_ranks(plan: QuantilePlan, beta: float) -> float:
    """The number of ranks within which the quantiles of all groups lie but with probability beta, whatever the data.

    Records of one value count as spread evenly over it. To this comes a 2^-17th part of the records that share the
    value of a true quantile, for each quantile (docs/proofs/quantiles.md).
    """
    positions, beta = plan.cells * POSITIONS, beta / plan.groups
    vectors = sum(math.log((positions + other) / (other + 1)) for other in range(plan.levels))
    if plan.count_unit is None:
        return float(plan.unit) * (vectors - math.log(beta))
    count = float(quantile(float(plan.count_unit), beta / 2.0))
    furthest = float(max(1 - plan.shares[0], 1 - plan.shares[-1]))
    return float(plan.unit) * (vectors - math.log(beta / 2.0)) + furthest * count


def expected_ranks(plan: QuantilePlan) -> float:
    """The root mean square of the errors in ranks where values lie evenly: of a walk with Laplace steps from 0 to 0.

    The steps have scale 2 * unit; to end where it must costs the walk about one of its steps.
    """
    steps = len(plan.shares)
    place = np.arange(1, steps)
    variances = 8.0 * float(plan.unit) ** 2 * place * (steps - place) / steps * (plan.levels / steps)
    return math.sqrt(float(variances.mean()))
