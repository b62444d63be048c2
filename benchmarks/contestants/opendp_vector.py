"""OpenDP: bincount by numpy, then the exact vector Laplace measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp

from benchmarks.contestants.common import CELLS, Job, Values, compete


def prepare(job: Job) -> Callable[[int], Values]:
    """Rows in memory and a measurement whose loss for one row is at most epsilon."""
    dp.enable_features("contrib")
    codes = job.codes()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement: Any = dp.m.make_laplace(*space, scale=1 / job.epsilon)
    if measurement.map(1) > job.epsilon * (1 + 1e-9):
        raise RuntimeError("the measurement loses more than epsilon")

    def release(trial: int) -> Values:
        del trial
        return np.array(measurement(np.bincount(codes, minlength=CELLS)), dtype=np.float64)

    return release


if __name__ == "__main__":
    compete(prepare)
