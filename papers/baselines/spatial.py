"""Baselines for two axes: UGrid and AGrid (Qardaji, Yang, Li 2013), QuadTree (Cormode et al. 2012), two kd-trees."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined, PlanError
from blowfishdb.mechanisms.data_aware import Script, hides_anything, measured_rows, shared_program
from blowfishdb.mechanisms.data_aware.kdtree import along, kd_tree
from blowfishdb.mechanisms.data_aware.regions import (
    NodeViews,
    RegionTree,
    bucket_counts,
    cut,
    least_squares,
    noise_unit,
    tree_finding,
    whole,
)
from blowfishdb.mechanisms.strategy import row_variances
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Intervals, Rectangles, total
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem
from blowfishdb.plan.program import Allowance, MeasurementStage, Program, Reply, StageRequest
from papers.baselines.noise import noisy

# How many records there are, as far as a grid needs to know it: exactly where it is public, else at a small share.

TOTAL_SHARE = Fraction(1, 20)


def check_two_axes(mechanism: str, shape: tuple[int, ...]) -> None:
    """Declined where the cells do not lie on a plane."""
    if len(shape) != 2:
        raise Declined(mechanism, f"it needs two axes, not {len(shape)}")


def total_share(graph: CellGraph) -> Fraction:
    """The part of epsilon that the number of records takes."""
    return Fraction(0) if np.all(graph.components() == 0) else TOTAL_SHARE


def ask_total(problem: Problem, allowance: Allowance) -> Generator[StageRequest, Reply, NodeViews]:
    """The view of the whole grid, to start a tree with."""
    everything = np.zeros(problem.graph.cells, dtype=np.int64)
    values, variances, _ = yield from bucket_counts(problem.graph, everything, allowance)
    return NodeViews(values, variances)


def records_per_noise(records: float, graph: CellGraph, epsilon: Fraction) -> float:
    """The number of records in units of the noise scale that a count has at this epsilon; never negative."""
    return max(records, 0.0) / noise_unit(graph, epsilon)


# Uniform grid: equal boxes, as many as the number of records and epsilon suggest, each counted once.

UGRID = "ugrid"
RECORDS_PER_BOX = 10.0
"""Boxes hold about so many records, in units of the noise scale: fewer drown in noise, more hide what is inside."""


@dataclass(frozen=True)
class UniformGrid:
    """Serves two axes under any policy; the number of records is counted first unless it is public."""

    @property
    def name(self) -> str:
        return UGRID

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """The number of records, then the boxes."""
        check_two_axes(UGRID, problem.graph.shape)
        share = total_share(problem.graph)
        return shared_program(UGRID, epsilon, [("total", share), ("grid", 1 - share)])

    def script(self, problem: Problem, program: Program) -> Script:
        total_stage, grid_stage = program.allowances
        views = yield from ask_total(problem, total_stage)
        records = records_per_noise(float(views.values[0]), problem.graph, grid_stage.epsilon)
        side = max(1, math.ceil(math.sqrt(records / RECORDS_PER_BOX)))
        tree = whole(problem.graph.shape)
        tree = cut(tree, tree.leaves, np.full((1, 2), side))
        values, variances, _ = yield from bucket_counts(problem.graph, tree.labels, grid_stage)
        return tree_finding(problem, tree, views.for_nodes(tree.nodes).add(tree.leaves, values, variances))


# Adaptive grid: a coarse grid is counted first, then each of its boxes is cut as finely as its count deserves.

AGRID = "agrid"
COARSE_SIDE = 10
"""The coarse grid has at least so many boxes along each axis."""
RECORDS_PER_COARSE_BOX = 160.0
RECORDS_PER_FINE_BOX = 5.0
"""How many records a box should hold, in units of the noise scale: of the whole epsilon, then of what is left."""


@dataclass(frozen=True)
class AdaptiveGrid:
    """Serves two axes under any policy; both levels stay in the estimate."""

    @property
    def name(self) -> str:
        return AGRID

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """The number of records, then half of the rest for each level."""
        check_two_axes(AGRID, problem.graph.shape)
        share = total_share(problem.graph)
        half = (1 - share) / 2
        return shared_program(AGRID, epsilon, [("total", share), ("coarse", half), ("fine", half)])

    def script(self, problem: Problem, program: Program) -> Script:
        graph = problem.graph
        total_stage, coarse_stage, fine_stage = program.allowances
        views = yield from ask_total(problem, total_stage)
        records = records_per_noise(float(views.values[0]), graph, program.epsilon)
        side = max(COARSE_SIDE, math.ceil(math.sqrt(records / RECORDS_PER_COARSE_BOX)))
        tree = whole(graph.shape)
        tree = cut(tree, tree.leaves, np.full((1, 2), side))
        values, variances, _ = yield from bucket_counts(graph, tree.labels, coarse_stage)
        views = views.for_nodes(tree.nodes).add(tree.leaves, values, variances)
        coarse = least_squares(tree, views).values[tree.leaves]
        deserved = records_per_noise(1.0, graph, fine_stage.epsilon) * np.maximum(coarse, 0.0) / RECORDS_PER_FINE_BOX
        sides = np.maximum(1, np.ceil(np.sqrt(deserved))).astype(np.int64)
        tree = cut(tree, tree.leaves, np.stack([sides, sides], axis=1))
        values, variances, _ = yield from bucket_counts(graph, tree.labels, fine_stage)
        return tree_finding(problem, tree, views.for_nodes(tree.nodes).add(tree.leaves, values, variances))


# Halves every axis of a grid again and again: the levels of a quadtree, each a product of blocks along the axes.


@dataclass(frozen=True, eq=False)
class ProductLevel:
    """The blocks of one level along each axis; its regions are their products in row-major order."""

    blocks: tuple[Intervals, ...]


def halving_levels(shape: tuple[int, ...]) -> list[ProductLevel]:
    """From the whole grid down to single cells; an axis that is down to cells stays so."""
    edges = [np.array([0, size], dtype=np.int64) for size in shape]
    levels = [_level(edges)]
    while any(edge.size <= size for edge, size in zip(edges, shape, strict=True)):
        edges = [_halved(edge) for edge in edges]
        levels.append(_level(edges))
    return levels


def product_tree(shape: tuple[int, ...], levels: list[ProductLevel]) -> RegionTree:
    """The regions of all levels, level by level, each below the region that holds it."""
    low, high, parent = [], [], []
    above: tuple[Intervals, ...] | None = None
    start = 0
    for level in levels:
        counts = tuple(block.low.size for block in level.blocks)
        places = np.unravel_index(np.arange(int(np.prod(counts))), counts)
        low.append(np.stack([block.low[p] for block, p in zip(level.blocks, places, strict=True)], axis=1))
        high.append(np.stack([block.high[p] for block, p in zip(level.blocks, places, strict=True)], axis=1))
        if above is None:
            parent.append(np.full(1, -1))
        else:
            pairs = zip(above, level.blocks, strict=True)
            owners = [np.searchsorted(up.low, own.low, side="right") - 1 for up, own in pairs]
            place = tuple(owner[p] for owner, p in zip(owners, places, strict=True))
            sizes = tuple(up.low.size for up in above)
            parent.append(start - int(np.prod(sizes)) + np.ravel_multi_index(place, sizes))
        start += low[-1].shape[0]
        above = level.blocks
    return RegionTree(shape, np.concatenate(low), np.concatenate(high), np.concatenate(parent))


def _level(edges: list[Ints]) -> ProductLevel:
    return ProductLevel(tuple(Intervals(int(edge[-1]), edge[:-1], edge[1:]) for edge in edges))


def _halved(edges: Ints) -> Ints:
    middles = (edges[:-1] + edges[1:]) // 2
    every = np.sort(np.concatenate([edges, middles]))
    return every[np.diff(every, append=every[-1] + 1) > 0]


# Quadtree: every level of halved boxes down to the cells is counted, the deeper with geometrically larger shares.

QUADTREE = "quadtree"
RATIO = 2.0 ** (1.0 / 3.0)
"""Each level gets this many times the weight of the level above. A box is put together from a number of nodes that
doubles from level to level, and the sum of nodes / weight^2 at a given sum of weights is least at their cube roots."""
WEIGHT_OF_THE_TOP = 1000
"""Weights are whole numbers; this many steps at the top keep the ratio to a thousandth."""


@dataclass(frozen=True)
class Quadtree:
    """Serves two axes under any policy; it never looks at the data to decide what to count."""

    @property
    def name(self) -> str:
        return QUADTREE

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage with the whole epsilon."""
        graph = problem.graph
        check_two_axes(QUADTREE, graph.shape)
        if graph.cells == 1 or not hides_anything(graph):
            raise Declined(QUADTREE, "the policy hides nothing among these cells: ask for `cells`, they are exact")
        return shared_program(QUADTREE, epsilon, [("levels", Fraction(1))])

    def script(self, problem: Problem, program: Program) -> Script:
        graph = problem.graph
        levels = halving_levels(graph.shape)
        plan = levels_plan(graph, levels)
        plan, _ = calibrate(plan, graph, program.epsilon)
        measured = measured_rows((yield StageRequest(program.allowances[0].stage, MeasurementStage(plan))))
        tree = product_tree(graph.shape, levels)
        counted = np.arange(tree.nodes - plan.weights.size, tree.nodes)
        views = NodeViews.none(tree.nodes)
        views = views.add(counted, measured.noisy.astype(np.float64), row_variances(plan))
        views = views.with_total(float(measured.exact[0]) if measured.exact.size else None)
        return tree_finding(problem, tree, views)


