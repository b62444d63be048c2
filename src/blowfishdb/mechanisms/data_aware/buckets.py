"""Buckets of cells and how they are measured: by hats, trees or greedy weights, whichever predicts least error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.errors import CannotCertify, Declined, PlanError, TooLarge
from blowfishdb.mechanisms import edge_transform, identity, optimized, ordered_hierarchy
from blowfishdb.mechanisms.axis import GRID, EstimatingStrategy, Estimator, OrderedAxis, TreeCorrection, grow, read_axis
from blowfishdb.mechanisms.data_aware import Finding, Script, hides_anything, measured_rows
from blowfishdb.mechanisms.hats import HatSolver
from blowfishdb.mechanisms.optimized import SmoothShape, TreeShape, choose, level_plans
from blowfishdb.mechanisms.strategy import LineStrategy, Mechanism, Strategy, chosen_rows, row_variances
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints, as_ints
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix, Rows, as_intervals
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import EdgePlan, Plan, Problem
from blowfishdb.plan.program import Allowance, Measured, MeasurementStage, StageRequest, merge_graph

SHARES = np.linspace(0.0, 0.98, 50)
"""Parts of what is left that a node may take; 0 is always a local minimum, so all of them are tried."""

NODES_AT_ONCE = 2**14


@dataclass(frozen=True, eq=False)
class PartialRanges:
    """Ranges over buckets that may cover a part of their first and their last bucket, and all between.

    Where `first` equals `last`, `left` is what is covered of that one bucket and `right` is 0.
    """

    first: Ints
    last: Ints
    left: Floats
    right: Floats


@dataclass(frozen=True, eq=False)
class GreedyTree:
    """The weight of every node, level by level from the buckets to the root; on each path they sum to 1.

    `error` is tr(W'W (A'A)^-1), A the weighted nodes and W the workload: half the expected squared error at loss 1.
    """

    weights: tuple[Floats, ...]
    error: float


@dataclass(frozen=True, eq=False)
class _Level:
    """What is known of each node of one level from its subtree alone, M = A'A restricted to it.

    `ones` is 1'M^-1 1 and `trace` tr(W'W M^-1); queries that cover a node whole see `ones` there, the others keep
    (W M^-1 1) at the nodes that hold their ends.
    """

    ones: Floats
    trace: Floats
    ends: PartialRanges


def greedy_weights(count: int, ranges: PartialRanges) -> GreedyTree:
    """From the buckets up, each node takes the share that is best for what its subtree and the workload know."""
    cover = _inside(ranges, count).astype(np.float64)
    cover += np.bincount(ranges.first, ranges.left**2, count) + np.bincount(ranges.last, ranges.right**2, count)
    level = _Level(np.ones(count), cover, ranges)
    depth = max(count - 1, 0).bit_length()
    shares: list[Floats] = []
    while level.ones.size > 1:
        depth -= 1
        level, share = _up(level, 2.0 ** (-depth / 2))
        shares.append(share)
    left = np.ones(1)
    weights: list[Floats] = []
    for share in reversed(shares):
        weights.append(share * left)
        below = count if len(weights) == len(shares) else shares[-len(weights) - 1].size
        left = np.repeat((1 - share) * left, 2)[:below]
    return GreedyTree((left, *reversed(weights)), float(level.trace[0]))


def _up(level: _Level, trust: float) -> tuple[_Level, Floats]:
    """The next level, and the share its nodes take.

    How much a node helps is judged as if queries over both children were only partly asked together (`trust`),
    because nodes above will help those too; what it really gives is then known exactly.
    """
    ends = level.ends
    size = -(-level.ones.size // 2)
    ones, trace = (np.append(part, np.zeros(2 * size - part.size)) for part in (level.ones, level.trace))
    first, last = ends.first // 2, ends.last // 2
    together = first == last
    inner = np.where(ends.first % 2 == 0, ones[ends.first ^ 1], 0.0)
    beside_left = np.where(ends.first == ends.last, 0.0, np.where(together, ends.right, inner))
    beside_right = np.where(together, 0.0, np.where(ends.last % 2 == 1, ones[ends.last ^ 1], 0.0))
    right = np.where(together, 0.0, ends.right)
    whole = _inside(PartialRanges(first, last, ends.left, right), size)
    both = ones[::2] + ones[1::2]
    joint = whole * both**2
    joint += np.bincount(first, (ends.left + beside_left) ** 2, size)
    joint += np.bincount(last, (right + beside_right) ** 2, size)
    apart = whole * (ones[::2] ** 2 + ones[1::2] ** 2)
    apart += np.bincount(first, ends.left**2 + beside_left**2, size)
    apart += np.bincount(last, right**2 + beside_right**2, size)
    known = trace[::2] + trace[1::2]
    share = _best_shares(known, both, trust * joint + (1 - trust) * apart)
    if level.ones.size % 2:
        share[-1] = 0.0
    ratio, grown = (share / (1 - share)) ** 2, (1 - share) ** -2.0
    shrunk = grown / (1 + ratio * both)
    moved = PartialRanges(first, last, shrunk[first] * (ends.left + beside_left), shrunk[last] * (right + beside_right))
    return _Level(shrunk * both, grown * known - ratio * shrunk * joint, moved), share


def _inside(ranges: PartialRanges, count: int) -> Ints:
    """How many ranges cover each node whole: those that begin before it and end after it."""
    far = ranges.last > ranges.first
    steps = np.bincount(ranges.first[far] + 1, minlength=count + 1) - np.bincount(ranges.last[far], minlength=count + 1)
    return np.asarray(np.cumsum(steps)[:count])


def _best_shares(known: Floats, both: Floats, seen: Floats) -> Floats:
    ratio, grown = (SHARES / (1 - SHARES)) ** 2, (1 - SHARES) ** -2.0
    shares = np.empty(known.size)
    for start in range(0, known.size, NODES_AT_ONCE):
        part = slice(start, start + NODES_AT_ONCE)
        left = known[part, None] - seen[part, None] * (ratio / (1 + both[part, None] * ratio))
        shares[part] = SHARES[np.argmin(grown * left, axis=1)]
    return shares


@dataclass(frozen=True, eq=False)
class Buckets:
    """A partition of the cells into runs; `starts` holds the first cell of each."""

    cells: int
    starts: Ints

    def __post_init__(self) -> None:
        starts = as_ints(self.starts)
        object.__setattr__(self, "starts", starts)
        if starts.ndim != 1 or starts.size == 0 or starts[0] != 0 or np.any(np.diff(starts) <= 0):
            raise PlanError("buckets start at the first cell and then at increasing cells")
        if int(starts[-1]) >= self.cells:
            raise PlanError("every bucket starts within the cells")

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return int(self.starts.size)

    @cached_property
    def ends(self) -> Ints:
        """One past the last cell of each bucket."""
        return np.append(self.starts[1:], self.cells)

    @cached_property
    def lengths(self) -> Ints:
        """How many cells each bucket has."""
        return self.ends - self.starts

    @cached_property
    def of_cells(self) -> Ints:
        """The bucket of each cell."""
        return np.repeat(np.arange(self.count), self.lengths)

    def spread(self, totals: Floats) -> Floats:
        """The cells when each bucket's total is shared out evenly."""
        return np.repeat(totals / self.lengths, self.lengths)

    def parts_before(self, places: Ints) -> tuple[Ints, Floats]:
        """For each place between cells its bucket, and the part of that bucket before it."""
        bucket = np.minimum(np.searchsorted(self.starts, places, side="right") - 1, self.count - 1)
        return bucket, (places - self.starts[bucket]) / self.lengths[bucket]

    def cut_counts(self, workload: Rows) -> Ints:
        """For each query how many buckets it counts some cells of but not all: those that can bias its answer."""
        spans = _listed(workload)
        if spans is None:
            most = int(np.sum(self.lengths > 1))
            return np.full(workload.shape[0], min(2, most) if isinstance(workload, AllRanges) else most)
        (first, before), (last, until) = self.parts_before(spans.low), self.parts_before(spans.high)
        left, right = (before > 0) & (spans.high > spans.low), (until > 0) & (until < 1) & (spans.high > spans.low)
        return np.where(first == last, left | right, left.astype(np.int64) + right).astype(np.int64)

    def partial_ranges(self, workload: Rows) -> PartialRanges | None:
        """What each query covers of the buckets, where all are ranges that hold a cell and few enough to list."""
        spans = _listed(workload)
        if spans is None or np.any(spans.low == spans.high):
            return None
        (first, before), (last, until) = self.parts_before(spans.low), self.parts_before(spans.high)
        ended = until == 0.0
        last, until = np.where(ended, last - 1, last), np.where(ended, 1.0, until)
        one = first == last
        return PartialRanges(first, last, np.where(one, until - before, 1.0 - before), np.where(one, 0.0, until))

    def rounded(self, workload: Rows) -> Intervals | AllRanges:
        """Ranges of whole buckets like those the workload asks for; all ranges where it asks for other things."""
        spans = _listed(workload)
        if spans is None:
            return AllRanges(self.count)
        (first, before), (last, until) = self.parts_before(spans.low), self.parts_before(spans.high)
        return Intervals(self.count, first + (before >= 1 / 2), last + (until >= 1 / 2))


