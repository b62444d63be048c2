"""The risk meter: how much better somebody can guess after a release, for two values or a whole prior."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from blowfishdb.engine.request import Number, short_number
from blowfishdb.errors import AccuracyError, InvalidInput, PolicyError, plural
from blowfishdb.model.arguments import checked
from blowfishdb.model.constraint_graph import changed_constraints
from blowfishdb.model.distance import hidden_distance, record_distance
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.policy import Policy, Public
from blowfishdb.present.chart import Chart, ChartAxis, Series
from blowfishdb.present.words import readable, upper_end

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_VALUES = 200
LARGEST_POWER = 700.0
PLACES = 6
"""The decimal places to which a sufficient budget is rounded down."""
LARGEST_EPSILON = 10**6
SAMPLES = 201
SHOWN = (0.05, 0.5)
"""Priors whose posterior is written beside the curve."""


@runtime_checkable
class Declared(Protocol):
    """A dataset, a table, or anything else with a domain and a policy."""

    @property
    def domain(self) -> Domain: ...

    @property
    def policy(self) -> Policy: ...


@checked()
@dataclass(frozen=True)
class Risk:
    """The bound on what releases of `epsilon` in all add to the belief that a record is `one` rather than `two`.

    `steps` is the distance of the two under the policy, None where it does not hide them from each other. `records`
    is how many records of one person would change together, where rows are protected one by one.
    """

    one: str
    two: str
    steps: int | None
    epsilon: Fraction
    releases: int = 1
    records: int = 1

    @property
    def exponent(self) -> float:
        """The natural logarithm of `odds`."""
        return math.inf if self.steps is None else float(self.epsilon) * self.steps * self.records

    @property
    def odds(self) -> float:
        """The factor by which the odds between the two may grow or shrink, at most."""
        return math.exp(self.exponent) if self.exponent <= LARGEST_POWER else math.inf

    def posterior(self, prior: Number = 0.5) -> tuple[float, float]:
        """The least and the most that a belief of `prior` in the first of the two can become."""
        believed = float(probability(prior))
        return _shifted(believed, -self.exponent), _shifted(believed, self.exponent)

    def words(self, prior: Number = 0.5) -> tuple[str, ...]:
        """The risk in sentences."""
        pair = f"{self.one} and {self.two}"
        if self.steps is None:
            return (
                f"The policy does not hide {pair} from each other: no chain of hidden moves joins them.",
                "Any release, even a small one, may tell them apart with certainty.",
            )
        if self.steps == 0:
            return (f"{pair} are the same to the policy and to every answer.",)
        low, high = self.posterior(prior)
        spent = f"epsilon {float(self.epsilon):.4g}" + (f" over {self.releases} releases" if self.releases > 1 else "")
        rows = f", and {self.records} records change together" if self.records > 1 else ""
        apart, odds = plural(self.steps, "step"), odds_words(self.odds)
        return (
            f"{pair} are {apart} apart{rows}: {spent} lets the odds between them change {odds}.",
            f"Who believed {self.one} with {percent_words(float(probability(prior)))} believes it afterwards with "
            f"{percent_words(low, ROUND_FLOOR)} to {percent_words(high, ROUND_CEILING)}, whatever else is known about "
            "the other records.",
        )

    def chart(self) -> Chart:
        """Beliefs before and after: the band in which every posterior lies."""
        priors = np.linspace(0.0, 1.0, SAMPLES)
        least, most = np.array([self.posterior(float(prior)) for prior in priors]).T
        flags = {
            int(place): f"{100 * priors[place]:.0f} % → at most {upper_end(100 * float(most[place]), 3):g} %"
            for place in np.searchsorted(priors, SHOWN)
        }
        distance = "not hidden: anything can be learned"
        if self.steps is not None:
            distance = f"{plural(self.steps, 'step')} apart, epsilon {float(self.epsilon):.4g}"
        return Chart(
            "lines",
            ChartAxis(f"belief in {self.one} before", edges=tuple(priors.tolist()), unit="share"),
            ChartAxis("belief after", unit="share"),
            (
                Series("most", most, least, most, flags={} if self.steps is None else flags),
                Series("least", least),
                Series("before", priors, dashed=True),
            ),
            title=f"{self.one} or {self.two}?",
            caption=distance,
            limits=(0.0, 1.0),
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the chart with matplotlib, on the given axes or on new ones."""
        from blowfishdb.present.chart_matplotlib import draw, new_axes

        drawn = draw(self.chart(), new_axes((5.6, 5.2)) if ax is None else ax)
        drawn.set_aspect("equal")
        return drawn


