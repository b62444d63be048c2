"""Samples per second of the exact discrete Laplace, against OpenDP's vector sampler in the same run.

Both sides make integers of 64 bits around zero. They take turns, and each shows its best round, so that a
busy moment of the machine spoils neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import opendp.prelude as dp

from benchmarks.harness import Row, measure
from blowfishdb.noise.sampler import sample

SCALES = [Fraction(1, 1000), *(Fraction(10) ** power for power in (0, 1, 2, 3, 6, 9))]
ROUNDS = 3
OUR_SIZE = 2_000_000
OTHER_SIZE = 40_000


def run(data: Path | None) -> Iterator[Row]:
    """One row a scale with both throughputs, then a plan of a thousand different scales."""
    del data
    for scale in SCALES:
        yield _against_opendp(scale)
    yield _many_weights()


def _against_opendp(scale: Fraction) -> Row:
    other = _opendp_sampler(float(scale))
    zeros = [0] * OTHER_SIZE
    ours_seconds, other_seconds, peaks = [], [], []
    for _ in range(ROUNDS):
        _, seconds, peak_mb = measure(lambda: sample(scale, 1, OUR_SIZE))
        ours_seconds.append(seconds)
        peaks.append(peak_mb)
        _, seconds, _ = measure(lambda: other(zeros))
        other_seconds.append(seconds)
    ours, theirs = OUR_SIZE / min(ours_seconds), OTHER_SIZE / min(other_seconds)
    note = f"{1e9 / ours:.0f} ns against {1e9 / theirs:.0f} ns a sample"
    return Row(
        f"scale {scale}",
        ours,
        theirs,
        ours / theirs,
        seconds=min(ours_seconds),
        peak_mb=max(peaks),
        note=note,
    )


def _many_weights() -> Row:
    weights = np.arange(OUR_SIZE, dtype=np.int64) * 7919 % 1000 + 1
    rounds = [measure(lambda: sample(Fraction(1000), weights)) for _ in range(ROUNDS)]
    seconds = min(seconds for _, seconds, _ in rounds)
    return Row(
        "1000 scales from 1 to 1000 in one call",
        OUR_SIZE / seconds,
        seconds=seconds,
        peak_mb=max(peak_mb for _, _, peak_mb in rounds),
        note=f"{1e9 * seconds / OUR_SIZE:.0f} ns a sample",
    )


def _opendp_sampler(scale: float) -> Callable[[list[int]], list[int]]:
    dp.enable_features("contrib")
    sampler: Callable[[list[int]], list[int]] = dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale
    )
    return sampler
