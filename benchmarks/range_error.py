"""RMSE of running counts, ranges, rectangles and marginals at epsilon 1 and the CPU to plan them, against HDMM's.

Plain differential privacy: one record more or less. HDMM's strategies are searched here, in the same run (`hdmm.py`);
a note has the figure of the authors' code where it was measured. Ours are of discrete noise, theirs of continuous.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.harness import Row
from benchmarks.hdmm import CELLS_PER_ROW, identity_error, marginals_error
from blowfishdb.mechanisms import kronecker, marginals, optimized
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.model.numbers import Floats
from blowfishdb.model.workload import AllRanges, Kronecker, Prefix, all_marginals
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Problem
from papers.baselines.noise import one_record

LINES: tuple[tuple[str, type[Prefix | AllRanges]], ...] = (("prefixes", Prefix), ("all ranges", AllRanges))
SIZES = (100, 256, 365, 777, 1024, 4096)
MOST_ROWS = 64
"""Rows of HDMM's search on the longest axes; more would take it hours."""
SIDE = 64
PUBLISHED = {
    "prefixes, n=256": 7.41,
    "prefixes, n=1024": 9.67,
    "all ranges, n=256": 8.10,
    "all ranges, n=1024": 11.08,
    "all ranges, n=4096": 15.21,
    "prefixes, 64 x 64": 20.0,
}
TABLES = (((8,) * 6, 3), ((10,) * 6, 3), ((2, 4, 6, 8, 10, 12), 3), ((4,) * 8, 2), ((5,) * 8, 2), ((10,) * 8, 2))
"""Sizes of attributes, and how many of them a marginal has."""
SEEDS = range(5)
"""Searches of small problems, of which the one in the middle counts; larger axes have fewer."""
FEWER = {365: 3, 777: 3, 1024: 3, 4096: 1}
JUDGED_SIZES = (256, 1024, 4096)
JUDGED_TABLES = (TABLES[0], TABLES[3])
LESS, NO_MORE = 0.99, 1.0
"""What the errors of running counts and ranges, and of marginals, may be of HDMM's."""
LITTLE = 0.05
"""What planning running counts and ranges may take of HDMM's CPU."""
SECONDS = "CPU seconds"
Result = TypeVar("Result")


def run(data: Path | None) -> Iterator[Row]:
    """Two rows a case: the error, and the CPU seconds of planning."""
    del data
    yield from _on_lines(SIZES)
    yield from _on_tables(TABLES)


def headline(data: Path | None) -> Iterator[Row]:
    """Some sizes: the errors, and the CPU seconds of planning running counts and ranges on one axis."""
    del data
    *on_lines, on_two_axes, _ = _on_lines(JUDGED_SIZES)
    for row in (*on_lines, on_two_axes):
        yield replace(row, aim=LITTLE if row.case.endswith(SECONDS) else LESS)
    yield from (replace(row, aim=NO_MORE) for row in itertools.islice(_on_tables(JUDGED_TABLES), 0, None, 2))


def _on_lines(sizes: Sequence[int]) -> Iterator[Row]:
    for (name, kind), size in itertools.product(LINES, sizes):
        workload = kind(size)
        rows = min(MOST_ROWS, max(1, size // CELLS_PER_ROW))
        seeds = range(FEWER.get(size, len(SEEDS)))
        gram = _gram(workload)
        theirs, seconds = _middle(partial(identity_error, gram, rows), seeds)
        yield from _compared(
            f"{name}, n={size}", optimized.propose, Problem(one_record(size), workload), theirs, seconds
        )
    gram = _gram(Prefix(SIDE))
    theirs, seconds = _middle(lambda seed: identity_error(gram, SIDE // CELLS_PER_ROW, seed) ** 2, SEEDS)
    both = Problem(one_record(SIDE, SIDE), Kronecker((Prefix(SIDE), Prefix(SIDE))))
    yield from _compared(f"prefixes, {SIDE} x {SIDE}", kronecker.propose, both, theirs, 2 * seconds)


def _on_tables(tables: Sequence[tuple[tuple[int, ...], int]]) -> Iterator[Row]:
    for shape, ways in tables:
        requested = list(itertools.combinations(range(len(shape)), ways))
        theirs, seconds = _middle(partial(marginals_error, shape, requested), SEEDS)
        problem = Problem(one_record(*shape), all_marginals(shape, ways))
        case = f"{ways}-way marginals of {' x '.join(map(str, shape))}"
        yield from _compared(case, marginals.propose, problem, theirs, seconds)


def _compared(case: str, propose: Mechanism, problem: Problem, total: float, seconds: float) -> Iterator[Row]:
    propose(problem)  # what is loaded once a process is not planning
    strategy, own_seconds = _timed(lambda: propose(problem))
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1))
    answers = problem.workload.shape[0]
    ours = math.sqrt(strategy.total_variance(variance(float(plan.unit) / plan.weights)) / answers)
    theirs = math.sqrt(2 * total / answers)
    published = PUBLISHED.get(case)
    note = "" if published is None else f"authors' code {published}: {ours / published:.3f} of it"
    yield Row(case, ours, theirs, ours / theirs, note=note)
    yield Row(f"{case}, {SECONDS}", own_seconds, seconds, own_seconds / seconds)


def _gram(workload: Prefix | AllRanges) -> Floats:
    """W'W without the rows: entry (i, j) counts the queries over both cells."""
    cell = np.arange(float(workload.cells))
    after = workload.cells - np.maximum.outer(cell, cell)
    return np.asarray(after if isinstance(workload, Prefix) else after * (np.minimum.outer(cell, cell) + 1))


def _middle(search: Callable[[int], float], seeds: range) -> tuple[float, float]:
    """The error in the middle of some searches, and the seconds of one."""
    found = [_timed(partial(search, seed)) for seed in seeds]
    return float(np.median([error for error, _ in found])), float(np.median([seconds for _, seconds in found]))


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start
