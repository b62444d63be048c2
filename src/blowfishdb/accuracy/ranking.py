"""Strategies of a problem, certified and ordered by a quick look that knows neither alpha nor beta; reads no data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from blowfishdb.accuracy.assessment import Assessment
from blowfishdb.accuracy.bound import Bound
from blowfishdb.accuracy.glance import Glance
from blowfishdb.accuracy.guarantee import Guarantee
from blowfishdb.accuracy.setting import Candidate, Setting, certified_strategy
from blowfishdb.errors import BlowfishError, CannotCertify, Declined, TooLarge
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.plan.problem import Problem

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
    candidate: Candidate
    bound: Bound | None

    @property
    def is_overpriced(self) -> bool:
        """Whether the price is a bound from variances alone, which may be several times too high."""
        return self.bound is not None and not self.bound.is_sharp

    def assessment(self, guarantee: Guarantee) -> Assessment:
        """What the strategy promises."""
        return Assessment(self.candidate, guarantee, self.bound)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Certified strategies, cheapest first; those that a quick look puts behind them; why others are not here."""

    placed: tuple[Placed, ...]
    behind: Mapping[str, Setting]
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
    behind: dict[str, Setting] = {}
    best = math.inf
    for name, glance in _proposed(asked.problem, dict(asked.mechanisms), reasons):
        try:
            found = _placed(name, glance, asked.guarantee, best)
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = reason_of(refusal)
            continue
        if found is None:
            behind[name] = glance.setting
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
            glance = Glance(Setting(problem, strategy, strategy.plan(Fraction(1))))
            found.append((glance.least_price() if problem.graph.cells > MANY_CELLS else 0.0, name, glance))
        except (Declined, TooLarge, CannotCertify) as refusal:
            reasons[name] = reason_of(refusal)
    return [(name, glance) for _, name, glance in sorted(found, key=lambda entry: entry[0])]


def _placed(name: str, glance: Glance, guarantee: Guarantee, best: float) -> Placed | None:
    """The certified strategy with its rank; None where cells are many and a quick look puts it behind the best."""
    setting = glance.setting
    if setting.problem.graph.cells <= MANY_CELLS:
        candidate = certified_strategy(setting.problem, setting.strategy)
        assessment = Assessment(candidate, guarantee)
        bound = None if candidate.is_exact or candidate.strategy.direct is not None else assessment.bound
        return Placed(assessment.price(Glance(candidate)), name, candidate, bound)
    early = Assessment(setting, guarantee)
    limit = best if early.is_large else DOMINATED * best
    if glance.least_price() > limit:
        return None
    price_per_loss = early.price(glance)
    if price_per_loss * glance.loss > limit:
        return None
    candidate = certified_strategy(setting.problem, setting.strategy)
    return Placed(price_per_loss * float(candidate.plan.unit), name, candidate, None)
