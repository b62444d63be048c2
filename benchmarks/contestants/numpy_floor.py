"""The floor: numpy's bincount and numpy's Laplace, which is neither exact nor accounted for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.contestants.common import CELLS, Job, Values, compete


def prepare(job: Job) -> Callable[[int], Values]:
    """Rows in memory, ready to be counted."""
    codes = job.codes()
    rng = np.random.default_rng()

    def release(trial: int) -> Values:
        del trial
        return np.bincount(codes, minlength=CELLS) + rng.laplace(0.0, 1 / job.epsilon, CELLS)

    return release


if __name__ == "__main__":
    compete(prepare)
