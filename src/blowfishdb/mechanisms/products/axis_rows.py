"""Rows of queries along one axis: as runs of cells where they are such, else written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Intervals, as_intervals

ROWS = 2**21
ENTRIES = 2**24


class AxisRows(Protocol):
    """Rows over the cells of one axis."""

    @property
    def count(self) -> int: ...

    def chosen(self, places: Ints) -> AxisRows:
        """The rows at the given places."""
        ...

    def times(self, matrix: Floats) -> Floats:
        """Every row times a matrix over the cells."""
        ...

    def quadratic(self, matrix: Floats) -> Floats:
        """row M row' for each row and a symmetric matrix M."""
        ...

    def squares(self) -> Floats:
        """The sum of squared entries of each row."""
        ...

    def energies(self, weights: Floats) -> Callable[[Floats], Floats]:
        """What gives, for each column v of a matrix, the weighted sum over the rows of (row v)^2."""
        ...


def axis_rows(rows: Rows) -> AxisRows | None:
    """The rows in a form that computes fast; None when there are too many."""
    if rows.shape[0] > ROWS:
        return None
    spans = rows.intervals() if isinstance(rows, AllRanges) else as_intervals(rows)
    if spans is not None:
        return RunRows(spans)
    return DenseRows(rows.dense().astype(np.float64)) if rows.shape[0] * rows.shape[1] <= ENTRIES else None


@dataclass(frozen=True, eq=False)
class RunRows:
    """Each row counts a run of cells, so sums over a row are differences of running sums."""

    spans: Intervals

    @property
    def count(self) -> int:
        return self.spans.shape[0]

    def chosen(self, places: Ints) -> RunRows:
        return RunRows(Intervals(self.spans.cells, self.spans.low[places], self.spans.high[places]))

    def times(self, matrix: Floats) -> Floats:
        sums = np.zeros((matrix.shape[0] + 1, matrix.shape[1]))
        np.cumsum(matrix, axis=0, out=sums[1:])
        return np.asarray(sums[self.spans.high] - sums[self.spans.low])

    def quadratic(self, matrix: Floats) -> Floats:
        sums = np.zeros((self.spans.cells + 1, self.spans.cells + 1))
        np.cumsum(np.cumsum(matrix, axis=0), axis=1, out=sums[1:, 1:])
        low, high = self.spans.low, self.spans.high
        return np.asarray(sums[high, high] + sums[low, low] - 2 * sums[low, high])

    def squares(self) -> Floats:
        return (self.spans.high - self.spans.low).astype(np.float64)

    def energies(self, weights: Floats) -> Callable[[Floats], Floats]:
        if 8 * self.count <= self.spans.cells**2:
            return lambda vectors: np.asarray(weights @ self.times(vectors) ** 2)
        gram = self._gram(weights)
        return lambda vectors: np.asarray(np.einsum("ij,ij->j", vectors, gram @ vectors))

    def _gram(self, weights: Floats) -> Floats:
        """Entry (a, b) with a <= b is the weight of the runs that begin at or before a and end after b."""
        cells = self.spans.cells
        keys = self.spans.low * (cells + 1) + self.spans.high
        begun = np.cumsum(np.bincount(keys, weights, (cells + 1) ** 2).reshape(cells + 1, cells + 1), axis=0)
        upper = np.triu(np.cumsum(begun[:, ::-1], axis=1)[:-1, ::-1][:, 1:])
        return np.asarray(upper + np.triu(upper, 1).T)


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Rows written out."""

    matrix: Floats

    @property
    def count(self) -> int:
        return int(self.matrix.shape[0])

    def chosen(self, places: Ints) -> DenseRows:
        return DenseRows(self.matrix[places])

    def times(self, matrix: Floats) -> Floats:
        return np.asarray(self.matrix @ matrix)

    def quadratic(self, matrix: Floats) -> Floats:
        return np.asarray(np.einsum("ij,ij->i", self.matrix @ matrix, self.matrix))

    def squares(self) -> Floats:
        return self._squares

    def energies(self, weights: Floats) -> Callable[[Floats], Floats]:
        return lambda vectors: np.asarray(weights @ self.times(vectors) ** 2)

    @cached_property
    def _squares(self) -> Floats:
        return np.asarray((self.matrix**2).sum(axis=1))
