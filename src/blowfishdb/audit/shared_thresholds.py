"""Joint thresholds shared out among their axes: rows that lose more with every step show where a share is too small."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from blowfishdb.audit.cases import LIMITS, limited
from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.grid import GridGraph, Metric
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan

CELLS = 64
THETAS = (19, 37, 42, 46, 49)
METRICS: tuple[Metric, ...] = ("l1", "l2", "linf")
NONE = np.empty(0, dtype=np.int64)


def threshold_lines() -> list[Line]:
    """Places on a square of 64 by 64, certified as they are where the edges are too many to list."""
    troubles = []
    for metric in METRICS:
        for theta in THETAS:
            rows = Measurement(_windows(2 * theta), np.ones(1, dtype=np.int64))
            plan = Plan(Fraction(1), (KroneckerMeasurement((rows, rows)),))
            places = np.arange(CELLS)
            near = GridGraph((places, places), (places, places), theta, metric, (NONE, NONE))
            with limited(LIMITS):
                found = certify(plan, CellGraph((near,), "record", np.array(False), "public")).epsilon
            true = _worst(rows, theta, metric)
            if found < true:
                troubles.append(f"{metric} within {theta}: a plan that loses {true} is certified for {found}")
    tried = len(METRICS) * len(THETAS)
    return [judged("exact", "joint thresholds shared out", "every edge", troubles, "none too low", tried)]


def _windows(length: int) -> Intervals:
    """All windows of this length over the axis, cut at its ends: every cell is in just so many of them."""
    low = np.arange(1 - length, CELLS)
    return Intervals(CELLS, np.maximum(low, 0), np.minimum(low + length, CELLS))


def _worst(rows: Measurement, theta: int, metric: Metric) -> int:
    """The most that two places within the distance lose, by the windows that hold one of them and not the other."""
    table: Ints = rows.rows.dense()
    shared = table.T @ table
    steps = np.arange(CELLS)
    # Every cell is in as many windows as another, and two cells share as many as any two that are as far apart.
    kept = shared[0, steps]
    worst = 0
    for one in range(min(theta, CELLS - 1) + 1):
        reach = {"l1": theta - one, "l2": math.isqrt(theta**2 - one**2), "linf": theta}[metric]
        both = kept[one] * kept[: min(reach, CELLS - 1) + 1]
        worst = max(worst, int(2 * (kept[0] ** 2 - both.min())))
    return worst
