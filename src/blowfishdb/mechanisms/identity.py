"""Identity: measures every cell once and sums what it measured."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.forest import LineStrategy
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Ints
from blowfishdb.model.workload import Identity, Intervals, Rows
from blowfishdb.plan.plan import Problem

NAME = "identity"


def propose(problem: Problem) -> LineStrategy:
    """Serves every problem; cells that no edge of the policy touches are released exactly."""
    labels = problem.graph.components()
    counted = labels[labels != ZERO]
    alone = np.zeros(labels.size, dtype=np.bool_)
    alone[labels != ZERO] = (np.bincount(counted) == 1)[counted] if counted.size else False
    parent = np.where(alone, np.arange(labels.size), labels.size)
    return LineStrategy(
        NAME,
        problem,
        parent,
        _singles(np.flatnonzero(~alone), labels.size),
        _singles(np.flatnonzero(alone), labels.size),
    )


def _singles(chosen: Ints, cells: int) -> Rows | None:
    """One row for each of the chosen cells; None for none."""
    if chosen.size == cells:
        return Identity(cells)
    return Intervals(cells, chosen, chosen + 1) if chosen.size else None
