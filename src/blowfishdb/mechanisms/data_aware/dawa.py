"""DAWA: looks where counts are even, merges those cells into buckets, and measures these for workload or policy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.linalg import solveh_banded

from blowfishdb.errors import Declined, PlanError
from blowfishdb.mechanisms import ordered_hierarchy
from blowfishdb.mechanisms.data_aware import (
    BIAS_BETA,
    Finding,
    Script,
    check_hides,
    hides_anything,
    measured_rows,
    shared_program,
)
from blowfishdb.mechanisms.data_aware.buckets import Buckets, measured_buckets, measured_by_policy
from blowfishdb.mechanisms.data_aware.partition import (
    GATE_RULE,
    KEEP,
    RANGE_GATE,
    asks_long_ranges,
    gate_stage,
    l1_refinement,
    range_refinement,
    worst_bucket,
)
from blowfishdb.mechanisms.data_aware.regions import (
    CellCover,
    HilbertCurve,
    NodeViews,
    RegionTree,
    block_tree,
    box_cover,
    bucket_counts,
    cover_variances,
    cut_where_records_are,
    least_squares,
    noise_unit,
    tree_finding,
)
from blowfishdb.mechanisms.parameters import Parameter
from blowfishdb.mechanisms.products import as_boxes
from blowfishdb.mechanisms.strategy import GOLDEN, row_variances, spread_choice
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Intervals, Prefix, Rectangles, total
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Measurement, Plan, Problem
from blowfishdb.plan.program import Allowance, MeasurementStage, Program, Reply, StageRequest, merge_graph

NAME = "dawa"
BOUNDED = "dawa-bounded"
GATE, SELECT, BIAS, MEASURE, REFINE = "gate", "partition", "bias", "buckets", "pieces"
SELECT_SHARE = Fraction(1, 5)
"""The part of epsilon that finds the buckets; found by `python -m benchmarks tune-dawa` on synthetic tables."""
SPLIT = Parameter(
    "split",
    "The part of epsilon that finds the buckets; their counts get the rest.",
    Fraction(1, 100),
    Fraction(4, 5),
    field="select_share",
    worked_out="0.2; 0.125 in 2-D",
)
PARAMETERS = (SPLIT,)
BOUNDED_PARAMETERS = (
    replace(SPLIT, default=SELECT_SHARE, worked_out=""),
    Parameter(
        "bias",
        "The part of epsilon that bounds the bias of every answer.",
        Fraction(1, 100),
        Fraction(3, 20),
        Fraction(1, 20),
        field="bias_share",
    ),
)


@dataclass(frozen=True)
class Dawa:
    """Serves every policy; bias from merging cells cannot be known without the data, so it promises no accuracy.

    On two axes cells are taken in Hilbert order, and a tree over the buckets is measured. With a `bias_share` that part
    of epsilon bounds the bias of every answer, which then comes with the finding; `select_share` is the part that finds
    the buckets, by default SELECT_SHARE or that of SHARES_2D.
    """

    name: str = NAME
    bias_share: Fraction = Fraction(0)
    select_share: Fraction | None = None

    def __post_init__(self) -> None:
        select = SELECT_SHARE if self.select_share is None else self.select_share
        if self.bias_share < 0 or select <= 0 or GATE_RULE.share + self.bias_share + select >= 1:
            raise PlanError("shares of epsilon are positive and leave something for the measurement")

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Gate, partition, measurement: together exactly epsilon; two axes follow a Hilbert curve, without a gate."""
        check_hides(self.name, problem.graph)
        if len(problem.graph.shape) == 2 and self.bias_share:
            raise Declined(self.name, "on two axes no bound on the bias is offered; ask for 'dawa'")
        if len(problem.graph.shape) == 2:
            return shared_program(NAME, epsilon, shares_2d(self.select_share))
        select = SELECT_SHARE if self.select_share is None else self.select_share
        return gated_program(self.name, epsilon, select, self.bias_share)

    def script(self, problem: Problem, program: Program) -> Script:
        """Publishes whether to merge, then where, then the measured buckets."""
        if len(problem.graph.shape) == 2:
            return (yield from script_2d(problem, program))
        cells = problem.graph.cells
        for_ranges = not self.bias_share and asks_long_ranges(problem)
        buckets, left = yield from gated_buckets(problem, program, for_ranges=for_ranges)
        uneven = 0.0 if left[0].stage == SELECT else None
        if left[0].stage == BIAS:
            stage = worst_bucket(cells, buckets.starts, problem.graph, left[0].epsilon)
            level = np.asarray((yield StageRequest(BIAS, stage)))
            uneven, left = stage.bound(int(level[0]), BIAS_BETA), left[1:]
        return (yield from measured_buckets(problem, buckets, left, merged=buckets.count < cells, uneven=uneven))


