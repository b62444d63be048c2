"""OpenDP's Polars context: a grouped count with public keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.contestants.common import CELLS, Job, Values, compete


def prepare(job: Job) -> Callable[[int], Values]:
    """Rows in a lazy frame; keys are given, so that empty cells are released too."""
    dp.enable_features("contrib")
    polars: Any = dp
    frame = pl.LazyFrame({"cell": job.codes()})
    keys = pl.LazyFrame({"cell": np.arange(CELLS)})

    def release(trial: int) -> Values:
        del trial
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=job.epsilon),
            split_evenly_over=1,
        )
        found = context.query().group_by("cell").agg(polars.len()).with_keys(keys).release().collect().sort("cell")
        return np.asarray(found["len"], dtype=np.float64)

    return release


if __name__ == "__main__":
    compete(prepare)
