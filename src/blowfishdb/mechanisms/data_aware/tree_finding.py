"""What a script over nested regions ends with: cells, answers and their noise from the views of the regions."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.data_aware.script import Finding
from blowfishdb.mechanisms.spatial.answer_variances import answer_variances
from blowfishdb.mechanisms.spatial.not_negative import not_negative
from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews, least_squares
from blowfishdb.plan.problem import Problem


def tree_finding(problem: Problem, tree: RegionTree, views: NodeViews) -> Finding:
    """The least squares counts of the leaves, never negative, spread evenly over their cells."""
    estimate = least_squares(tree, views)
    cells = not_negative(estimate).cells
    answers, linear = (np.asarray(problem.workload.dot(each), dtype=np.float64) for each in (cells, estimate.cells))
    spread = answer_variances(problem.workload, estimate, views)
    return Finding(cells, answers, spread, tree.labels, adjusted=np.abs(answers - linear))
