"""Exact losses of small plans, and the noise laws of the counterexamples with closed-form tails."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from blowfishdb.model.graphs import CellGraph, EdgeGraph
from blowfishdb.model.workload import Sparse
from blowfishdb.plan.plan import Measurement, Plan

Edge = tuple[int, int]
NoisyRow = tuple[Sequence[int], Fraction]
"""A row over the cells and the scale of its noise; a scale of 0 means published exactly."""


def loss(rows: Iterable[NoisyRow], edge: Edge) -> Fraction | float:
    """The exact loss of publishing all rows on one edge, from the definition."""
    total = Fraction(0)
    for row, scale in rows:
        change = abs(row[edge[0]] - row[edge[1]])
        if change and scale == 0:
            return math.inf
        if change:
            total += change / scale
    return total


def worst(rows: Sequence[NoisyRow], edges: Iterable[Edge]) -> Fraction | float:
    """The greatest loss over the edges."""
    return max(loss(rows, edge) for edge in edges)


def within(cells: int, theta: int) -> list[Edge]:
    """The edges of a distance threshold on a line of cells."""
    return [(u, v) for u in range(cells) for v in range(u + 1, min(cells, u + theta + 1))]


def interval(cells: int, low: int, high: int) -> list[int]:
    """The row that counts the cells low .. high-1."""
    return [int(low <= cell < high) for cell in range(cells)]


def as_plan(rows: Sequence[NoisyRow]) -> Plan:
    """The same rows and scales as a plan of the package."""
    unit = math.lcm(*((1 / scale).denominator for _, scale in rows))
    weights = np.array([int(unit / scale) for _, scale in rows], dtype=np.int64)
    matrix = csr_array(np.array([row for row, _ in rows], dtype=np.int64))
    return Plan(Fraction(unit), (Measurement(Sparse(matrix), weights),))


def on_edges(cells: int, edges: Iterable[Edge]) -> CellGraph:
    """A policy on one axis with the given edges, every record counted, the number of records public."""
    graph = EdgeGraph(cells, np.array(list(edges), dtype=np.int64).reshape(-1, 2))
    return CellGraph((graph,), "record", np.zeros(cells, dtype=np.bool_), "public")


@dataclass(frozen=True)
class TwoSided:
    """Discrete Laplace noise: P(k) proportional to exp(-|k| / scale)."""

    scale: float

    def mass(self, values: ArrayLike) -> NDArray[np.float64]:
        ratio = math.exp(-1 / self.scale)
        return (1 - ratio) / (1 + ratio) * np.exp(-np.abs(values) / self.scale)

    def at_least(self, values: ArrayLike) -> NDArray[np.float64]:
        """P(Z >= value)."""
        ratio = math.exp(-1 / self.scale)
        side = np.exp(-np.abs(values) / self.scale) / (1 + ratio)
        return np.where(np.asarray(values) >= 1, side, 1 - ratio * side)


@dataclass(frozen=True)
class OneSided:
    """A geometric variable of the given scale, added (sign +1) or subtracted (sign -1)."""

    scale: float
    sign: int

    def mass(self, values: ArrayLike) -> NDArray[np.float64]:
        size = self.sign * np.asarray(values)
        inside = -np.expm1(-1 / self.scale) * np.exp(-np.maximum(size, 0) / self.scale)
        return np.where(size >= 0, inside, 0.0)

    def at_least(self, values: ArrayLike) -> NDArray[np.float64]:
        """P(Z >= value)."""
        bound = np.asarray(values)
        if self.sign > 0:
            return np.exp(-np.maximum(bound, 0) / self.scale)
        return np.where(bound <= 0, -np.expm1(-np.maximum(1 - bound, 0) / self.scale), 0.0)


Noise = TwoSided | OneSided