def _listed(workload: Rows) -> Intervals | None:
    """The queries as ranges, where all are ranges and few enough to list."""
    return None if isinstance(workload, AllRanges) else as_intervals(workload)


ENTRIES_AT_ONCE = 2**22
"""Queries that are not ranges are written out in portions of this many entries."""


def answer_variances(buckets: Buckets, estimator: Estimator, workload: Rows, variances: Floats) -> Floats:
    """The variance of each answer's noise, `variances` being those of the noisy rows."""
    spans = as_intervals(workload)
    if spans is None:
        return _variances_of_rows(buckets, estimator, workload, variances)
    low, high = buckets.parts_before(spans.low), buckets.parts_before(spans.high)
    if isinstance(estimator, HatSolver):
        return estimator.partial_variances(low, high, variances)
    return _by_whole_buckets(estimator, low, high, variances)


def _by_whole_buckets(
    estimator: Estimator, low: tuple[Ints, Floats], high: tuple[Ints, Floats], variances: Floats
) -> Floats:
    """A range is a part of one bucket, whole buckets, and a part of another: six variances give all covariances."""
    (first, before), (last, until) = low, high
    apart = last > first
    inner = np.where(apart, first + 1, last)
    ranges = ((first, inner), (inner, last), (last, last + 1), (first, last), (inner, last + 1), (first, last + 1))
    starts = np.concatenate([pair[0] for pair in ranges])
    ends = np.concatenate([pair[1] for pair in ranges])
    left, whole, right, left_whole, whole_right, every = np.split(
        estimator.range_variances(starts, ends, variances), len(ranges)
    )
    rest = 1.0 - before
    ends_apart = (
        rest**2 * left
        + whole
        + until**2 * right
        + rest * (left_whole - left - whole)
        + until * (whole_right - whole - right)
        + rest * until * (every - left_whole - whole_right + whole)
    )
    return np.maximum(np.where(apart, ends_apart, (until - before) ** 2 * right), 0.0)


