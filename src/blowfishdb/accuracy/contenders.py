"""Which mechanisms can win: the others are asked for a price list, not for a release. Reads the problem alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blowfishdb.mechanisms import (
    edge_transform,
    hierarchy,
    identity,
    optimized,
    ordered,
    ordered_hierarchical,
    spanning_tree,
)
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import Identity
from blowfishdb.plan.problem import Problem

CROWD = 6
CROWDED_CELLS = 40
"""Where each cell may be exchanged for at least this many, among so many, nothing beats measuring every cell by more
than a step of the grid of epsilons; less crowded cells are served better by noise on edges or by known totals."""
WIDE_WINDOW = 12
"""On one axis noise on single edges or tree steps pays for windows shorter than this only."""
LONG_AXIS = 16
"""From here on no tree with equal or split shares beats one with optimised shares by more than a step or two."""
LISTED_CELLS = 128
"""On a longer axis with wide windows listing the edges would only keep a price list waiting."""
QUICKLY_PROVEN = 20_000_000
"""Answers times edges; on an axis noise on single edges gains a few percent at most, and is looked at up to here."""
UNASKED = "noise on single edges pays for few answers under short windows; ask for it by name to see its price"
ON_EDGES = frozenset({edge_transform.NAME, spanning_tree.NAME})
PLAIN_TREES = frozenset({hierarchy.NAME, ordered_hierarchical.NAME})


def contenders(problem: Problem, mechanisms: Mapping[str, Mechanism]) -> Mapping[str, Mechanism]:
    """The mechanisms among which the winner is chosen; all of them where no rule says less."""
    crowd, component = _crowds(problem.graph)
    able = set(mechanisms)
    if isinstance(problem.workload, Identity) and crowd >= CROWD and component >= CROWDED_CELLS:
        able &= {identity.NAME}
    if _is_axis(problem.graph) and (crowd >= WIDE_WINDOW or _is_slow_to_prove(problem)):
        able -= ON_EDGES
    if _is_axis(problem.graph) and problem.graph.cells >= LONG_AXIS and optimized.NAME in able:
        able -= PLAIN_TREES
    if _is_line(problem.graph) and problem.graph.cells >= LONG_AXIS and ordered.NAME in able:
        able -= {optimized.NAME, *ON_EDGES}
    return {name: mechanism for name, mechanism in mechanisms.items() if name in able} or mechanisms


def unasked(problem: Problem, others: Mapping[str, Mechanism]) -> Mapping[str, str]:
    """Those among the mechanisms that cannot win which are not even priced, with the reason."""
    graph = problem.graph
    is_wide = graph.cells > LISTED_CELLS and _crowds(graph)[0] >= WIDE_WINDOW
    if not _is_axis(graph) or not (is_wide or _is_slow_to_prove(problem)):
        return {}
    return {name: UNASKED for name in others if name in ON_EDGES}


def _is_slow_to_prove(problem: Problem) -> bool:
    """Whether checking every answer on every edge would keep somebody waiting."""
    return problem.workload.shape[0] * problem.graph.value_edge_bound > QUICKLY_PROVEN


def _is_axis(graph: CellGraph) -> bool:
    return len(graph.factors) == 1 and isinstance(graph.factors[0], WindowGraph)


def _is_line(graph: CellGraph) -> bool:
    """Whether records can only move to the next cell, where running sums are what every mechanism comes to."""
    axis = graph.factors[0]
    if len(graph.factors) > 1 or not isinstance(axis, WindowGraph) or axis.hubs.size or np.any(graph.to_zero):
        return False
    return bool(np.all(axis.reach <= np.arange(1, axis.size + 1)))


def _crowds(graph: CellGraph) -> tuple[int, int]:
    """How many cells are joined pairwise around each cell at least, and how many are connected; 1 where not known."""
    if not graph.has_value_edges:
        return graph.cells, graph.cells
    crowd = component = 1
    for factor in graph.factors:
        if not isinstance(factor, WindowGraph):
            return 1, 1
        cell = np.arange(factor.size)
        around = 1 + np.maximum(factor.reach - cell, cell - np.searchsorted(factor.reach, cell))
        around[factor.hubs] = factor.size
        least = int(around.min())
        crowd = crowd * least if graph.composition == "record" else max(crowd, least)
        ends = np.flatnonzero(factor.reach == cell)
        component *= factor.size if factor.hubs.size else int(np.diff(ends, prepend=-1).min())
    return crowd, component
