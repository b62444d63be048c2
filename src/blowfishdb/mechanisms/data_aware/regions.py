"""Trees of regions over a grid, or over its Hilbert curve: cut, measured, made consistent, and read as answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from blowfishdb.errors import Declined, PlanError
from blowfishdb.inference.least_squares import EmptyRule, Tree, TreeSolver, combined
from blowfishdb.mechanisms import identity
from blowfishdb.mechanisms.data_aware import Finding, counts_touched, measured_rows
from blowfishdb.mechanisms.products import as_boxes
from blowfishdb.mechanisms.strategy import row_variances, squared
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Bools, Floats, Ints, as_ints, consecutive, distinct
from blowfishdb.model.workload import AXIS_LIMIT, AllRanges, Identity, Intervals, Rectangles, Rows, as_intervals
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Plan, Problem
from blowfishdb.plan.program import Allowance, MeasurementStage, Reply, StageRequest, merge_graph

JUMPS_AT_ONCE = 2**22


@dataclass(frozen=True)
class HilbertCurve:
    """The order of the cells of a grid with two axes.

    Squares whose side is a power of two stand one behind the other along the longer axis, each filled by a Hilbert
    curve that ends beside the start of the next; cells beyond the grid are left out. Where both sides fill whole
    squares every step leads to a neighbour.
    """

    shape: tuple[int, int]

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise PlanError("a Hilbert curve fills a grid with two axes")

    @property
    def cells(self) -> int:
        return self.shape[0] * self.shape[1]

    @cached_property
    def positions(self) -> Ints:
        """For each cell, row-major, its place on the curve."""
        first, second = np.divmod(np.arange(self.cells), self.shape[1])
        along, across = (first, second) if self.shape[0] >= self.shape[1] else (second, first)
        order = (min(self.shape) - 1).bit_length()
        square, within = along >> order, along & ((1 << order) - 1)
        key = (square << (2 * order)) + square_positions(order, within, across)
        positions = np.empty(self.cells, dtype=np.int64)
        positions[np.argsort(key, kind="stable")] = np.arange(self.cells)
        return positions

    @cached_property
    def cell_at(self) -> Ints:
        """The cell at each place of the curve."""
        cells = np.empty(self.cells, dtype=np.int64)
        cells[self.positions] = np.arange(self.cells)
        return cells

    def runs(self, boxes: Rectangles) -> tuple[Ints, Ints, Ints]:
        """The places that each box covers, as runs: the box, the first place, and one past the last place of each run.

        Runs are ordered by box and place, with gaps between those of one box. They begin and end at the border of the
        box, or where the curve makes a jump, so that only those cells are looked at.
        """
        query, place = self._border(boxes)
        queries, places = self._jumps(boxes)
        span = self.cells + 1
        key = distinct(np.concatenate([query * span + place, queries * span + places]))
        query, place = np.divmod(key, span)
        is_first = (place == 0) | ~self._inside(boxes, query, place - 1)
        is_last = (place == self.cells - 1) | ~self._inside(boxes, query, np.minimum(place + 1, self.cells - 1))
        return query[is_first], place[is_first], place[is_last] + 1

    def cover(self, boxes: Rectangles) -> Callable[[Ints, Ints, Ints], Ints]:
        """How many cells a box counts between two places; takes arrays of boxes, first places and ends."""
        query, low, high = self.runs(boxes)
        span, lengths = self.cells + 1, high - low
        starts, before = query * span + low, np.cumsum(lengths) - lengths

        def up_to(place: Ints) -> Ints:
            """How many cells all runs of all boxes count before the given places."""
            if not starts.size:
                return np.zeros_like(place)
            run = np.maximum(np.searchsorted(starts, place, side="right") - 1, 0)
            return np.asarray(before[run] + np.clip(place - starts[run], 0, lengths[run]))

        return lambda queries, first, last: up_to(queries * span + last) - up_to(queries * span + first)

    def _inside(self, boxes: Rectangles, query: Ints, place: Ints) -> Bools:
        first, second = np.divmod(self.cell_at[place], self.shape[1])
        low, high = boxes.low[query], boxes.high[query]
        return np.asarray((low[:, 0] <= first) & (first < high[:, 0]) & (low[:, 1] <= second) & (second < high[:, 1]))

    def _border(self, boxes: Rectangles) -> tuple[Ints, Ints]:
        """The cells along the four sides of each box, corners more than once."""
        filled = np.flatnonzero(np.all(boxes.low < boxes.high, axis=1))
        queries, places = [], []
        for axis in (0, 1):
            length = (boxes.high - boxes.low)[filled, axis]
            query = np.repeat(filled, length)
            running = consecutive(boxes.low[filled, axis], length)
            for fixed in (boxes.low[query, 1 - axis], boxes.high[query, 1 - axis] - 1):
                first, second = (running, fixed) if axis == 0 else (fixed, running)
                queries.append(query)
                places.append(self.positions[first * self.shape[1] + second])
        return np.concatenate(queries), np.concatenate(places)

    def _jumps(self, boxes: Rectangles) -> tuple[Ints, Ints]:
        """The places on both sides of each jump of the curve, for every box that they lie in."""
        first, second = np.divmod(self.cell_at, self.shape[1])
        step = np.abs(np.diff(first)) + np.abs(np.diff(second))
        jumps = np.flatnonzero(step > 1)
        sides = distinct(np.concatenate([jumps, jumps + 1]))
        queries, places = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        portion = max(1, JUMPS_AT_ONCE // max(sides.size, 1))
        for start in range(0, boxes.shape[0] if sides.size else 0, portion):
            query = np.repeat(np.arange(start, min(start + portion, boxes.shape[0])), sides.size)
            place = np.tile(sides, query.size // sides.size)
            is_inside = self._inside(boxes, query, place)
            queries.append(query[is_inside])
            places.append(place[is_inside])
        return np.concatenate(queries), np.concatenate(places)


def square_positions(order: int, first: Ints, second: Ints) -> Ints:
    """The places of cells on the Hilbert curve of a square of side 2^order; it starts at (0, 0), ends at (side - 1, 0).

    From the largest quarters down: which quarter in the order of the curve, then its coordinates turned so that the
    curve inside looks like the whole one.
    """
    place = np.zeros_like(first)
    one, two = first.copy(), second.copy()
    for bit in reversed(range(order)):
        side = 1 << bit
        upper, right = (one & side) > 0, (two & side) > 0
        place += (side * side) * np.where(upper, np.where(right, 2, 3), np.where(right, 1, 0))
        one, two = one & (side - 1), two & (side - 1)
        flipped = upper & ~right
        one, two = np.where(flipped, side - 1 - one, one), np.where(flipped, side - 1 - two, two)
        turned = ~right
        one, two = np.where(turned, two, one), np.where(turned, one, two)
    return place


@dataclass(frozen=True, eq=False)
class RegionTree:
    """Node i is the box low[i] <= cell < high[i]; node 0 is the whole grid, every parent stands before its children.

    The children of a node part its box: each way to make a tree below cuts a box into boxes. With a `curve` the one
    axis is the places along it, and a node is a segment.
    """

    shape: tuple[int, ...]
    low: Ints
    high: Ints
    parent: Ints
    curve: HilbertCurve | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "parent"):
            object.__setattr__(self, name, as_ints(getattr(self, name)))
        nodes = self.parent.size
        if self.low.shape != (nodes, len(self.shape)) or self.high.shape != self.low.shape:
            raise PlanError("each region needs a lower and an upper bound on every axis")
        if nodes == 0 or np.any(self.parent >= np.arange(nodes)) or int(self.parent[0]) != -1:
            raise PlanError("regions start with the whole grid, and parents stand before their children")
        if np.any(self.low >= self.high):
            raise PlanError("no region is empty")

    @property
    def nodes(self) -> int:
        return int(self.parent.size)

    @property
    def grid(self) -> tuple[int, ...]:
        """The shape of the grid that holds the cells."""
        return self.shape if self.curve is None else self.curve.shape

    @cached_property
    def areas(self) -> Floats:
        """How many cells each region has."""
        return np.asarray(np.prod((self.high - self.low).astype(np.float64), axis=1))

    @cached_property
    def is_leaf(self) -> Bools:
        mask = np.ones(self.nodes, dtype=np.bool_)
        mask[self.parent[1:]] = False
        return mask

    @cached_property
    def leaves(self) -> Ints:
        """The nodes without children, in increasing order; they are the buckets of the partition."""
        return np.flatnonzero(self.is_leaf)

    @cached_property
    def depth(self) -> Ints:
        """How many steps each node is below the whole grid."""
        depth = np.zeros(self.nodes, dtype=np.int64)
        above = self.parent
        while np.any(above >= 0):
            depth += above >= 0
            above = np.where(above >= 0, self.parent[above], -1)
        return depth

    @cached_property
    def by_depth(self) -> list[Ints]:
        """The nodes of each depth."""
        order = np.argsort(self.depth, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.depth))[:-1])

    @cached_property
    def levels(self) -> tuple[list[Ints], Tree]:
        """The nodes of each depth, the deepest first, siblings side by side; and the tree of their places there."""
        place = np.zeros(self.nodes, dtype=np.int64)
        levels, parents = [self.by_depth[0]], []
        for nodes in self.by_depth[1:]:
            order = np.argsort(place[self.parent[nodes]], kind="stable")
            place[nodes[order]] = np.arange(nodes.size)
            levels.append(nodes[order])
            parents.append(place[self.parent[nodes[order]]])
        return levels[::-1], Tree(tuple(parents[::-1]), 1)

    @cached_property
    def labels(self) -> Ints:
        """For each cell of the grid, row-major, the number of its leaf among the leaves."""
        boxes = Rectangles(self.shape, self.low[self.leaves], self.high[self.leaves])
        labels = np.asarray(boxes.transpose_dot(np.arange(self.leaves.size)), dtype=np.int64)
        return labels if self.curve is None else labels[self.curve.positions]


def check_axes(mechanism: str, shape: tuple[int, ...]) -> None:
    """Declined where a box would have too many corners."""
    if len(shape) > AXIS_LIMIT:
        raise Declined(mechanism, f"it serves up to {AXIS_LIMIT} axes, not {len(shape)}")


def whole(shape: tuple[int, ...]) -> RegionTree:
    """The grid itself, uncut."""
    bounds = np.array([shape], dtype=np.int64)
    return RegionTree(shape, np.zeros_like(bounds), bounds, np.array([-1]))


def cut(tree: RegionTree, chosen: Ints, pieces: Ints) -> RegionTree:
    """The tree with each chosen leaf cut into a grid of pieces[i, axis] nearly equal boxes; one piece is no cut.

    Between a leaf and its pieces stand boxes of halved rows and columns of pieces, so that no node has many children.
    """
    if not np.all(tree.is_leaf[chosen]):
        raise PlanError("only a leaf can be cut")
    start, width = tree.low[chosen], tree.high[chosen] - tree.low[chosen]
    pieces = np.clip(pieces, 1, width)
    low, high, parent = [tree.low], [tree.high], [tree.parent]
    node, box, nodes = chosen, np.arange(chosen.size), tree.nodes
    first, last = np.zeros_like(pieces), pieces
    while np.any(is_open := np.any(last - first > 1, axis=1)):
        node, box, first, last = _halves(node[is_open], box[is_open], first[is_open], last[is_open])
        low.append(start[box] + width[box] * first // pieces[box])
        high.append(start[box] + width[box] * last // pieces[box])
        parent.append(node)
        node = nodes + np.arange(node.size)
        nodes += node.size
    return replace(tree, low=np.concatenate(low), high=np.concatenate(high), parent=np.concatenate(parent))


def _halves(node: Ints, box: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Each block of pieces first..last-1 halved on every axis where it has two or more."""
    middle = (first + last) // 2
    halves = []
    for upper in itertools.product((False, True), repeat=first.shape[1]):
        side = np.array(upper)
        is_filled = np.all((middle > first) | side, axis=1)
        bounds = np.where(side, middle, first)[is_filled], np.where(side, last, middle)[is_filled]
        halves.append((node[is_filled], box[is_filled], *bounds))
    whole_node, whole_box, low, high = (np.concatenate(parts) for parts in zip(*halves, strict=True))
    return whole_node, whole_box, low, high


