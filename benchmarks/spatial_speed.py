"""CPU seconds and memory of one release of random rectangles on a grid, planning and noise included.

`other` is the published DAWA on the same grid with 200 rectangles, as measured once (it runs out of memory with 2000 on
a million cells); the note compares with summing the grid along both axes in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.dawa_speed import cpu_seconds
from benchmarks.harness import Row, measure
from benchmarks.spatial_error import MECHANISMS, rectangles, released
from blowfishdb.model.numbers import Ints

SIDES = {256: 4.6, 512: 6.4, 1024: 23.2}
"""The side of the grid, and the CPU seconds of the published DAWA."""
RECTANGLES = 1000
EPSILON = Fraction(1, 10)
REPEATS = 3
NAMES = {"clustered": ("dawa", "adaptive-tree", "agrid", "kdtree", "quadtree"), "uneven": ("dawa", "adaptive-tree")}


def run(data: Path | None) -> Iterator[Row]:
    """A row for each mechanism and size, on clustered records and on uneven counts in every cell."""
    del data
    for label, table in (("clustered", clustered), ("uneven", uneven)):
        for side, published in SIDES.items():
            counts = table(side)
            boxes = rectangles((side, side), RECTANGLES, 1)
            floor = min(cpu_seconds(partial(sum_both_ways, counts, side)) for _ in range(REPEATS))
            for name in NAMES[label]:
                work = partial(released(MECHANISMS[name]), counts, EPSILON, boxes)
                _, _, peak_mb = measure(work)
                best = min(cpu_seconds(work) for _ in range(REPEATS))
                other = published if name == "dawa" else None
                ratio = None if other is None else best / other
                note = f"{best / floor:.0f} x summing both ways"
                yield Row(f"{name} {label} {side}x{side}", best, other, ratio, best, peak_mb, note)


def clustered(side: int) -> Ints:
    """Three million records around 300 places, few of them popular."""
    generator = np.random.default_rng(0)
    popular = generator.pareto(1.0, 300) + 0.1
    chosen = generator.choice(300, 3_000_000, p=popular / popular.sum())
    places = generator.random((300, 2))[chosen] + generator.normal(0.0, 0.012, (chosen.size, 2))
    inside = places[np.all((places >= 0) & (places < 1), axis=1)]
    first, second = (inside * side).astype(np.int64).T
    return np.bincount(first * side + second, minlength=side * side).astype(np.int64)


def uneven(side: int) -> Ints:
    """Large unequal counts everywhere: the worst case, nothing can be merged."""
    return np.random.default_rng(2).integers(0, 10**5, side * side)


def sum_both_ways(counts: Ints, side: int) -> Ints:
    """The least that any method does with a grid."""
    return np.cumsum(np.cumsum(counts.reshape(side, side), axis=0), axis=1)