def _variances_of_rows(buckets: Buckets, estimator: Estimator, workload: Rows, variances: Floats) -> Floats:
    parts = [
        np.einsum("ij,ji->i", rows, estimator.covariance_dot(rows.T, variances))
        for rows in _bucket_rows(workload, buckets.of_cells, buckets.cells)
    ]
    return np.asarray(np.maximum(np.concatenate([np.empty(0), *parts]), 0.0))


def _bucket_rows(workload: Rows, of_cells: Ints, width: int) -> Iterator[Floats]:
    """What the queries count of each bucket, shared out evenly over its cells; in portions of rows of this width."""
    order, sizes = np.argsort(of_cells, kind="stable"), np.bincount(of_cells)
    starts, portion = np.cumsum(sizes) - sizes, max(1, ENTRIES_AT_ONCE // width)
    for start in range(0, workload.shape[0], portion):
        queries = np.arange(start, min(start + portion, workload.shape[0]))
        yield np.add.reduceat(chosen_rows(workload, queries)[:, order], starts, axis=1) / sizes


FAN_OUTS = (8, 12, 16, 24)
"""Children per node that are tried on long runs: errors are flat around the best."""

SHORT_FAN_OUTS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24)
SHORT = 64


STEPS_PER_OCTAVE = 16
"""Each different weight costs the sampler a table, so weights are rounded to this many values per factor of two."""


