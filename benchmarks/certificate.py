"""Seconds to certify a million intervals on a million cells, against sorting the same number of integers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import Row, measure
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import Identity, Intervals
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan

NO_UNIVERSAL = np.array([], dtype=np.int64)


def threshold(cells: int, theta: int) -> WindowGraph:
    return WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), NO_UNIVERSAL)


def random_intervals(cells: int, count: int) -> Plan:
    """Public synthetic intervals of every length, short ones more often."""
    rng = np.random.Generator(np.random.Philox(7))
    low = rng.integers(0, cells, count)
    high = np.minimum(cells, low + 1 + np.exp(rng.uniform(0, np.log(cells), count)).astype(np.int64))
    return Plan(Fraction(1), (Measurement(Intervals(cells, low, high), rng.integers(1, 1000, count)),))


def floor_seconds(count: int) -> float:
    """What the machine needs to sort the endpoints, the least any sweep has to do."""
    ends = np.random.Generator(np.random.Philox(8)).integers(0, count, 2 * count)
    return measure(lambda: np.argsort(ends, kind="stable"))[1]


def run(data: Path | None) -> Iterator[Row]:
    """Growth over the number of cells, then every kind of threshold at the full size, then a product plan."""
    del data
    _, warm_up, _ = measure(lambda: certify(random_intervals(2000, 2000), one_axis(threshold(2000, 5))))
    yield Row("first use in a process (loads the compiled kernel)", seconds=warm_up)
    for cells in (10_000, 100_000, 1_000_000):
        plan, floor = random_intervals(cells, cells), floor_seconds(cells)
        for theta in (1, 100, cells) if cells == 1_000_000 else (100,):
            _, seconds, peak = measure(partial(certify, plan, one_axis(threshold(cells, theta))))
            case = f"{cells:,} intervals on {cells:,} cells, theta {theta:,}"
            yield Row(case, ours=seconds, other=floor, ratio=seconds / floor, seconds=seconds, peak_mb=peak)
    axis = Measurement(Identity(1000), np.array(1))
    plane = CellGraph((threshold(1000, 5), threshold(1000, 5)), "record", np.array(False), "public")
    product = Plan(Fraction(1), (KroneckerMeasurement((axis, axis)),))
    _, seconds, peak = measure(lambda: certify(product, plane))
    yield Row("product over 1,000 x 1,000 cells, record, theta 5", seconds=seconds, peak_mb=peak)


def one_axis(graph: WindowGraph) -> CellGraph:
    return CellGraph((graph,), "record", np.array(False), "public")
