"""Boxes of a grid that follow the data: kd-tree, cells and adaptive tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeAlias

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.data_aware import Finding, Script, shared_program
from blowfishdb.mechanisms.data_aware.regions import (
    HALVINGS,
    RECORD_RULE,
    NodeViews,
    RecordRule,
    RegionTree,
    bucket_counts,
    check_axes,
    cut,
    cut_where_records_are,
    halvings,
    noise_unit,
    tree_finding,
    whole,
)
from blowfishdb.mechanisms.parameters import Parameter
from blowfishdb.mechanisms.strategy import squared
from blowfishdb.model.numbers import Floats
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Program, Reply, StageRequest

CLEARANCE = Fraction(4)
"""How many standard deviations stand between what noise does and what is taken for a difference."""
RECORDS_PER_BOX = Fraction(24)
"""A box with more records than this, in standard deviations of one cell's noise, is halved in any case."""
LAPLACE_KURTOSIS = 6.0

Chooser: TypeAlias = Callable[[Floats], tuple[int, int] | None]
"""For the noisy cells of a box: the axis and the place before which to cut it, or None to leave it whole."""


def predicted_cut(
    variance: float, largest: int, clearance: Fraction = CLEARANCE, records: Fraction = RECORDS_PER_BOX
) -> Chooser:
    """Cuts where the noisy cells differ by more than their noise can explain; `variance` is that of one cell.

    Boxes of more than `largest` cells are halved unseen: in their sum the noise of the cells hides the records.

    A cut between a cells of mean p and b cells of mean q lowers the summed squared error by (p - q)^2 ab / (a + b);
    noise alone gives `variance` on average. A box without such a cut may hide a few full cells, or a slope below the
    noise: it is halved while its cells spread more than noise does, or while it holds many records. `clearance` and
    `records` say what "more" and "many" mean.
    """
    beyond, many = float(clearance), float(records)

    def choose(cells: Floats) -> tuple[int, int] | None:
        if cells.size == 1:
            return None
        middle = int(np.argmax(cells.shape)), max(cells.shape) // 2
        if cells.size > largest:
            return middle
        best, where = max((_gain(along(cells, axis), axis, cells) for axis in range(cells.ndim)), key=lambda it: it[0])
        candidates = sum(cells.shape) - cells.ndim
        if best > variance * (2.0 * math.log(max(candidates, 2)) + beyond**2):
            return where
        excess = float(np.square(cells - cells.mean()).sum()) - (cells.size - 1) * variance
        is_full = float(cells.sum()) > many * math.sqrt(variance)
        if is_full or excess > beyond * variance * math.sqrt((LAPLACE_KURTOSIS - 1.0) * cells.size):
            return middle
        return None

    return choose


def kd_tree(cells: Floats, choose: Chooser) -> RegionTree:
    """The boxes into which the noisy cells are cut, each below the box it was cut from."""
    low, high, parent = [np.zeros(cells.ndim, dtype=np.int64)], [np.array(cells.shape, dtype=np.int64)], [-1]
    node = 0
    while node < len(parent):
        first, last = low[node], high[node]
        where = choose(cells[tuple(slice(a, b) for a, b in zip(first, last, strict=True))])
        if where is not None:
            axis, place = where
            middle_last, middle_first = last.copy(), first.copy()
            middle_last[axis] = middle_first[axis] = first[axis] + place
            low += [first, middle_first]
            high += [middle_last, last]
            parent += [node, node]
        node += 1
    return RegionTree(cells.shape, np.array(low), np.array(high), np.array(parent))


def along(cells: Floats, axis: int) -> Floats:
    """The summed counts of each slice across one axis."""
    return np.asarray(cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis)))


