"""Uniform grid: equal boxes, as many as the number of records and epsilon suggest, each counted once."""

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
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Program

NAME = "ugrid"
RECORDS_PER_BOX = 10.0
"""Boxes hold about so many records, in units of the noise scale: fewer drown in noise, more hide what is inside."""


@dataclass(frozen=True)
class UniformGrid:
    """Serves two axes under any policy; the number of records is counted first unless it is public."""

    @property
    def name(self) -> str:
        return NAME

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """The number of records, then the boxes."""
        check_two_axes(NAME, problem.graph.shape)
        share = total_share(problem.graph)
        return shared_program(NAME, epsilon, [("total", share), ("grid", 1 - share)])

    def script(self, problem: Problem, program: Program) -> Script:
        total_stage, grid_stage = program.allowances
        views = yield from ask_total(problem, total_stage)
        records = records_per_noise(float(views.values[0]), problem.graph, grid_stage.epsilon)
        side = max(1, math.ceil(math.sqrt(records / RECORDS_PER_BOX)))
        tree = whole(problem.graph.shape)
        tree = cut(tree, tree.leaves, np.full((1, 2), side))
        asked = bucket_counts(problem.graph, tree.labels, grid_stage)
        values, variances = asked.read((yield asked.ask))
        return tree_finding(problem, tree, views.for_nodes(tree.nodes).add(tree.leaves, values, variances))
