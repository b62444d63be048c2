"""Rows that may be released without noise: those no edge of the policy can change."""

from __future__ import annotations

import numpy as np

from blowfishdb.errors import InfiniteLoss
from blowfishdb.model.cellgraph import ZERO, CellGraph
from blowfishdb.model.rows import Rows
from blowfishdb.plan.columns import sparse_columns


def check_exact_rows(rows: Rows, graph: CellGraph) -> None:
    """Refuses rows that are not constant on every component, or not 0 where a record can leave or be absent."""
    labels = graph.components()
    kept = np.flatnonzero(labels != ZERO)
    _, first, inverse = np.unique(labels[kept], return_index=True, return_inverse=True)
    columns = sparse_columns(rows)
    representative = columns[:, kept[first[inverse]]]
    changed = (columns[:, kept] - representative).count_nonzero()
    if changed or columns[:, np.flatnonzero(labels == ZERO)].count_nonzero():
        raise InfiniteLoss(
            "an exact row tells two values apart that the policy joins: measure it with noise, "
            "or declare the attributes it depends on public"
        )