FAN_OUT = 4


def block_tree(curve: HilbertCurve, starts: Ints) -> RegionTree:
    """The tree over the places of a curve whose leaves, its last nodes, are the buckets that start at `starts`.

    A block of 4^j places stands in the tree where it holds two or more buckets.
    """
    places = curve.cells
    lows, highs = [np.zeros(1, dtype=np.int64)], [np.full(1, places)]
    size = FAN_OUT
    while size < places:
        size *= FAN_OUT
    owner = np.zeros(starts.size, dtype=np.int64)
    parents = [np.full(1, -1)]
    nodes = 1
    while size > FAN_OUT:
        size //= FAN_OUT
        block = starts // size
        first = np.flatnonzero(np.diff(block, prepend=-1))
        count = np.diff(np.append(first, starts.size))
        inner = first[count > 1]
        lows.append(block[inner] * size)
        highs.append(np.minimum((block[inner] + 1) * size, places))
        parents.append(owner[inner])
        held = np.repeat(count > 1, count)
        owner[held] = nodes + np.repeat(np.arange(inner.size), count[count > 1])
        nodes += inner.size
    if starts.size > 1:
        lows.append(starts)
        highs.append(np.append(starts[1:], places))
        parents.append(owner)
    low, high = np.concatenate(lows), np.concatenate(highs)
    return RegionTree((places,), low[:, None], high[:, None], np.concatenate(parents), curve)