def _gain(slices: Floats, axis: int, cells: Floats) -> tuple[float, tuple[int, int]]:
    """The most that one cut across the axis lowers the summed squared error, and where."""
    if slices.size == 1:
        return -1.0, (axis, 0)
    per_slice = cells.size / slices.size
    sums = np.cumsum(slices)
    before = np.arange(1, slices.size) * per_slice
    after = cells.size - before
    step = sums[:-1] / before - (sums[-1] - sums[:-1]) / after
    gains = step**2 * before * after / cells.size
    best = int(np.argmax(gains))
    return float(gains[best]), (axis, best + 1)


CELLS = "cells"


@dataclass(frozen=True)
class CellBased:
    """One noisy count for every cell. Serves every problem: the same counts whatever the queries."""

    name: ClassVar[str] = CELLS

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage with the whole epsilon."""
        del problem
        return shared_program(CELLS, epsilon, [("cells", Fraction(1))])

    def script(self, problem: Problem, program: Program) -> Script:
        cells, variances, _ = yield from bucket_counts(problem.graph, None, program.allowances[0])
        answers = np.asarray(problem.workload.dot(cells), dtype=np.float64)
        spread = np.asarray(squared(problem.workload).dot(variances), dtype=np.float64)
        return Finding(cells, answers, spread, np.arange(cells.size), own=variances)


NAME = "kdtree"
UNSEEN_BOXES = 256
"""The number of boxes that the grid is first halved into; found by `python -m benchmarks tune-spatial`."""
SMALL_BOX = 64
"""Boxes of no more cells than this are never halved unseen."""
CELLS_SHARE = Fraction(1, 2)
PARAMETERS = (
    Parameter(
        "split",
        "The part of epsilon that counts the cells by which boxes are cut; the counts of the boxes get the rest.",
        Fraction(1, 100),
        Fraction(99, 100),
        CELLS_SHARE,
        field="cells_share",
    ),
    Parameter(
        "boxes",
        "How many boxes the grid is halved into before cuts follow the noisy cells.",
        Fraction(1),
        Fraction(10**6),
        Fraction(UNSEEN_BOXES),
        is_whole=True,
        field="unseen_boxes",
    ),
    Parameter(
        "clearance",
        "How many standard deviations of its noise a difference must exceed for a box to be cut there.",
        Fraction(0),
        Fraction(100),
        CLEARANCE,
    ),
    Parameter(
        "records",
        "A box with more records than this, in standard deviations of a cell's noise, is halved in any case.",
        Fraction(0),
        Fraction(10**6),
        RECORDS_PER_BOX,
    ),
)


@dataclass(frozen=True)
class KdTree:
    """Serves any number of axes under any policy; cuts are made by predicted error, or as `choose` says.

    Cells get `cells_share` of epsilon and boxes the rest; a record that moves costs each stage twice. `unseen_boxes`
    is how many boxes the grid is halved into before cuts follow the noisy cells, by `clearance` and `records`.
    """

    name: ClassVar[str] = NAME
    choose: Chooser | None = None
    unseen_boxes: int = UNSEEN_BOXES
    cells_share: Fraction = CELLS_SHARE
    clearance: Fraction = CLEARANCE
    records: Fraction = RECORDS_PER_BOX

    def __post_init__(self) -> None:
        if self.unseen_boxes < 1 or not 0 < self.cells_share < 1:
            raise PlanError("there is at least one box, and something of epsilon for cells and for boxes")

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Two stages: the cells, then the boxes made from them."""
        check_axes(NAME, problem.graph.shape)
        return shared_program(NAME, epsilon, [("cells", self.cells_share), ("partition", 1 - self.cells_share)])

    def script(self, problem: Problem, program: Program) -> Script:
        cells_stage, partition_stage = program.allowances
        cells, spread, _ = yield from bucket_counts(problem.graph, None, cells_stage)
        largest = max(SMALL_BOX, cells.size // self.unseen_boxes)
        predicted = predicted_cut(float(spread.max()), largest, self.clearance, self.records)
        tree = kd_tree(cells.reshape(problem.graph.shape), self.choose or predicted)
        summed, spread = (np.bincount(tree.labels, weights=each).astype(np.float64) for each in (cells, spread))
        views = NodeViews.none(tree.nodes).add(tree.leaves, summed, spread)
        values, variances, total = yield from bucket_counts(problem.graph, tree.labels, partition_stage)
        return tree_finding(problem, tree, views.add(tree.leaves, values, variances).with_total(total))


ADAPTIVE = "adaptive-tree"
GROWTH, UNSEEN_HALVINGS = Fraction(3, 2), 4
ADAPTIVE_PARAMETERS = (
    Parameter(
        "growth",
        "The ratio of the parts of epsilon of two stages, the later one to the one before.",
        Fraction(1, 4),
        Fraction(4),
        GROWTH,
    ),
    Parameter(
        "halvings",
        "How often the grid is halved before anything is counted.",
        Fraction(0),
        Fraction(20),
        Fraction(UNSEEN_HALVINGS),
        is_whole=True,
        field="unseen_halvings",
    ),
    Parameter(
        "records",
        "How many records for each piece a box must hold to be cut, in noise scales of the whole epsilon.",
        Fraction(0),
        Fraction(10**6),
        Fraction(RECORD_RULE.per_piece),
        field="per_piece",
    ),
    Parameter(
        "clearance",
        "How many standard deviations above 0 the count of a box must be for it to be cut.",
        Fraction(0),
        Fraction(100),
        Fraction(RECORD_RULE.clearance),
    ),
)


@dataclass(frozen=True)
class AdaptiveTree:
    """Boxes that are cut further where records are, every look at the data kept in the estimate.

    The grid starts as 16 boxes. Each stage counts all present leaves; then the leaves whose estimate stands well above
    the noise are cut into 4 or 16. Nothing is selected in secret: cuts are made from published counts, so that no
    budget goes to a selection, and least squares uses the counts of every stage. Serves any number of axes under any
    policy; the constants come from `python -m benchmarks tune-spatial`.

    `growth` is the ratio of the shares of two stages: deeper boxes are more, and their noise adds up.
    `unseen_halvings` says how often the grid is halved before anything is counted, `per_piece` and `clearance` which
    boxes are cut then (see RecordRule).
    """

    name: ClassVar[str] = ADAPTIVE
    growth: Fraction = GROWTH
    unseen_halvings: int = UNSEEN_HALVINGS
    per_piece: Fraction = Fraction(RECORD_RULE.per_piece)
    clearance: Fraction = Fraction(RECORD_RULE.clearance)

    def __post_init__(self) -> None:
        if self.growth <= 0 or self.unseen_halvings < 0:
            raise PlanError("shares of stages are positive, and halvings not negative")

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """As many stages as it takes to reach single cells, the later ones with more."""
        check_axes(ADAPTIVE, problem.graph.shape)
        cuts = sum((size - 1).bit_length() for size in problem.graph.shape) - self.unseen_halvings
        stages = max(0, -(-cuts // HALVINGS)) + 1
        parts = [(f"counts {stage + 1}", self.growth**stage) for stage in range(stages)]
        return shared_program(ADAPTIVE, epsilon, parts)

    def script(self, problem: Problem, program: Program) -> Script:
        tree, views = yield from self.grown(problem, program)
        return tree_finding(problem, tree, views)

    def grown(self, problem: Problem, program: Program) -> Generator[StageRequest, Reply, tuple[RegionTree, NodeViews]]:
        """The boxes of the last stage and what all stages counted."""
        tree, rule = whole(problem.graph.shape), RecordRule(float(self.per_piece), float(self.clearance))
        tree = cut(tree, tree.leaves, halvings(tree.low, tree.high, self.unseen_halvings))
        views = NodeViews.none(tree.nodes)
        for allowance in program.allowances:
            values, variances, total = yield from bucket_counts(problem.graph, tree.labels, allowance)
            views = views.add(tree.leaves, values, variances).with_total(total)
            if allowance is not program.allowances[-1]:
                tree = cut_where_records_are(tree, views, noise_unit(problem.graph, program.epsilon), rule)
                views = views.for_nodes(tree.nodes)
        return tree, views
