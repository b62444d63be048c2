"""Graphs given edge by edge, and graphs of cliques that need not be runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.arrays import Ints, as_ints
from blowfishdb.model.encoding import encode
from blowfishdb.model.graphs.axis import EDGE_LIMIT

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

    def _adjacency(self) -> csr_array:
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        ones = np.ones(2 * first.size, dtype=np.int8)
        where = (np.concatenate([first, second]), np.concatenate([second, first]))
        return csr_array(coo_array((ones, where), shape=(self.size, self.size)))

    def neighbours(self, vertex: int) -> Ints:
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        return np.sort(np.concatenate([second[first == vertex], first[second == vertex]]))

    def joined(self, first: Ints, second: Ints) -> Ints:
        keys = self.pairs[:, 0] * self.size + self.pairs[:, 1]
        wanted = np.minimum(first, second) * self.size + np.maximum(first, second)
        return np.asarray((first == second) | np.isin(wanted, keys), dtype=np.int64)

    def components(self) -> Ints:
        _, labels = connected_components(self._adjacency(), directed=False)
        return by_first_appearance(labels.astype(np.int64))

    def distance(self, first: int, second: int) -> int | None:
        order, parent = breadth_first_order(self._adjacency(), first, directed=False)
        if second not in order:
            return None
        steps = 0
        while second != first:
            second, steps = int(parent[second]), steps + 1
        return steps

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
