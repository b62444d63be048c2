"""Joint distance thresholds over several numeric axes (latitude and longitude): L1, L2 or Linf."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.arrays import Ints, as_ints, check_sum
from blowfishdb.model.encoding import encode
from blowfishdb.model.graphs.axis import EDGE_LIMIT
from blowfishdb.model.graphs.window import WindowGraph

Metric = Literal["l1", "l2", "linf"]


@dataclass(frozen=True, eq=False)
class GridGraph:
    """Boxes are joined when the distance between the *sets* is at most theta.

    Axis j has cells with positions lows[j][i] .. highs[j][i] in whole units that theta shares. hubs[j] are cells
    such as NULL that have no position: along axis j they are at distance 0 from every cell, the others still count.
    """

    lows: tuple[Ints, ...]
    highs: tuple[Ints, ...]
    theta: int
    metric: Metric
    hubs: tuple[Ints, ...]

    def __post_init__(self) -> None:
        for name in ("lows", "highs", "hubs"):
            object.__setattr__(self, name, tuple(as_ints(axis) for axis in getattr(self, name)))
        if not len(self.lows) == len(self.highs) == len(self.hubs) >= 1:
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
        low, high, hubs = self.lows[axis], self.highs[axis], self.hubs[axis]
        plain = np.setdiff1d(np.arange(low.size), hubs)
        if np.any(np.diff(low[plain]) < 0) or np.any(np.diff(high[plain]) < 0):
            raise PolicyError("positions of a joint threshold must not decrease along an axis")
        if hubs.size and plain.size and plain[-1] > hubs[0]:
            raise PolicyError("cells without a position stand last on their axis")
        reach = np.arange(low.size)
        reach[plain] = self.reaches(axis, np.array([radius]), plain.size)[0]
        return WindowGraph(reach=np.maximum(reach, np.arange(low.size)), hubs=hubs)

    def reaches(self, axis: int, radii: Ints, cells: int) -> Ints:
        """For each radius and each of the first cells of an axis in order, the last of them within that radius."""
        low, high = self.lows[axis][:cells], self.highs[axis][:cells]
        return np.searchsorted(low, high[None, :] + radii[:, None], side="right") - 1

    def _axis_pairs(self, axis: int) -> tuple[Ints, Ints, Ints]:
        """Ordered pairs of one axis within theta, each with its gap; a hub has gap 0 to everything."""
        graph = self.axis_within(axis, self.theta)
        edges, stay = graph.edges(), np.arange(graph.size)
        first = np.concatenate([edges[:, 0], edges[:, 1], stay])
        second = np.concatenate([edges[:, 1], edges[:, 0], stay])
        return first, second, self._gap(axis, first, second)

    def _gap(self, axis: int, first: Ints, second: Ints) -> Ints:
        """The distance of two cells along one axis."""
        low, high, hubs = self.lows[axis], self.highs[axis], self.hubs[axis]
        gap = np.maximum(0, np.maximum(low[second] - high[first], low[first] - high[second]))
        return np.where(np.isin(first, hubs) | np.isin(second, hubs), 0, gap)

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
            own = self.axis_within(axis, self.theta).components()
            labels = (labels[:, None] * (int(own.max()) + 1) + own[None, :]).reshape(-1)
        return labels

    def fingerprint(self) -> bytes:
        """Bytes that determine the graph, for digests."""
        return encode(("grid", self.metric, self.theta, self.lows, self.highs, self.hubs))
