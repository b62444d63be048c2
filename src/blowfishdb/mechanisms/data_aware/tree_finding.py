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
    """The least squares counts of the leaves, never negative, spread evenly over their cells.

    The variances are those of least squares that may be negative.
    """
    estimate = least_squares(tree, views)
    cells = not_negative(estimate).cells
    answers = np.asarray(problem.workload.dot(cells), dtype=np.float64)
    return Finding(cells, answers, answer_variances(problem.workload, estimate, views), tree.labels)
