"""Squared error of a histogram cell on the line policy: dawa-transform against dawa at equal Blowfish epsilon.

The thesis on data-dependent Blowfish histograms compares them so in its Figure 4. Notes give what else was run on the
same data: buckets selected first (as the thesis does), running sums alone, and those made monotone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import isotonic_regression

from benchmarks.harness import Row, measure, read_histograms
from blowfishdb.mechanisms.data_aware import DataAware
from blowfishdb.mechanisms.data_aware.dawa import Dawa, DawaTransform
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.plan import Problem
from papers.baselines.noise import line, release

EPSILONS = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))
TRIALS = 20
OURS = DawaTransform()
SELECTED_FIRST = DawaTransform(sums_first=False)


def run(data: Path | None) -> Iterator[Row]:
    """One row per epsilon and histogram, and the geometric mean of the ratios for each epsilon."""
    histograms = read_histograms(data, "histograms_1d")
    for epsilon in EPSILONS:
        ratios = []
        for name, counts in histograms.items():
            problem = Problem(line(counts.size), Identity(counts.size))
            ours, seconds, peak_mb = measure(partial(average, released(OURS, problem, epsilon, counts), counts))
            other = average(released(Dawa(), problem, epsilon, counts), counts)
            first = average(released(SELECTED_FIRST, problem, epsilon, counts), counts, TRIALS // 4)
            plain, monotone = (average(sums(epsilon, counts, m), counts) for m in (False, True))
            note = f"buckets first {first:.4g}, running sums {plain:.4g}, monotone {monotone:.4g}; {TRIALS} trials"
            ratios.append(ours / other)
            yield Row(f"{name} eps={float(epsilon):g}", ours, other, ratios[-1], seconds / TRIALS, peak_mb, note)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield Row(f"geomean eps={float(epsilon):g}", ratio=mean, note=f"largest {max(ratios):.3g}")


def released(mechanism: DataAware, problem: Problem, epsilon: Fraction, counts: Ints) -> Callable[[], Floats]:
    """A function that releases the histogram anew each time it is called."""
    return lambda: release(mechanism, problem, epsilon, counts).cells


def sums(epsilon: Fraction, counts: Ints, monotone: bool) -> Callable[[], Floats]:
    """The same with the data-independent ordered mechanism, raw or made monotone."""
    exact = np.cumsum(counts)

    def once() -> Floats:
        noisy = (exact[:-1] + sample(1 / epsilon, 1, counts.size - 1)).astype(np.float64)
        fitted = np.clip(isotonic_regression(noisy).x, 0, exact[-1]) if monotone else noisy
        return np.diff(np.concatenate([[0.0], fitted, [float(exact[-1])]]))

    return once


def average(once: Callable[[], Floats], counts: Ints, trials: int = TRIALS) -> float:
    """The mean squared error of a cell over several releases."""
    return float(np.mean([np.mean((once() - counts) ** 2) for _ in range(trials)]))