def gated_program(name: str, epsilon: Fraction, select: Fraction, bias: Fraction = Fraction(0)) -> Program:
    """Gate, partition, a bound on the bias where it has a share, and the buckets, which get what is left."""
    shares = {GATE: GATE_RULE.share, SELECT: select, **({BIAS: bias} if bias else {})}
    return shared_program(name, epsilon, [*shares.items(), (MEASURE, 1 - sum(shares.values(), Fraction(0)))])


def gated_buckets(
    problem: Problem, program: Program, *, for_ranges: bool = False
) -> Generator[StageRequest, Reply, tuple[Buckets, Sequence[Allowance]]]:
    """Publishes whether to merge and where; gives the buckets, single cells if not, and the allowances not used yet."""
    cells, (gate, select, *rest) = problem.graph.cells, program.allowances
    rule, refinement = (RANGE_GATE, range_refinement) if for_ranges else (GATE_RULE, l1_refinement)
    outcome = yield StageRequest(GATE, gate_stage(problem, gate.epsilon, program.epsilon, rule))
    if isinstance(outcome, np.ndarray) and outcome[0] == KEEP:
        return Buckets(cells, np.arange(cells)), (select, *rest)
    starts = yield StageRequest(SELECT, refinement(cells, problem.graph, select.epsilon))
    return Buckets(cells, np.asarray(starts)), rest


SHARES_2D = {SELECT: Fraction(1, 8), MEASURE: Fraction(1, 2), REFINE: Fraction(3, 8)}
"""The parts of epsilon that find the buckets, measure them, and count the pieces of those that hold many records.

Found by `python -m benchmarks tune-spatial` on synthetic grids.
"""


def shares_2d(select: Fraction | None) -> list[tuple[str, Fraction]]:
    """The parts of epsilon of the three stages: counts and pieces share what finding the buckets leaves."""
    if select is None:
        return list(SHARES_2D.items())
    left = (1 - select) / (1 - SHARES_2D[SELECT])
    return [(SELECT, select), (MEASURE, left * SHARES_2D[MEASURE]), (REFINE, left * SHARES_2D[REFINE])]


BOXES_TRIED = 200
"""The number of boxes that decide how the tree is measured."""
TRIED = ((1, 0.0), (1, 0.08), (2, 0.12), (2, 0.2), (2, 0.3))
"""Blocks of every level, or of every second, take this part of what the blocks above them left."""
GRID = 2**20


def block_weights(tree: RegionTree, stride: int, share: float) -> Ints:
    """The whole weight of every node, 0 where it is not measured; along each path they add up to about GRID.

    Every stride-th level of blocks takes a share of what is left; the buckets take the rest.
    """
    left, weights = np.ones(tree.nodes), np.zeros(tree.nodes)
    for depth, nodes in enumerate(tree.by_depth[1:], start=1):
        left[nodes] = left[tree.parent[nodes]] - weights[tree.parent[nodes]]
        if depth % stride == 0:
            weights[nodes] = share * left[nodes]
    weights[tree.leaves] = left[tree.leaves]
    return np.rint(weights * GRID).astype(np.int64)