def weighted_tree(axis: OrderedAxis, greedy: GreedyTree) -> TreeCorrection:
    """The tree with the given weights on an axis that is one run of buckets; nodes of no weight are not measured."""
    sizes = tuple(2**height for height in range(1, max(axis.cells - 1, 0).bit_length()))
    tree = grow(axis, axis.runs, sizes)
    weights = [_whole(weight) for weight in greedy.weights]
    levels = [replace(level, measured=weight > 0) for level, weight in zip(tree.levels, weights[1:], strict=False)]
    measured = [weight[weight > 0] for weight in weights[1:]]
    alone = [np.empty(0, dtype=np.int64)] * (1 + len(tree.levels) - len(levels))
    whole = (np.maximum(1, weights[0]), *measured, *alone)
    return TreeCorrection(replace(tree, levels=(*levels, *tree.levels[len(levels) :])), whole)


def _whole(weights: Floats) -> Ints:
    """Weights on the grid, rounded to few different values; 0 where they are too small to matter."""
    seen = weights * GRID >= 1
    octaves = np.round(np.log2(np.where(seen, weights, 1.0)) * STEPS_PER_OCTAVE) / STEPS_PER_OCTAVE
    return np.where(seen, np.exp2(octaves) * GRID, 0).astype(np.int64)


NAME = "buckets"

SMOOTH_BUCKETS = 8192
"""Up to this many buckets hats are worth their system; beyond, trees."""

PLACES, CROWDED, FEW_BUCKETS = 32, 3, 1024
"""Ends of ranges over more than FEW_BUCKETS are spread out if none of PLACES places has CROWDED times its share."""

CLEARLY = 0.98
"""Greedy weights replace hats where they predict less than this part of the hats' squared error."""


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """A calibrated plan over buckets, the strategy that reads it, and the variance of each answer's noise."""

    strategy: EstimatingStrategy | LineStrategy
    plan: Plan
    answer_variances: Floats

    @property
    def own(self) -> Floats:
        """The variance of each bucket's own measurement."""
        return self.strategy.own_variances(row_variances(self.plan))

    def running(self, buckets: Buckets) -> Floats:
        """The variance of the total of the first 1, 2, ... cells of the buckets."""
        if isinstance(self.strategy, LineStrategy):
            return np.zeros(buckets.cells)
        return answer_variances(buckets, self.strategy.estimator, Prefix(buckets.cells), row_variances(self.plan))

    def totals(self, noisy: Ints, exact: Ints) -> Floats:
        """The least-squares count of each bucket, by the variances that those of the answers come from."""
        measured, free, spread = noisy.astype(np.float64), exact.astype(np.float64), row_variances(self.plan)
        if isinstance(self.strategy, LineStrategy):
            return self.strategy.estimate_cells(measured, free, spread)
        return self.strategy.estimator.estimate(measured, free, spread)


def plan_buckets(graph: CellGraph, buckets: Buckets, workload: Rows, epsilon: Fraction) -> BucketPlan:
    """Measures the buckets of a merged graph at a cost of epsilon, for a workload over cells.

    The choice looks at the buckets and the workload, both public; it is free where nothing about buckets is hidden.
    """
    problem = Problem(graph, buckets.rounded(workload))
    try:
        axis = read_axis(NAME, problem)
    except Declined:
        if not hides_anything(graph):
            exact = identity.propose(problem)
            return BucketPlan(exact, exact.plan(Fraction(1)), np.zeros(workload.shape[0]))
        axis = one_run(graph.cells)
    if np.any(axis.chains):
        best = choose(axis, problem.workload)
        return _calibrated_buckets(problem, best.shape.build(axis, best.shares), buckets, workload, epsilon)
    planned = _calibrated_buckets(problem, _levels(axis, problem.workload), buckets, workload, epsilon)
    ranges = buckets.partial_ranges(workload)
    if ranges is None or _ends_everywhere(ranges, buckets.count):
        return planned
    greedy = greedy_weights(buckets.count, ranges)
    to_beat = CLEARLY * float(planned.answer_variances.sum())
    if 2 * greedy.error / float(epsilon) ** 2 > to_beat:
        return planned
    tree = weighted_tree(one_run(graph.cells), greedy)
    weighted = _calibrated_buckets(problem, tree, buckets, workload, epsilon)
    return weighted if float(weighted.answer_variances.sum()) < to_beat else planned


