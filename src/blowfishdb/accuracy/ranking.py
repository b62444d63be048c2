"""Candidates of a problem, certified and ranked by an estimate that knows neither alpha nor beta; reads no data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from blowfishdb.accuracy.candidates import (
    Candidate,
    CertifiedCandidate,
    Guarantee,
    certified_strategy,
)
from blowfishdb.accuracy.intervals import Assessment
from blowfishdb.accuracy.tails import REFERENCE_BETA, ROUGHLY, Bound, from_coefficients, least_alpha
from blowfishdb.errors import BlowfishError, CannotCertify, Declined, TooLarge
from blowfishdb.mechanisms import (
    edge_transform,
    identity,
    optimized,
    ordered_hierarchy,
)
from blowfishdb.mechanisms.axis import EstimatingStrategy
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import AllRanges, Identity, Prefix, as_intervals
from blowfishdb.plan.plan import Measurement, Plan, Problem

MANY_CELLS = 20_000
"""From here on certificates take their time, and strategies that a quick estimate shows to be dominated get none."""
DOMINATED = 2.0
"""A strategy is dominated if it costs, by a cautious estimate, this many times as much as the best one."""
CACHED_CELLS = 5_000
"""Up to this many cells the rankings of recent problems are cached, so that another quote is quick."""


@dataclass(frozen=True, eq=False)
class RankedCandidate:
    """A certified strategy, an estimate of alpha times epsilon, and its proven bound where one is computed already."""

    price: float
    name: str
    candidate: CertifiedCandidate
    guarantee: Guarantee
    bound: Bound | None

    @property
    def is_overpriced(self) -> bool:
        """Whether the price is a bound from variances alone, which may be several times too high."""
        return self.bound is not None and not self.bound.is_sharp

    @cached_property
    def assessment(self) -> Assessment:
        """The accuracy of the strategy, with what a simulation found for any epsilon."""
        return Assessment(self.candidate, self.guarantee, self.bound)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Certified strategies, cheapest first; those that a quick estimate puts behind them; refusals with reasons."""

    ranked: tuple[RankedCandidate, ...]
    behind: Mapping[str, Candidate]
    reasons: Mapping[str, str]


@dataclass(frozen=True)
class RankingKey:
    """What a ranking depends on. The bytes of a problem are compared, not a hash: plans are taken from here."""

    fingerprint: bytes
    is_exact: bool
    """Whether losses are attained, which the bytes of a graph do not tell."""
    mechanisms: tuple[tuple[str, Mechanism], ...]
    guarantee: Guarantee
    problem: Problem = field(compare=False)


def ranking_of(problem: Problem, mechanisms: Mapping[str, Mechanism], guarantee: Guarantee) -> Ranking:
    """The ranking; that of small problems is cached."""
    key = key_of(problem, mechanisms, guarantee)
    return _ranking(problem, mechanisms, guarantee) if key is None else _cached_ranking(key)


def key_of(problem: Problem, mechanisms: Mapping[str, Mechanism], guarantee: Guarantee) -> RankingKey | None:
    """The key under which what follows from a small problem is cached; None for a large one."""
    if problem.graph.cells > CACHED_CELLS:
        return None
    told = problem.fingerprint(), problem.graph.is_exact
    return RankingKey(*told, tuple(mechanisms.items()), guarantee, problem)


def reason_of(refusal: BlowfishError) -> str:
    """Why a mechanism makes no offer."""
    return refusal.reason if isinstance(refusal, Declined) else refusal.message


@lru_cache(maxsize=64)
def _cached_ranking(key: RankingKey) -> Ranking:
    """The same cells and policy at another accuracy need no new plans; nothing here depends on data."""
    return _ranking(key.problem, dict(key.mechanisms), key.guarantee)


def forget_rankings() -> None:
    """Clears the cache."""
    _cached_ranking.cache_clear()


def _ranking(problem: Problem, mechanisms: Mapping[str, Mechanism], guarantee: Guarantee) -> Ranking:
    reasons: dict[str, str] = {}
    ranked: list[RankedCandidate] = []
    behind: dict[str, Candidate] = {}
    best = math.inf
    for name, rough in _proposed(problem, mechanisms, reasons):
        try:
            candidate = _ranked(name, rough, guarantee, best)
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = reason_of(refusal)
            continue
        if candidate is None:
            behind[name] = rough.candidate
        else:
            best = min(best, candidate.price)
            ranked.append(candidate)
    ranked.sort(key=lambda entry: (entry.price, entry.name))
    return Ranking(tuple(ranked), behind, reasons)


def _proposed(
    problem: Problem, mechanisms: Mapping[str, Mechanism], reasons: dict[str, str]
) -> list[tuple[str, RoughPrice]]:
    """The strategies; where cells are many, in the order of the least that they may cost."""
    proposed: list[tuple[float, str, RoughPrice]] = []
    for name, mechanism in mechanisms.items():
        try:
            strategy = mechanism(problem)
            rough = RoughPrice(Candidate(problem, strategy, strategy.plan(Fraction(1))))
            proposed.append((rough.least_price() if problem.graph.cells > MANY_CELLS else 0.0, name, rough))
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = reason_of(refusal)
    return [(name, rough) for _, name, rough in sorted(proposed, key=lambda entry: entry[0])]