@checked()
def risk(
    declared: Declared,
    epsilon: Number | Iterable[Number],
    one: object,
    two: object,
    *,
    attribute: str | None = None,
    records: int = 1,
) -> Risk:
    """The risk between two values of an attribute, or between two records given as mappings; reads no data.

    Several epsilons are several releases: their losses add up. `records` is how many rows of one person would change.
    """
    amounts = _amounts(epsilon)
    _check_count("records", records)
    steps = _steps(declared, attribute, one, two)
    return Risk(_named(one), _named(two), steps, sum(amounts, Fraction(0)), len(amounts), records)


def usual_pairs(attribute: Attribute) -> list[tuple[object, object]]:
    """Two values that are near and two that are far apart, for somebody who names none; of a single value none."""
    low, near, far = (attribute.size * part // 100 for part in (20, 22, 80))
    near = max(near, min(low + 1, attribute.size - 1))
    others = [other for other in dict.fromkeys((near, far)) if other != low]
    return [(attribute.value_at(low), attribute.value_at(other)) for other in others]


@checked()
def beliefs(
    declared: Declared, epsilon: Number | Iterable[Number], prior: Mapping[object, Number], *, attribute: str
) -> dict[object, tuple[float, float, float]]:
    """For each value of a prior: its probability before, and the least and most that it can become."""
    if not 2 <= len(prior) <= MOST_VALUES:
        raise InvalidInput(f"a prior has 2 to {MOST_VALUES} values")
    weights = {value: float(probability(weight)) for value, weight in prior.items()}
    if not math.isclose(sum(weights.values()), 1.0, abs_tol=1e-6):
        raise InvalidInput("the probabilities of a prior sum to 1")
    spent = float(sum(_amounts(epsilon), Fraction(0)))
    bounds = {}
    for value, before in weights.items():
        low = high = before
        for other, weight in weights.items():
            if other != value and weight > 0.0:
                steps = _steps(declared, attribute, value, other)
                power = math.inf if steps is None else spent * steps
                low += weight * (math.exp(power) if power <= LARGEST_POWER else math.inf)
                high += weight * math.exp(-power)
        bounds[value] = (before, before / low, before / high) if before > 0.0 else (0.0, 0.0, 0.0)
    return bounds


@dataclass(frozen=True)
class SufficientBudget:
    """Budgets that keep a wanted bound: `total` for all releases, `each` for every one of them.

    `histogram_scale` is the noise on each count of a histogram that costs `each`: one record that moves changes two
    counts, so the scale is 2 / each (the corrected Corollary 31, docs/errata.md). Where nothing but presence is hidden
    of what is counted one count changes, and where k rows of a person count, all of them change.
    """

    total: Fraction
    each: Fraction
    releases: int
    histogram_scale: Fraction


@checked()
def sufficient_budget(
    declared: Declared,
    one: object,
    two: object,
    *,
    attribute: str | None = None,
    odds: Number | None = None,
    posterior: Number | None = None,
    prior: Number = 0.5,
    releases: int = 1,
    records: int = 1,
) -> SufficientBudget:
    """The most epsilon with which the odds between two values change by no more than `odds`, or a belief of `prior`
    stays at or below `posterior`; PolicyError where no budget can, because the policy does not hide them."""
    if (odds is None) == (posterior is None):
        raise AccuracyError("give one bound: odds, such as 3, or a posterior, such as 0.6")
    _check_count("releases", releases)
    _check_count("records", records)
    steps = _steps(declared, attribute, one, two)
    if steps is None:
        raise PolicyError(f"no budget hides {_named(one)} from {_named(two)}: no chain of hidden moves joins them")
    if steps == 0:
        raise PolicyError(f"{_named(one)} and {_named(two)} are the same to the policy: every budget serves")
    power = _wanted_power(odds, posterior, prior)
    # A float logarithm is right to 16 digits; a part in 10^12 less is below it for certain.
    total = Fraction(math.floor(power * (1.0 - 1e-12) / (steps * records) * 10**PLACES), 10**PLACES)
    each = Fraction(math.floor(total * 10**PLACES / releases), 10**PLACES)
    if each <= 0:
        raise AccuracyError("this bound leaves no budget: allow more, or fewer releases")
    policy, counted = declared.policy, list(declared.domain) if attribute is None else [attribute]
    moves = policy.presence != "only" and any(not isinstance(policy.family(name), Public) for name in counted)
    changed = (2 if moves else 1) * policy.rows_per_person
    return SufficientBudget(min(total, Fraction(LARGEST_EPSILON)), each, releases, changed / each)


def probability(value: Number) -> Fraction:
    """A probability from 0 to 1."""
    number = short_number(value, "a prior")
    if not 0 <= number <= 1:
        raise AccuracyError("a belief is a probability from 0 to 1")
    return number


def _check_count(name: str, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidInput(f"{name} is a whole number, at least 1")


def _wanted_power(odds: Number | None, posterior: Number | None, prior: Number) -> float:
    if odds is not None:
        factor = short_number(odds, "odds")
        if factor <= 1:
            raise AccuracyError("odds is a factor above 1")
        return math.log(factor)
    before, after = probability(prior), probability(posterior if posterior is not None else 0)
    if not 0 < before < after < 1:
        raise AccuracyError("the posterior lies between the prior and 1")
    return math.log(after * (1 - before) / (before * (1 - after)))


def _steps(declared: Declared, attribute: str | None, one: object, two: object) -> int | None:
    if changed_constraints(declared.domain, declared.policy):
        raise PolicyError(
            "public constraints tie records together here: a change of one record alone contradicts them, and no "
            "number of steps bounds what is learned of it"
        )
    if attribute is not None:
        return hidden_distance(declared.domain, declared.policy, attribute, one, two)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return record_distance(declared.domain, declared.policy, one, two)
    raise InvalidInput("name the attribute of the two values, or give two records as mappings")


def _amounts(epsilon: Number | Iterable[Number]) -> list[Fraction]:
    listed = list(epsilon) if isinstance(epsilon, Iterable) and not isinstance(epsilon, str) else [epsilon]
    amounts = [short_number(amount, "epsilon") for amount in listed]
    if not amounts or any(not 0 <= amount <= LARGEST_EPSILON for amount in amounts):
        raise AccuracyError("epsilon is a number from 0 to a million, or a list of them")
    return amounts


def _shifted(prior: float, power: float) -> float:
    """The belief whose log-odds are those of the prior plus the power."""
    if prior in (0.0, 1.0) or power == 0.0:
        return prior
    logit = math.log(prior / (1.0 - prior)) + power
    if logit > LARGEST_POWER:
        return 1.0
    return 0.0 if logit < -LARGEST_POWER else 1.0 / (1.0 + math.exp(-logit))


def _named(value: object) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {part}" for name, part in value.items()) + ")"
    return "NULL" if value is None else str(value)


def odds_words(odds: float) -> str:
    """The factor by which odds may change, for people: rounded up, because it is a bound."""
    if odds > 1e6:
        return "without a bound that matters (more than a million times)"
    return f"at most {readable(upper_end(odds, 3))}-fold"


def percent_words(part: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """A share in percent, with more places where it is near 0 or 1; a bound is rounded to its own side."""
    edge = min(part, 1.0 - part)
    places = 1 if edge >= 0.01 or edge == 0.0 else min(6, 1 - math.floor(math.log10(edge)))
    step = Decimal(1).scaleb(-max(1, places - 1))
    percent = (100 * Decimal(repr(part))).quantize(step, rounding)
    # So near to certainty no place tells more.
    return f"{percent.to_integral_value() if places > 1 and percent in (0, 100) else percent:f} %"
