"""Nested boxes of a grid of cells: a tree whose leaves part the grid, and the ways to cut its boxes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.errors import Declined, PlanError
from blowfishdb.model.arrays import Bools, Floats, Ints, as_ints
from blowfishdb.model.workload import Rectangles
from blowfishdb.model.workload.boxes import AXIS_LIMIT


@dataclass(frozen=True, eq=False)
class RegionTree:
    """Node i is the box low[i] <= cell < high[i]; node 0 is the whole grid, every parent stands before its children.

    The children of a node part its box: each way to make a tree below cuts a box into boxes.
    """

    shape: tuple[int, ...]
    low: Ints
    high: Ints
    parent: Ints

    def __post_init__(self) -> None:
        for name in ("low", "high", "parent"):
            object.__setattr__(self, name, as_ints(getattr(self, name)))
        nodes = self.parent.size
        if self.low.shape != (nodes, len(self.shape)) or self.high.shape != self.low.shape:
            raise PlanError("each region needs a lower and an upper bound on every axis")
        if nodes == 0 or np.any(self.parent >= np.arange(nodes)) or int(self.parent[0]) != -1:
            raise PlanError("regions start with the whole grid, and parents stand before their children")
        if np.any(self.low >= self.high):
            raise PlanError("no region is empty")

    @property
    def nodes(self) -> int:
        return int(self.parent.size)

    @cached_property
    def areas(self) -> Floats:
        """How many cells each region has."""
        return np.asarray(np.prod((self.high - self.low).astype(np.float64), axis=1))

    @cached_property
    def is_leaf(self) -> Bools:
        mask = np.ones(self.nodes, dtype=np.bool_)
        mask[self.parent[1:]] = False
        return mask

    @cached_property
    def leaves(self) -> Ints:
        """The nodes without children, in increasing order; they are the buckets of the partition."""
        return np.flatnonzero(self.is_leaf)

    @cached_property
    def depth(self) -> Ints:
        """How many steps each node is below the whole grid."""
        depth = np.zeros(self.nodes, dtype=np.int64)
        above = self.parent
        while np.any(above >= 0):
            depth += above >= 0
            above = np.where(above >= 0, self.parent[above], -1)
        return depth

    @cached_property
    def by_depth(self) -> list[Ints]:
        """The nodes of each depth."""
        order = np.argsort(self.depth, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.depth))[:-1])

    @cached_property
    def children(self) -> tuple[Ints, Ints]:
        """The nodes in order of their parents, and for each node where its children start there (one end mark more)."""
        order = np.argsort(self.parent[1:], kind="stable") + 1
        counts = np.bincount(self.parent[1:], minlength=self.nodes)
        return order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def labels(self) -> Ints:
        """For each cell of the grid, row-major, the number of its leaf among the leaves."""
        boxes = Rectangles(self.shape, self.low[self.leaves], self.high[self.leaves])
        return np.asarray(boxes.transpose_dot(np.arange(self.leaves.size)), dtype=np.int64)


def check_axes(mechanism: str, shape: tuple[int, ...]) -> None:
    """Declined where a box would have too many corners."""
    if len(shape) > AXIS_LIMIT:
        raise Declined(mechanism, f"it serves up to {AXIS_LIMIT} axes, not {len(shape)}")


def whole(shape: tuple[int, ...]) -> RegionTree:
    """The grid itself, uncut."""
    bounds = np.array([shape], dtype=np.int64)
    return RegionTree(shape, np.zeros_like(bounds), bounds, np.array([-1]))


def cut(tree: RegionTree, chosen: Ints, pieces: Ints) -> RegionTree:
    """The tree with each chosen leaf cut into a grid of pieces[i, axis] nearly equal boxes; one piece is no cut.

    Between a leaf and its pieces stand boxes of halved rows and columns of pieces, so that no node has many children.
    """
    if not np.all(tree.is_leaf[chosen]):
        raise PlanError("only a leaf can be cut")
    start, width = tree.low[chosen], tree.high[chosen] - tree.low[chosen]
    pieces = np.clip(pieces, 1, width)
    low, high, parent = [tree.low], [tree.high], [tree.parent]
    node, box, nodes = chosen, np.arange(chosen.size), tree.nodes
    first, last = np.zeros_like(pieces), pieces
    while np.any(is_open := np.any(last - first > 1, axis=1)):
        node, box, first, last = _halves(node[is_open], box[is_open], first[is_open], last[is_open])
        low.append(start[box] + width[box] * first // pieces[box])
        high.append(start[box] + width[box] * last // pieces[box])
        parent.append(node)
        node = nodes + np.arange(node.size)
        nodes += node.size
    return RegionTree(tree.shape, np.concatenate(low), np.concatenate(high), np.concatenate(parent))


def _halves(node: Ints, box: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Each block of pieces first..last-1 halved on every axis where it has two or more."""
    middle = (first + last) // 2
    found = []
    for upper in itertools.product((False, True), repeat=first.shape[1]):
        side = np.array(upper)
        kept = np.all((middle > first) | side, axis=1)
        bounds = np.where(side, middle, first)[kept], np.where(side, last, middle)[kept]
        found.append((node[kept], box[kept], *bounds))
    whole_node, whole_box, low, high = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return whole_node, whole_box, low, high


def halvings(low: Ints, high: Ints, times: int) -> Ints:
    """Pieces per axis when the axis with the longest pieces is halved so many times, down to single cells."""
    width = high - low
    pieces = np.ones_like(width)
    rows = np.arange(width.shape[0])
    for _ in range(times):
        axis = np.argmax(width / pieces, axis=1)
        pieces[rows, axis] = np.minimum(2 * pieces[rows, axis], width[rows, axis])
    return pieces
