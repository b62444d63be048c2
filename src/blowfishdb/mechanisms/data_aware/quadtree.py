"""Quadtree: every level of halved boxes down to the cells is counted, the deeper with geometrically larger shares."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.script import Script, hides_anything
from blowfishdb.mechanisms.data_aware.tree_finding import tree_finding
from blowfishdb.mechanisms.replies import measured_rows
from blowfishdb.mechanisms.row_variances import row_variances
from blowfishdb.mechanisms.spatial.product_levels import ProductLevel, halving_levels, product_tree
from blowfishdb.mechanisms.spatial.region_tree import check_two_axes
from blowfishdb.mechanisms.spatial.shares import shared_program
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.workload import total
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Ask, MeasurementStage, Program

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
