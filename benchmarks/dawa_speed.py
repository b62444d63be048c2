"""CPU seconds and memory of one `dawa` release with 2000 ranges, planning and noise included, up to a million cells.

`other` is the published code's partition and rewriting of the queries at the same size, without its second stage, as
measured once; the note compares with sorting and summing as many numbers in the same run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.dawa_error import ranges
from benchmarks.harness import Row, measure
from blowfishdb.engine.measure import run_program
from blowfishdb.mechanisms.data_aware import Finding
from blowfishdb.mechanisms.data_aware.dawa import Dawa
from blowfishdb.model.numbers import Ints
from blowfishdb.plan.plan import Problem
from papers.baselines.noise import one_record

PUBLISHED = {2**12: 0.13, 2**14: 0.37, 2**16: 1.35, 2**18: 5.1, 2**20: 12.3}
"""CPU seconds of the published code; at 2^20 cells it then runs out of memory."""

EPSILON = Fraction(1, 10)
REPEATS = 5


def run(data: Path | None) -> Iterator[Row]:
    """Three kinds of tables at each size, then how the time grows."""
    del data
    tables: tuple[Callable[[int], Ints], ...] = (even, spiky, uneven)
    for table in tables:
        seconds = {}
        for cells, published in PUBLISHED.items():
            counts = table(cells)
            problem = Problem(one_record(cells), ranges(cells, 1))
            release(problem, counts)
            times = [cpu_seconds(partial(release, problem, counts)) for _ in range(REPEATS)]
            found, _, peak_mb = measure(partial(release, problem, counts))
            floor = min(cpu_seconds(partial(sort_and_sum, counts)) for _ in range(REPEATS))
            seconds[cells] = best = float(np.median(times))
            note = f"{int(found.buckets[-1]) + 1} buckets; {best / floor:.0f} x sorting and summing"
            yield Row(f"{table.__name__}, n={cells}", best, published, best / published, best, peak_mb, note)
        grown, allowed = seconds[2**20] / seconds[2**14], 2**6 * (20 / 14) ** 2
        note = "2^14 to 2^20, against n log^2 n"
        yield Row(f"{table.__name__}, growth", grown, allowed, grown / allowed, note=note)


def release(problem: Problem, counts: Ints) -> Finding:
    """One release from beginning to end."""
    mechanism = Dawa()
    program = mechanism.program(problem, EPSILON)
    return run_program(program, program.digest(), mechanism.script(problem, program), problem.graph, counts)


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of one call: others share this machine."""
    start = time.process_time()
    work()
    return time.process_time() - start


def sort_and_sum(counts: Ints) -> int:
    """The least that any method does with the counts."""
    return int(np.cumsum(np.sort(counts))[-1])


def even(cells: int) -> Ints:
    """64 even segments."""
    return np.repeat(np.random.default_rng(0).integers(0, 500, 64), cells // 64)


def spiky(cells: int) -> Ints:
    """Nothing but spikes on one cell in fifty."""
    generator = np.random.default_rng(1)
    heights = generator.gamma(0.3, 300.0, math.ceil(cells / 50))
    return np.bincount(generator.choice(cells, heights.size), weights=heights, minlength=cells).astype(np.int64)


def uneven(cells: int) -> Ints:
    """Large unequal counts everywhere: no bucket pays, every cell is measured."""
    return np.random.default_rng(2).integers(0, 10**5, cells)