def one_run(cells: int) -> OrderedAxis:
    """The axis of buckets of which nothing is known: any plan for it can be calibrated for any policy."""
    window = WindowGraph(np.arange(cells), np.empty(0, dtype=np.int64))
    graph = CellGraph((window,), "record", np.zeros(cells, dtype=np.bool_), "only")
    everything = np.zeros(1, dtype=np.int64)
    return OrderedAxis(cells, everything, everything > 0, everything, window.reach, window.universal, graph.to_zero)


def _calibrated_buckets(
    problem: Problem, estimator: Estimator, buckets: Buckets, workload: Rows, epsilon: Fraction
) -> BucketPlan:
    strategy = EstimatingStrategy(NAME, problem, estimator)
    plan = calibrate(strategy.plan(Fraction(1)), problem.graph, epsilon)[0]
    return BucketPlan(strategy, plan, answer_variances(buckets, estimator, workload, row_variances(plan)))


def _ends_everywhere(ranges: PartialRanges, count: int) -> bool:
    """Whether the ends of the ranges lie all over many buckets: then greedy weights, equal everywhere, cannot win."""
    ends = np.concatenate([ranges.first, ranges.last]) * PLACES // count
    return count > FEW_BUCKETS and int(np.bincount(ends).max()) * PLACES < CROWDED * ends.size


def _levels(axis: OrderedAxis, workload: Rows) -> Estimator:
    """Hats with the shares that suit a tree of the same sizes: within 1 % of shares tuned for hats."""
    fan_outs = SHORT_FAN_OUTS if axis.longest_run <= SHORT else FAN_OUTS
    best = level_plans(workload, axis.longest_run, free=axis.has_free_runs, fan_outs=fan_outs)[0]
    if axis.cells > SMOOTH_BUCKETS:
        return TreeShape(best.sizes).build(axis, np.append(best.shares, 0.0))
    hats = SmoothShape(best.sizes).build(axis, best.shares)
    return HatSolver(axis, hats.cell_weights, hats.coarse, hats.coarse_weights)


CANDIDATES: tuple[Mechanism, ...] = (
    ordered_hierarchy.propose_ordered,
    identity.propose,
    optimized.propose,
    edge_transform.propose,
    edge_transform.propose_spanning_tree,
)
MOST_MIXED = 4096
"""Up to this many buckets the noise of answers that mix several is written out."""


@dataclass(frozen=True, eq=False)
class MergedPlan:
    """A calibrated plan whose strategy counts every bucket; `of_cells` names the bucket of each cell."""

    of_cells: Ints
    strategy: Strategy
    plan: Plan | EdgePlan

    @cached_property
    def variances(self) -> Floats:
        """The variance of each noise variable."""
        return row_variances(self.plan)

    @cached_property
    def sizes(self) -> Ints:
        """How many cells each bucket holds."""
        return np.bincount(self.of_cells).astype(np.int64)

    def expected_error(self) -> float:
        """The summed variance of all cells when buckets are shared out evenly."""
        return float(np.sum(self.strategy.answer_variances(self.variances) / self.sizes))

    def cells(self, measured: Measured) -> Floats:
        """Every cell's share of its bucket."""
        if isinstance(self.plan, EdgePlan):
            totals = measured.noisy.astype(np.float64)
        else:
            noisy, exact = measured.noisy.astype(np.float64), measured.exact.astype(np.float64)
            totals = self.strategy.decode(noisy, exact, self.variances)
        return np.asarray((totals / self.sizes)[self.of_cells])

    def answer_variances(self, workload: Rows) -> Floats:
        """The variance of the noise of each answer."""
        if isinstance(workload, Identity):
            return (self.strategy.answer_variances(self.variances) / self.sizes**2)[self.of_cells]
        # Each bucket's response to every noise variable, a column each.
        basis = np.eye(self.variances.size)
        exact = self.plan.exact.shape[0] if isinstance(self.plan, Plan) and self.plan.exact is not None else 0
        response = self.strategy.decode(basis, np.zeros((exact, self.variances.size)), self.variances)
        width = max(self.of_cells.size, self.variances.size)
        rows = _bucket_rows(workload, self.of_cells, width)
        return np.concatenate([np.empty(0), *((row @ response) ** 2 @ self.variances for row in rows)])


