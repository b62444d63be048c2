"""Seconds until the best offer of all mechanisms is known, at 10^5 and 10^6 cells of one axis; `other` is allowed.

Each case is quoted once on a shorter axis, which loads the compiled loops; then every time is that of one quote. The
note tells how many seconds more a price list of the other mechanisms takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import Row, measure
from blowfishdb.accuracy.quote import quote
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import Identity, Prefix, Rows
from blowfishdb.plan.plan import Problem

ALLOWED = {100_000: 0.3, 1_000_000: 3.0}
ALPHA, BETA = 500.0, 0.05
WARM = 25_000


def run(data: Path | None) -> Iterator[Row]:
    """One row a size, policy and workload."""
    del data
    for cells, allowed in ALLOWED.items():
        for policy, theta in (("line", 1), ("threshold 100", 100), ("full", cells - 1)):
            for workload in (Identity, Prefix):
                quote(_problem(workload(WARM), min(theta, WARM - 1)), ALPHA, BETA).offers  # noqa: B018
                yield _timed(
                    f"{cells:.0e} cells, {policy}, {workload.__name__}", _problem(workload(cells), theta), allowed
                )


def _problem(workload: Rows, theta: int) -> Problem:
    cells = workload.shape[1]
    axis = WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), np.empty(0, dtype=np.int64))
    return Problem(CellGraph((axis,), "record", np.zeros(1, dtype=np.bool_), "public"), workload)


def _timed(case: str, problem: Problem, allowed: float) -> Row:
    asked = quote(problem, ALPHA, BETA)
    best, seconds, peak_mb = measure(lambda: asked.best)
    offers, more, _ = measure(lambda: asked.offers)
    note = f"{best.mechanism} at {float(best.epsilon):.3g} ({best.method}), {len(offers)} offers in {more:.2f} s more"
    return Row(case, seconds, allowed, seconds / allowed, seconds, peak_mb, note)
