"""The pair of records on which a plan loses the most, in words."""

from __future__ import annotations

import numpy as np

from blowfishdb.engine.compiled import Compiled
from blowfishdb.model.cellgraph import ZERO
from blowfishdb.plan.certificate import Certificate


def worst_pair(compiled: Compiled, certificate: Certificate) -> str:
    """What an observer could best tell apart: two cells, or a cell and a record that does not count or is not there."""
    if certificate.epsilon == 0:
        return "no pair: these answers are the same whatever the policy hides"
    if certificate.witness is None:
        return "not known: the price is a proven upper bound, not attained by a pair that can be named"
    first, second = certificate.witness
    if second == ZERO:
        return f"a record {_cell(compiled, first)} <-> {_nowhere(compiled, first)}"
    return f"a record {_cell(compiled, first)} <-> a record {_cell(compiled, second)}"


def _cell(compiled: Compiled, flat: int) -> str:
    cells = compiled.cells
    if not cells.axes:
        return "that counts"
    place = np.unravel_index(flat, cells.graph.shape)
    names = [f"{name} {cells.labels[axis][int(place[axis])]}" for axis, name in enumerate(cells.axes)]
    return f"with {', '.join(names)}"


def _nowhere(compiled: Compiled, cell: int) -> str:
    graph = compiled.problem.graph
    if graph.together is not None:
        return "one that does not count or is not there"
    rejected = "a record outside the filter" if graph.outside[cell] and graph.has_value_edges else ""
    absent = "an absent one" if graph.presence != "public" else ""
    return " or ".join(part for part in (rejected, absent) if part)
