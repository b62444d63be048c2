"""Plans over points: each record spreads a public whole weight over the nodes around it.

Proof note: docs/proofs/kmeans.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PlanError, TooLarge
from blowfishdb.model.encoding import digest
from blowfishdb.model.numbers import Ints, as_ints, check_sum

MOST_POINTS = 2**20


@dataclass(frozen=True, eq=False)
class PointAxis:
    """Where each value of a column stands among the nodes: `places` are steps from the first node, never decreasing.

    A value at place a * steps + x, x < steps, gives node a the weight steps - x and node a + 1 the weight x. With one
    step every value stands on a node, and the weights are counts of cells.
    """

    steps: int
    places: Ints

    def __post_init__(self) -> None:
        places = as_ints(self.places)
        object.__setattr__(self, "places", places)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise PlanError("between two nodes lies at least one step")
        if places.ndim != 1 or places.size == 0 or places[0] < 0 or np.any(np.diff(places) < 0):
            raise PlanError("places are whole numbers from 0 on that never decrease, one per value")

    @property
    def grid_points(self) -> int:
        return -(-int(self.places[-1]) // self.steps) + 1

    def kept(self, first: Ints, second: Ints) -> Ints:
        """What the weights of two values share: the sum over the nodes of the smaller one."""
        one, two = self.places[first], self.places[second]
        low, high = np.minimum(one, two), np.maximum(one, two)
        apart, low, high = high // self.steps - low // self.steps, low % self.steps, high % self.steps
        beside = np.minimum(self.steps - high, low)
        return np.where(apart == 0, self.steps - high + low, np.where(apart == 1, beside, 0))


@dataclass(frozen=True, eq=False)
class PointPlan:
    """Weights on the nodes of a grid with noise of scale `unit` on each, and exact counts of blocks of values.

    One record adds round(total * product of its weights / product of the steps) to each node around it. Without a unit
    the nodes are released exactly. `blocks` labels the values of each column; every combination of labels is counted
    exactly. Both are refused unless no hidden move can change them.
    """

    unit: Fraction | None
    axes: tuple[PointAxis, ...]
    total: int
    blocks: tuple[Ints, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(as_ints(labels) for labels in self.blocks))
        if self.unit is not None and (not isinstance(self.unit, Fraction) or self.unit <= 0):
            raise PlanError("the unit of a plan is a positive Fraction")
        if not self.axes:
            raise PlanError("nodes need at least one column")
        check_sum("product of the steps between nodes", self._whole)
        if self.total < 1 or self._whole % self.total:
            raise PlanError("the total weight of a record divides the product of the steps")
        if self.grid_points > MOST_POINTS:
            raise TooLarge("nodes of a grid", self.grid_points, MOST_POINTS, "Use fewer nodes.")
        sizes = [axis.places.size for axis in self.axes]
        if self.blocks and [labels.size for labels in self.blocks] != sizes:
            raise PlanError("blocks label every value of every column")
        if any(int(labels.min()) < 0 for labels in self.blocks) or math.prod(self.block_shape) > MOST_POINTS:
            raise PlanError(f"blocks are numbered from 0 on and there are at most {MOST_POINTS:,}")

    @property
    def _whole(self) -> int:
        return math.prod(axis.steps for axis in self.axes)

    @property
    def rounding(self) -> int:
        """What the product of the weights is divided by, to the nearest whole number; 1 when nothing is rounded."""
        return self._whole // self.total

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.grid_points for axis in self.axes)

    @property
    def grid_points(self) -> int:
        return math.prod(self.shape)

    @property
    def block_shape(self) -> tuple[int, ...]:
        return tuple(int(labels.max()) + 1 for labels in self.blocks)

    def with_unit(self, unit: Fraction | None) -> PointPlan:
        """The same nodes at another noise level."""
        return replace(self, unit=unit)

    def digest(self) -> str:
        """A hash of everything above."""
        axes = tuple((axis.steps, axis.places) for axis in self.axes)
        return digest(("node plan", self.unit, self.total, axes, self.blocks))

    def rows_at(self, points: Ints) -> tuple[Ints, Ints]:
        """For each point (values by column) the flat nodes around it and the weight it gives to each."""
        grid_points, weights = [], []
        placed = [axis.places[points[:, column]] for column, axis in enumerate(self.axes)]
        for corner in itertools.product((0, 1), repeat=len(self.axes)):
            flat, weight = np.zeros(points.shape[0], dtype=np.int64), np.ones(points.shape[0], dtype=np.int64)
            for upper, axis, place in zip(corner, self.axes, placed, strict=True):
                part = place % axis.steps
                # A value on the last node gives the next one nothing, so it may stand for itself.
                flat = flat * axis.grid_points + np.minimum(place // axis.steps + upper, axis.grid_points - 1)
                weight = weight * (part if upper else axis.steps - part)
            grid_points.append(flat)
            weights.append((weight + self.rounding // 2) // self.rounding)
        return np.stack(grid_points, axis=1), np.stack(weights, axis=1)

    def blocks_at(self, points: Ints) -> Ints:
        """The flat block of each point."""
        flat = np.zeros(points.shape[0], dtype=np.int64)
        for column, (labels, size) in enumerate(zip(self.blocks, self.block_shape, strict=True)):
            flat = flat * size + labels[points[:, column]]
        return flat