def best_merged_plan(graph: CellGraph, of_cells: Ints, epsilon: Fraction) -> MergedPlan:
    """The strategy with the least expected error over all cells, calibrated to epsilon on the merged graph."""
    merged = merge_graph(graph, of_cells)
    problem = Problem(merged, Identity(merged.cells))
    plans = []
    for propose in CANDIDATES:
        try:
            strategy = propose(problem)
            plan = strategy.plan(Fraction(1))
            plans.append(
                MergedPlan(of_cells, strategy, calibrate(plan, merged, epsilon)[0] if plan.weights.size else plan)
            )
        except (Declined, TooLarge, CannotCertify):
            continue
    return min(plans, key=MergedPlan.expected_error)


def measured_buckets(
    problem: Problem,
    buckets: Buckets,
    allowances: Sequence[Allowance],
    *,
    merged: bool = True,
    uneven: float | None = None,
) -> Script:
    """The last stage of a script: buckets that are public by now, measured for the workload.

    It spends all the allowances, its own being the last. `merged` is False where the buckets are the cells; `uneven`
    bounds the deviation of every bucket, and with it the bias of the answers.
    """
    workload, of_cells = problem.workload, buckets.of_cells if merged else None
    graph = problem.graph if of_cells is None else merge_graph(problem.graph, of_cells)
    planned = plan_buckets(graph, buckets, workload, summed(allowances))
    measured = measured_rows((yield last_stage(planned.plan, of_cells, allowances)))
    cells = buckets.spread(planned.totals(measured.noisy, measured.exact))
    bias = None if uneven is None else np.asarray(uneven * buckets.cut_counts(workload), dtype=np.float64)
    spread, running = planned.answer_variances, partial(planned.running, buckets)
    answers = np.asarray(workload.dot(cells))
    return Finding(cells, answers, spread, buckets.of_cells, bias, own=planned.own, running=running)


def measured_by_policy(
    problem: Problem, of_cells: Ints, allowances: Sequence[Allowance], *, with_own: bool = False
) -> Script:
    """The last stage of a script: buckets of any shape, measured as is best under the policy for all cells.

    It spends all the allowances, its own being the last; `with_own` adds the variance of each bucket's measurement.
    """
    best = best_merged_plan(problem.graph, of_cells, summed(allowances))
    cells = best.cells(measured_rows((yield last_stage(best.plan, of_cells, allowances))))
    own = best.strategy.own_variances(best.variances) if with_own else None
    answers = np.asarray(problem.workload.dot(cells))
    return Finding(cells, answers, best.answer_variances(problem.workload), of_cells, own=own)


def summed(allowances: Sequence[Allowance]) -> Fraction:
    """What the stages may spend together."""
    return sum((allowance.epsilon for allowance in allowances), Fraction(0))


def last_stage(plan: Plan | EdgePlan, of_cells: Ints | None, allowances: Sequence[Allowance]) -> StageRequest:
    """The measurement that spends all the allowances, its own being the last."""
    *instead_of, stage = (allowance.stage for allowance in allowances)
    return StageRequest(stage, MeasurementStage(plan), of_cells, tuple(instead_of))


def check_mixed(mechanism: str, problem: Problem) -> None:
    """Declined when the noise of the answers could not be written out."""
    if not isinstance(problem.workload, Identity) and problem.graph.cells > MOST_MIXED:
        raise Declined(mechanism, f"answers other than cells are served up to {MOST_MIXED:,} cells")
