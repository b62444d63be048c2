"""When looking for buckets is given up: a public rule on the policy and the workload, and the gate that follows it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.select.l1_gate import L1Gate, l1_gate
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import AllRanges
from blowfishdb.plan.problem import Problem


@dataclass(frozen=True)
class GateRule:
    """What the gate spends and where it says that measuring every cell is better than any buckets.

    `share` is its part of epsilon. Deviations of blocks of `block` cells count up to `cap` / epsilon, times the noise
    level of the policy. Where they reach more than a part of the cap on average, every cell is measured: the part
    `uneven_for_ranges` for workloads of long ranges, `uneven_for_cells` for those of which half or more count no more
    than `short` cells, which suffer most when cells are merged.
    """

    share: Fraction
    block: int
    cap: float
    uneven_for_ranges: float
    uneven_for_cells: float
    short: int

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise PlanError("the gate takes a part of epsilon between 0 and 1")
        if self.block < 2 or self.cap <= 0 or self.short < 1:
            raise PlanError("the gate looks at blocks of two cells or more, up to a positive cap")
        if self.uneven_for_ranges <= 0 or self.uneven_for_cells <= 0:
            raise PlanError("the gate's limits are positive parts of the cap")


GATE_RULE = GateRule(Fraction(1, 100), 4, 20.0, 0.4, 0.2, 16)
"""Found by `python -m benchmarks tune-dawa` on synthetic tables; the loss does not depend on it."""


def gate_stage(problem: Problem, allowed: Fraction, epsilon: Fraction, rule: GateRule = GATE_RULE) -> L1Gate:
    """The gate of a program that spends epsilon in all and allows this stage a part of it."""
    cap = rule.cap * noise_level(problem.graph) / float(epsilon)
    return l1_gate(problem.graph.cells, problem.graph, allowed, rule.block, cap, uneven_limit(problem, rule))


def noise_level(graph: CellGraph) -> float:
    """How noisy ranges over single cells are, relative to classical differential privacy; it grows like a logarithm.

    Where records move a few steps along one axis, ranges are as accurate as on an axis of so many cells.
    """
    moved = (2 if graph.has_value_edges else 1) * graph.rows_per_person
    axis = graph.factors[0]
    if moved == 1 or len(graph.factors) > 1 or not isinstance(axis, WindowGraph) or np.any(graph.to_zero):
        return float(moved)
    steps = float(np.max(axis.reach - np.arange(axis.size))) if not axis.hubs.size else float(axis.size)
    return moved * min(1.0, math.log2(steps + 2) / math.log2(axis.size + 2))


def uneven_limit(problem: Problem, rule: GateRule = GATE_RULE) -> float:
    """How uneven blocks may be for the gate to look for buckets; it depends on the workload alone."""
    if isinstance(problem.workload, AllRanges):
        return rule.uneven_for_ranges
    counted = problem.workload.dot(np.ones(problem.graph.cells, dtype=np.int64))
    short = min(1.0, 2 * float(np.mean(np.abs(counted) <= rule.short)))
    return rule.uneven_for_ranges + short * (rule.uneven_for_cells - rule.uneven_for_ranges)