def _ranked(name: str, rough: RoughPrice, guarantee: Guarantee, best: float) -> RankedCandidate | None:
    """The certified strategy with its rank; None where cells are many and a quick estimate puts it behind the best."""
    problem, strategy = rough.candidate.problem, rough.candidate.strategy
    if problem.graph.cells <= MANY_CELLS:
        candidate = certified_strategy(problem, strategy)
        assessment = Assessment(candidate, guarantee)
        bound = None if candidate.is_exact or strategy.direct is not None else assessment.bound
        return RankedCandidate(_price(assessment, RoughPrice(candidate)), name, candidate, guarantee, bound)
    early = Assessment(rough.candidate, guarantee)
    limit = best if early.is_large else DOMINATED * best
    if rough.least_price() > limit:
        return None
    price_per_loss = _price(early, rough)
    if price_per_loss * rough.loss > limit:
        return None
    candidate = certified_strategy(problem, strategy)
    return RankedCandidate(price_per_loss * float(candidate.plan.unit), name, candidate, guarantee, None)


def _price(assessment: Assessment, rough: RoughPrice) -> float:
    """alpha times epsilon at the reference beta; proportional to the unit of the plan, at unit 1 per unit of loss."""
    candidate = rough.candidate
    if candidate.is_exact:
        return 0.0
    if assessment.exact_tails is not None:
        return assessment.exact_tails.price(REFERENCE_BETA)
    is_wide_tree = isinstance(candidate.strategy, EstimatingStrategy) and candidate.is_wide
    if (is_wide_tree and assessment.guarantee == "simultaneous") or assessment.bound is None:
        return rough.price_per_loss * float(candidate.plan.unit)
    return assessment.bound.price


LOOKED_AT = 2_000
"""Answers whose variances are computed."""
TYPICAL = 4.0
"""The number of standard deviations at which answers of different variance are weighed against each other."""
LIKELY_LARGEST = 5.5
"""How many standard deviations off the worst of many answers is, where nothing better is known."""
AT_LEAST = 4.5
"""The same, with some certainty too small."""
EDGES = 4
"""Edges whose loss is estimated before a certificate computes that of all edges."""


@dataclass(frozen=True, eq=False)
class RoughPrice:
    """A quick estimate of alpha times epsilon, for each unit of loss, before a strategy is certified."""

    candidate: Candidate

    def least_price(self) -> float:
        """About the least that the price may turn out to be, from variances alone; 0 where they tell nothing."""
        if self.candidate.is_exact or isinstance(self.candidate.problem.workload, AllRanges):
            return 0.0
        return AT_LEAST * math.sqrt(float(self._variances[1].max())) / self.candidate.coarse_unit * self.loss

    @cached_property
    def price_per_loss(self) -> float:
        """About alpha times epsilon at the reference beta if the loss at unit 1 were 1."""
        candidate, strategy = self.candidate, self.candidate.strategy
        unit = candidate.coarse_unit
        if isinstance(candidate.problem.workload, AllRanges):
            typical = strategy.total_variance(candidate.coarse_variances) / candidate.problem.workload.shape[0]
            return LIKELY_LARGEST * math.sqrt(typical) / unit
        chosen, variances = self._variances
        worst = int(variances.argmax())
        if variances[worst] == 0:
            # Answers that are 0 whatever the table has carry no noise.
            return 0.0
        if not isinstance(strategy, EstimatingStrategy):
            return LIKELY_LARGEST * math.sqrt(float(variances[worst])) / unit
        relative = variances[worst] / np.maximum(variances, variances[worst] / 100.0)
        alike = float(np.mean(np.exp(TYPICAL**2 / 2.0 * (1.0 - relative)))) * candidate.problem.workload.shape[0]
        coefficients = strategy.coefficients(chosen[worst : worst + 1], candidate.coarse_variances)
        tails = from_coefficients(coefficients, 1.0 / candidate.weights, np.array([alike]))
        return least_alpha(lambda alpha: tails.failure(unit, alpha), REFERENCE_BETA, unit, ROUGHLY) / unit

    @cached_property
    def loss(self) -> float:
        """The largest loss at unit 1 of a few long edges of one ordered axis; 0 where these are not easily found."""
        graph, plan = self.candidate.problem.graph, self.candidate.plan
        window = graph.factors[0]
        if len(graph.factors) > 1 or not isinstance(window, WindowGraph) or not isinstance(plan, Plan):
            return 0.0
        losses = np.zeros(EDGES)
        starts = np.linspace(0, window.size - 1, EDGES + 1).astype(np.int64)[:-1]
        for part in plan.parts:
            spans = as_intervals(part.rows) if isinstance(part, Measurement) else None
            if spans is None:
                return 0.0
            for place, (first, last) in enumerate(zip(starts, window.reach[starts], strict=True)):
                differs = ((spans.low <= first) & (first < spans.high)) != ((spans.low <= last) & (last < spans.high))
                losses[place] += float(np.sum(part.weights[differs]))
        return float(losses.max()) * graph.rows_per_person

    @cached_property
    def _variances(self) -> tuple[Ints, Floats]:
        """Some answers and their variances at the coarse unit."""
        candidate = self.candidate
        if isinstance(candidate.strategy, EstimatingStrategy):
            return candidate.strategy.some_variances(LOOKED_AT, candidate.coarse_variances)
        return np.arange(candidate.problem.workload.shape[0]), candidate.coarse_answer_variances