def block_measurement(tree: RegionTree, weights: Ints) -> Measurement:
    """The nodes that have a weight, as ranges of buckets."""
    starts, nodes = tree.low[tree.leaves, 0], np.flatnonzero(weights)
    low, high = (np.searchsorted(starts, bound[nodes, 0]) for bound in (tree.low, tree.high))
    return Measurement(Intervals(starts.size, low, high), weights[nodes])


def predicted_error(tree: RegionTree, weights: Ints, cover: CellCover, count: int) -> float:
    """The mean variance of `count` queries where noise is alike, so that a node's variance is 1 / weight^2."""
    nodes = np.flatnonzero(weights)
    views = NodeViews.none(tree.nodes).add(nodes, np.zeros(nodes.size), (GRID / weights[nodes]) ** 2)
    return float(cover_variances(cover, count, least_squares(tree, views)).mean())


def best_weights(tree: RegionTree, cover: CellCover, count: int) -> Ints:
    """The weights with the least predicted error for `count` queries."""
    return min((block_weights(tree, *each) for each in TRIED), key=lambda w: predicted_error(tree, w, cover, count))


def script_2d(problem: Problem, program: Program) -> Script:
    """Publishes the buckets on the curve, counts of them and of blocks above them, then of the pieces of full ones."""
    graph, workload = problem.graph, problem.workload
    curve = HilbertCurve((graph.shape[0], graph.shape[1]))
    select, measure, refine = program.allowances
    starts = yield StageRequest(SELECT, l1_refinement(graph.cells, graph, select.epsilon), curve.positions)
    tree = block_tree(curve, np.asarray(starts))
    views = yield from _measured_tree(graph, tree, measure, _tried(as_boxes(workload, graph.shape), curve.shape))
    tree = cut_where_records_are(tree, views, noise_unit(graph, program.epsilon))
    values, variances, _ = yield from bucket_counts(graph, tree.labels, refine)
    views = views.for_nodes(tree.nodes).add(tree.leaves, values, variances)
    return tree_finding(problem, tree, views)


def _measured_tree(
    graph: CellGraph, tree: RegionTree, allowance: Allowance, tried: Rectangles
) -> Generator[StageRequest, Reply, NodeViews]:
    """The views of the buckets and the blocks above them, shares chosen by the error they predict for some boxes."""
    merged, none = merge_graph(graph, tree.labels), NodeViews.none(tree.nodes)
    if not hides_anything(merged):
        values, variances, _ = yield from bucket_counts(graph, tree.labels, allowance)
        return none.add(tree.leaves, values, variances)
    weights = best_weights(tree, box_cover(tree, tried), tried.shape[0])
    # The number of records comes exactly where the policy makes it public.
    exact = total(merged.cells) if np.all(merged.components() == 0) else None
    plan, _ = calibrate(Plan(Fraction(1), (block_measurement(tree, weights),), exact), merged, allowance.epsilon)
    measured = measured_rows((yield StageRequest(allowance.stage, MeasurementStage(plan), tree.labels)))
    views = none.add(np.flatnonzero(weights), measured.noisy.astype(np.float64), row_variances(plan))
    return views.with_total(float(measured.exact[0]) if measured.exact.size else None)


def _tried(boxes: Rectangles | None, shape: tuple[int, int]) -> Rectangles:
    """Some boxes of the workload; boxes of all sizes all over the grid where it asks for other things."""
    if boxes is not None:
        some = spread_choice(boxes.shape[0], BOXES_TRIED)
        return Rectangles(shape, boxes.low[some], boxes.high[some])
    place = np.arange(BOXES_TRIED)[:, None] * GOLDEN ** np.arange(1, 5)[None, :] % 1.0
    bounds: Floats = np.sort(place.reshape(-1, 2, 2), axis=2) * np.array(shape)[None, :, None]
    low = np.floor(bounds[:, :, 0]).astype(np.int64)
    return Rectangles(shape, low, np.maximum(np.ceil(bounds[:, :, 1]).astype(np.int64), low + 1))


