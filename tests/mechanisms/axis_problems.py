"""Small random problems on one axis, for tests of mechanisms."""

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix, Sparse, Stacked, total
from blowfishdb.plan.plan import Problem


def window_graph(draw: st.DrawFn, cells: int) -> WindowGraph:
    universal = sorted(draw(st.sets(st.integers(0, cells - 1), max_size=2))) if draw(st.booleans()) else []
    reach = np.arange(cells)
    for start in range(cells):
        stop = min([universal_vertex for universal_vertex in universal if universal_vertex > start] or [cells])
        wanted = start if start in universal else min(start + draw(st.integers(0, 3)), stop - 1)
        reach[start] = max(wanted, reach[start - 1] if start and start not in universal else start)
    return WindowGraph(reach, np.array(universal, dtype=np.int64))


@st.composite
def axis_graphs(draw: st.DrawFn, most: int = 8) -> CellGraph:
    """Any reach, universal vertices, filters and presence."""
    cells = draw(st.integers(1, most))
    outside = np.array(draw(st.lists(st.booleans(), min_size=cells, max_size=cells)))
    if draw(st.booleans()):
        outside[:] = False
    presence = draw(st.sampled_from(["public", "public", "secret", "only"]))
    return CellGraph((window_graph(draw, cells),), "record", outside, presence)


@st.composite
def axis_problems(draw: st.DrawFn, most: int = 8) -> Problem:
    """One of each kind of workload over a random graph."""
    graph = draw(axis_graphs(most))
    n = graph.cells
    low = np.array(draw(st.lists(st.integers(0, n), min_size=1, max_size=5)))
    high = np.array([draw(st.integers(int(a), n)) for a in low])
    entries = draw(st.lists(st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=1, max_size=4))
    ranges, sparse = Intervals(n, low, high), Sparse(csr_array(np.array(entries)))
    choices = [Identity(n), Prefix(n), AllRanges(n), ranges, sparse, total(n), Stacked((ranges, sparse, Prefix(n)))]
    return Problem(graph, draw(st.sampled_from(choices)))
