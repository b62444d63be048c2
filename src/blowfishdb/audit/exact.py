"""Exact: on tiny domains the probability of every output, on every pair of neighbouring tables, against e^epsilon."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.audit.cases import LIMITS, limited
from blowfishdb.audit.noise import NoiseLaw
from blowfishdb.audit.report import Line, amount, judged, not_tested
from blowfishdb.audit.selections import line_graph, selection_lines
from blowfishdb.audit.tape import Tape, taped
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.measure import measure
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.matching_transform import MOST_COMPLETE, MatchingPartition
from blowfishdb.mechanisms.data_aware.partition import (
    L1Gate,
    L1Refinement,
    WorstBucket,
    bucket_deviations,
    deviations,
    levels,
)
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.domain import Domain, domain, integers
from blowfishdb.model.graphs import CellGraph, GridGraph, Metric
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy, custom, full, line, metric, partition, threshold
from blowfishdb.model.query import Query, query
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.certificate import CertifiedPlan, calibrate, certify
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem
from blowfishdb.plan.program import RefinementNoise, Selection

CELLS = 3
REACH = 2
"""How far beyond the true rows outputs are tried; further out the ratios are constant."""
TABLES = tuple(counts for counts in itertools.product(range(3), repeat=CELLS) if sum(counts) == 2)
PLAIN, WITH_NULL = domain({"x": integers(0, CELLS - 1, null=0)}), domain({"x": integers(0, CELLS - 2)})


def _apart(one: object, two: object) -> int:
    return abs(int(str(one)) - int(str(two)))


HIDDEN: dict[str, tuple[Domain, Policy, tuple[tuple[int, int], ...]]] = {
    "full": (PLAIN, Policy({"x": full()}), ((0, 1), (0, 2), (1, 2))),
    "nothing declared": (PLAIN, Policy(), ((0, 1), (0, 2), (1, 2))),
    "line": (PLAIN, Policy({"x": line()}), ((0, 1), (1, 2))),
    "threshold": (PLAIN, Policy({"x": threshold(2)}), ((0, 1), (0, 2), (1, 2))),
    "custom": (PLAIN, Policy({"x": custom([(0, 2)])}), ((0, 2),)),
    "metric": (PLAIN, Policy({"x": metric(range(CELLS), _apart, theta=1)}), ((0, 1), (1, 2))),
    "partition and NULL": (WITH_NULL, Policy({"x": partition(cuts=[1])}), ((0, 2), (1, 2))),
    "partition": (PLAIN, Policy({"x": partition(cuts=[1])}), ((1, 2),)),
}
"""Policies, with the pairs of cells that they hide from each other, written down by hand; NULL is the last cell."""
INFINITE = Fraction(10**9)
"""Stands for the loss of rows that differ and are published exactly."""
QUESTIONS: dict[str, Query] = {
    "histogram": query("histogram", "x"),
    "cdf": query("cdf", "x"),
    "ranges": query("ranges", "x"),
}


def exact_lines(*, quick: bool) -> Iterator[Line]:
    """Every measurement on three values, then every selection on a few cells."""
    for (label, (declared, policy, pairs)), (kind, question) in itertools.product(HIDDEN.items(), QUESTIONS.items()):
        problem = compile_query(declared, policy, question).problem
        yield _measurements(f"{kind} of 3 values, {label}", problem, pairs)
    yield from selection_lines(quick=quick)


def _measurements(subject: str, problem: Problem, pairs: Sequence[tuple[int, int]]) -> Line:
    """All mechanisms: the largest log-ratio over all outputs and all neighbouring tables of two rows."""
    violations: list[str] = []
    tried, worst = 0, Fraction(0)
    for name, propose in MECHANISMS.items():
        try:
            rows = propose(problem).plan(Fraction(1))
        except Declined:
            continue
        if isinstance(rows, Plan) and not rows.parts:
            violations.append(f"{name}: everything would be published exactly")
        if not isinstance(rows, Plan) or not rows.parts:
            continue
        plan, proof = calibrate(rows, problem.graph, Fraction(1))
        ratio = largest_ratio(CertifiedPlan(plan, problem.graph), pairs)
        tried, worst = tried + 1, max(worst, ratio)
        if ratio > proof.epsilon:
            violations.append(
                f"{name}: an output is e^{amount(ratio)} times likelier, certified {amount(proof.epsilon)}"
            )
        if proof.is_tight and ratio < proof.epsilon:
            violations.append(f"{name}: certified as tight at {amount(proof.epsilon)}, largest ratio e^{amount(ratio)}")
    if not tried and not violations:
        return not_tested("exact", subject, "every output", "no mechanism measures fixed rows here")
    summary = f"{tried} mechanisms, largest log-ratio {amount(worst)}"
    return judged("exact", subject, "every output", violations, summary, tried)


def largest_ratio(
    certified: CertifiedPlan, pairs: Sequence[tuple[int, int]], tables: Sequence[tuple[int, ...]] = TABLES
) -> Fraction:
    """The largest log of P(output | table) / P(output | neighbour) over all outputs and tables.

    The rows and the scales are those that the engine's own measurement uses; rows are independent, so each row's
    outputs are gone through on their own.
    """
    worst = Fraction(0)
    with taped() as tape:
        shown = {counts: _published(tape, certified, counts) for counts in tables}
    for counts in tables:
        for source, target in (*pairs, *((b, a) for a, b in pairs)):
            moved = list(counts)
            moved[source] -= 1
            moved[target] += 1
            if min(moved) < 0:
                continue
            (here, exact, weights, unit), (there, other, _, _) = shown[counts], shown[tuple(moved)]
            if not np.array_equal(exact, other):
                return INFINITE
            rows = zip(here.tolist(), there.tolist(), weights.tolist(), strict=True)
            worst = max(worst, sum((_row_ratio(a, b, w) / unit for a, b, w in rows), Fraction(0)))
    return worst


def _published(tape: Tape, certified: CertifiedPlan, counts: tuple[int, ...]) -> tuple[Ints, Ints, Ints, Fraction]:
    """The rows without their noise, the exact rows, and the weights and unit of the noise that is asked for."""
    tape.play([])
    measured = measure(certified, np.array(counts, dtype=np.int64))
    (draw,) = tape.take()
    return measured.noisy, measured.exact, draw.weights, draw.unit


def _row_ratio(here: int, there: int, weight: int) -> Fraction:
    """For one row: the largest over all outputs of (|output - there| - |output - here|) weight."""
    outputs = range(min(here, there) - REACH, max(here, there) + REACH + 1)
    return Fraction(max(abs(out - there) - abs(out - here) for out in outputs) * weight)


SLACK = 1e-9
LEVELS = (1, 2, 3, 5)
RULES = ((1, 3, 2), (3, 9, 5), (0, 4, 4), (2, 1, 6), (5, 2, 0))
"""First threshold, spacing and clip."""
UNITS = (Fraction(2, 3), Fraction(2), Fraction(7))


def refinement_lines() -> list[Line]:
    """For each number of levels and each rule: the worst score of the blocks on the path of one record."""
    violations, tried, closest = list[str](), 0, 0.0
    alone = line_graph(2, "only")
    for height in LEVELS:
        for first, spacing, clip in RULES:
            for unit in UNITS:
                noise = RefinementNoise(unit, 4 ** np.arange(height), first, spacing, clip)
                claimed, true = float(noise.epsilon(alone)), _worst_path(noise)
                closest, tried = max(closest, true / claimed), tried + 1
                if true > claimed + SLACK:
                    violations.append(f"{height} levels, scale {unit}: odds differ by {true:.6g}, not {claimed:.6g}")
    return [
        judged("exact", "cuts on the path of a record", "odds", violations, f"up to {closest:.4g} of the loss", tried)
    ]


def _worst_path(noise: RefinementNoise) -> float:
    """The most that one record more changes the odds of all blocks on its path being cut, or of the first being kept.

    No block scores more than the one it is part of; at the worst all of them score the same.
    """
    law, worst = NoiseLaw(float(noise.unit)), 0.0
    top = noise.first + noise.levels.size * noise.spacing + 2
    for score in range(top):
        before, after = ([_above(noise, level, score + more) for level in range(noise.levels.size)] for more in (0, 1))
        gained = sum(
            math.log(law.at_least(1 - more) / law.at_least(1 - less)) for less, more in zip(before, after, strict=True)
        )
        # Noise is as likely above as below, so a block is kept as often as noise reaches its score.
        worst = max(worst, gained, math.log(law.at_least(before[0]) / law.at_least(after[0])))
    return worst


def _above(noise: RefinementNoise, level: int, score: int) -> int:
    """What is compared with the noise: how far the score lies above its threshold, or as far below as counts."""
    return max(score - noise.first - level * noise.spacing, -noise.clip)


COST_CELLS, TRIES, SWEPT, SEED = 8, 200, 250, 5
ONE = np.ones(1, dtype=np.int64)


def cost_lines() -> Iterator[Line]:
    """Matchings, blocks and buckets on tables of eight cells, each with one record less."""
    buckets = MatchingPartition(np.array([1, 1, 2, 3, 1, 4, 2, 1]), Fraction(1), Fraction(2**24))
    noise = buckets.noise
    yield _judged("costs of a matching", buckets.costs, np.repeat(noise.sensitivities[1:], noise.sizes[1:]))
    for size in (2, 4, COST_CELLS):
        yield _judged(f"scores of blocks of {size}", partial(deviations, size=size), ONE)
    gate = L1Gate(COST_CELLS, 4, 10**9, 60, Fraction(30))
    yield _judged("unevenness at a gate", lambda counts: np.array([gate.unevenness(counts)]), ONE)
    starts = np.array([0, 3, 5])
    yield _judged("scores of buckets", partial(bucket_deviations, starts=starts), ONE)


def choice_lines() -> Iterator[Line]:
    """What a selection compares may be all that it sees: noise that makes up for other counts gives the same winner."""
    for cells in (np.array([1, 1, 2, 3, 1, 4, 2, 1]), np.ones(MOST_COMPLETE + 2, dtype=np.int64)):
        matching = MatchingPartition(cells, Fraction(3), Fraction(2**28))
        yield _told_apart(f"winners of a matching of {cells.size}", matching, cells.size, partial(_joined, matching))
    bucket = WorstBucket(COST_CELLS, np.array([0, 3, 5]), Fraction(4))
    yield _told_apart("levels of the worst bucket", bucket, COST_CELLS, partial(_from_levels, bucket))
    refinement = L1Refinement(20, RefinementNoise(Fraction(4), np.array([2, 5]), 3, 9, 5))
    yield _told_apart("cuts of a refinement", refinement, 20, partial(_scores_above, refinement))
    gate = L1Gate(16, 4, 50, 60, Fraction(30))
    yield _told_apart("outcomes of a gate", gate, 16, lambda c: np.array([gate.unevenness(c)]))


def _joined(matching: MatchingPartition, counts: Ints) -> Ints:
    """Single buckets cost nothing; words that break ties stand after the pairs."""
    words = np.zeros(int(matching.noise.sizes.sum()) * matching.noise.tie_words, dtype=np.int64)
    return np.concatenate([np.zeros(matching.cells, dtype=np.int64), -matching.costs(counts), words])


def _from_levels(bucket: WorstBucket, counts: Ints) -> Ints:
    return -np.abs(levels() - int(bucket_deviations(counts, bucket.starts).max()))


def _scores_above(refinement: L1Refinement, counts: Ints) -> Ints:
    """How far the score of every block lies above the threshold of its level, or as far below as counts."""
    rule, scores = refinement.noise, list[Ints]()
    for level, size in enumerate(refinement.blocks):
        scores.append(np.maximum(deviations(counts, size) - rule.first - level * rule.spacing, -rule.clip))
    return np.concatenate(scores)


def _told_apart(subject: str, stage: Selection, cells: int, scores: Callable[[Ints], Ints]) -> Line:
    """Two tables of any counts, with noise on the one that makes its scores those of the other."""
    random, violations = np.random.default_rng(SEED), list[str]()
    size = int(stage.noise.sizes.sum()) * (1 + stage.noise.tie_words)
    tries = TRIES if cells <= MOST_COMPLETE else 24
    for number in range(tries):
        # Whatever limit somebody may look at, some of these tables lie on either side of it.
        one, two = (random.integers(0, random.choice([2, 6, 12, 30, 200, 10**5]), size=cells) for _ in range(2))
        draws = random.integers(0, random.choice([4, 400]), size=size)
        other = draws + scores(one) - scores(two)
        if not np.array_equal(stage.choose(one, draws), stage.choose(two, other)):
            violations.append(f"table {number}: the winner depends on more of the data than its scores")
    return judged("exact", subject, "scores alone decide", violations, "the same winner for the same scores", tries)


def _judged(subject: str, costs: Callable[[Ints], Ints], allowed: Ints) -> Line:
    random, worst = np.random.default_rng(SEED), 0.0
    violations: list[str] = []
    tables = [random.integers(0, random.choice([2, 4, 40, 10**6]), size=COST_CELLS) for _ in range(TRIES)]
    swept = random.integers(0, 40, size=COST_CELLS)
    # One cell from 0 on, record by record and then around round numbers: whatever limit is looked at is passed.
    rising = [*range(SWEPT), *(base**power - 1 for base in (2, 10) for power in range(8, 12))]
    tables += [np.where(np.arange(COST_CELLS) == 3, count, swept) for count in rising]
    for number, counts in enumerate(tables):
        cell = int(random.integers(COST_CELLS)) if number < TRIES else 3
        more = counts + (np.arange(COST_CELLS) == cell)
        moved = np.abs(costs(more) - costs(counts))
        worst = max(worst, float(np.max(moved / np.maximum(allowed, 1))))
        if np.any(moved > allowed):
            violations.append(f"one record moves an item by {int(moved.max())}, its noise is made for less")
    return judged(
        "exact", subject, "sensitivity", violations, f"at most {worst:.3g} of what noise is made for", len(tables)
    )


THRESHOLD_CELLS = 64
THETAS = (19, 37, 42, 46, 49)
METRICS: tuple[Metric, ...] = ("l1", "l2", "linf")
NONE = np.empty(0, dtype=np.int64)


def threshold_lines() -> list[Line]:
    """Places on a square of 64 by 64, certified as they are where the edges are too many to list."""
    violations = []
    for norm in METRICS:
        for theta in THETAS:
            rows = Measurement(_windows(2 * theta), np.ones(1, dtype=np.int64))
            plan = Plan(Fraction(1), (KroneckerMeasurement((rows, rows)),))
            places = np.arange(THRESHOLD_CELLS)
            near = GridGraph((places, places), (places, places), theta, norm, (NONE, NONE))
            with limited(LIMITS):
                certified = certify(plan, CellGraph((near,), "record", np.array(False), "public")).epsilon
            true = _worst(rows, theta, norm)
            if certified < true:
                violations.append(f"{norm} within {theta}: a plan that loses {true} is certified for {certified}")
    tried = len(METRICS) * len(THETAS)
    return [judged("exact", "joint thresholds shared out", "every edge", violations, "none too low", tried)]


def _windows(length: int) -> Intervals:
    """All windows of this length over the axis, cut at its ends: every cell lies in as many as any other."""
    low = np.arange(1 - length, THRESHOLD_CELLS)
    return Intervals(THRESHOLD_CELLS, np.maximum(low, 0), np.minimum(low + length, THRESHOLD_CELLS))


def _worst(rows: Measurement, theta: int, metric: Metric) -> int:
    """The most that two places within the distance lose, by the windows that hold one of them and not the other."""
    table: Ints = rows.rows.dense()
    shared = table.T @ table
    steps = np.arange(THRESHOLD_CELLS)
    # Every cell is in as many windows as another, and two cells share as many as any two that are as far apart.
    kept = shared[0, steps]
    worst = 0
    for one in range(min(theta, THRESHOLD_CELLS - 1) + 1):
        reach = {"l1": theta - one, "l2": math.isqrt(theta**2 - one**2), "linf": theta}[metric]
        both = kept[one] * kept[: min(reach, THRESHOLD_CELLS - 1) + 1]
        worst = max(worst, int(2 * (kept[0] ** 2 - both.min())))
    return worst