def levels_plan(graph: CellGraph, levels: list[ProductLevel]) -> Plan:
    """Every level below the whole grid, and the whole grid too unless its count is public (then exactly)."""
    is_public = bool(np.all(graph.components() == 0))
    parts = []
    for depth, level in enumerate(levels):
        weight = round(WEIGHT_OF_THE_TOP * RATIO**depth)
        if depth or not is_public:
            rows, columns = level.blocks
            parts.append(
                KroneckerMeasurement((Measurement(rows, np.array(weight)), Measurement(columns, np.ones(1, np.int64))))
            )
    return Plan(Fraction(1), tuple(parts), total(graph.cells) if is_public else None)


# The partitioning paper's kd-tree as it is printed: half of epsilon on the cells, half on the boxes cut from them.
#
# Private for one record more or less. Its answers use the counts of the boxes alone; the cells only show where to cut.


@dataclass(frozen=True)
class KdThresholds:
    """Public thresholds: a box is cut while it seems to hold more records, or to be less even, than this.

    Unevenness is the sum of the absolute deviations of a box's noisy cells from their mean.
    """

    records: float
    unevenness: float

    def __post_init__(self) -> None:
        if not (self.records >= 0 and self.unevenness >= 0):
            raise PlanError("thresholds are not negative")

    def choose(self, cells: Floats) -> tuple[int, int] | None:
        """Cuts the longest axis at the median of the noisy records."""
        uneven = float(np.abs(cells - cells.mean()).sum())
        if cells.size == 1 or not (float(cells.sum()) > self.records or uneven > self.unevenness):
            return None
        axis = int(np.argmax(cells.shape))
        return axis, median_cut(along(np.maximum(cells, 0.0), axis))


