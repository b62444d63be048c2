"""Adaptive tree: boxes that are cut further where records are, every look at the data kept in the estimate.

The grid starts as 16 boxes. Each stage counts all present leaves; then the leaves whose estimate stands well above the
noise are cut into 4 or 16. Nothing is selected in secret: cuts are made from published counts, so that no budget
goes to a selection, and least squares uses the counts of every stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.mechanisms.data_aware.script import Script
from blowfishdb.mechanisms.data_aware.tree_finding import tree_finding
from blowfishdb.mechanisms.spatial.bucket_counts import bucket_counts
from blowfishdb.mechanisms.spatial.record_cuts import HALVINGS, cut_where_records_are, noise_unit
from blowfishdb.mechanisms.spatial.region_tree import check_axes, cut, halvings, whole
from blowfishdb.mechanisms.spatial.shares import shared_program
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Program

NAME = "adaptive-tree"
GROWTH = Fraction(5, 4)
"""Each stage gets this many times the share of the stage before: deeper boxes are more, and their noise adds up."""


@dataclass(frozen=True)
class AdaptiveTree:
    """Serves any number of axes under any policy."""

    @property
    def name(self) -> str:
        return NAME

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """As many stages as it takes to reach single cells, the later ones with more."""
        check_axes(NAME, problem.graph.shape)
        parts = [(f"counts {stage + 1}", GROWTH**stage) for stage in range(_stages(problem.graph.shape))]
        return shared_program(NAME, epsilon, parts)

    def script(self, problem: Problem, program: Program) -> Script:
        shape = problem.graph.shape
        tree = whole(shape)
        tree = cut(tree, tree.leaves, halvings(tree.low, tree.high, HALVINGS))
        views = NodeViews.none(tree.nodes)
        for allowance in program.allowances:
            asked = bucket_counts(problem.graph, tree.labels, allowance)
            reply = yield asked.ask
            views = views.add(tree.leaves, *asked.read(reply)).with_total(asked.total(reply))
            if allowance is not program.allowances[-1]:
                tree = cut_where_records_are(tree, views, noise_unit(problem.graph, program.epsilon))
                views = views.for_nodes(tree.nodes)
        return tree_finding(problem, tree, views)


def _stages(shape: tuple[int, ...]) -> int:
    cuts = sum((size - 1).bit_length() for size in shape)
    return max(1, -(-cuts // HALVINGS))
