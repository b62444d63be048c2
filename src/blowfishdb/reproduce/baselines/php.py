"""P-HP (Acs, Castelluccia, Chen 2012): runs are bisected at private cuts, then every run is counted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.reproduce.baselines.drawing import least, noisy

MOST_RUNS = 200
SENSITIVITY = 2
"""One record moves the summed distances to the means of one run by less than 2."""


@dataclass(frozen=True)
class Run:
    """The cells low .. high-1, their summed distance to their mean, and how many cuts made them."""

    low: int
    high: int
    deviation: float
    depth: int


def php(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """Half of epsilon finds the runs, half counts them."""
    starts = php_starts(counts, epsilon / 2, 2 / float(epsilon))
    totals = noisy(np.add.reduceat(counts, starts), 2 / epsilon)
    lengths = np.diff(np.append(starts, counts.size))
    return np.asarray(workload.dot(np.repeat(np.maximum(totals, 0) / lengths, lengths)))


def php_starts(counts: Ints, epsilon: Fraction, per_run: float) -> Ints:
    """The first cell of each run: half of epsilon cuts, half picks how many of the cuts to keep."""
    depth = max(1, int(counts.size).bit_length() - 1)
    history = _cut(counts, epsilon / 2 / depth, depth, per_run)
    costs = np.array([sum(run.deviation + per_run for run in runs) for runs in history])
    return np.array(sorted(run.low for run in history[least(costs, SENSITIVITY, epsilon / 2)]), dtype=np.int64)


def _cut(counts: Ints, epsilon: Fraction, depth: int, per_run: float) -> list[list[Run]]:
    """Every partition on the way, from one run on; runs of one depth are disjoint, so each depth costs epsilon once."""
    from blowfishdb.reproduce.baselines.kernels import deviations_of_heads

    values = counts.astype(np.float64)
    whole = Run(0, counts.size, float(deviations_of_heads(values)[-1]), 0)
    open_runs = [whole]
    closed: list[Run] = []
    history = [[whole]]
    while open_runs and len(open_runs) + len(closed) <= MOST_RUNS:
        run = open_runs.pop(0)
        inside = values[run.low : run.high]
        heads = deviations_of_heads(inside)[:-1]
        tails = deviations_of_heads(inside[::-1].copy())[:-1][::-1]
        costs = np.concatenate([[run.deviation + per_run], heads + tails + 2 * per_run])
        place = least(costs, SENSITIVITY, epsilon)
        if place == 0:
            closed.append(run)
            continue
        middle = run.low + place
        for part in (
            Run(run.low, middle, float(heads[place - 1]), run.depth + 1),
            Run(middle, run.high, float(tails[place - 1]), run.depth + 1),
        ):
            is_done = part.high - part.low == 1 or part.depth == depth
            (closed if is_done else open_runs).append(part)
        history.append([*open_runs, *closed])
    return history
