"""SmartNoise SQL: a grouped count over a data frame. Its answer leaves out cells without rows; they count as zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from snsql import Privacy, from_df

from benchmarks.contestants.common import CELLS, Job, Values, compete

META = {
    "": {
        "main": {
            "rows": {
                "row_privacy": True,
                "censor_dims": False,
                "cell": {"type": "int", "lower": 0, "upper": CELLS - 1},
            }
        }
    }
}


def prepare(job: Job) -> Callable[[int], Values]:
    """Rows in a data frame. Censoring is off: with it, rare cells would be dropped at a delta."""
    frame = pd.DataFrame({"cell": job.codes()})

    def release(trial: int) -> Values:
        del trial
        reader = from_df(frame, privacy=Privacy(epsilon=job.epsilon, delta=0.0), metadata=META)
        found = reader.execute("SELECT cell, COUNT(*) AS n FROM main.rows GROUP BY cell")
        values = np.zeros(CELLS)
        for cell, number in found[1:]:
            values[int(cell)] = number
        return values

    return release


if __name__ == "__main__":
    compete(prepare)
