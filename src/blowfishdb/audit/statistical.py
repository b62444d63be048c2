"""Statistical: real releases with real noise on the worst neighbours; events are counted, with stated confidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import stats

from blowfishdb.audit.cases import CDF, FAMILIES, ONE, RANGES, Case, prepared
from blowfishdb.audit.definitions import dense_rows
from blowfishdb.audit.noise import NoiseLaw
from blowfishdb.audit.replay import released
from blowfishdb.audit.report import CheckLine, amount, broken, judged
from blowfishdb.audit.scratch import NAME, scratch, taped
from blowfishdb.audit.selections import drawn_noise, gate_of, line_graph
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.measure import measure
from blowfishdb.engine.release import PlanRelease, Release
from blowfishdb.errors import Declined, InvalidInput
from blowfishdb.mechanisms.data_aware.matching_transform import matching_partition
from blowfishdb.mechanisms.data_aware.partition import l1_refinement, worst_bucket
from blowfishdb.mechanisms.table import MECHANISMS
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
FEW_MECHANISMS = ("identity", "ordered", "hierarchy", "optimized")


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


def residuals(*, quick: bool) -> Iterator[CheckLine]:
    """The noise of every mechanism on its rows, over the scale that its charge claims."""
    rows_wanted = 10_000 if quick else 200_000
    for name in FEW_MECHANISMS if quick else MECHANISMS:
        for family in ("threshold",) if quick else ("threshold", "full"):
            question = CDF if name == "ordered" else RANGES
            case = Case(f"{name}, {family}", ONE, Policy({"x": FAMILIES[family]}), question, name, Fraction(1, 2))
            with scratch(case.domain, case.policy) as world:
                try:
                    release = prepared(case, world.handle, case.query)
                    plan = release.best.plan if isinstance(release, PlanRelease) else None
                except (Declined, InvalidInput):
                    continue
            if isinstance(release, PlanRelease) and isinstance(plan, Plan):
                yield _residual(case, release, plan, rows_wanted)


def _residual(case: Case, release: PlanRelease, plan: Plan, rows_wanted: int) -> CheckLine:
    counts = np.arange(plan.cells, dtype=np.int64)
    truth = np.concatenate([dense_rows(part) @ counts for part in plan.parts])
    times = max(1, rows_wanted // plan.weights.size)
    noise = np.stack([measure(release.certified, counts).noisy for _ in range(times)]) - truth
    laws = [NoiseLaw(float(plan.unit) / int(weight)) for weight in plan.weights]
    scales = np.array([law.scale for law in laws])
    mean = times * sum(law.mean_size / law.scale for law in laws)
    variance = times * sum(law.size_variance / law.scale**2 for law in laws)
    score = (float(np.sum(np.abs(noise) / scales)) - mean) / math.sqrt(variance)
    chance = float(2.0 * stats.norm.sf(abs(score)))
    summary = f"noise {1 + score * math.sqrt(variance) / mean:.4g} times what the charge claims"
    return judged(case.name, "noise on rows", broken({summary: chance < LEVEL}), summary, int(noise.size))


def selections(*, quick: bool) -> Iterator[CheckLine]:
    """The frequency of each outcome of a selection on two neighbouring tables, with real noise."""
    tries = 2_000 if quick else 40_000
    epsilon, graph, long = Fraction(3), line_graph(4, "public"), line_graph(16, "public")
    gate, at_gate = gate_of("public", 8 * epsilon)
    even, peak = [5] * 16, [0] * 7 + [9] + [0] * 8
    moved, matching = [0] * 7 + [8, 1] + [0] * 7, matching_partition(np.ones(4, np.int64), Fraction(2), graph, epsilon)
    stages = {
        "refinement": (l1_refinement(16, long, epsilon), peak, moved),
        "gate": (gate, even, [*even[:3], 4, 6, *even[5:]]),
        "worst bucket": (worst_bucket(16, np.arange(0, 16, 4), long, epsilon), peak, moved),
        "matching": (matching, [4, 4, 0, 0], [4, 3, 1, 0]),
    }
    for name, (stage, *tables) in stages.items():
        one, two = (
            Counter(str(stage.choose(np.array(counts), draws).tolist()) for draws in drawn_noise(stage, tries))
            for counts in tables
        )
        comparisons = [EventComparison(f"outcome {o}", one[o], two[o], tries) for o in {*one, *two}]
        yield worst_event(f"selection: {name}", comparisons, at_gate if name == "gate" else epsilon)
