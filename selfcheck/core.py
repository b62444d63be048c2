"""The core: what it refuses, joint thresholds, the noise of mechanisms, and what selections compare and choose."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from scipy import stats
from scipy.sparse import csr_array

from blowfishdb.audit.cases import CDF, FAMILIES, LIMITS, METRICS, ONE, RANGES, Case, limited, prepared
from blowfishdb.audit.definitions import dense_rows
from blowfishdb.audit.noise import NoiseLaw
from blowfishdb.audit.report import CheckLine, Losses, broken, judged, refused
from blowfishdb.audit.scratch import scratch
from blowfishdb.audit.selections import NONE, drawn_noise, gate_of, line_graph, window_graph
from blowfishdb.audit.statistical import LEVEL, EventComparison, worst_event
from blowfishdb.engine.measure import measure
from blowfishdb.engine.release import PlanRelease
from blowfishdb.errors import Declined, InvalidInput
from blowfishdb.mechanisms.data_aware.matching_transform import MOST_COMPLETE, MatchingPartition, matching_partition
from blowfishdb.mechanisms.data_aware.partition import (
    L1Gate,
    L1Refinement,
    WorstBucket,
    bucket_deviations,
    deviations,
    l1_refinement,
    levels,
    running_deviations,
    worst_bucket,
)
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.graphs import CellGraph, GridGraph, Metric, Presence
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.workload import Identity, Intervals, Prefix, Sparse
from blowfishdb.plan.certificate import CertifiedPlans, certify
from blowfishdb.plan.plan import EdgePlan, KroneckerMeasurement, Measurement, Plan
from blowfishdb.plan.program import (
    Allowance,
    MeasurementStage,
    Program,
    ProgramRun,
    RefinementNoise,
    SelectionStage,
)
from selfcheck.made_up import measured_once

LENGTH = 5
Attempts = dict[str, Callable[[], object]]


def refusal_lines() -> Iterator[CheckLine]:
    """One line for each kind of thing that the core must not let through."""
    attempts = {
        "edge plans that leave something out": _edge_plans(),
        "measurements without a certificate of their own": _uncertified(),
        "stages beyond what was charged": _stages(),
    }
    whole = _edge_plan(_graph().edges())
    turned = replace(whole, strategy=-whole.strategy, decoder=-whole.decoder)
    losses = [certify(plan, _graph()).epsilon for plan in (whole, turned)]
    is_other = broken({"noise on edges that is turned round loses something else": losses[0] != losses[1]})
    yield judged("edge plans turned round", "every edge", is_other, "the same loss")
    for subject, tried in attempts.items():
        violations = [f"{name} is let through" for name, attempt in tried.items() if not refused(attempt)]
        yield judged(subject, "refused", violations, "all of them", len(tried))


def _graph(presence: Presence = "public") -> CellGraph:
    return window_graph(np.minimum(np.arange(LENGTH) + 2, LENGTH - 1), presence)


def _edge_plan(edges: Ints) -> EdgePlan:
    """Every cell, with noise on these edges."""
    ends = np.zeros((LENGTH + 1, len(edges)), dtype=np.int64)
    np.add.at(ends, (edges, np.arange(len(edges))[:, None]), [1, -1])
    noise = csr_array(np.eye(len(edges), dtype=np.int64))
    return EdgePlan(Fraction(1), Identity(LENGTH), edges, noise, csr_array(ends[:-1]), np.ones(len(edges), np.int64))


def _edge_plans() -> Attempts:
    """The same plan without one edge after the other, and with one wrong number after the other in its decoder."""
    attempts: Attempts = {}
    presences: tuple[Presence, ...] = ("public", "secret")
    for presence in presences:
        graph = _graph(presence)
        whole = _edge_plan(graph.edges())
        for edge in range(len(whole.edges)):
            short = _edge_plan(np.delete(whole.edges, edge, axis=0))
            attempts[f"an edge plan without edge {edge}, presence {presence}"] = partial(certify, short, graph)
            decoder = whole.decoder.toarray()
            decoder[int(whole.edges[edge, 0]), edge] = 0
            wrong = replace(whole, decoder=csr_array(decoder))
            attempts[f"a decoder without edge {edge}, presence {presence}"] = partial(certify, wrong, graph)
            # One answer with large weights, off by a little or by as much as a byte holds.
            for off in (1, 256):
                attempt = partial(certify, _weighted(whole, off, edge), graph)
                attempts[f"one answer off by {off} on edge {edge}, presence {presence}"] = attempt
    return attempts


def _weighted(whole: EdgePlan, off: int, edge: int) -> EdgePlan:
    """One weighted sum of all cells, with noise on the same edges, of which the decoder gets one wrong."""
    weights = np.where(np.arange(LENGTH) % 2, 100, -100)
    ends = np.append(weights, 0)[whole.edges]
    decoder = (ends[:, 0] - ends[:, 1] + off * (np.arange(len(ends)) == edge))[None, :]
    return replace(whole, workload=Sparse(weights[None, :]), decoder=csr_array(decoder))


def _uncertified() -> Attempts:
    """Plans under the certificate of another one."""
    graph, charged = _graph(), measured_once(Identity(LENGTH))
    proof = certify(charged, graph)
    plans = {
        "with less noise": charged.with_unit(Fraction(1, 2)),
        "with other weights": Plan(Fraction(1), (Measurement(Identity(LENGTH), np.full(1, 2)),)),
        "of other rows": measured_once(Prefix(LENGTH)),
        "with exact rows": replace(charged, exact=Identity(LENGTH)),
    }

    def attempt(plan: Plan) -> object:
        return measure(CertifiedPlans(graph).as_charged(plan, proof), np.arange(LENGTH))

    return {f"a plan {change}": partial(attempt, plan) for change, plan in plans.items()}


def _stages() -> Attempts:
    graph, stage = _graph(), MeasurementStage(measured_once(Identity(LENGTH)))
    cost = stage.epsilon(graph)
    program = Program("audit", (Allowance("first", cost), Allowance("second", cost - Fraction(1, 10**12))))
    run = ProgramRun(program, program.digest())
    pricier = Program("audit", (Allowance("first", 2 * cost), Allowance("second", cost)))
    return {
        "a stage before its turn": lambda: run.admit("second", stage, graph),
        "a stage a second time": lambda: run.admit("first", stage, graph).admit("first", stage, graph),
        "a stage a trillionth too expensive": lambda: run.admit("first", stage, graph).admit("second", stage, graph),
        "a stage in place of itself": lambda: run.admit("first", stage, graph, ("first",)),
        "a stage that nobody allowed": lambda: run.admit("third", stage, graph),
        "a program under another's receipt": lambda: ProgramRun(pricier, program.digest()),
    }


THRESHOLD_CELLS = 64
THETAS = (19, 37, 42, 46, 49)


def threshold_lines() -> Iterator[CheckLine]:
    """Places on a square of 64 by 64, certified as they are where the edges are too many to list."""
    losses, places = Losses(), np.arange(THRESHOLD_CELLS)
    for norm, theta in itertools.product(METRICS, THETAS):
        rows = Measurement(_windows(2 * theta), np.ones(1, dtype=np.int64))
        near = GridGraph((places, places), (places, places), theta, norm, (NONE, NONE))
        graph = CellGraph((near,), "record", np.array(False), "public")
        with limited(LIMITS):
            certified = certify(Plan(Fraction(1), (KroneckerMeasurement((rows, rows)),)), graph).epsilon
        losses.compare(f"{norm} within {theta}", Fraction(_worst(rows, theta, norm)), certified)
    yield judged("joint thresholds shared out", "every edge", losses.violations, "none too low", losses.tried)


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
    together = shared[0, steps]
    worst = 0
    for one in range(min(theta, THRESHOLD_CELLS - 1) + 1):
        reach = {"l1": theta - one, "l2": math.isqrt(theta**2 - one**2), "linf": theta}[metric]
        both = together[one] * together[: min(reach, THRESHOLD_CELLS - 1) + 1]
        worst = max(worst, int(2 * (together[0] ** 2 - both.min())))
    return worst


LEVELS = (1, 2, 3, 5)
RULES = ((1, 3, 2), (3, 9, 5), (0, 4, 4), (2, 1, 6), (5, 2, 0))
"""First threshold, spacing and clip."""
UNITS = (Fraction(2, 3), Fraction(2), Fraction(7))


def refinement_lines() -> Iterator[CheckLine]:
    """For each number of levels and each rule: the worst score of the blocks on the path of one record."""
    losses, alone, closest = Losses(1e-9), line_graph(2, "only"), 0.0
    for height, (first, spacing, clip), unit in itertools.product(LEVELS, RULES, UNITS):
        noise = RefinementNoise(unit, 4 ** np.arange(height), first, spacing, clip)
        odds, claimed = _worst_path(noise), float(noise.epsilon(alone))
        losses.compare(f"odds of {height} levels, scale {unit}", odds, claimed)
        closest = max(closest, odds / claimed)
    fine = f"up to {closest:.4g} of the loss"
    yield judged("cuts on the path of a record", "odds", losses.violations, fine, losses.tried)


def _worst_path(noise: RefinementNoise) -> float:
    """The most that one record more changes the odds of all blocks on its path being cut, or of the first being kept.

    No block scores more than the one it is part of; at the worst all of them score the same.
    """
    law, worst, heights = NoiseLaw(float(noise.unit)), 0.0, np.arange(noise.levels.size)
    for score in range(noise.first + noise.levels.size * noise.spacing + 2):
        less, more = (_above(noise, heights, score + one).tolist() for one in (0, 1))
        gained = sum(law.log_at_least(1 - b) - law.log_at_least(1 - a) for a, b in zip(less, more, strict=True))
        # Noise is as likely above as below, so a block is kept as often as noise reaches its score.
        worst = max(worst, gained, law.log_at_least(less[0]) - law.log_at_least(more[0]))
    return worst


def _above(noise: RefinementNoise, level: Ints | int, score: Ints | int) -> Ints:
    """The number compared with the noise: the score less its threshold, or as far below as counts."""
    return np.maximum(score - noise.first - level * noise.spacing, -noise.clip)


COST_CELLS, TRIES, SWEPT, SEED = 8, 200, 250, 5


def cost_lines() -> Iterator[CheckLine]:
    """Matchings, blocks and buckets on tables of eight cells, each with one record less."""
    buckets = MatchingPartition(np.array([1, 1, 2, 3, 1, 4, 2, 1]), Fraction(1), Fraction(2**24))
    allowed = np.repeat(buckets.noise.sensitivities[1:], buckets.noise.sizes[1:])
    yield _sensitivity("costs of a matching", buckets.costs, allowed)
    # In blocks of three or five cells the last one is shorter than the others.
    for size in (2, 3, 4, 5, COST_CELLS):
        yield _sensitivity(f"scores of blocks of {size}", partial(deviations, size=size))
        yield _sensitivity(f"running totals of blocks of {size}", partial(running_deviations, size=size))
    for block in (3, 4):
        gate = L1Gate(COST_CELLS, block, 10**9, 60, Fraction(30))
        yield _sensitivity(f"unevenness at a gate of {block}", partial(_unevenness, gate))
        for_ranges = replace(gate, running=True)
        yield _sensitivity(f"unevenness at a gate of {block} for ranges", partial(_unevenness, for_ranges))
    yield _sensitivity("scores of buckets", partial(bucket_deviations, starts=np.array([0, 3, 5])))


def _unevenness(gate: L1Gate, counts: Ints) -> Ints:
    return np.array([gate.unevenness(counts)])


def choice_lines() -> Iterator[CheckLine]:
    """Selections see their scores alone: noise that makes up for other counts gives the same winner."""
    for cells in (np.array([1, 1, 2, 3, 1, 4, 2, 1]), np.ones(MOST_COMPLETE + 2, dtype=np.int64)):
        matching = MatchingPartition(cells, Fraction(3), Fraction(2**28))
        yield _told_apart(f"winners of a matching of {cells.size}", matching, cells.size, partial(_joined, matching))
    bucket = WorstBucket(COST_CELLS, np.array([0, 3, 5]), Fraction(4))
    yield _told_apart("levels of the worst bucket", bucket, COST_CELLS, partial(_from_levels, bucket))
    refinement = L1Refinement(20, RefinementNoise(Fraction(4), np.array([2, 5]), 3, 9, 5))
    yield _told_apart("cuts of a refinement", refinement, 20, partial(_scores_above, refinement))
    for_ranges = L1Refinement(20, RefinementNoise(Fraction(4), np.array([1, 2, 5]), 3, 9, 5), for_ranges=True)
    yield _told_apart("cuts of a refinement for ranges", for_ranges, 20, partial(_scores_above, for_ranges))
    gate = L1Gate(16, 4, 50, 60, Fraction(30))
    yield _told_apart("outcomes of a gate", gate, 16, partial(_unevenness, gate))


def _joined(matching: MatchingPartition, counts: Ints) -> Ints:
    """Single buckets cost nothing; words that break ties stand after the pairs."""
    words = np.zeros(int(matching.noise.sizes.sum()) * matching.noise.tie_words, dtype=np.int64)
    return np.concatenate([np.zeros(matching.cells, dtype=np.int64), -matching.costs(counts), words])


def _from_levels(bucket: WorstBucket, counts: Ints) -> Ints:
    return -np.abs(levels() - int(bucket_deviations(counts, bucket.starts).max()))


def _scores_above(refinement: L1Refinement, counts: Ints) -> Ints:
    """The score of every block less the threshold of its level, or as far below as counts."""
    scores = [refinement.scores(counts, size) for size in refinement.blocks]
    return np.concatenate([_above(refinement.noise, level, score) for level, score in enumerate(scores)])


def _told_apart(subject: str, stage: SelectionStage, cells: int, scores: Callable[[Ints], Ints]) -> CheckLine:
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
    return judged(subject, "scores alone decide", violations, "the same winner for the same scores", tries)


def _sensitivity(subject: str, costs: Callable[[Ints], Ints], allowed: Ints | int = 1) -> CheckLine:
    """The change of the costs or scores by one record more, against the change that the noise is made for."""
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
    return judged(subject, "sensitivity", violations, f"at most {worst:.3g} of what noise is made for", len(tables))


FEW_MECHANISMS = ("identity", "ordered", "hierarchy", "optimized")


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