def halvings(low: Ints, high: Ints, times: int) -> Ints:
    """Pieces per axis when the axis with the longest pieces is halved `times` times, down to single cells."""
    width = high - low
    pieces = np.ones_like(width)
    rows = np.arange(width.shape[0])
    for _ in range(times):
        axis = np.argmax(width / pieces, axis=1)
        pieces[rows, axis] = np.minimum(2 * pieces[rows, axis], width[rows, axis])
    return pieces


@dataclass(frozen=True, eq=False)
class NodeViews:
    """What was measured of each region so far: its inverse-variance mean, infinite variance where nothing was."""

    values: Floats
    variances: Floats

    @staticmethod
    def none(nodes: int) -> NodeViews:
        return NodeViews(np.zeros(nodes), np.full(nodes, np.inf))

    def for_nodes(self, nodes: int) -> NodeViews:
        """The same views when the tree has grown to `nodes` nodes."""
        missing = nodes - self.values.size
        return NodeViews(
            np.pad(self.values, (0, missing)), np.pad(self.variances, (0, missing), constant_values=np.inf)
        )

    def add(self, nodes: Ints, values: Floats, variances: Floats) -> NodeViews:
        """With one more view of each of the given nodes."""
        mean, spread = self.values.copy(), self.variances.copy()
        mean[nodes], spread[nodes] = combined(mean[nodes], spread[nodes], values, variances)
        return NodeViews(mean, spread)

    def with_total(self, total: float | None) -> NodeViews:
        """With the exact count of the whole grid, where it is known."""
        if total is None:
            return self
        return self.add(np.zeros(1, dtype=np.int64), np.array([total]), np.zeros(1))


