"""DAWA as printed, with the noise its proof needs: the baseline that ours is compared with in the same run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.data_aware.bucket_strategy import one_run, row_variances
from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.greedy_weights import greedy_weights
from blowfishdb.mechanisms.data_aware.partial_variances import answer_variances
from blowfishdb.mechanisms.data_aware.script import Finding, Script
from blowfishdb.mechanisms.data_aware.weighted_tree import weighted_tree
from blowfishdb.mechanisms.replies import measured_rows
from blowfishdb.mechanisms.select.l1_partition import l1_partition
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.merged import merge_graph
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Allowance, Ask, MeasurementStage, Program


@dataclass(frozen=True)
class PrintedDawa:
    """A quarter of epsilon on the L1 partition (two-sided noise, all positions, no penalty), then greedy weights."""

    @property
    def name(self) -> str:
        return "dawa as printed"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Partition and measurement."""
        del problem
        return Program(self.name, (Allowance("partition", epsilon / 4), Allowance("buckets", 3 * epsilon / 4)))

    def script(self, problem: Problem, program: Program) -> Script:
        """Both stages as in the paper."""
        graph = problem.graph
        select, measure = (allowance.epsilon for allowance in program.allowances)
        stage = l1_partition(graph.cells, graph, select, candidates="powers", penalty=Fraction(0), one_sided=False)
        buckets = Buckets(graph.cells, np.asarray((yield Ask("partition", stage))))
        ranges = buckets.partial_ranges(problem.workload)
        if ranges is None:
            raise ValueError("the baseline answers ranges")
        tree = weighted_tree(one_run(buckets.count), greedy_weights(buckets.count, ranges))
        merged = merge_graph(graph, buckets.of_cells)
        plan, _ = calibrate(Plan(Fraction(1), tree.parts), merged, measure)
        measured = measured_rows((yield Ask("buckets", MeasurementStage(plan), buckets.of_cells)))
        spread = row_variances(plan)
        cells = buckets.spread(tree.estimate(measured.noisy.astype(np.float64), np.empty(0), spread))
        variances = answer_variances(buckets, tree, problem.workload, spread)
        return Finding(cells, np.asarray(problem.workload.dot(cells)), variances, buckets.of_cells)