CROWD = 6
CROWDED_CELLS = 40
"""Where each cell may be exchanged for at least CROWD cells, among CROWDED_CELLS, nothing beats measuring every cell by
more than a step of the grid of epsilons; less crowded cells are served better by noise on edges or by known totals."""
FINE_NOISE = 4
"""Above this epsilon per record most noise is 0, and then noise on many edges adds up to less than noise on cells."""
WIDE_WINDOW = 12
"""On one axis noise on single edges or tree steps pays for windows shorter than this only."""
LONG_AXIS = 16
"""From here on no tree with equal or split shares beats one with optimised shares by more than a step or two."""
LONG_MOVES = 256
"""Moves across so many cells change as many running counts: a tree serves them with a tenth of the noise."""
LISTED_CELLS = 128
"""On a longer axis with wide windows listing the edges would only keep a price list waiting."""
QUICKLY_PROVEN = 20_000_000
"""Answers times edges; on an axis noise on single edges gains a few percent at most, and is looked at up to here."""
UNPRICED_EDGES = "noise on single edges pays for few answers under short windows; ask for it by name to see its price"
ON_EDGES = frozenset({edge_transform.NAME, edge_transform.SPANNING_TREE})
PLAIN_TREES = frozenset({ordered_hierarchy.HIERARCHY, ordered_hierarchy.ORDERED_HIERARCHICAL})


def shortlist(
    problem: Problem, mechanisms: Mapping[str, Mechanism], epsilon: Fraction | None = None
) -> Mapping[str, Mechanism]:
    """The mechanisms among which the winner is chosen, for an epsilon if it is given; all where no rule says less."""
    crowd, component = _crowds(problem.graph)
    is_fine = epsilon is not None and epsilon > FINE_NOISE * problem.graph.rows_per_person
    able = set(mechanisms)
    if isinstance(problem.workload, Identity) and crowd >= CROWD and component >= CROWDED_CELLS and not is_fine:
        able &= {identity.NAME}
    if _is_axis(problem.graph) and ((crowd >= WIDE_WINDOW and not is_fine) or _is_slow_to_prove(problem)):
        able -= ON_EDGES
    if _is_axis(problem.graph) and problem.graph.cells >= LONG_AXIS and optimized.NAME in able:
        able -= PLAIN_TREES
    if (
        _is_axis(problem.graph)
        and isinstance(problem.workload, Prefix)
        and crowd >= LONG_MOVES
        and optimized.NAME in able
    ):
        able -= {ordered_hierarchy.ORDERED}
    if (
        ordered_hierarchy.is_line(problem.graph)
        and problem.graph.cells >= LONG_AXIS
        and ordered_hierarchy.ORDERED in able
    ):
        able -= {optimized.NAME, *ON_EDGES}
    return {name: mechanism for name, mechanism in mechanisms.items() if name in able} or mechanisms


def unpriced(problem: Problem, others: Mapping[str, Mechanism]) -> Mapping[str, str]:
    """Those among the mechanisms that cannot win which are not even priced, with the reason."""
    graph = problem.graph
    is_wide = graph.cells > LISTED_CELLS and _crowds(graph)[0] >= WIDE_WINDOW
    if not _is_axis(graph) or not (is_wide or _is_slow_to_prove(problem)):
        return {}
    return {name: UNPRICED_EDGES for name in others if name in ON_EDGES}


def _is_slow_to_prove(problem: Problem) -> bool:
    """Whether checking every answer on every edge would keep somebody waiting."""
    return problem.workload.shape[0] * problem.graph.value_edge_bound > QUICKLY_PROVEN


def _is_axis(graph: CellGraph) -> bool:
    return len(graph.factors) == 1 and isinstance(graph.factors[0], WindowGraph)


def _crowds(graph: CellGraph) -> tuple[int, int]:
    """How many cells are joined pairwise around each cell at least, and how many are connected; 1 where not known."""
    if not graph.has_value_edges:
        return graph.cells, graph.cells
    crowd = component = 1
    for factor in graph.factors:
        if not isinstance(factor, WindowGraph):
            return 1, 1
        cell = np.arange(factor.size)
        around = 1 + np.maximum(factor.reach - cell, cell - np.searchsorted(factor.reach, cell))
        around[factor.universal] = factor.size
        least = int(around.min())
        crowd = crowd * least if graph.composition == "record" else max(crowd, least)
        ends = np.flatnonzero(factor.reach == cell)
        component *= factor.size if factor.universal.size else int(np.diff(ends, prepend=-1).min())
    return crowd, component
