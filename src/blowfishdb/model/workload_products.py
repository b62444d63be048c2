"""Workloads over several axes: boxes, products, unions, and the interval view of a workload."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from blowfishdb.errors import TooLarge, WorkloadError
from blowfishdb.model.encoding import encode
from blowfishdb.model.numbers import Ints, Numbers
from blowfishdb.model.workload import (
    RANGE_LIMIT,
    AllRanges,
    Identity,
    Intervals,
    NonNegativeRows,
    Prefix,
    Rows,
    Sparse,
    as_columns,
    as_weights,
    check_cells,
    check_exact,
    scatter_add,
    total,
    whole_numbers,
)

AXIS_LIMIT = 10
"""A box in d dimensions reads 2^d corners."""


@dataclass(frozen=True, eq=False)
class Rectangles(NonNegativeRows):
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


LinearMap: TypeAlias = Callable[[Numbers], Numbers]


@dataclass(frozen=True, eq=False)
class Kronecker(Rows):
    """Every product of one row per factor, over the product of their cells; both in row-major order."""

    factors: tuple[Rows, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.factors:
            raise WorkloadError("a product needs at least one factor")

    @property
    def shape(self) -> tuple[int, int]:
        return math.prod(f.shape[0] for f in self.factors), math.prod(f.shape[1] for f in self.factors)

    def dot(self, cells: Numbers) -> Numbers:
        columns = as_columns(cells, self.shape[1])
        return self._along_each_axis(columns, 1, [factor.dot for factor in self.factors])

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.shape[0])
        return self._along_each_axis(columns, 0, [factor.transpose_dot for factor in self.factors])

    def column_norms(self, weights: Ints) -> Ints:
        """|A x B| = |A| x |B|; the factors' column_norms must take matrices of columns too."""
        columns = as_weights(weights, self.shape[0])
        return self._along_each_axis(columns, 0, [factor.column_norms for factor in self.factors])

    def fingerprint(self) -> bytes:
        return encode(("product", *(factor.fingerprint() for factor in self.factors)))

    def _along_each_axis(self, columns: Numbers, side: int, maps: Sequence[LinearMap]) -> Numbers:
        """Applies one map per axis, those that shrink most first: the arrays in between stay small."""
        rest = columns.shape[1:]
        block = columns.reshape(*(factor.shape[side] for factor in self.factors), *rest)
        growth = [factor.shape[1 - side] / max(1, factor.shape[side]) for factor in self.factors]
        for axis in np.argsort(growth, kind="stable"):
            front = np.moveaxis(block, axis, 0)
            mapped = maps[axis](front.reshape(front.shape[0], math.prod(front.shape[1:])))
            block = np.moveaxis(mapped.reshape(mapped.shape[0], *front.shape[1:]), 0, axis)
        return np.ascontiguousarray(block).reshape(self.shape[1 - side], *rest)


@dataclass(frozen=True, eq=False)
class Stacked(Rows):
    """The rows of every part, one part after the other, over the same cells."""

    parts: tuple[Rows, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise WorkloadError("a union needs at least one part")
        sizes = sorted({part.shape[1] for part in self.parts})
        if len(sizes) != 1:
            raise WorkloadError(f"all parts of a union are over the same cells, not {sizes}")

    @property
    def shape(self) -> tuple[int, int]:
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    def dot(self, cells: Numbers) -> Numbers:
        columns = as_columns(cells, self.shape[1])
        return np.concatenate([part.dot(columns) for part in self.parts])

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.shape[0])
        return self._summed(columns, [part.transpose_dot for part in self.parts])

    def column_norms(self, weights: Ints) -> Ints:
        columns = as_weights(weights, self.shape[0])
        return self._summed(columns, [part.column_norms for part in self.parts])

    def fingerprint(self) -> bytes:
        return encode(("union", *(part.fingerprint() for part in self.parts)))

    def _summed(self, columns: Numbers, maps: Sequence[LinearMap]) -> Numbers:
        result = np.zeros((self.shape[1], *columns.shape[1:]), dtype=columns.dtype)
        start = 0
        for part, each in zip(self.parts, maps, strict=True):
            stop = start + part.shape[0]
            piece = each(columns[start:stop])
            if piece.dtype.kind == "i" and piece.size:
                check_exact(np.array([np.abs(result).max(), np.abs(piece).max()]))
            result += piece
            start = stop
        return result


def marginals(shape: Sequence[int], subsets: Sequence[Sequence[int]]) -> Stacked:
    """For each subset of the axes the counts of every combination of their cells, whatever the other axes."""
    sizes = tuple(check_cells(size) for size in shape)
    parts = []
    for subset in subsets:
        chosen = set(subset)
        if len(chosen) != len(subset) or not chosen <= set(range(len(sizes))):
            raise WorkloadError(f"a marginal names distinct axes below {len(sizes)}, not {tuple(subset)}")
        factors = (Identity(size) if axis in chosen else total(size) for axis, size in enumerate(sizes))
        parts.append(Kronecker(tuple(factors)))
    return Stacked(tuple(parts))


def all_marginals(shape: Sequence[int], ways: int) -> Stacked:
    """Every marginal over exactly `ways` axes, subsets in lexicographic order."""
    if not 0 <= ways <= len(shape):
        raise WorkloadError(f"marginals are over 0 to {len(shape)} axes, not {ways}")
    return marginals(shape, list(itertools.combinations(range(len(shape)), ways)))


def as_intervals(rows: Rows) -> Intervals | None:
    """The same rows as intervals, in the same order, or None when some row is not an interval."""
    if isinstance(rows, Intervals):
        return rows
    if isinstance(rows, Identity):
        start = np.arange(rows.cells)
        return Intervals(rows.cells, start, start + 1)
    if isinstance(rows, Prefix):
        start = np.arange(rows.cells)
        return Intervals(rows.cells, np.zeros_like(start), start + 1)
    if isinstance(rows, AllRanges):
        return rows.intervals() if rows.shape[0] <= RANGE_LIMIT else None
    if isinstance(rows, Rectangles):
        return Intervals(rows.shape[1], rows.low[:, 0], rows.high[:, 0]) if len(rows.grid) == 1 else None
    if isinstance(rows, Kronecker):
        return as_intervals(rows.factors[0]) if len(rows.factors) == 1 else None
    if isinstance(rows, Stacked):
        return _from_stacked(rows)
    if isinstance(rows, Sparse):
        return _from_sparse(rows)
    return None


def _from_stacked(rows: Stacked) -> Intervals | None:
    parts = []
    for part in rows.parts:
        seen = as_intervals(part)
        if seen is None:
            return None
        parts.append(seen)
    low, high = np.concatenate([p.low for p in parts]), np.concatenate([p.high for p in parts])
    return Intervals(rows.shape[1], low, high)


def _from_sparse(rows: Sparse) -> Intervals | None:
    """Sorted distinct columns that span no more than their number are consecutive."""
    matrix = rows.matrix
    if np.any(matrix.data != 1):
        return None
    start, count = matrix.indptr[:-1].astype(np.int64), np.diff(matrix.indptr).astype(np.int64)
    filled = count > 0
    low = np.zeros(rows.shape[0], dtype=np.int64)
    low[filled] = matrix.indices[start[filled]]
    last = matrix.indices[(start + count - 1)[filled]]
    if np.any(last - low[filled] + 1 != count[filled]):
        return None
    return Intervals(rows.shape[1], low, low + count)