@dataclass(frozen=True, eq=False)
class TreeEstimate:
    """The least squares count of every region, and the solver that gave it."""

    tree: RegionTree
    values: Floats
    solver: TreeSolver

    @cached_property
    def cells(self) -> Floats:
        """Every cell's share of its leaf, all cells of a leaf alike."""
        leaves = self.tree.leaves
        return np.asarray((self.values / self.tree.areas)[leaves][self.tree.labels])


def least_squares(tree: RegionTree, views: NodeViews) -> TreeEstimate:
    """Weighted least squares: the count of every region, children adding up to their parents."""
    if not np.all(np.isfinite(views.variances[tree.leaves])):
        raise PlanError("every leaf has to be measured at least once")
    levels, nodes = tree.levels
    solver = TreeSolver(nodes, tuple(views.variances[level] for level in levels))
    return TreeEstimate(tree, _by_number(tree, solver.estimate([views.values[level] for level in levels])), solver)


EMPTY_RULE = EmptyRule(4.0, 2.0, 0.1)
"""Found by `python -m benchmarks tune-spatial` on synthetic grids."""


def not_negative(estimate: TreeEstimate, rule: EmptyRule = EMPTY_RULE) -> TreeEstimate:
    """The estimate with no count below 0, and 0 where little beside much is no more than noise."""
    values = estimate.solver.not_negative([estimate.values[level] for level in estimate.tree.levels[0]], rule)
    return replace(estimate, values=_by_number(estimate.tree, values))


