"""Adaptive grid: a coarse grid is counted first, then each of its boxes is cut as finely as its count deserves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.data_aware.script import Script
from blowfishdb.mechanisms.data_aware.tree_finding import tree_finding
from blowfishdb.mechanisms.spatial.bucket_counts import bucket_counts
from blowfishdb.mechanisms.spatial.noisy_total import ask_total, records_per_noise, total_share
from blowfishdb.mechanisms.spatial.region_tree import check_two_axes, cut, whole
from blowfishdb.mechanisms.spatial.shares import shared_program
from blowfishdb.mechanisms.spatial.tree_estimate import least_squares
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Program

NAME = "agrid"
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
        return NAME

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """The number of records, then half of the rest for each level."""
        check_two_axes(NAME, problem.graph.shape)
        share = total_share(problem.graph)
        half = (1 - share) / 2
        return shared_program(NAME, epsilon, [("total", share), ("coarse", half), ("fine", half)])

    def script(self, problem: Problem, program: Program) -> Script:
        graph = problem.graph
        total_stage, coarse_stage, fine_stage = program.allowances
        views = yield from ask_total(problem, total_stage)
        records = records_per_noise(float(views.values[0]), graph, program.epsilon)
        side = max(COARSE_SIDE, math.ceil(math.sqrt(records / RECORDS_PER_COARSE_BOX)))
        tree = whole(graph.shape)
        tree = cut(tree, tree.leaves, np.full((1, 2), side))
        asked = bucket_counts(graph, tree.labels, coarse_stage)
        values, variances = asked.read((yield asked.ask))
        views = views.for_nodes(tree.nodes).add(tree.leaves, values, variances)
        coarse = least_squares(tree, views).values[tree.leaves]
        deserved = records_per_noise(1.0, graph, fine_stage.epsilon) * np.maximum(coarse, 0.0) / RECORDS_PER_FINE_BOX
        sides = np.maximum(1, np.ceil(np.sqrt(deserved))).astype(np.int64)
        tree = cut(tree, tree.leaves, np.stack([sides, sides], axis=1))
        asked = bucket_counts(graph, tree.labels, fine_stage)
        values, variances = asked.read((yield asked.ask))
        return tree_finding(problem, tree, views.for_nodes(tree.nodes).add(tree.leaves, values, variances))
