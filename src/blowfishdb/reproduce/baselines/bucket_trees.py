"""How the DAWA paper measures buckets: a binary tree over them with one of several sets of weights."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np

from blowfishdb.mechanisms.data_aware.bucket_strategy import one_run, plan_buckets
from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.greedy_weights import GreedyTree, greedy_weights
from blowfishdb.mechanisms.data_aware.partial_variances import answer_variances
from blowfishdb.mechanisms.data_aware.script import Finding, Script
from blowfishdb.mechanisms.data_aware.weighted_tree import weighted_tree
from blowfishdb.mechanisms.replies import measured_rows
from blowfishdb.mechanisms.row_variances import row_variances
from blowfishdb.model.arrays import Floats
from blowfishdb.model.rows import Rows
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.merged import merge_graph
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Ask, MeasurementStage

Weights = Literal["greedy", "uniform", "geometric", "laplace", "ours"]
"""The paper's choice for the workload, all nodes alike, more for lower nodes, buckets alone; or what `dawa` does."""


def measured_buckets(problem: Problem, buckets: Buckets, weights: Weights, stage: str, epsilon: Fraction) -> Script:
    """The last stage of a script: buckets that are public by now, measured at a cost of epsilon."""
    merged = merge_graph(problem.graph, buckets.of_cells)
    if weights == "ours":
        planned = plan_buckets(merged, buckets, problem.workload, epsilon)
        found = measured_rows((yield Ask(stage, MeasurementStage(planned.plan), buckets.of_cells)))
        cells = buckets.spread(planned.totals(found.noisy, found.exact))
        return Finding(cells, np.asarray(problem.workload.dot(cells)), planned.answer_variances, buckets.of_cells)
    tree = weighted_tree(one_run(buckets.count), _tree(buckets, problem.workload, weights))
    plan, _ = calibrate(Plan(Fraction(1), tree.parts), merged, epsilon)
    measured = measured_rows((yield Ask(stage, MeasurementStage(plan), buckets.of_cells)))
    spread = row_variances(plan)
    cells = buckets.spread(tree.estimate(measured.noisy.astype(np.float64), np.empty(0), spread))
    variances = answer_variances(buckets, tree, problem.workload, spread)
    return Finding(cells, np.asarray(problem.workload.dot(cells)), variances, buckets.of_cells)


def _tree(buckets: Buckets, workload: Rows, weights: Weights) -> GreedyTree:
    if weights == "greedy":
        ranges = buckets.partial_ranges(workload)
        if ranges is None:
            raise ValueError("the paper's weights are for ranges")
        return greedy_weights(buckets.count, ranges)
    levels = level_weights(weights, max(buckets.count - 1, 0).bit_length() + 1)
    sizes = [-(-buckets.count // 2**height) for height in range(levels.size)]
    return GreedyTree(tuple(np.full(size, weight) for size, weight in zip(sizes, levels, strict=True)), 0.0)


def level_weights(weights: Weights, levels: int) -> Floats:
    """The weight of a node by its height above the buckets; they sum to 1."""
    if weights == "laplace":
        return np.asarray(np.eye(levels)[0])
    # Cormode et al. 2012: the variance of a range is least when budgets fall by the cube root of 2 from level to level.
    falling = np.exp2(-np.arange(levels) / 3) if weights == "geometric" else np.ones(levels)
    return np.asarray(falling / falling.sum())
