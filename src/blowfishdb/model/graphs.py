"""Policy graphs on the cells of one or several axes: windows, listed edges, cliques, joint thresholds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.encoding import encode
from blowfishdb.model.numbers import Bools, Ints, as_ints, check_sum

EDGE_LIMIT = 20_000_000
"""No graph lists more edges than this; larger ones are handled symbolically or refused."""


class AxisGraph(Protocol):
    """An undirected graph without loops on the cells 0 .. size-1 of one axis."""

    @property
    def size(self) -> int: ...

    @property
    def edge_count(self) -> int:
        """How many edges there are, without listing them."""
        ...

    def edges(self) -> Ints:
        """All edges as rows (u, v) with u < v, in lexicographic order; TooLarge above EDGE_LIMIT."""
        ...

    def neighbours(self, vertex: int) -> Ints:
        """The sorted neighbours of one cell."""
        ...

    def joined(self, first: Ints, second: Ints) -> Ints:
        """For each pair, 1 where the two cells are equal or joined by an edge, else 0."""
        ...

    def components(self) -> Ints:
        """A label for each cell, equal exactly within connected components, numbered by first appearance."""
        ...

    def distance(self, first: int, second: int) -> int | None:
        """Number of steps between two cells; None when no path joins them."""
        ...

    def fingerprint(self) -> bytes:
        """Bytes that determine the graph, for digests."""
        ...


@dataclass(frozen=True, eq=False)
class WindowGraph:
    """Cell i is joined to i+1 .. reach[i] (reach never decreases), and every universal vertex to every other cell.

    Universal vertices are cells such as NULL that stand beside the order; they reach themselves, and no window crosses
    them.
    """

    reach: Ints
    universal: Ints

    def __post_init__(self) -> None:
        reach, universal = as_ints(self.reach), as_ints(self.universal)
        object.__setattr__(self, "reach", reach)
        object.__setattr__(self, "universal", universal)
        index = np.arange(reach.size)
        if reach.size == 0:
            raise PolicyError("a policy graph needs at least one cell")
        if np.any(reach < index) or np.any(reach >= reach.size) or np.any(np.diff(reach) < 0):
            raise PolicyError("reach must be within the axis, at or after each cell, and never decrease")
        if universal.size and (np.any(np.diff(universal) <= 0) or universal[0] < 0 or universal[-1] >= reach.size):
            raise PolicyError("universal vertices must be distinct cells of the axis in increasing order")
        if np.any(reach[universal] != universal) or np.any((reach[universal - 1] >= universal) & (universal > 0)):
            raise PolicyError("no window may start at, reach or cross a universal vertex")

    @property
    def size(self) -> int:
        return int(self.reach.size)

    @property
    def is_universal(self) -> Bools:
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.universal] = True
        return mask

    @property
    def edge_count(self) -> int:
        window = int(np.sum(self.reach - np.arange(self.size)))
        plain = self.size - self.universal.size
        return window + self.universal.size * plain + self.universal.size * (self.universal.size - 1) // 2

    def edges(self) -> Ints:
        if self.edge_count > EDGE_LIMIT:
            raise TooLarge("edges of a policy graph", self.edge_count, EDGE_LIMIT, "Use coarser bins.")
        index = np.arange(self.size)
        count = self.reach - index
        first = np.repeat(index, count)
        offset = np.arange(first.size) - np.repeat(np.cumsum(count) - count, count)
        parts = [np.stack([first, first + 1 + offset], axis=1)]
        mask = self.is_universal
        for universal_vertex in self.universal:
            others = index[~mask | (index > universal_vertex)]
            others = others[others != universal_vertex]
            parts.append(np.stack([np.minimum(others, universal_vertex), np.maximum(others, universal_vertex)], axis=1))
        every = np.concatenate(parts)
        return every[np.lexsort((every[:, 1], every[:, 0]))].astype(np.int64)

    def neighbours(self, vertex: int) -> Ints:
        index = np.arange(self.size)
        near = self.joined(np.full(self.size, vertex), index) == 1
        return np.asarray(index[near & (index != vertex)], dtype=np.int64)

    def joined(self, first: Ints, second: Ints) -> Ints:
        low, high = np.minimum(first, second), np.maximum(first, second)
        mask = self.is_universal
        return np.asarray(mask[low] | mask[high] | (high <= self.reach[low]), dtype=np.int64)

    def components(self) -> Ints:
        if self.universal.size and self.size > 1:
            return np.zeros(self.size, dtype=np.int64)
        starts = np.concatenate([[False], self.reach[:-1] == np.arange(self.size - 1)])
        return np.cumsum(starts).astype(np.int64)

    def distance(self, first: int, second: int) -> int | None:
        low, high = min(first, second), max(first, second)
        direct = 0
        while low < high:
            step = int(self.reach[low])
            if step == low:
                break
            low, direct = step, direct + 1
        through_universal = (first != second) * (1 if self.is_universal[[first, second]].any() else 2)
        if low < high:
            return int(through_universal) if self.universal.size else None
        return min(direct, int(through_universal)) if self.universal.size else direct

    def fingerprint(self) -> bytes:
        return encode(("window", self.reach, self.universal))


VERTEX_LIMIT = 2**24
"""Listed graphs keep one number per vertex, and two vertices make one int64 key."""


def by_first_appearance(labels: Ints) -> Ints:
    """The same grouping with labels numbered 0, 1, ... in order of first appearance."""
    steps = np.diff(labels, prepend=labels[:1])
    if not labels[:1].any() and bool(np.all((steps == 0) | (steps == 1))):
        return labels
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse.reshape(-1)]


def adjacency(edges: Ints, size: int) -> csr_array:
    """The edges as a sparse matrix, each in one direction."""
    ones = np.ones(edges.shape[0], dtype=np.int8)
    return csr_array(coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(size, size)))


def steps_between(edges: Ints, size: int, first: int, second: int) -> int | None:
    """The length of a shortest path along undirected edges; None where there is no path."""
    _, parent = breadth_first_order(adjacency(edges, size), first, directed=False)
    steps = 0
    while second != first:
        if parent[second] < 0:
            return None
        second, steps = int(parent[second]), steps + 1
    return steps


@dataclass(frozen=True, eq=False)
class EdgeGraph:
    """Exactly the listed edges."""

    size: int
    pairs: Ints

    def __post_init__(self) -> None:
        pairs = as_ints(np.asarray(self.pairs, dtype=np.int64).reshape(-1, 2))
        if self.size < 1:
            raise PolicyError("a policy graph needs at least one cell")
        if self.size > VERTEX_LIMIT:
            raise TooLarge("vertices of a listed graph", self.size, VERTEX_LIMIT, "Use coarser bins.")
        if pairs.shape[0] > EDGE_LIMIT:
            raise TooLarge("edges of a policy graph", pairs.shape[0], EDGE_LIMIT, "Use coarser bins.")
        if pairs.size and (pairs.min() < 0 or pairs.max() >= self.size):
            raise PolicyError(f"an edge names a cell outside 0..{self.size - 1}")
        ordered = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
        object.__setattr__(self, "pairs", as_ints(np.unique(ordered, axis=0).reshape(-1, 2)))

    @property
    def edge_count(self) -> int:
        return int(self.pairs.shape[0])

    def edges(self) -> Ints:
        return self.pairs

    def neighbours(self, vertex: int) -> Ints:
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        return np.sort(np.concatenate([second[first == vertex], first[second == vertex]]))

    def joined(self, first: Ints, second: Ints) -> Ints:
        keys = self.pairs[:, 0] * self.size + self.pairs[:, 1]
        wanted = np.minimum(first, second) * self.size + np.maximum(first, second)
        return np.asarray((first == second) | np.isin(wanted, keys), dtype=np.int64)

    def components(self) -> Ints:
        _, labels = connected_components(adjacency(self.pairs, self.size), directed=False)
        return by_first_appearance(labels.astype(np.int64))

    def distance(self, first: int, second: int) -> int | None:
        return steps_between(self.pairs, self.size, first, second)

    def fingerprint(self) -> bytes:
        return encode(("edges", self.size, self.pairs))


@dataclass(frozen=True, eq=False)
class CliqueGraph:
    """Cells with equal labels are joined to each other, and to nothing else."""

    labels: Ints

    def __post_init__(self) -> None:
        labels = as_ints(self.labels)
        if labels.size == 0:
            raise PolicyError("a policy graph needs at least one cell")
        object.__setattr__(self, "labels", as_ints(by_first_appearance(labels)))

    @property
    def size(self) -> int:
        return int(self.labels.size)

    @property
    def edge_count(self) -> int:
        sizes = np.bincount(self.labels).astype(object)
        return int(np.sum(sizes * (sizes - 1) // 2))

    def edges(self) -> Ints:
        if self.edge_count > EDGE_LIMIT:
            raise TooLarge("edges of a policy graph", self.edge_count, EDGE_LIMIT, "Use coarser bins.")
        parts = [np.empty((0, 2), dtype=np.int64)]
        for block in np.split(np.argsort(self.labels, kind="stable"), np.cumsum(np.bincount(self.labels))[:-1]):
            low, high = np.triu_indices(block.size, k=1)
            parts.append(np.stack([block[low], block[high]], axis=1))
        every = np.concatenate(parts)
        return every[np.lexsort((every[:, 1], every[:, 0]))]

    def neighbours(self, vertex: int) -> Ints:
        same = np.flatnonzero(self.labels == self.labels[vertex])
        return np.asarray(same[same != vertex], dtype=np.int64)

    def joined(self, first: Ints, second: Ints) -> Ints:
        return np.asarray(self.labels[first] == self.labels[second], dtype=np.int64)

    def components(self) -> Ints:
        return self.labels

    def distance(self, first: int, second: int) -> int | None:
        if self.labels[first] != self.labels[second]:
            return None
        return int(first != second)

    def fingerprint(self) -> bytes:
        return encode(("cliques", self.labels))


Metric = Literal["l1", "l2", "linf"]


@dataclass(frozen=True, eq=False)
class GridGraph:
    """Boxes are joined when the distance between the *sets* is at most theta.

    Axis j has cells with positions lows[j][i] .. highs[j][i] in whole units that theta shares. universal[j] are cells
    such as NULL that have no position: along axis j they are at distance 0 from every cell, the others still count.
    """

    lows: tuple[Ints, ...]
    highs: tuple[Ints, ...]
    theta: int
    metric: Metric
    universal: tuple[Ints, ...]

    def __post_init__(self) -> None:
        for name in ("lows", "highs", "universal"):
            object.__setattr__(self, name, tuple(as_ints(axis) for axis in getattr(self, name)))
        if not len(self.lows) == len(self.highs) == len(self.universal) >= 1:
            raise PolicyError("a joint threshold needs positions for each of its attributes")
        if self.theta < 0:
            raise PolicyError("theta must not be negative")
        for low, high in zip(self.lows, self.highs, strict=True):
            if low.size == 0 or low.size != high.size or np.any(low > high):
                raise PolicyError("each cell of a joint threshold needs a low position at or below its high one")
        furthest = self.theta + max(int(np.abs(axis).max()) for axis in (*self.lows, *self.highs))
        power = 2 if self.metric == "l2" else 1
        check_sum("distances of a joint threshold", len(self.lows) * (2 * furthest) ** power)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(low.size) for low in self.lows)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def axis_within(self, axis: int, radius: int) -> WindowGraph:
        """The threshold graph of one axis alone at the given radius; its positions must be in order."""
        low, high, universal = self.lows[axis], self.highs[axis], self.universal[axis]
        plain = np.setdiff1d(np.arange(low.size), universal)
        if np.any(np.diff(low[plain]) < 0) or np.any(np.diff(high[plain]) < 0):
            raise PolicyError("positions of a joint threshold must not decrease along an axis")
        if universal.size and plain.size and plain[-1] > universal[0]:
            raise PolicyError("cells without a position stand last on their axis")
        reach = np.arange(low.size)
        reach[plain] = self.reaches(axis, np.array([radius]), plain.size)[0]
        return WindowGraph(reach=np.maximum(reach, np.arange(low.size)), universal=universal)

    def reaches(self, axis: int, radii: Ints, cells: int) -> Ints:
        """For each radius and each of the first cells of an axis in order, the last of them within that radius."""
        low, high = self.lows[axis][:cells], self.highs[axis][:cells]
        return np.searchsorted(low, high[None, :] + radii[:, None], side="right") - 1

    def _axis_pairs(self, axis: int) -> tuple[Ints, Ints, Ints]:
        """Ordered pairs of one axis within theta, each with its gap; a universal vertex has gap 0 to everything."""
        graph = self.axis_within(axis, self.theta)
        edges, stay = graph.edges(), np.arange(graph.size)
        first = np.concatenate([edges[:, 0], edges[:, 1], stay])
        second = np.concatenate([edges[:, 1], edges[:, 0], stay])
        return first, second, self._gap(axis, first, second)

    def _gap(self, axis: int, first: Ints, second: Ints) -> Ints:
        """The distance of two cells along one axis."""
        low, high, universal = self.lows[axis], self.highs[axis], self.universal[axis]
        gap = np.maximum(0, np.maximum(low[second] - high[first], low[first] - high[second]))
        return np.where(np.isin(first, universal) | np.isin(second, universal), 0, gap)

    @property
    def edge_count_bound(self) -> int:
        """At least as many as there are edges: those of the Linf ball, without listing them."""
        graphs = [self.axis_within(axis, self.theta) for axis in range(len(self.shape))]
        return (math.prod(graph.size + 2 * graph.edge_count for graph in graphs) - self.size) // 2

    def edges(self) -> Ints:
        """All edges between flattened cells (row-major), u < v."""
        first = second = cost = np.zeros(1, dtype=np.int64)
        limit = self.theta**2 if self.metric == "l2" else self.theta
        for axis, size in enumerate(self.shape):
            one, two, gap = self._axis_pairs(axis)
            if first.size * one.size > 4 * EDGE_LIMIT:
                raise TooLarge("pairs of a joint policy", first.size * one.size, 4 * EDGE_LIMIT, "Use coarser bins.")
            step = gap**2 if self.metric == "l2" else gap
            total = np.maximum.outer(cost, step) if self.metric == "linf" else np.add.outer(cost, step)
            near = total <= limit
            first = (first[:, None] * size + one[None, :])[near]
            second = (second[:, None] * size + two[None, :])[near]
            cost = total[near]
        keep = first < second
        pairs = np.stack([first[keep], second[keep]], axis=1)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    def joined(self, first: Ints, second: Ints) -> Ints:
        """For each pair of flattened cells, 1 where they are equal or joined."""
        one, two = np.unravel_index(first, self.shape), np.unravel_index(second, self.shape)
        gaps = [self._gap(axis, one[axis], two[axis]) for axis in range(len(self.shape))]
        stacked = np.stack(gaps)
        if self.metric == "l1":
            near = stacked.sum(axis=0) <= self.theta
        elif self.metric == "l2":
            near = (stacked**2).sum(axis=0) <= self.theta**2
        else:
            near = stacked.max(axis=0) <= self.theta
        return np.asarray(near, dtype=np.int64)

    def components(self) -> Ints:
        """A label per flattened cell: cells in one component of every axis are connected, one axis at a time."""
        labels = np.zeros(1, dtype=np.int64)
        for axis in range(len(self.shape)):
            axis_labels = self.axis_within(axis, self.theta).components()
            labels = (labels[:, None] * (int(axis_labels.max()) + 1) + axis_labels[None, :]).reshape(-1)
        return labels

    def fingerprint(self) -> bytes:
        """Bytes that determine the graph, for digests."""
        return encode(("grid", self.metric, self.theta, self.lows, self.highs, self.universal))
