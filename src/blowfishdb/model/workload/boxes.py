"""Axis-parallel boxes over a grid of cells, answered from a summed-area table."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import TooLarge, WorkloadError
from blowfishdb.model.arrays import Ints, Numbers
from blowfishdb.model.encoding import encode
from blowfishdb.model.workload.inputs import (
    as_columns,
    as_weights,
    check_cells,
    check_exact,
    whole_numbers,
    written_out,
)
from blowfishdb.model.workload.line import scatter_add

AXIS_LIMIT = 10
"""A box in d dimensions reads 2^d corners."""


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Row i counts the cells c with low[i, j] <= c_j < high[i, j] for all axes j; cells are row-major."""

    grid: tuple[int, ...]
    low: Ints
    high: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", tuple(check_cells(size) for size in self.grid))
        object.__setattr__(self, "low", whole_numbers(self.low, "box bounds"))
        object.__setattr__(self, "high", whole_numbers(self.high, "box bounds"))
        axes = len(self.grid)
        if axes == 0:
            raise WorkloadError("boxes need at least one axis")
        if axes > AXIS_LIMIT:
            raise TooLarge("axes of a box", axes, AXIS_LIMIT, "Use a Kronecker workload instead.")
        if self.low.ndim != 2 or self.low.shape[1] != axes or self.low.shape != self.high.shape:
            raise WorkloadError(f"boxes need matrices of lower and upper bounds with {axes} columns each")
        if np.any(self.low < 0) or np.any(self.low > self.high) or np.any(self.high > np.array(self.grid)):
            raise WorkloadError(f"boxes are half-open, with 0 <= low <= high <= {self.grid} on each axis")

    @property
    def shape(self) -> tuple[int, int]:
        return self.low.shape[0], math.prod(self.grid)

    def dot(self, cells: Numbers) -> Numbers:
        columns = as_columns(cells, self.shape[1])
        check_exact(columns)
        rest = columns.shape[1:]
        table = np.zeros((*self._corners, *rest), dtype=columns.dtype)
        inner = table[(slice(1, None),) * len(self.grid)]
        inner[...] = columns.reshape(*self.grid, *rest)
        for axis in range(len(self.grid)):
            np.cumsum(inner, axis=axis, out=inner)
        flat = table.reshape(math.prod(self._corners), *rest)
        answers = np.zeros((self.low.shape[0], *rest), dtype=columns.dtype)
        for sign, places in self._signed_corners():
            answers += sign * flat[places]
        return answers

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.low.shape[0])
        check_exact(columns)
        rest = columns.shape[1:]
        steps = np.zeros((math.prod(self._corners), *rest), dtype=columns.dtype)
        for sign, places in self._signed_corners():
            scatter_add(steps, places, (-1) ** len(self.grid) * sign * columns)
        table = steps.reshape(*self._corners, *rest)
        for axis in range(len(self.grid)):
            np.cumsum(table, axis=axis, out=table)
        return table[tuple(slice(size) for size in self.grid)].reshape(self.shape[1], *rest)

    def dense(self) -> Ints:
        return written_out(self)

    def column_norms(self, weights: Ints) -> Ints:
        return self.transpose_dot(as_weights(weights, self.low.shape[0]))

    def fingerprint(self) -> bytes:
        return encode(("boxes", self.grid, self.low, self.high))

    @property
    def _corners(self) -> tuple[int, ...]:
        return tuple(size + 1 for size in self.grid)

    def _signed_corners(self) -> list[tuple[int, Ints]]:
        """Inclusion and exclusion: the sign and the flat place of each of the 2^d corners of every box."""
        result = []
        for uppers in itertools.product((False, True), repeat=len(self.grid)):
            corner = np.where(np.array(uppers), self.high, self.low)
            places = np.ravel_multi_index(tuple(corner.T), self._corners)
            result.append(((-1) ** uppers.count(False), np.asarray(places, dtype=np.int64)))
        return result
