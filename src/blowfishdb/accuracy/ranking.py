"""Strategies of a problem, certified and ordered by a quick look that knows neither alpha nor beta; reads no data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from blowfishdb.accuracy.bounds import Bound, Glance
from blowfishdb.accuracy.candidates import Candidate, CertifiedCandidate, Guarantee, certified_strategy
from blowfishdb.accuracy.intervals import Assessment
from blowfishdb.errors import BlowfishError, CannotCertify, Declined, TooLarge
from blowfishdb.mechanisms import (
    edge_transform,
    hierarchy,
    identity,
    optimized,
    ordered,
    ordered_hierarchical,
    spanning_tree,
)
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs import WindowGraph
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import Problem

MANY_CELLS = 20_000
"""From here on certificates take their time, and strategies that a glance shows to be dominated get none."""
DOMINATED = 2.0
"""A strategy is dominated if it costs, by a cautious estimate, so many times the best one."""
REMEMBERED_CELLS = 5_000
"""Up to this many cells the certified strategies of recent problems are kept, so that asking again is quick."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A certified strategy, about what alpha times epsilon is, and its proven bound where that is known already."""

    price: float
    name: str
    certified_candidate: CertifiedCandidate
    bound: Bound | None

    @property
    def is_overpriced(self) -> bool:
        """Whether the price is a bound from variances alone, which may be several times too high."""
        return self.bound is not None and not self.bound.is_sharp

    def assessment(self, guarantee: Guarantee) -> Assessment:
        """What the strategy promises."""
        return Assessment(self.certified_candidate, guarantee, self.bound)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Certified strategies, cheapest first; those that a quick look puts behind them; why others are not here."""

    placed: tuple[Placed, ...]
    behind: Mapping[str, Candidate]
    reasons: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class _Asked:
    """Which strategies to rank; equal small problems are told by their values, large ones are never remembered."""

    problem: Problem
    mechanisms: tuple[tuple[str, Mechanism], ...]
    guarantee: Guarantee

    @cached_property
    def _hash(self) -> int:
        return hash((self.problem.digest(), self.mechanisms, self.guarantee))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Asked):
            return NotImplemented
        if (self.mechanisms, self.guarantee) != (other.mechanisms, other.guarantee):
            return False
        # The bytes themselves: plans are taken from here, and two problems may share a hash.
        return self.problem is other.problem or self.problem.fingerprint() == other.problem.fingerprint()


def ranked(problem: Problem, mechanisms: Mapping[str, Mechanism], guarantee: Guarantee) -> Ranked:
    """The ranking; that of small problems is remembered."""
    is_small = problem.graph.cells <= REMEMBERED_CELLS
    asked = _Asked(problem, tuple(mechanisms.items()), guarantee)
    return _remembered(asked) if is_small else _ranked(asked)


def reason_of(refusal: BlowfishError) -> str:
    """Why a mechanism makes no offer."""
    return refusal.reason if isinstance(refusal, Declined) else refusal.message


def forget() -> None:
    """Forgets every ranking, for those who change what rankings depend on."""
    _remembered.cache_clear()


@lru_cache(maxsize=64)
def _remembered(asked: _Asked) -> Ranked:
    """The same cells and policy at another accuracy need no new plans; nothing here depends on data."""
    return _ranked(asked)


def _ranked(asked: _Asked) -> Ranked:
    reasons: dict[str, str] = {}
    placed: list[Placed] = []
    behind: dict[str, Candidate] = {}
    best = math.inf
    for name, glance in _proposed(asked.problem, dict(asked.mechanisms), reasons):
        try:
            found = _placed(name, glance, asked.guarantee, best)
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = reason_of(refusal)
            continue
        if found is None:
            behind[name] = glance.candidate
        else:
            best = min(best, found.price)
            placed.append(found)
    placed.sort(key=lambda entry: (entry.price, entry.name))
    return Ranked(tuple(placed), behind, reasons)


def _proposed(
    problem: Problem, mechanisms: Mapping[str, Mechanism], reasons: dict[str, str]
) -> list[tuple[str, Glance]]:
    """The strategies; where cells are many, in the order of the least that they may cost."""
    found: list[tuple[float, str, Glance]] = []
    for name, mechanism in mechanisms.items():
        try:
            strategy = mechanism(problem)
            glance = Glance(Candidate(problem, strategy, strategy.plan(Fraction(1))))
            found.append((glance.least_price() if problem.graph.cells > MANY_CELLS else 0.0, name, glance))
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = reason_of(refusal)
    return [(name, glance) for _, name, glance in sorted(found, key=lambda entry: entry[0])]


def _placed(name: str, glance: Glance, guarantee: Guarantee, best: float) -> Placed | None:
    """The certified strategy with its rank; None where cells are many and a quick look puts it behind the best."""
    candidate = glance.candidate
    if candidate.problem.graph.cells <= MANY_CELLS:
        certified_candidate = certified_strategy(candidate.problem, candidate.strategy)
        assessment = Assessment(certified_candidate, guarantee)
        bound = (
            None
            if certified_candidate.is_exact or certified_candidate.strategy.direct is not None
            else assessment.bound
        )
        return Placed(assessment.price(Glance(certified_candidate)), name, certified_candidate, bound)
    early = Assessment(candidate, guarantee)
    limit = best if early.is_large else DOMINATED * best
    if glance.least_price() > limit:
        return None
    price_per_loss = early.price(glance)
    if price_per_loss * glance.loss > limit:
        return None
    certified_candidate = certified_strategy(candidate.problem, candidate.strategy)
    return Placed(price_per_loss * float(certified_candidate.plan.unit), name, certified_candidate, None)


CROWD = 6
CROWDED_CELLS = 40
"""Where each cell may be exchanged for at least this many, among so many, nothing beats measuring every cell by more
than a step of the grid of epsilons; less crowded cells are served better by noise on edges or by known totals."""
WIDE_WINDOW = 12
"""On one axis noise on single edges or tree steps pays for windows shorter than this only."""
LONG_AXIS = 16
"""From here on no tree with equal or split shares beats one with optimised shares by more than a step or two."""
LISTED_CELLS = 128
"""On a longer axis with wide windows listing the edges would only keep a price list waiting."""
QUICKLY_PROVEN = 20_000_000
"""Answers times edges; on an axis noise on single edges gains a few percent at most, and is looked at up to here."""
UNASKED = "noise on single edges pays for few answers under short windows; ask for it by name to see its price"
ON_EDGES = frozenset({edge_transform.NAME, spanning_tree.NAME})
PLAIN_TREES = frozenset({hierarchy.NAME, ordered_hierarchical.NAME})


def contenders(problem: Problem, mechanisms: Mapping[str, Mechanism]) -> Mapping[str, Mechanism]:
    """The mechanisms among which the winner is chosen; all of them where no rule says less."""
    crowd, component = _crowds(problem.graph)
    able = set(mechanisms)
    if isinstance(problem.workload, Identity) and crowd >= CROWD and component >= CROWDED_CELLS:
        able &= {identity.NAME}
    if _is_axis(problem.graph) and (crowd >= WIDE_WINDOW or _is_slow_to_prove(problem)):
        able -= ON_EDGES
    if _is_axis(problem.graph) and problem.graph.cells >= LONG_AXIS and optimized.NAME in able:
        able -= PLAIN_TREES
    if _is_line(problem.graph) and problem.graph.cells >= LONG_AXIS and ordered.NAME in able:
        able -= {optimized.NAME, *ON_EDGES}
    return {name: mechanism for name, mechanism in mechanisms.items() if name in able} or mechanisms


def unasked(problem: Problem, others: Mapping[str, Mechanism]) -> Mapping[str, str]:
    """Those among the mechanisms that cannot win which are not even priced, with the reason."""
    graph = problem.graph
    is_wide = graph.cells > LISTED_CELLS and _crowds(graph)[0] >= WIDE_WINDOW
    if not _is_axis(graph) or not (is_wide or _is_slow_to_prove(problem)):
        return {}
    return {name: UNASKED for name in others if name in ON_EDGES}


def _is_slow_to_prove(problem: Problem) -> bool:
    """Whether checking every answer on every edge would keep somebody waiting."""
    return problem.workload.shape[0] * problem.graph.value_edge_bound > QUICKLY_PROVEN


def _is_axis(graph: CellGraph) -> bool:
    return len(graph.factors) == 1 and isinstance(graph.factors[0], WindowGraph)


def _is_line(graph: CellGraph) -> bool:
    """Whether records can only move to the next cell, where running sums are what every mechanism comes to."""
    axis = graph.factors[0]
    if len(graph.factors) > 1 or not isinstance(axis, WindowGraph) or axis.universal.size or np.any(graph.to_zero):
        return False
    return bool(np.all(axis.reach <= np.arange(1, axis.size + 1)))


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
