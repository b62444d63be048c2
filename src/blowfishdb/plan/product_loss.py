"""Worst edges of product measurements: what each axis loses, put together as the policy composes its factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph, Factor, factor_shape
from blowfishdb.model.graphs.axis import AxisGraph
from blowfishdb.model.graphs.grid import GridGraph
from blowfishdb.model.workload import as_intervals
from blowfishdb.plan.columns import column_losses, sparse_columns
from blowfishdb.plan.interval_loss import worst_axis_edge
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement
from blowfishdb.plan.worst_edge import NO_EDGE, WorstEdge, worst_of

RADII = 16
"""How finely a joint threshold is split among its axes; a finer split is tighter, every split is sound."""


@dataclass(frozen=True)
class AxisCost:
    """One axis of a product: its column norms, and whether all its rows are 0/1."""

    measurement: Measurement
    norms: Ints
    zero_one: bool

    @staticmethod
    def of(measurement: Measurement) -> AxisCost:
        norms = measurement.rows.column_norms(measurement.weights)
        return AxisCost(measurement, norms, as_intervals(measurement.rows) is not None)

    @property
    def largest(self) -> int:
        return int(self.norms.max())

    @property
    def is_level(self) -> bool:
        """Whether the product formula holds for this axis; it is exact when the rows are 0/1 as well."""
        return int(self.norms.min()) == self.largest

    def worst(self, graph: AxisGraph) -> WorstEdge:
        """F_j: the worst edge of this axis alone."""
        rows, weights = self.measurement.rows, self.measurement.weights
        intervals = as_intervals(rows)
        if intervals is not None:
            return worst_axis_edge(intervals, weights, graph)
        edges = graph.edges()
        return worst_of(column_losses(sparse_columns(rows), weights, edges), edges)


def worst_product_edge(parts: Sequence[KroneckerMeasurement], graph: CellGraph) -> WorstEdge:
    """The largest loss of any value edge over all parts together.

    One part: exact for level 0/1 axes or one moving attribute, otherwise a sound bound. Several parts: for each way to
    move, the sum of their bounds, which is sound because the losses of one edge add up.
    """
    ways = [_ways_of(part, graph) for part in parts]
    if len(parts) == 1:
        return max(ways[0], key=lambda worst: worst.loss)
    loss = max(sum(worst.loss for worst in way) for way in zip(*ways, strict=True))
    return WorstEdge(loss, None, tight=False) if loss else NO_EDGE


def _ways_of(part: KroneckerMeasurement, graph: CellGraph) -> list[WorstEdge]:
    """The worst loss of one part for each way to move, in an order that only the graph decides."""
    shape = tuple(factor.cells for factor in part.factors)
    if shape != graph.shape:
        raise PlanError(f"a product measurement over {shape} does not fit cells of shape {graph.shape}")
    axes = [AxisCost.of(factor) for factor in part.factors]
    moves, start = [], 0
    for factor in graph.factors:
        stop = start + len(factor_shape(factor))
        moves.append(_factor_moves(factor, axes[start:stop]))
        start = stop
    stay = [(NO_EDGE,) * len(options[0]) for options in moves]
    if graph.composition == "record":
        choices = [tuple(itertools.chain(*choice)) for choice in itertools.product(*moves)]
    else:
        choices = [
            tuple(itertools.chain(*stay[:index], move, *stay[index + 1 :]))
            for index, options in enumerate(moves)
            for move in options
        ]
    return [_combine(axes, choice) for choice in choices]


def _combine(axes: list[AxisCost], moved: tuple[WorstEdge, ...]) -> WorstEdge:
    """The loss when each axis makes its worst move at once (proof: docs/proofs/kronecker.md)."""
    whole = math.prod(axis.largest for axis in axes)
    if all(axis.is_level for axis in axes):
        kept = math.prod(axis.largest - Fraction(worst.loss, 2) for axis, worst in zip(axes, moved, strict=True))
        loss = math.ceil(2 * (whole - kept))
    else:
        summed = sum(w.loss * (whole // max(a.largest, 1)) for a, w in zip(axes, moved, strict=True))
        loss = min(summed, 2 * whole)
    movers = [worst for worst in moved if worst.loss]
    is_exact = len(movers) <= 1 or all(axis.is_level and axis.zero_one for axis in axes)
    if not movers or not is_exact or any(w.edge is None or not w.tight for w in movers):
        return WorstEdge(loss, None, tight=not movers)
    shape = tuple(axis.norms.size for axis in axes)
    ends = []
    for side in (0, 1):
        cell = [w.edge[side] if w.edge else int(a.norms.argmax()) for a, w in zip(axes, moved, strict=True)]
        ends.append(int(np.ravel_multi_index(cell, shape)))
    return WorstEdge(loss, (ends[0], ends[1]))


def _factor_moves(factor: Factor, axes: list[AxisCost]) -> list[tuple[WorstEdge, ...]]:
    """Each way a factor can move, as one worst edge per axis; joint thresholds share theta among their axes."""
    if not isinstance(factor, GridGraph):
        return [(axes[0].worst(factor),)]
    moves = []
    for radii in _shares_of_theta(factor):
        worst = [
            axis.worst(factor.axis_within(index, radius))
            for index, (axis, radius) in enumerate(zip(axes, radii, strict=True))
        ]
        moves.append(tuple(WorstEdge(w.loss, w.edge, tight=False) for w in worst))
    return moves


def _shares_of_theta(factor: GridGraph) -> list[tuple[int, ...]]:
    """Radii per axis that together cover the ball: every pair within theta fits at least one of the shares."""
    theta, dimensions = factor.theta, len(factor.shape)
    if factor.metric == "linf" or dimensions != 2:
        return [(theta,) * dimensions]
    marks = sorted({theta * step // RADII for step in range(RADII + 1)})
    shares: list[tuple[int, ...]] = []
    for mark, following in zip(marks, [*marks[1:], theta + 1], strict=True):
        rest = theta - mark if factor.metric == "l1" else math.isqrt(theta**2 - mark**2)
        shares.append((following - 1, rest))
    return shares
