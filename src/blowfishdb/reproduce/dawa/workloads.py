"""The workloads of the DAWA paper, seeded and the same for every algorithm."""

from __future__ import annotations

from typing import Literal

import numpy as np

from blowfishdb.model.workload import Identity, Intervals
from blowfishdb.reproduce.random_inputs import Generator, generator
from blowfishdb.reproduce.settings import Settings

Kind = Literal["identity", "uniform intervals", "clustered intervals", "large clustered intervals"]
KINDS: tuple[Kind, ...] = ("identity", "uniform intervals", "clustered intervals", "large clustered intervals")
CLUSTERS = 5
SPREADS = {"clustered intervals": 256, "large clustered intervals": 1024}
"""Standard deviations on 4096 cells."""


def workload(settings: Settings, kind: Kind, cells: int, trial: int) -> Identity | Intervals:
    """The workload of one trial."""
    if kind == "identity":
        return Identity(cells)
    draw = generator(settings.seed, kind, trial)
    queries = settings.pick(40, 2000, 2000)
    if kind == "uniform intervals":
        return uniform(draw, cells, queries)
    centres = np.repeat(draw.integers(0, cells, CLUSTERS), queries // CLUSTERS)
    reach = np.abs(draw.normal(0, SPREADS[kind] * cells / 4096, (2, centres.size))).astype(np.int64)
    return Intervals(cells, np.maximum(centres - reach[0], 0), np.minimum(centres + reach[1] + 1, cells))


def uniform(draw: Generator, cells: int, queries: int) -> Intervals:
    """Intervals with uniform ends."""
    ends = np.sort(draw.integers(0, cells, (queries, 2)), axis=1)
    return Intervals(cells, ends[:, 0], ends[:, 1] + 1)
