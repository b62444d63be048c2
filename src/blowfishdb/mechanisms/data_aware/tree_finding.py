"""What a script over nested regions ends with: cells, answers and their noise from the views of the regions."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.data_aware.script import Finding
from blowfishdb.mechanisms.spatial.answer_variances import answer_variances
from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews, least_squares
from blowfishdb.plan.problem import Problem


def tree_finding(problem: Problem, tree: RegionTree, views: NodeViews) -> Finding:
    """The least squares counts of the leaves, spread evenly over their cells."""
    estimate = least_squares(tree, views)
    answers = np.asarray(problem.workload.dot(estimate.cells), dtype=np.float64)
    return Finding(estimate.cells, answers, answer_variances(problem.workload, estimate, views), tree.labels)
