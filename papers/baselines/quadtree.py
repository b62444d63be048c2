"""QuadTree (Cormode et al. 2012): every level of halved boxes is counted, deeper ones with larger shares."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.regions import NodeViews, RegionTree, tree_finding
from blowfishdb.mechanisms.data_aware.script import Script, hides_anything, measured_rows, shared_program
from blowfishdb.mechanisms.strategy import row_variances
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.workload import Intervals, total
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem
from blowfishdb.plan.program import Ask, MeasurementStage, Program
from papers.baselines.grids import check_two_axes

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

NAME = "quadtree"
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
        return NAME

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage with the whole epsilon."""
        graph = problem.graph
        check_two_axes(NAME, graph.shape)
        if graph.cells == 1 or not hides_anything(graph):
            raise Declined(NAME, "the policy hides nothing among these cells: ask for `cells`, they are exact")
        return shared_program(NAME, epsilon, [("levels", Fraction(1))])

    def script(self, problem: Problem, program: Program) -> Script:
        graph = problem.graph
        levels = halving_levels(graph.shape)
        plan = levels_plan(graph, levels)
        plan, _ = calibrate(plan, graph, program.epsilon)
        measured = measured_rows((yield Ask(program.allowances[0].stage, MeasurementStage(plan))))
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