def median_cut(counts: Floats) -> int:
    """The place that leaves about half of the counts on either side, with at least one entry each."""
    sums = np.cumsum(counts)
    return int(np.clip(np.searchsorted(sums, sums[-1] / 2.0) + 1, 1, counts.size - 1))


def printed_kdtree(counts: Ints, epsilon: Fraction, boxes: Rectangles, thresholds: KdThresholds) -> Floats:
    """Answers to the boxes, each cell having its share of the noisy count around it."""
    cells = noisy(counts, 2 / epsilon).reshape(boxes.grid)
    labels = kd_tree(cells, thresholds.choose).labels
    inside = np.bincount(labels)
    totals = noisy(np.bincount(labels, weights=counts).astype(np.int64), 2 / epsilon)
    return np.asarray(boxes.dot((totals / inside)[labels]))


# Hierarchical kd-tree (Inan, Kantarcioglu, Ghinita, Bertino 2010): every cut is a noisy median of its own.
#
# The partitioning paper compares with it: each level asks for noisy counts of the slices of all boxes again, so the
# levels share the budget that the paper's own kd-tree spends once, on the cells.

HEIGHT = 8

Piece = tuple[slice, ...]


def hierarchical_kdtree(counts: Ints, epsilon: Fraction, boxes: Rectangles, height: int = HEIGHT) -> Floats:
    """Half of epsilon for the medians of all levels, half for the boxes at the end."""
    grid = counts.reshape(boxes.grid)
    open_pieces: list[Piece] = [tuple(slice(0, size) for size in boxes.grid)]
    single: list[Piece] = []
    for _ in range(height):
        # A piece of one cell has no median: what would be drawn for it is never looked at.
        single += [piece for piece in open_pieces if grid[piece].size == 1]
        open_pieces = _cut(grid, [piece for piece in open_pieces if grid[piece].size > 1], 2 * height / epsilon)
    pieces = [*open_pieces, *single]
    cells = np.empty(grid.shape)
    totals = noisy(np.array([grid[piece].sum() for piece in pieces]), 2 / epsilon)
    for piece, count in zip(pieces, totals, strict=True):
        cells[piece] = count / grid[piece].size
    return np.asarray(boxes.dot(cells.reshape(-1)))


def _cut(grid: Ints, pieces: list[Piece], scale: Fraction) -> list[Piece]:
    """Every piece in two, at a noisy median of its longest axis."""
    if not pieces:
        return []
    axes = [int(np.argmax(grid[piece].shape)) for piece in pieces]
    slices = [_along(grid[piece], axis) for piece, axis in zip(pieces, axes, strict=True)]
    drawn = np.split(noisy(np.concatenate(slices), scale), np.cumsum([own.size for own in slices])[:-1])
    found: list[Piece] = []
    for piece, axis, own in zip(pieces, axes, drawn, strict=True):
        place = piece[axis].start + median_cut(np.maximum(own, 0.0))
        ends = slice(piece[axis].start, place), slice(place, piece[axis].stop)
        found += [(*piece[:axis], end, *piece[axis + 1 :]) for end in ends]
    return found


def _along(cells: Ints, axis: int) -> Ints:
    return np.asarray(cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis)))
