"""Adaptive tree: boxes that are cut further where records are, every look at the data kept in the estimate.

The grid starts as 16 boxes. Each stage counts all present leaves; then the leaves whose estimate stands well above the
noise are cut into 4 or 16. Nothing is selected in secret: cuts are made from published counts, so that no budget
goes to a selection, and least squares uses the counts of every stage.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from blowfishdb.errors import PlanError
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
from blowfishdb.mechanisms.data_aware.script import Script, shared_program
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Ask, Program, Reply

NAME = "adaptive-tree"


@dataclass(frozen=True)
class AdaptiveTree:
    """Serves any number of axes under any policy; the constants come from `python -m benchmarks tune-spatial`.

    `growth` is the ratio of the shares of two stages: deeper boxes are more, and their noise adds up.
    `unseen_halvings` says how often the grid is halved before anything is counted, `rule` which boxes are cut then.
    """

    name: ClassVar[str] = NAME
    growth: Fraction = Fraction(3, 2)
    unseen_halvings: int = 4
    rule: RecordRule = RECORD_RULE

    def __post_init__(self) -> None:
        if self.growth <= 0 or self.unseen_halvings < 0:
            raise PlanError("shares of stages are positive, and halvings not negative")

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """As many stages as it takes to reach single cells, the later ones with more."""
        check_axes(NAME, problem.graph.shape)
        cuts = sum((size - 1).bit_length() for size in problem.graph.shape) - self.unseen_halvings
        stages = max(0, -(-cuts // HALVINGS)) + 1
        parts = [(f"counts {stage + 1}", self.growth**stage) for stage in range(stages)]
        return shared_program(NAME, epsilon, parts)

    def script(self, problem: Problem, program: Program) -> Script:
        tree, views = yield from self.grown(problem, program)
        return tree_finding(problem, tree, views)

    def grown(self, problem: Problem, program: Program) -> Generator[Ask, Reply, tuple[RegionTree, NodeViews]]:
        """The boxes of the last stage and what all stages counted."""
        tree = whole(problem.graph.shape)
        tree = cut(tree, tree.leaves, halvings(tree.low, tree.high, self.unseen_halvings))
        views = NodeViews.none(tree.nodes)
        for allowance in program.allowances:
            values, variances, total = yield from bucket_counts(problem.graph, tree.labels, allowance)
            views = views.add(tree.leaves, values, variances).with_total(total)
            if allowance is not program.allowances[-1]:
                tree = cut_where_records_are(tree, views, noise_unit(problem.graph, program.epsilon), self.rule)
                views = views.for_nodes(tree.nodes)
        return tree, views
