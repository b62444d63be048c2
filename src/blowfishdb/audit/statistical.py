"""Statistical: real releases with real noise on the worst neighbours; events are counted, with stated confidence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import stats

from blowfishdb.audit.cases import Case, prepared
from blowfishdb.audit.noise import NoiseLaw
from blowfishdb.audit.replay import released
from blowfishdb.audit.report import CheckLine, amount, broken, judged
from blowfishdb.audit.scratch import NAME, scratch, taped
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.measure import measure
from blowfishdb.engine.release import PlanRelease, Release
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.numbers import Floats
from blowfishdb.model.policy import Policy, public
from blowfishdb.model.query import query
from blowfishdb.plan.plan import Plan


def lower(seen: int, tries: int, level: float) -> float:
    """A lower bound of the probability, wrong with probability `level` at most."""
    return 0.0 if seen == 0 else float(stats.beta.ppf(level, seen, tries - seen + 1))


def upper(seen: int, tries: int, level: float) -> float:
    """An upper bound of the probability, wrong with probability `level` at most."""
    return 1.0 if seen == tries else float(stats.beta.isf(level, seen + 1, tries - seen))


@dataclass(frozen=True)
class EventComparison:
    """The frequency of an event on each of two neighbouring tables."""

    event: str
    first: int
    second: int
    tries: int

    def certain_loss(self, level: float) -> float:
        """A log-ratio of the two probabilities that the true one exceeds, except with probability `level`."""
        loss = 0.0
        for much, little in ((self.first, self.second), (self.second, self.first)):
            low, high = lower(much, self.tries, level / 4), upper(little, self.tries, level / 4)
            if low > 0:
                loss = max(loss, math.log(low / high))
        return loss

    @property
    def seen_loss(self) -> float:
        """The log-ratio of the frequencies themselves."""
        if not self.first or not self.second:
            return math.inf if self.first != self.second else 0.0
        return abs(math.log(self.first / self.second))


def power(likely: float, unlikely: float, tries: int, epsilon: float, level: float) -> float:
    """At least how often a comparison of events with these true probabilities certainly exceeds epsilon."""
    for miss in (1e-6, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5):
        seen = int(stats.binom.ppf(miss / 2, tries, likely))
        other = int(stats.binom.isf(miss / 2, tries, unlikely))
        if EventComparison("", seen, other, tries).certain_loss(level) > epsilon:
            return 1.0 - miss
    return 0.0


def tries_needed(likely: float, unlikely: float, epsilon: float, level: float) -> int:
    """About how many tries give a power of 0.99."""
    tries = 1000
    while power(likely, unlikely, tries, epsilon, level) < 0.99 and tries < 10**8:
        tries = tries * 5 // 4
    return tries


FALSE_ALARM = 1e-6
"""The chance that right code fails at least one statistical test of a run."""
TESTS = 1000
LEVEL = FALSE_ALARM / TESTS
EPSILON = Fraction(2)
TEN_PERCENT = 1.1
SIGMAS = 8.5
"""Standard deviations that leave room for LEVEL on one side and a miss of 0.01 on the other."""
GROUPS = {True: (16_000, 4), False: (40_000, 10)}
"""Groups of one table, and releases of it on each side; quick, and at length."""


def statistical_power(*, quick: bool) -> list[str]:
    """The power of the tests of published histograms, in words."""
    tries = releases_a_side(quick=quick)
    short = NoiseLaw(2.0 / float(EPSILON) / TEN_PERCENT)
    likely, unlikely = short.at_least(0) ** 2, short.at_least(1) ** 2
    caught = power(likely, unlikely, tries, float(EPSILON), LEVEL)
    needed = tries_needed(likely, unlikely, float(EPSILON), LEVEL)
    return [
        f"Published histograms: {tries:,} releases per side; noise 10 % too small is caught with probability at least "
        f"{caught:.4g} ({needed:,} releases give 0.99). The mean size of the same noise tells 10 % either way from "
        f"about {math.ceil((SIGMAS / 0.1) ** 2):,} values on. False alarm of the section: at most {FALSE_ALARM:g}.",
    ]


def releases_a_side(*, quick: bool) -> int:
    """The number of releases of the small histogram on each of two neighbouring tables."""
    groups, releases = GROUPS[quick]
    return groups * releases


def published(*, quick: bool) -> Iterator[CheckLine]:
    """A histogram of two cells in thousands of groups, published through source, ledger and answer."""
    groups, releases = GROUPS[quick]
    declared = domain({"g": integers(0, groups - 1, null=0), "x": integers(0, 1, null=0)})
    case = Case(
        "published histogram", declared, Policy({"g": public()}), query("histogram2d", ("g", "x")), "identity", EPSILON
    )
    with scratch(case.domain, case.policy) as world:
        release = prepared(case, world.handle, case.query)
        violations = _row_by_row(release)
        yield judged(case.name, "noise row by row", violations, "each row has its own", 2 * GROUPS[True][0])
        seen = []
        for side in (0, 1):
            world.fill([])
            # One record in every group, on this side.
            world.database.execute(f"INSERT INTO {NAME} SELECT range, {side} FROM range({groups})")
            answers = [released(world, release, f"side {side} number {number}") for number in range(releases)]
            failed = [answer.error for answer in answers if answer.error]
            if failed:
                yield judged(case.name, "release", [f"the release failed: {failed[0][:120]}"])
                return
            seen.append(np.concatenate([Answer.from_json(each.payload).raw.reshape(groups, 2) for each in answers]))
        charged = release.epsilon
    yield _events(seen[0], seen[1], charged)
    yield from _ratios(seen[0], seen[1], charged)


def _row_by_row(release: Release) -> list[str]:
    """Thousands of rows with a different number as noise each: every number must show in its row."""
    plan = release.best.plan if isinstance(release, PlanRelease) else None
    if not isinstance(release, PlanRelease) or not isinstance(plan, Plan):
        return ["no fixed plan is offered"]
    counts = np.resize(np.array([0, 1, 7, 1_001, 10**6 + 1, 2**52 + 1]), plan.cells)
    noise = 2**50 + np.arange(plan.weights.size)
    with taped() as tape:
        tape.play([noise])
        is_own = np.array_equal(measure(release.certified, counts).noisy, counts + noise)
    return broken({"rows share their noise, or do not get all of it, or not at every count": not is_own})


def _events(first: Floats, second: Floats, charged: Fraction) -> CheckLine:
    """Events of the two published counts, those included whose odds change by exactly e^epsilon."""
    comparisons = []
    for low in (-1, 0, 1, 2):
        for high in (-1, 0, 1, 2):
            one, two = (int(((side[:, 0] >= low) & (side[:, 1] <= high)).sum()) for side in (first, second))
            comparisons.append(EventComparison(f"first >= {low} and second <= {high}", one, two, first.shape[0]))
    return worst_event("published histogram", comparisons, charged)


def worst_event(subject: str, comparisons: list[EventComparison], charged: Fraction) -> CheckLine:
    """The event that shows the largest certain loss, against what was charged."""
    worst = max(comparisons, key=lambda comparison: comparison.certain_loss(LEVEL))
    least = worst.certain_loss(LEVEL)
    summary = f"{worst.event}: loss at least {least:.4g}, seen {worst.seen_loss:.4g}, charged {amount(charged)}"
    return judged(subject, "events", broken({summary: least > float(charged)}), summary, 2 * worst.tries)


def _ratios(first: Floats, second: Floats, charged: Fraction) -> Iterator[CheckLine]:
    """The mean log-likelihood ratio of a release must be that of noise of scale 2 / epsilon on both cells."""
    scale = 2.0 / float(charged)
    law = NoiseLaw(scale)
    # One row away the ratio is 1 / scale on one side of the noise and -1 / scale on the other.
    up = law.at_least(1)
    mean, variance = (1.0 - 2.0 * up) / scale, (1.0 - (1.0 - 2.0 * up) ** 2) / scale**2
    for name, side, sign in (("first", first, 1.0), ("second", second, -1.0)):
        # |count| - |count - 1| of the first cell, less that of the second.
        ratios = sign * ((np.abs(side) - np.abs(side - 1)) @ [1.0, -1.0]) / scale
        score = (ratios.mean() - 2 * mean) / math.sqrt(2 * variance / ratios.size)
        chance = float(2.0 * stats.norm.sf(abs(score)))
        sizes = np.abs(np.concatenate([side[:, 0] - (sign > 0), side[:, 1] - (sign < 0)]))
        spread = (sizes.mean() - law.mean_size) / math.sqrt(law.size_variance / sizes.size)
        size_chance = float(2.0 * stats.norm.sf(abs(spread)))
        summary = (
            f"mean log-ratio {ratios.mean():.4g}, claimed {2 * mean:.4g}; "
            f"mean noise {sizes.mean():.4g}, claimed {law.mean_size:.4g}"
        )
        violations = broken({summary: min(chance, size_chance) < LEVEL})
        yield judged(f"published histogram, {name} table", "likelihood ratio", violations, summary, ratios.size)
