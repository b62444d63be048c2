"""kd-tree: noisy cells show where to cut the grid, the boxes are counted again, and both views are combined."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.data_aware.script import Script
from blowfishdb.mechanisms.data_aware.tree_finding import tree_finding
from blowfishdb.mechanisms.spatial.bucket_counts import bucket_counts
from blowfishdb.mechanisms.spatial.kd_cuts import KdThresholds, kd_tree, predicted_cut
from blowfishdb.mechanisms.spatial.region_tree import check_axes
from blowfishdb.mechanisms.spatial.shares import shared_program
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Program

NAME = "kdtree"
UNSEEN_BOXES = 256
"""Without thresholds the grid is first halved into so many boxes; found by `python -m benchmarks tune-spatial`."""
SMALL_BOX = 64
"""Boxes of no more cells than this are never halved unseen."""


@dataclass(frozen=True)
class KdTree:
    """Serves any number of axes under any policy; without thresholds cuts are made by predicted error.

    `cell_share` is the part of epsilon that the noisy cells get; a record that moves costs each stage twice.
    `unseen_boxes` is how many boxes the grid is halved into before cuts follow the noisy cells.
    """

    cell_share: Fraction = Fraction(1, 2)
    thresholds: KdThresholds | None = None
    unseen_boxes: int = UNSEEN_BOXES

    def __post_init__(self) -> None:
        if not 0 < self.cell_share < 1 or self.unseen_boxes < 1:
            raise PlanError("both stages get a part of epsilon, and there is at least one box")

    @property
    def name(self) -> str:
        return NAME

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Two stages: the cells, then the boxes made from them."""
        check_axes(NAME, problem.graph.shape)
        return shared_program(NAME, epsilon, [("cells", self.cell_share), ("partition", 1 - self.cell_share)])

    def script(self, problem: Problem, program: Program) -> Script:
        shape = problem.graph.shape
        cells_stage, partition_stage = program.allowances
        asked = bucket_counts(problem.graph, None, cells_stage)
        cells, variances = asked.read((yield asked.ask))
        predicted = predicted_cut(float(variances.max()), max(SMALL_BOX, cells.size // self.unseen_boxes))
        choose = self.thresholds.choose if self.thresholds else predicted
        tree = kd_tree(cells.reshape(shape), choose)
        views = NodeViews.none(tree.nodes)
        summed, spread = (np.bincount(tree.labels, weights=each).astype(np.float64) for each in (cells, variances))
        views = views.add(tree.leaves, summed, spread)
        asked = bucket_counts(problem.graph, tree.labels, partition_stage)
        reply = yield asked.ask
        views = views.add(tree.leaves, *asked.read(reply))
        return tree_finding(problem, tree, views.with_total(asked.total(reply)))
