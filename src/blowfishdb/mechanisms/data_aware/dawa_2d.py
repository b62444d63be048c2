"""DAWA on two axes: cells in Hilbert order, buckets where counts are even, and a tree over them for the workload."""

from __future__ import annotations

from collections.abc import Generator
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.data_aware.hilbert import HilbertCurve, best_weights, block_tree, run_cover
from blowfishdb.mechanisms.data_aware.partition import l1_refinement
from blowfishdb.mechanisms.data_aware.regions import (
    VISITS,
    NodeViews,
    RegionTree,
    TreeEstimate,
    bucket_counts,
    cover_variances,
    cut_where_records_are,
    leaf_bound,
    least_squares,
    noise_unit,
    not_negative,
    visits,
)
from blowfishdb.mechanisms.data_aware.script import Finding, Script, hides_anything, measured_rows, shared_program
from blowfishdb.mechanisms.products import as_boxes
from blowfishdb.mechanisms.strategy import GOLDEN, row_variances, spread_choice
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Rectangles, total
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Measurement, Plan, Problem
from blowfishdb.plan.program import Allowance, Ask, MeasurementStage, Program, Reply, merge_graph

SELECT, MEASURE, REFINE = "partition", "buckets", "pieces"
SHARES = (Fraction(1, 8), Fraction(1, 2), Fraction(3, 8))
"""The parts of epsilon that find the buckets, measure them, and count the pieces of those that hold many records.

Found by `python -m benchmarks tune-spatial` on synthetic grids.
"""
BOXES_TRIED = 200
"""So many boxes decide how the tree is measured."""


def program_2d(name: str, epsilon: Fraction) -> Program:
    """Partition, measurement, pieces: together exactly epsilon."""
    return shared_program(name, epsilon, list(zip((SELECT, MEASURE, REFINE), SHARES, strict=True)))


def script_2d(problem: Problem, program: Program) -> Script:
    """Publishes the buckets on the curve, counts of them and of blocks above them, then of the pieces of full ones."""
    graph, workload = problem.graph, problem.workload
    curve = HilbertCurve((graph.shape[0], graph.shape[1]))
    select, measure, refine = program.allowances
    stage = l1_refinement(graph.cells, graph, select.epsilon)
    starts = np.asarray((yield Ask(SELECT, stage, curve.positions)))
    tree = block_tree(graph.cells, starts)
    buckets = tree.labels[curve.positions]
    boxes = as_boxes(workload, graph.shape)
    views = yield from _measured(graph, buckets, tree, measure, curve, _tried(boxes, curve.shape))
    tree = cut_where_records_are(tree, views, noise_unit(graph, program.epsilon))
    buckets = tree.labels[curve.positions]
    counts = bucket_counts(graph, buckets, refine)
    values, variances = counts.read((yield counts.ask))
    views = views.for_nodes(tree.nodes).add(tree.leaves, values, variances)
    estimate = least_squares(tree, views)
    cells = not_negative(estimate).cells[curve.positions]
    answers = np.asarray(workload.dot(cells), dtype=np.float64)
    if boxes is not None and boxes.shape[0] * visits(tree, 2) <= VISITS:
        spread = cover_variances(run_cover(curve, boxes, tree), estimate, 2)
    else:
        spread = leaf_bound(workload, tree, views, buckets)
    return Finding(cells, answers, spread, buckets)


def _measured(
    graph: CellGraph, buckets: Ints, tree: RegionTree, allowance: Allowance, curve: HilbertCurve, tried: Rectangles
) -> Generator[Ask, Reply, NodeViews]:
    """The views of the buckets and the blocks above them, shares chosen by the error they predict for some boxes."""
    merged = merge_graph(graph, buckets)
    if not hides_anything(merged):
        counts = bucket_counts(graph, buckets, allowance)
        values, variances = counts.read((yield counts.ask))
        return NodeViews.none(tree.nodes).add(tree.leaves, values, variances)
    cover = run_cover(curve, tried, tree)

    def error(estimate: TreeEstimate) -> float:
        return float(cover_variances(cover, estimate, 2).mean())

    weights = best_weights(tree, error)
    plan = _plan(weights.measurement(), merged, allowance.epsilon)
    measured = measured_rows((yield Ask(allowance.stage, MeasurementStage(plan), buckets)))
    views = weights.views(measured.noisy.astype(np.float64), row_variances(plan))
    return views.with_total(float(measured.exact[0]) if measured.exact.size else None)


def _plan(measurement: Measurement, graph: CellGraph, epsilon: Fraction) -> Plan:
    """The measured nodes at exactly epsilon, and the number of records where the policy makes it public."""
    is_public = bool(np.all(graph.components() == 0))
    plan = Plan(Fraction(1), (measurement,), total(graph.cells) if is_public else None)
    return calibrate(plan, graph, epsilon)[0]


def _tried(boxes: Rectangles | None, shape: tuple[int, int]) -> Rectangles:
    """Some boxes of the workload; boxes of all sizes all over the grid where it asks for other things."""
    if boxes is not None:
        kept = spread_choice(boxes.shape[0], BOXES_TRIED)
        return Rectangles(shape, boxes.low[kept], boxes.high[kept])
    place = np.arange(BOXES_TRIED)[:, None] * GOLDEN ** np.arange(1, 5)[None, :] % 1.0
    bounds: Floats = np.sort(place.reshape(-1, 2, 2), axis=2) * np.array(shape)[None, :, None]
    low = np.floor(bounds[:, :, 0]).astype(np.int64)
    return Rectangles(shape, low, np.maximum(np.ceil(bounds[:, :, 1]).astype(np.int64), low + 1))
