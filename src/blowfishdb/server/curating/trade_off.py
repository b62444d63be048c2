"""The price of accuracy against theta, for several kinds of policies: curves that read no data.

Each point is quoted exactly at two prices; between and beyond them accuracy follows price as a power law, which for
these mechanisms is all but exact. A point that is looked at closely is quoted exactly.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from fractions import Fraction

from blowfishdb.engine.compiled import Compiled, compile_query
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.quoting import quotes_for
from blowfishdb.errors import BlowfishError
from blowfishdb.model.domain import Attribute, Bins, Dates, Domain, Integers
from blowfishdb.model.graphs.families import Family, full, partition, threshold
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query

ANCHORS = (Fraction(1, 10), Fraction(1))
MOST_THETAS = 9
KEPT = 4096
SECRET, NEAR, BLOCKS = "everything secret", "within θ", "blocks of θ"


@dataclass(frozen=True)
class Offer:
    """What accuracy costs under one policy: the largest error at each of the two anchor prices."""

    alphas: tuple[float, float]

    def epsilon_for(self, alpha: float) -> float:
        """About what errors of at most alpha cost."""
        low, high = self.alphas
        if high <= 0.0 or low <= 0.0 or alpha <= 0.0:
            return 0.0
        return float(ANCHORS[0]) * math.pow(low / alpha, 1.0 / self._slope())

    def alpha_for(self, epsilon: float) -> float:
        """About how large errors are at a price."""
        if self.alphas[0] <= 0.0:
            return 0.0
        return self.alphas[0] * math.pow(float(ANCHORS[0]) / epsilon, self._slope())

    def _slope(self) -> float:
        """How fast errors fall with the price, as a power; 1 for continuous noise."""
        low, high = self.alphas
        steps = math.log(float(ANCHORS[1] / ANCHORS[0]))
        return max(math.log(low / high) / steps, 0.2) if 0.0 < high < low else 1.0


@dataclass(frozen=True)
class Point:
    """One policy on a curve."""

    line: str
    theta: str
    family: Family


def thetas_of(attribute: Attribute) -> list[str]:
    """Distances worth a look, from the smallest to about half of the domain, each in the attribute's own units."""
    if isinstance(attribute, Dates):
        days = ("1 day", "7 days", "14 days", "30 days", "60 days", "90 days", "180 days", "365 days")
        return list(days) if attribute.by == "day" else [str(count) for count in _round(attribute.size)]
    step = attribute.width if isinstance(attribute, Bins) and attribute.width is not None else Fraction(1)
    return [show(step * count) for count in _round(attribute.size)]


def _round(size: int) -> list[int]:
    """1, 2, 5, 10, ... below the size; the larger ones stay when there are too many."""
    found = [lead * 10**power for power in range(9) for lead in (1, 2, 5) if lead * 10**power < size]
    return found if len(found) <= MOST_THETAS else [found[0], *found[1 - MOST_THETAS :]]


def points_of(attribute: Attribute) -> list[Point]:
    """The policies of all curves: everything secret, within theta, and blocks of theta."""
    if not attribute.ordered:
        return [Point(SECRET, "", full())]
    found = [Point(SECRET, "", full())]
    for theta in thetas_of(attribute):
        found.append(Point(NEAR, theta, threshold(theta)))
        blocks = _blocks(attribute, theta)
        if blocks is not None:
            found.append(Point(BLOCKS, theta, blocks))
    return found


def _blocks(attribute: Attribute, theta: str) -> Family | None:
    """Blocks that are theta wide; None where there would be one block, or where every value would be its own."""
    if isinstance(attribute, Integers):
        starts = range(attribute.low + int(theta), attribute.high + 1, int(theta))
        return partition(cuts=list(starts)) if int(theta) > 1 and len(starts) else None
    if isinstance(attribute, Bins) and attribute.width is not None:
        width, end = Fraction(theta), attribute.edge(attribute.size)
        count = math.ceil((end - attribute.start) / width) - 1
        if width > attribute.width and count >= 1:
            return partition(cuts=[attribute.start + width * (place + 1) for place in range(count)])
    return None


def with_family(policy: Policy, name: str, family: Family) -> Policy:
    """The policy with another family for one attribute."""
    return replace(policy, attributes={**policy.attributes, name: family})


@dataclass
class Offers:
    """Offers that were made before, so that a curve is quoted once; pages of all curators share them."""

    _kept: OrderedDict[str, Offer | None] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def offer(self, domain: Domain, policy: Policy, asked: Query, beta: Fraction) -> Offer | None:
        """The offer under one policy; None where no mechanism serves."""
        key = repr((domain, policy, asked, beta))
        with self._turn:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = _offer(domain, policy, asked, beta)
        with self._turn:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


OFFERS = Offers()


def _offer(domain: Domain, policy: Policy, asked: Query, beta: Fraction) -> Offer | None:
    try:
        compiled = compile_query(domain, policy, asked)
        low, high = (_alpha(compiled, epsilon, beta) for epsilon in ANCHORS)
    except BlowfishError:
        return None
    return Offer((low, high))


def _alpha(compiled: Compiled, epsilon: Fraction, beta: Fraction) -> float:
    return quotes_for(compiled, Demand(None, epsilon, beta)).best.alpha / compiled.scale


def curves(
    points: list[Point], offers: dict[Point, Offer | None], value: float, *, wants_epsilon: bool
) -> dict[str, list[float | None]]:
    """For each line one number per theta, in order: the price of an error of `value`, or the error at that price."""
    thetas = list(dict.fromkeys(point.theta for point in points if point.theta))
    found: dict[str, list[float | None]] = {}
    for point in points:
        offer = offers.get(point)
        number = None if offer is None else offer.epsilon_for(value) if wants_epsilon else offer.alpha_for(value)
        if not point.theta:
            found[point.line] = [number] * max(len(thetas), 1)
        else:
            row = found.setdefault(point.line, [None] * len(thetas))
            row[thetas.index(point.theta)] = number
    return found