def _by_number(tree: RegionTree, values: Sequence[Floats]) -> Floats:
    """The values of all levels in the order of the nodes."""
    numbered = np.empty(tree.nodes)
    numbered[np.concatenate(tree.levels[0])] = np.concatenate(values)
    return numbered


VISITS = 200_000_000
"""Beyond about this many pairs of a query and a region the bound of the leaves alone is given instead."""
VISITS_AT_ONCE = 2_000_000


CellCover: TypeAlias = Callable[[Ints, Ints], Ints]
"""How many cells of each node its query counts, for queries that count cells once; one query for each node."""


def box_cover(tree: RegionTree, boxes: Rectangles) -> CellCover:
    """Boxes of the grid over the regions of a tree."""

    def cells(queries: Ints, nodes: Ints) -> Ints:
        stop = np.minimum(tree.high[nodes], boxes.high[queries])
        return np.asarray(np.prod(np.maximum(stop - np.maximum(tree.low[nodes], boxes.low[queries]), 0), axis=1))

    if tree.curve is None:
        return cells
    between = tree.curve.cover(boxes)
    return lambda queries, nodes: between(queries, tree.low[nodes, 0], tree.high[nodes, 0])


def answer_variances(workload: Rows, estimate: TreeEstimate, views: NodeViews) -> Floats:
    """The variance of each answer; for queries that are not boxes, or too many, an upper bound."""
    tree = estimate.tree
    boxes = _boxes(workload, tree.grid)
    if boxes is None or boxes.shape[0] * visits(tree) > VISITS:
        return leaf_bound(workload, tree, views)
    return cover_variances(box_cover(tree, boxes), boxes.shape[0], estimate)


