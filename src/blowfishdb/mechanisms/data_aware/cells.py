"""Cells: one noisy count for every cell, and how far their errors can add up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import betainc, gammaln

from blowfishdb.errors import AccuracyError
from blowfishdb.mechanisms.data_aware.regions import bucket_counts
from blowfishdb.mechanisms.data_aware.script import Finding, Script, shared_program
from blowfishdb.mechanisms.strategy import squared
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Program

NAME = "cells"


@dataclass(frozen=True)
class Cells:
    """Serves every problem: the same counts whatever the queries."""

    @property
    def name(self) -> str:
        return NAME

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage with the whole epsilon."""
        del problem
        return shared_program(NAME, epsilon, [("cells", Fraction(1))])

    def script(self, problem: Problem, program: Program) -> Script:
        counts = bucket_counts(problem.graph, None, program.allowances[0])
        cells, variances = counts.read((yield counts.ask))
        workload = problem.workload
        answers = np.asarray(workload.dot(cells), dtype=np.float64)
        spread = np.asarray(squared(workload).dot(variances), dtype=np.float64)
        return Finding(cells, answers, spread, np.arange(cells.size), own=variances)


def total_error_tail(cells: int, scale: float, bound: int) -> float:
    """P(|X_1| + ... + |X_cells| > bound) for independent discrete Laplace X_i: exact.

    A variable is not 0 with probability 2r / (1 + r), r = exp(-1 / scale), and its size is then geometric; k such
    sizes add up to more than b exactly when b coin tosses of chance 1 - r show fewer than k heads.
    """
    if cells < 1 or scale <= 0 or bound < 0:
        raise AccuracyError("a bound on summed errors needs at least one cell, a positive scale and a bound >= 0")
    decay = float(np.exp(-1.0 / scale))
    moved = np.arange(1, cells + 1)
    ways = gammaln(cells + 1) - gammaln(moved + 1) - gammaln(cells - moved + 1)
    chance = np.exp(
        ways + moved * np.log(2 * decay / (1 + decay)) + (cells - moved) * np.log((1 - decay) / (1 + decay))
    )
    beyond = np.where(moved > bound, 1.0, betainc(np.maximum(bound - moved + 1, 1), moved, decay))
    return float(min(1.0, np.sum(chance * beyond)))


def total_error_bound(cells: int, scale: float, beta: float) -> int:
    """The least whole number that the summed absolute errors of the cells exceed with probability at most beta.

    For large scales this is the quantile of a Gamma distribution; the union bound of the partitioning paper's Lemma 41
    is right but many times as large.
    """
    if not 0 < beta < 1:
        raise AccuracyError(f"beta lies between 0 and 1, not {beta}")
    high = 1
    while total_error_tail(cells, scale, high) > beta:
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        if total_error_tail(cells, scale, middle) <= beta:
            high = middle
        else:
            low = middle
    return high