TRANSFORM = "dawa-transform"
SUMS = "sums"
TRANSFORM_SHARE = Fraction(1, 2)
TRANSFORM_PARAMETERS = (replace(SPLIT, default=TRANSFORM_SHARE, worked_out=""),)


@dataclass(frozen=True)
class DawaTransform:
    """Serves every policy; bias from sharing out buckets cannot be known without data, so it promises no accuracy.

    On a line, running sums of all cells cost no more than those of merged buckets: they get the whole epsilon, and
    buckets are read off them. Elsewhere, or with `sums_first` off, a little decides whether to look for buckets at all,
    as `dawa` does, and `select_share` of epsilon (TRANSFORM_SHARE where it is not given) finds them.
    """

    name: ClassVar[str] = TRANSFORM
    select_share: Fraction | None = None
    sums_first: bool = True

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage on a line; gate, partition and measurement elsewhere: together exactly epsilon."""
        check_hides(TRANSFORM, problem.graph)
        if self.sums_first and ordered_hierarchy.is_line(problem.graph):
            if self.select_share is not None:
                raise Declined(TRANSFORM, "on a line of values running sums get all of epsilon: nothing is split")
            return shared_program(TRANSFORM, epsilon, [(SUMS, Fraction(1))])
        return gated_program(TRANSFORM, epsilon, TRANSFORM_SHARE if self.select_share is None else self.select_share)

    def script(self, problem: Problem, program: Program) -> Script:
        """The stages of the program, as they unfold."""
        if len(program.allowances) == 1:
            return (yield from _from_sums(problem, program.epsilon))
        buckets, left = yield from gated_buckets(problem, program)
        if isinstance(problem.workload, Identity):
            return (yield from measured_by_policy(problem, buckets.of_cells, left))
        return (yield from measured_buckets(problem, buckets, left))


def _from_sums(problem: Problem, epsilon: Fraction) -> Script:
    strategy = ordered_hierarchy.propose_ordered(problem)
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, epsilon)
    measured = measured_rows((yield StageRequest(SUMS, MeasurementStage(plan))))
    spread = row_variances(plan)
    cells, buckets, before = [], [], 0
    ends = strategy.roots
    # Runs that no record crosses have exact totals and are read one by one.
    for run, sums in enumerate(np.split(measured.noisy, ends[:-1] - np.arange(ends.size - 1))):
        levels = even_runs(sums.astype(np.float64), float(measured.exact[run]), float(spread[0]))
        cells.append(levels.cells)
        is_start = np.zeros(levels.cells.size, dtype=np.int64)
        is_start[levels.starts] = 1
        buckets.append(before + np.cumsum(is_start) - 1)
        before += levels.starts.size
    estimate = np.concatenate(cells)
    answers = np.asarray(problem.workload.dot(estimate))
    running = partial(strategy.variances_of, Prefix(estimate.size), spread)
    return Finding(estimate, answers, strategy.answer_variances(spread), np.concatenate(buckets), running=running)


STEP, HALVED = 1, 2


@dataclass(frozen=True)
class RunRule:
    """What one more bucket must improve the fit by, and when evening out is given up; public constants.

    Bucket and step penalties are in variances of a sum; a step, a cell that stands out, makes three buckets and is
    charged for itself. Cells are left as they are where their estimated risk exceeds `clearly_rough` (in variances of
    a sum, times the root of the number of cells) and evening out leaves more than `part_left` of it. With
    `meets_ends` what is fitted beside the first and the last sum, which are exact, must meet them.
    """

    penalty: float
    step_penalty: float
    clearly_rough: float
    part_left: float
    meets_ends: bool

    def __post_init__(self) -> None:
        if not (self.penalty > 0 and self.step_penalty >= self.penalty):
            raise PlanError("buckets have a penalty, and a step is three of them: it costs no less than one")
        if self.clearly_rough < 0 or self.part_left < 0:
            raise PlanError("limits of an estimated risk are not negative")


RUN_RULE = RunRule(14.0, 20.0, 24.0, 0.75, meets_ends=True)
"""Found by `python -m benchmarks tune-transform` on synthetic tables."""


@dataclass(frozen=True, eq=False)
class EvenRuns:
    """Cells that are even within buckets; `starts` holds the first cell of each bucket."""

    cells: Floats
    starts: Ints


def even_runs(sums: Floats, total: float, variance: float, rule: RunRule = RUN_RULE) -> EvenRuns:
    """The cells behind noisy sums of the first 1, 2, ... cells, the exact total last, all noise alike.

    Counts are not negative, so the sums are made monotone first, which only brings them closer. Then, in blocks whose
    lengths are powers of two, cells are taken as even where a straight line fits their sums nearly as well, or as one
    cell in an empty segment where a step does; unless the estimated risk tells that the counts are so rough that
    evening them out gains little.
    """
    monotone = _monotone(sums, total)
    starts = _best_blocks(np.concatenate([[0.0], monotone, [total]]), variance, rule)
    knots = np.append(starts, sums.size + 1)
    lengths = np.diff(knots)
    cells = np.repeat(_steps(_monotone(_spline(monotone, total, knots), total), total) / lengths, lengths)
    limit, left = rule.clearly_rough * variance * np.sqrt(cells.size), rule.part_left
    risk, risk_even = _risks(sums, monotone, cells, lengths, total, variance)
    if risk > limit and risk_even > left * risk:
        return EvenRuns(_steps(monotone, total), np.arange(cells.size))
    return EvenRuns(cells, starts)


def _risks(
    sums: Floats, monotone: Floats, even: Floats, lengths: Ints, total: float, variance: float
) -> tuple[float, float]:
    """The summed squared errors to expect of monotone cells and of even ones, both by Stein's formula.

    Twice the covariance of an estimate with the raw cells is 4/m variances for a level of m equal sums, and
    24/((l + 1)(l + 2)) for the slope of a line through the l + 1 sums of a bucket.
    """
    raw = _steps(sums, total)
    noise = 2.0 * variance * sums.size
    levels = np.diff(np.flatnonzero(np.diff(monotone, prepend=-1.0, append=np.inf)))
    risk = np.sum((_steps(monotone, total) - raw) ** 2) + variance * np.sum(4.0 / levels) - noise
    tied = np.sum(24.0 / ((lengths + 1.0) * (lengths + 2.0)))
    return float(risk), float(np.sum((even - raw) ** 2) + variance * tied - noise)


def _steps(sums: Floats, total: float) -> Floats:
    """What each sum adds to the one before, from 0 to the total."""
    return np.diff(np.concatenate([[0.0], sums, [total]]))


def _monotone(sums: Floats, total: float) -> Floats:
    """The nearest sums that never fall, between 0 and the total."""
    if sums.size == 0:
        return sums
    from scipy.optimize import isotonic_regression  # takes a while to load, and many questions do without

    return np.asarray(np.clip(isotonic_regression(sums).x, 0.0, total))


def _best_blocks(path: Floats, variance: float, rule: RunRule) -> Ints:
    """The first cells of the buckets that minimise squared distances of the sums plus penalties.

    A block is one bucket, or an empty segment with one cell that stands out, or its two halves.
    """
    cells = path.size - 1
    penalty, for_step = rule.penalty * variance, rule.step_penalty * variance
    best = np.full(cells, penalty)
    choices: list[tuple[Ints, Ints]] = []
    length = 1
    while length < cells:
        length *= 2
        pairs = np.append(best, 0.0) if best.size % 2 else best
        line, step, jump = _fits(path, length, rule.meets_ends)
        costs = np.stack([line + penalty, step + for_step, pairs[::2] + pairs[1::2]])
        choices.append((np.argmin(costs, axis=0), jump))
        best = np.min(costs, axis=0)
    starts, blocks = [], np.zeros(1, dtype=np.int64)
    for choice, jump in reversed(choices):
        whole, stepped = blocks[choice[blocks] != HALVED], blocks[choice[blocks] == STEP]
        spikes = stepped * length + jump[stepped]
        starts += [whole * length, spikes, spikes + 1]
        length //= 2
        blocks = np.repeat(2 * blocks[choice[blocks] == HALVED], 2)
        blocks[1::2] += 1
        blocks = blocks[blocks * length < cells]
    bounds = np.unique(np.concatenate([*starts, blocks]))
    return bounds[bounds < cells].astype(np.int64)


def _fits(path: Floats, length: int, meets_ends: bool) -> tuple[Floats, Floats, Ints]:
    """For each block of `length` cells (the last may be shorter) its distances to a line and to a step, and where."""
    blocks = (path.size - 1) // length
    whole = blocks * length
    inner = path[:whole].reshape(blocks, length)
    rows = np.concatenate([inner, path[length : whole + 1 : length, None]], axis=1)
    last = path[None, whole:] if whole < path.size - 1 else rows[-1:]
    between = rows[1:] if whole < path.size - 1 else rows[1:-1]
    parts = [(rows[:1], meets_ends, False), (between, False, False), (last, False, meets_ends)]
    if length >= path.size - 1:
        parts = [(path[None, :], meets_ends, meets_ends)]
    fits = [(_to_line(*part), *_to_step(*part)) for part in parts if part[0].size]
    lines, steps, jumps = zip(*fits, strict=True)
    return np.concatenate(lines), np.concatenate(steps), np.concatenate(jumps)


def _to_line(points: Floats, meets_first: bool, meets_last: bool) -> Floats:
    """The squared distance of each row, at equal steps, to the nearest line."""
    if meets_last and not meets_first:
        return _to_line(-points[:, ::-1], True, False)
    # Large counts cancel before anything is squared.
    level = points - points[:, :1]
    place = np.arange(points.shape[1], dtype=np.float64)
    if meets_first and meets_last:
        slope = level[:, -1] / place[-1]
    else:
        if not meets_first:
            level, place = level - level.mean(axis=1, keepdims=True), place - place.mean()
        slope = level @ place / float(place @ place)
    return np.asarray(((level - slope[:, None] * place) ** 2).sum(axis=1))


def _to_step(points: Floats, meets_first: bool, meets_last: bool) -> tuple[Floats, Ints]:
    """The squared distance of each row to the nearest two levels, and the cell between them."""
    # Each side is seen from its own end, for the same reason.
    before = _spread_of_heads(points - points[:, :1], meets_first)[:, :-1]
    after = _spread_of_heads((points - points[:, -1:])[:, ::-1], meets_last)[:, -2::-1]
    both = before + after
    jump = np.argmin(both, axis=1)
    return np.take_along_axis(both, jump[:, None], axis=1)[:, 0], jump.astype(np.int64)


def _spread_of_heads(points: Floats, meets_first: bool) -> Floats:
    """For each row and length the squared distance of its first that many entries to one level."""
    squares, lengths = np.cumsum(points**2, axis=1), np.arange(1, points.shape[1] + 1)
    return squares if meets_first else np.asarray(squares - np.cumsum(points, axis=1) ** 2 / lengths)


def _spline(sums: Floats, total: float, knots: Ints) -> Floats:
    """Heights at the inner knots of the broken line from 0 to the total that is nearest to all the sums."""
    inner = knots.size - 2
    if inner == 0:
        return np.empty(0)
    place = np.arange(1, sums.size + 1)
    piece = np.searchsorted(knots, place, side="right") - 1
    after = (place - knots[piece]) / (knots[piece + 1] - knots[piece])
    before = 1.0 - after

    def gathered(left: Floats, right: Floats) -> Floats:
        return np.asarray(np.bincount(piece, left, knots.size) + np.bincount(piece + 1, right, knots.size), float)

    diagonal = gathered(before * before, after * after)[1:-1]
    beside = np.bincount(piece, before * after, knots.size)
    wanted = gathered(before * sums, after * sums)[1:-1]
    wanted[-1] -= beside[inner] * total
    if inner == 1:
        return wanted / diagonal
    return np.asarray(solveh_banded(np.stack([np.append(0.0, beside[1:inner]), diagonal]), wanted))
