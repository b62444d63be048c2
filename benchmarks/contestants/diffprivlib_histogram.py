"""diffprivlib: its histogram, which sets negative counts to zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from diffprivlib.tools import histogram, histogram2d

from benchmarks.contestants.common import CELLS, SIDE, Job, Values, compete


def prepare(job: Job) -> Callable[[int], Values]:
    """Rows in memory."""
    rows = job.rows()

    def release(trial: int) -> Values:
        del trial
        if job.name == "line":
            found, _ = histogram(rows["x"], epsilon=job.epsilon, bins=CELLS, range=(0, CELLS))
        else:
            sides = [(0, SIDE), (0, SIDE)]
            found, _, _ = histogram2d(rows["a"], rows["b"], epsilon=job.epsilon, bins=SIDE, range=sides)
        return np.asarray(found, dtype=np.float64).reshape(-1)

    return release


if __name__ == "__main__":
    compete(prepare)