def cover_variances(cover: CellCover, count: int, estimate: TreeEstimate) -> Floats:
    """The variance of each of `count` queries, exact."""
    tree, levels = estimate.tree, estimate.tree.levels[0]

    def covered(queries: Ints, level: int, places: Ints) -> Floats:
        nodes = levels[level][places]
        return np.asarray(cover(queries, nodes) / tree.areas[nodes])

    size = max(1, VISITS_AT_ONCE // visits(tree))
    chunks = [
        estimate.solver.variances_of(covered, np.arange(start, min(start + size, count)))
        for start in range(0, count, size)
    ]
    return np.concatenate(chunks)


def visits(tree: RegionTree) -> int:
    """The approximate number of regions that the border of a query meets."""
    axes = len(tree.grid)
    return int(8 * axes * len(tree.by_depth) + 4 * axes * tree.leaves.size ** ((axes - 1) / axes))


def leaf_bound(workload: Rows, tree: RegionTree, views: NodeViews) -> Floats:
    """A bound on the variance of each answer, from the measurements of the leaves alone: least squares is never worse.

    A query's weight on a leaf is its mean over the leaf's cells, whose square is at most the mean of the squares.
    """
    per_cell = (views.variances / tree.areas)[tree.leaves][tree.labels]
    return np.asarray(squared(workload).dot(per_cell), dtype=np.float64)


def _boxes(workload: Rows, shape: tuple[int, ...]) -> Rectangles | None:
    if len(shape) == 1 and not isinstance(workload, AllRanges):
        spans = as_intervals(workload)
        if spans is not None:
            return Rectangles(shape, spans.low[:, None], spans.high[:, None])
    return as_boxes(workload, shape)


HALVINGS = 4
"""A cut halves at most four times, the longest axis first: 16 pieces."""
CUTS = (2, HALVINGS)
"""Boxes are cut into 4 or into 16."""


@dataclass(frozen=True)
class RecordRule:
    """When a box is cut: it holds `per_piece` records for each piece, in units of the noise scale of the whole epsilon,
    and its count is `clearance` standard deviations above 0.
    """

    per_piece: float
    clearance: float

    def __post_init__(self) -> None:
        if self.per_piece < 0 or self.clearance < 0:
            raise PlanError("what a box must hold to be cut is not negative")


RECORD_RULE = RecordRule(3.0, 5.0)
"""Found by `python -m benchmarks tune-spatial` on synthetic grids."""


def noise_unit(graph: CellGraph, epsilon: Fraction) -> float:
    """The noise scale of a count on which the whole epsilon were spent."""
    return float(counts_touched(graph) / epsilon)


def cut_where_records_are(
    tree: RegionTree, views: NodeViews, unit: float, rule: RecordRule = RECORD_RULE
) -> RegionTree:
    """The tree with every leaf cut into as many pieces as it holds enough records for."""
    leaves = tree.leaves
    counts = least_squares(tree, views).values[leaves]
    is_clear = counts > rule.clearance * np.sqrt(views.variances[leaves])
    pieces = np.ones((leaves.size, len(tree.shape)), dtype=np.int64)
    for times in CUTS:
        more = halvings(tree.low[leaves], tree.high[leaves], times)
        enough = is_clear & (counts > rule.per_piece * unit * np.prod(more, axis=1))
        pieces[enough] = more[enough]
    return cut(tree, leaves, pieces)


def bucket_counts(
    graph: CellGraph, buckets: Ints | None, allowance: Allowance
) -> Generator[StageRequest, Reply, tuple[Floats, Floats, float | None]]:
    """Every bucket (every cell where no buckets are given) measured alike, at the whole allowance.

    Gives the counts, their noise variances, and the number of records where the policy lets everybody know it. Buckets
    that no edge of the policy touches come exactly.
    """
    merged = graph if buckets is None else merge_graph(graph, buckets)
    strategy = identity.propose(Problem(merged, Identity(merged.cells)))
    noisy, alone = strategy.noisy, strategy.roots
    low, high = alone, alone + 1
    if has_total := bool(np.all(merged.components() == 0)):
        low, high = np.append(low, 0), np.append(high, merged.cells)
    plan = Plan(Fraction(1), strategy.plan(Fraction(1)).parts, Intervals(merged.cells, low, high) if low.size else None)
    if plan.parts:
        plan, _ = calibrate(plan, merged, allowance.epsilon)
    measured = measured_rows((yield StageRequest(allowance.stage, MeasurementStage(plan), buckets)))
    values, variances = np.zeros(merged.cells), np.zeros(merged.cells)
    values[noisy], values[alone] = measured.noisy, measured.exact[: alone.size]
    variances[noisy] = row_variances(plan)[0] if plan.parts else 0.0
    return values, variances, float(measured.exact[-1]) if has_total else None


def tree_finding(problem: Problem, tree: RegionTree, views: NodeViews) -> Finding:
    """The least squares counts of the leaves, never negative, spread evenly over their cells."""
    estimate = least_squares(tree, views)
    cells = not_negative(estimate).cells
    answers, linear = (np.asarray(problem.workload.dot(each), dtype=np.float64) for each in (cells, estimate.cells))
    spread = answer_variances(problem.workload, estimate, views)
    return Finding(cells, answers, spread, tree.labels, adjusted=np.abs(answers - linear))
