"""UGrid and AGrid (Qardaji, Yang, Li 2013): a grid as fine as the number of records and epsilon suggest."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.regions import (
    NodeViews,
    bucket_counts,
    cut,
    least_squares,
    noise_unit,
    tree_finding,
    whole,
)
from blowfishdb.mechanisms.data_aware.script import Script, shared_program
from blowfishdb.model.graphs import CellGraph
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Allowance, Ask, Program, Reply

# How many records there are, as far as a grid needs to know it: exactly where it is public, else at a small share.

TOTAL_SHARE = Fraction(1, 20)


def check_two_axes(mechanism: str, shape: tuple[int, ...]) -> None:
    """Declined where the cells do not lie on a plane."""
    if len(shape) != 2:
        raise Declined(mechanism, f"it needs two axes, not {len(shape)}")


def total_share(graph: CellGraph) -> Fraction:
    """The part of epsilon that the number of records takes."""
    return Fraction(0) if np.all(graph.components() == 0) else TOTAL_SHARE


def ask_total(problem: Problem, allowance: Allowance) -> Generator[Ask, Reply, NodeViews]:
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
