"""Expected squared error of a range under threshold policies, against equation (15) of the Blowfish paper.

Averaged over all ranges, continuous noise, epsilon 1, row count public. The paper's formula needs a fan-out: the
one given in the case. Its own budget split is unsound; ours are certified.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import Row, measure
from blowfishdb.mechanisms import optimized, ordered_hierarchy
from blowfishdb.mechanisms.axis import EstimatingStrategy
from blowfishdb.model.workload import AllRanges
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Problem
from papers.blowfish.ranges import threshold_graph

CASES = ((32, 4, 2), (32, 8, 2), (64, 8, 8), (64, 16, 16), (4357, 10, 16), (4357, 100, 16), (4357, 1000, 16))
"""Cells, theta, fan-out."""


def run(data: Path | None) -> Iterator[Row]:
    """One row a case for the optimised plan, with the ordered hierarchical one beside it."""
    del data
    for cells, theta, fan_out in CASES:
        problem = threshold_problem(cells, theta)
        strategy, seconds, peak_mb = measure(partial(optimized.propose, problem))
        ours = average_error(strategy)
        plain = average_error(ordered_hierarchy.propose_ordered_hierarchical(problem))
        paper = printed_error(cells, theta, fan_out)
        note = f"ordered-hierarchical {plain:.1f}; seconds are for planning"
        yield Row(f"n={cells} theta={theta} f={fan_out}", ours, paper, ours / paper, seconds, peak_mb, note)


def threshold_problem(cells: int, theta: int) -> Problem:
    """All ranges where values up to theta apart are hidden from each other."""
    return Problem(threshold_graph(cells, theta), AllRanges(cells))


def average_error(strategy: EstimatingStrategy) -> float:
    """The expected squared error of an answer at certified epsilon 1, for continuous noise."""
    plan, _ = calibrate(strategy.plan(Fraction(1)), strategy.problem.graph, Fraction(1))
    variances = 2.0 * (float(plan.unit) / plan.weights) ** 2
    return strategy.total_variance(variances) / strategy.problem.workload.shape[0]


def printed_error(cells: int, theta: int, fan_out: int) -> float:
    """Equation (15) at epsilon 1."""
    sums = 4 * (cells - theta) / (cells + 1)
    nodes = 8 * (fan_out - 1) * math.log(theta, fan_out) ** 3 * cells / (cells + 1)
    return float((np.cbrt(sums) + np.cbrt(nodes)) ** 3)
