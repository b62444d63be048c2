"""The policy graph on buckets of cells: two buckets are joined when an edge joins cells of the two.

Any plan over buckets has the same loss on the merged graph as on the cells (docs/proofs/projection.md); joining more
than that is sound.
"""

from __future__ import annotations

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.model.arrays import Bools, Ints, distinct
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.axis import AxisGraph
from blowfishdb.model.graphs.explicit import EdgeGraph
from blowfishdb.model.graphs.window import WindowGraph

LISTED_EDGES = 2_000_000
"""Up to this many edges are looked at one by one; a graph with more joins every bucket to every other."""


def merge_graph(graph: CellGraph, buckets: Ints) -> CellGraph:
    """The graph of the buckets, as one axis, with the same presence and privacy unit."""
    count = bucket_count(graph.cells, buckets)
    outside: Bools = np.zeros(count, dtype=np.bool_)
    outside[buckets[graph.outside]] = True
    together = None if graph.together is None else graph.together.merged(buckets)
    axis = _axis(graph, buckets, count)
    return CellGraph((axis,), "record", outside, graph.presence, graph.rows_per_person, together)


def merge_counts(counts: Ints, buckets: Ints) -> Ints:
    """The exact count of each bucket."""
    merged = np.zeros(bucket_count(counts.size, buckets), dtype=np.int64)
    np.add.at(merged, buckets, counts)
    return merged


def bucket_count(cells: int, buckets: Ints) -> int:
    """How many buckets there are; PlanError unless they are numbered 0, 1, ... with none left out."""
    if buckets.shape != (cells,) or buckets.dtype != np.int64:
        raise PlanError(f"buckets are one whole number for each of {cells} cells")
    if int(buckets.min()) < 0 or int(buckets.max()) >= cells or np.any(np.bincount(buckets) == 0):
        raise PlanError("buckets are numbered from 0 with none left out")
    return int(buckets.max()) + 1


def _axis(graph: CellGraph, buckets: Ints, count: int) -> AxisGraph:
    everybody = WindowGraph(np.full(count, count - 1), np.empty(0, dtype=np.int64))
    if not graph.has_value_edges or _is_complete(graph):
        return everybody
    single = graph.factors[0]
    if len(graph.factors) == 1 and isinstance(single, WindowGraph) and not single.hubs.size:
        steps = np.diff(buckets)
        if np.all((steps == 0) | (steps == 1)):
            lasts = np.append(np.flatnonzero(steps), buckets.size - 1)
            return WindowGraph(buckets[single.reach[lasts]], single.hubs)
    if graph.value_edge_bound > LISTED_EDGES:
        return everybody
    pairs = buckets[graph.value_edges()]
    keys = distinct(pairs.min(axis=1) * count + pairs.max(axis=1))
    joined = np.stack(np.divmod(keys, count), axis=1)
    return EdgeGraph(count, joined[joined[:, 0] != joined[:, 1]])


def _is_complete(graph: CellGraph) -> bool:
    """Whether every two cells are joined: complete graphs on all factors, which may move at once."""
    if len(graph.factors) > 1 and graph.composition != "record":
        return False
    return all(isinstance(f, WindowGraph) and int(f.reach[0]) == f.size - 1 for f in graph.factors)
