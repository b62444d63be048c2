"""Spanning tree: measures the sums beyond every edge of a tree inside the policy graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.strategy import ForestStrategy
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import ZERO, WindowGraph
from blowfishdb.model.numbers import Bools, Ints
from blowfishdb.model.workload import Intervals, Rows, Sparse
from blowfishdb.plan.plan import Problem

NAME = "spanning-tree"
EDGES = 4_000_000
CELLS = 250_000
LINE_CELLS = 4096
"""Longer ordered axes belong to the mechanisms that never list edges."""
ENTRIES = 20_000_000


@dataclass(frozen=True, eq=False)
class Forest:
    """A spanning forest of the cells and, as the last vertex, of the one that no row counts.

    `order` lists the vertices so that parents come before children; roots are their own parents.
    """

    parent: Ints
    order: Ints

    @cached_property
    def depth(self) -> Ints:
        """Steps from each vertex up to its root, by doubling."""
        depth, above = (~self.is_root).astype(np.int64), self.parent
        while not np.array_equal(above, above[above]):
            depth, above = depth + depth[above], above[above]
        return depth

    @property
    def is_root(self) -> Bools:
        return np.asarray(self.parent == np.arange(self.parent.size))

    @cached_property
    def runs(self) -> tuple[Ints, Ints] | None:
        """The first cell and one past the last of every subtree, where all subtrees are runs of cells."""
        low = np.arange(self.parent.size)
        high, size = low + 1, np.ones(self.parent.size, dtype=np.int64)
        for vertex in self.order[::-1]:
            above = self.parent[vertex]
            if above != vertex:
                low[above], high[above] = min(low[above], low[vertex]), max(high[above], high[vertex])
                size[above] += size[vertex]
        return (low, high) if np.array_equal(high - low, size) else None

    def distances(self, edges: Ints) -> Ints:
        """Steps along the tree between the ends of each edge; both ends must lie in the same tree."""
        jumps = [self.parent]
        while (1 << len(jumps)) <= int(self.depth.max(initial=0)):
            jumps.append(jumps[-1][jumps[-1]])
        first, second = edges[:, 0].copy(), edges[:, 1].copy()
        deeper = self.depth[first] < self.depth[second]
        first[deeper], second[deeper] = second[deeper], first[deeper]
        gap = self.depth[first] - self.depth[second]
        for level, jump in enumerate(jumps):
            first = np.where((gap >> level) & 1, jump[first], first)
        for jump in reversed(jumps):
            apart = jump[first] != jump[second]
            first, second = np.where(apart, jump[first], first), np.where(apart, jump[second], second)
        meeting = np.where(first == second, first, self.parent[first])
        return np.asarray(self.depth[edges[:, 0]] + self.depth[edges[:, 1]] - 2 * self.depth[meeting])


def grow(vertices: int, edges: Ints, first_roots: Ints) -> Forest:
    """Breadth-first trees over the edges, from the given roots first, then from the lowest vertex left."""
    ones = np.ones(2 * edges.shape[0], dtype=np.int8)
    ends = (np.concatenate([edges[:, 0], edges[:, 1]]), np.concatenate([edges[:, 1], edges[:, 0]]))
    adjacency = csr_array(coo_array((ones, ends), shape=(vertices, vertices)))
    parent, seen, orders = np.arange(vertices), np.zeros(vertices, dtype=np.bool_), []
    isolated = np.diff(adjacency.indptr) == 0
    seen[isolated] = True
    orders.append(np.flatnonzero(isolated))
    for root in (*first_roots, *range(vertices)):
        if not seen[root]:
            order, above = breadth_first_order(adjacency, root, directed=False)
            parent[order[1:]] = above[order[1:]]
            seen[order] = True
            orders.append(order)
    return Forest(parent.astype(np.int64), np.concatenate(orders).astype(np.int64))


def propose(problem: Problem) -> ForestStrategy:
    """Serves any policy whose edges can be listed, with the tree of least stretch among a few."""
    edges = listed_edges(NAME, problem)
    return tree_strategy(NAME, problem, best_forest(problem.graph.cells, edges))


def listed_edges(mechanism: str, problem: Problem) -> Ints:
    """All edges of the policy with the vertex that no row counts written as the number of cells."""
    graph = problem.graph
    if len(graph.factors) == 1 and isinstance(graph.factors[0], WindowGraph) and graph.cells > LINE_CELLS:
        raise Declined(mechanism, "a long ordered axis is left to 'ordered' and 'optimized', which list no edges")
    if graph.cells > CELLS:
        raise Declined(mechanism, f"there are {graph.cells:,} cells, more than {CELLS:,}")
    bound = graph.value_edge_bound + graph.cells
    if bound > EDGES:
        raise Declined(mechanism, f"the policy may have {bound:,} edges, more than {EDGES:,}")
    edges = graph.edges()
    if edges.shape[0] == 0:
        raise Declined(mechanism, "the policy has no edges: every answer is exact")
    return np.where(edges == ZERO, graph.cells, edges)


def best_forest(cells: int, edges: Ints) -> Forest:
    """The forest of least stretch among the path in order and breadth-first trees from several centres."""
    follow = np.arange(cells - 1)
    path = np.stack([follow, follow + 1], axis=1)
    keys = edges.min(axis=1) * (cells + 1) + edges.max(axis=1)
    # The edges of the path in order that the graph has span its components whenever they number the same.
    own_path = path[np.isin(path[:, 0] * (cells + 1) + path[:, 1], keys)]
    first = grow(cells + 1, edges, np.array([cells]))
    candidates = [first]
    ordered = grow(cells + 1, own_path, np.empty(0, dtype=np.int64))
    if int(ordered.is_root.sum()) == int(first.is_root.sum()):
        candidates.append(ordered)
    degree = np.bincount(edges.reshape(-1), minlength=cells + 1)
    middle = first.order[int(np.argsort(first.depth[first.order], kind="stable")[first.order.size // 2])]
    for centre in dict.fromkeys([int(degree.argmax()), int(middle), int(first.order[-1]), cells // 2]):
        candidates.append(grow(cells + 1, edges, np.array([cells, centre])))
    return min(candidates, key=lambda forest: (int(forest.distances(edges).max()), int(forest.depth.sum())))


def tree_strategy(mechanism: str, problem: Problem, forest: Forest) -> ForestStrategy:
    """The strategy that measures the cells below every edge of the forest, all with the same weight."""
    if forest.runs is None and int(forest.depth.sum()) > ENTRIES:
        raise Declined(mechanism, "the sums below the edges of the tree have too many entries")
    is_root = forest.is_root[:-1]
    rows, totals = (subtrees(forest, np.flatnonzero(chosen)) for chosen in (~is_root, is_root))
    return ForestStrategy(mechanism, problem, forest.parent[:-1], rows, totals)


def subtrees(forest: Forest, tops: Ints) -> Rows | None:
    """Rows that count the cells below the given ones, plain intervals where all subtrees are runs; None for none."""
    cells = forest.parent.size - 1
    if not tops.size:
        return None
    if forest.runs is not None:
        low, high = forest.runs
        return Intervals(cells, low[tops], high[tops])
    member, above = np.arange(cells), np.arange(cells)
    rows, columns = [above], [member]
    while member.size:
        climbs = forest.parent[above] != above
        member, above = member[climbs], forest.parent[above[climbs]]
        rows.append(above)
        columns.append(member)
    row, column = np.concatenate(rows), np.concatenate(columns)
    place = np.full(cells + 1, -1)
    place[tops] = np.arange(tops.size)
    inside = place[row] >= 0
    ones = np.ones(int(inside.sum()), dtype=np.int64)
    return Sparse(csr_array(coo_array((ones, (place[row[inside]], column[inside])), shape=(tops.size, cells))))
