"""Root mean squared error of all ranges under plain differential privacy, against HDMM's 152.1.

4096 cells, epsilon 0.1, one record more or less. HDMM's p-Identity plan (p = 64) has an expected error of 152.1 and
took 199 CPU-seconds to find on the machine where it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import Row, measure
from blowfishdb.mechanisms import hierarchy, identity, optimized
from blowfishdb.mechanisms.axis import EstimatingStrategy
from blowfishdb.mechanisms.strategy import LineStrategy
from blowfishdb.model.workload import AllRanges
from blowfishdb.noise.distribution import variance
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Problem
from papers.baselines.noise import one_record

CELLS = 4096
EPSILON = Fraction(1, 10)
HDMM = 152.1
DRAWS = 200


def run(data: Path | None) -> Iterator[Row]:
    """Expected errors of three plans, then the optimised one with noise really drawn."""
    del data
    problem = Problem(one_record(CELLS), AllRanges(CELLS))
    proposals: tuple[Callable[[Problem], EstimatingStrategy | LineStrategy], ...] = (
        optimized.propose,
        hierarchy.propose,
        identity.propose,
    )
    for propose in proposals:
        strategy, seconds, peak_mb = measure(partial(propose, problem))
        ours = _expected_error(strategy)
        note = "expected; seconds are for planning"
        yield Row(f"all ranges, n={CELLS}, {strategy.mechanism}", ours, HDMM, ours / HDMM, seconds, peak_mb, note)
    strategy = optimized.propose(problem)
    ours, seconds, peak_mb = measure(lambda: _simulated_error(strategy))
    note = f"simulated, {DRAWS} draws; seconds for all of them"
    yield Row(f"all ranges, n={CELLS}, optimized", ours, HDMM, ours / HDMM, seconds, peak_mb, note)


def _expected_error(strategy: EstimatingStrategy | LineStrategy) -> float:
    plan, _ = calibrate(strategy.plan(Fraction(1)), strategy.problem.graph, EPSILON)
    total = strategy.total_variance(variance(float(plan.unit) / plan.weights))
    return math.sqrt(total / strategy.problem.workload.shape[0])


def _simulated_error(strategy: EstimatingStrategy) -> float:
    """Over all ranges, the squared differences of running sums F add up to (n + 1) sum F^2 - (sum F)^2."""
    plan, _ = calibrate(strategy.plan(Fraction(1)), strategy.problem.graph, EPSILON)
    noise = np.stack([sample(plan.unit, plan.weights) for _ in range(DRAWS)], axis=1).astype(np.float64)
    spread = variance(float(plan.unit) / plan.weights)
    sums = np.cumsum(strategy.estimate_cells(noise, np.empty((0, DRAWS)), spread), axis=0)
    squares = (CELLS + 1) * np.sum(sums**2, axis=0) - np.sum(sums, axis=0) ** 2
    return math.sqrt(float(np.mean(squares)) / strategy.problem.workload.shape[0])
