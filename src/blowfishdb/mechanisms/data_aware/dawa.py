"""DAWA: looks where the counts are even, merges those cells into buckets, and measures the buckets for the workload.

On two axes cells are taken in Hilbert order, and a tree over the buckets is measured.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined, PlanError
from blowfishdb.mechanisms.data_aware.buckets import Buckets, measured_buckets
from blowfishdb.mechanisms.data_aware.partition import GATE_RULE, KEEP, gate_stage, l1_refinement, worst_bucket
from blowfishdb.mechanisms.data_aware.regions import (
    Cover,
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
from blowfishdb.mechanisms.data_aware.script import (
    BIAS_BETA,
    Script,
    check_hides,
    hides_anything,
    measured_rows,
    shared_program,
)
from blowfishdb.mechanisms.products import as_boxes
from blowfishdb.mechanisms.strategy import GOLDEN, row_variances, spread_choice
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Intervals, Rectangles, total
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Measurement, Plan, Problem
from blowfishdb.plan.program import Allowance, Ask, MeasurementStage, Program, Reply, merge_graph

NAME = "dawa"
BOUNDED = "dawa-bounded"
GATE, SELECT, BIAS, MEASURE, REFINE = "gate", "partition", "bias", "buckets", "pieces"
SELECT_SHARE = Fraction(1, 5)
"""The part of epsilon that finds the buckets; found by `python -m benchmarks tune-dawa` on synthetic tables."""


@dataclass(frozen=True)
class Dawa:
    """Serves every policy; bias from merging cells cannot be known without the data, so it promises no accuracy.

    With a `bias_share` that part of epsilon bounds the bias of every answer, which then comes with the finding;
    `select_share` is the part that finds the buckets.
    """

    name: str = NAME
    bias_share: Fraction = Fraction(0)
    select_share: Fraction = SELECT_SHARE

    def __post_init__(self) -> None:
        if self.bias_share < 0 or self.select_share <= 0 or GATE_RULE.share + self.bias_share + self.select_share >= 1:
            raise PlanError("shares of epsilon are positive and leave something for the measurement")

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Gate, partition, measurement: together exactly epsilon; two axes follow a Hilbert curve, without a gate."""
        check_hides(self.name, problem.graph)
        if len(problem.graph.shape) == 2 and self.bias_share:
            raise Declined(self.name, "on two axes no bound on the bias is offered; ask for 'dawa'")
        if len(problem.graph.shape) == 2:
            return shared_program(NAME, epsilon, list(SHARES_2D.items()))
        return gated_program(self.name, epsilon, self.select_share, self.bias_share)

    def script(self, problem: Problem, program: Program) -> Script:
        """Publishes whether to merge, then where, then the measured buckets."""
        if len(problem.graph.shape) == 2:
            return (yield from script_2d(problem, program))
        cells = problem.graph.cells
        buckets, left = yield from gated_buckets(problem, program)
        uneven = 0.0 if left[0].stage == SELECT else None
        if left[0].stage == BIAS:
            stage = worst_bucket(cells, buckets.starts, problem.graph, left[0].epsilon)
            level = np.asarray((yield Ask(BIAS, stage)))
            uneven, left = stage.bound(int(level[0]), BIAS_BETA), left[1:]
        return (yield from measured_buckets(problem, buckets, left, merged=buckets.count < cells, uneven=uneven))


def gated_program(name: str, epsilon: Fraction, select: Fraction, bias: Fraction = Fraction(0)) -> Program:
    """Gate, partition, a bound on the bias where it has a share, and the buckets, which get what is left."""
    shares = {GATE: GATE_RULE.share, SELECT: select, **({BIAS: bias} if bias else {})}
    return shared_program(name, epsilon, [*shares.items(), (MEASURE, 1 - sum(shares.values(), Fraction(0)))])


def gated_buckets(problem: Problem, program: Program) -> Generator[Ask, Reply, tuple[Buckets, Sequence[Allowance]]]:
    """Publishes whether to merge and where; gives the buckets, single cells if not, and the allowances not used yet."""
    cells, (gate, select, *rest) = problem.graph.cells, program.allowances
    outcome = yield Ask(GATE, gate_stage(problem, gate.epsilon, program.epsilon))
    if isinstance(outcome, np.ndarray) and outcome[0] == KEEP:
        return Buckets(cells, np.arange(cells)), (select, *rest)
    starts = yield Ask(SELECT, l1_refinement(cells, problem.graph, select.epsilon))
    return Buckets(cells, np.asarray(starts)), rest


SHARES_2D = {SELECT: Fraction(1, 8), MEASURE: Fraction(1, 2), REFINE: Fraction(3, 8)}
"""The parts of epsilon that find the buckets, measure them, and count the pieces of those that hold many records.

Found by `python -m benchmarks tune-spatial` on synthetic grids.
"""
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


def predicted_error(tree: RegionTree, weights: Ints, cover: Cover, count: int) -> float:
    """The mean variance of `count` queries where noise is alike, so that a node's variance is 1 / weight^2."""
    nodes = np.flatnonzero(weights)
    views = NodeViews.none(tree.nodes).add(nodes, np.zeros(nodes.size), (GRID / weights[nodes]) ** 2)
    return float(cover_variances(cover, count, least_squares(tree, views)).mean())


def best_weights(tree: RegionTree, cover: Cover, count: int) -> Ints:
    """The weights with the least predicted error for `count` queries."""
    return min((block_weights(tree, *each) for each in TRIED), key=lambda w: predicted_error(tree, w, cover, count))


def script_2d(problem: Problem, program: Program) -> Script:
    """Publishes the buckets on the curve, counts of them and of blocks above them, then of the pieces of full ones."""
    graph, workload = problem.graph, problem.workload
    curve = HilbertCurve((graph.shape[0], graph.shape[1]))
    select, measure, refine = program.allowances
    starts = yield Ask(SELECT, l1_refinement(graph.cells, graph, select.epsilon), curve.positions)
    tree = block_tree(curve, np.asarray(starts))
    views = yield from _measured_tree(graph, tree, measure, _tried(as_boxes(workload, graph.shape), curve.shape))
    tree = cut_where_records_are(tree, views, noise_unit(graph, program.epsilon))
    values, variances, _ = yield from bucket_counts(graph, tree.labels, refine)
    views = views.for_nodes(tree.nodes).add(tree.leaves, values, variances)
    return tree_finding(problem, tree, views)


def _measured_tree(
    graph: CellGraph, tree: RegionTree, allowance: Allowance, tried: Rectangles
) -> Generator[Ask, Reply, NodeViews]:
    """The views of the buckets and the blocks above them, shares chosen by the error they predict for some boxes."""
    merged, none = merge_graph(graph, tree.labels), NodeViews.none(tree.nodes)
    if not hides_anything(merged):
        values, variances, _ = yield from bucket_counts(graph, tree.labels, allowance)
        return none.add(tree.leaves, values, variances)
    weights = best_weights(tree, box_cover(tree, tried), tried.shape[0])
    # The number of records comes exactly where the policy makes it public.
    exact = total(merged.cells) if np.all(merged.components() == 0) else None
    plan, _ = calibrate(Plan(Fraction(1), (block_measurement(tree, weights),), exact), merged, allowance.epsilon)
    measured = measured_rows((yield Ask(allowance.stage, MeasurementStage(plan), tree.labels)))
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
