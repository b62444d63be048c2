"""Linear queries over the cells, as implicit whole-number matrices that are never written out."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, SupportsIndex, TypeAlias

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array, kron

from blowfishdb.errors import TooLarge, WorkloadError
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import SAFE_SUM, Bools, Ints, Numbers, as_ints
from blowfishdb.model.serialize import encode


class Rows(Protocol):
    """An integer matrix, queries by cells, that is rarely written out.

    `dot` and `transpose_dot` take a vector or a matrix of column vectors and keep its dtype (int64 stays exact).
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""

    def dot(self, cells: Numbers) -> Numbers:
        """The answers to every query."""

    def transpose_dot(self, answers: Numbers) -> Numbers:
        """The transposed matrix times the given vector(s)."""

    def dense(self) -> Ints:
        """The matrix itself; refused with TooLarge when it would not fit in memory."""
        queries, cells = self.shape
        if queries * cells > DENSE_LIMIT:
            advice = "Use dot and transpose_dot, which never write the matrix out."
            raise TooLarge("entries of a dense workload", queries * cells, DENSE_LIMIT, advice)
        if queries < cells:
            return self.transpose_dot(np.eye(queries, dtype=np.int64)).T
        return self.dot(np.eye(cells, dtype=np.int64))

    def column_norms(self, weights: Ints) -> Ints:
        """For each cell, the sum over the rows of weight times absolute entry, exact."""

    def fingerprint(self) -> bytes:
        """Bytes that determine the matrix, for digests."""


class NonNegativeRows(Rows, Protocol):
    """Rows without a negative entry: their column norms are a transposed product."""

    def column_norms(self, weights: Ints) -> Ints:
        return self.transpose_dot(as_weights(weights, self.shape[0]))


DENSE_LIMIT = 2**25
"""Entries of a matrix that may be written out (256 MiB of int64)."""


def check_cells(cells: SupportsIndex) -> int:
    """The number of cells as a plain positive int."""
    try:
        count = operator.index(cells)
    except TypeError:
        raise WorkloadError(f"the number of cells is a whole number, not {cells!r}") from None
    if count < 1:
        raise WorkloadError(f"a workload is over at least one cell, not {count}")
    return count


def whole_numbers(values: object, what: str) -> Ints:
    """A frozen int64 copy, or a WorkloadError that names what was wrong."""
    raw = np.asarray(values)
    if raw.size and raw.dtype.kind not in "iu":
        raise WorkloadError(f"{what} are whole numbers, not {raw.dtype}")
    if raw.dtype == np.uint64 and raw.size and int(raw.max()) >= SAFE_SUM:
        raise WorkloadError(f"{what} are too large for exact arithmetic")
    return as_ints(raw)


def as_columns(values: Numbers, length: int) -> Numbers:
    """The input as int64 (from any whole type) or float64, of shape (length,) or (length, k)."""
    columns = np.asarray(values)
    if columns.ndim not in (1, 2) or columns.shape[0] != length:
        raise WorkloadError(f"{length} numbers, or {length} rows of them, are expected, not shape {columns.shape}")
    if columns.dtype.kind == "f":
        return columns.astype(np.float64, copy=False)
    if columns.dtype.kind == "b":
        return columns.astype(np.int64)
    if columns.dtype == np.int64:
        return columns
    return whole_numbers(columns, "counts and answers that are not floats")


def as_weights(values: Numbers, length: int) -> Ints:
    """Weights as int64, of shape (length,) or (length, k)."""
    columns = as_columns(values, length)
    if columns.dtype.kind != "i":
        raise WorkloadError("weights are whole numbers: their sums must be exact")
    return columns


def check_exact(columns: Numbers, factor: int = 1) -> None:
    """Refuses whole numbers whose sums, with coefficients up to `factor`, could wrap around in int64.

    Only results need to fit: int64 arithmetic is exact modulo 2^64, so wrapping on the way is harmless. The
    bound is summed in floats; their rounding is far below the distance from the limit to the largest int64.
    """
    if columns.dtype.kind != "i" or columns.size == 0:
        return
    bound = float(np.abs(columns.astype(np.float64)).sum(axis=0).max()) * factor
    if bound >= SAFE_SUM:
        raise TooLarge("sum of absolute values", int(bound), SAFE_SUM, "Use smaller numbers, or floats.")


RANGE_LIMIT = 2**25
"""Rows of an AllRanges workload that may be answered one by one (8191 cells)."""
WIDE_COLUMNS = 512
"""Columns from which adding up row by row is several times faster than numpy's running sums down the columns."""
PAIRS_PER_RANGE = 4
"""Pairs of ends for each range up to which all pairs are looked at rather than the list."""


@dataclass(frozen=True)
class LineRows(NonNegativeRows):
    """Rows without a negative entry that the number of cells alone determines."""

    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", check_cells(self.cells))

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells, self.cells


@dataclass(frozen=True)
class Identity(LineRows):
    """The count of every cell."""

    def dot(self, cells: Numbers) -> Numbers:
        return as_columns(cells, self.cells).copy()

    def transpose_dot(self, answers: Numbers) -> Numbers:
        return as_columns(answers, self.cells).copy()

    def fingerprint(self) -> bytes:
        return encode(("identity", self.cells))


@dataclass(frozen=True)
class Prefix(LineRows):
    """Row i counts the cells 0 to i; the last row is the total."""

    def dot(self, cells: Numbers) -> Numbers:
        columns = as_columns(cells, self.cells)
        check_exact(columns)
        return np.cumsum(columns, axis=0)

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.cells)
        check_exact(columns)
        return np.cumsum(columns[::-1], axis=0)[::-1]

    def fingerprint(self) -> bytes:
        return encode(("prefix", self.cells))


@dataclass(frozen=True, eq=False)
class Intervals(NonNegativeRows):
    """Row i counts the cells low[i] <= c < high[i]; an empty interval is a row of zeros."""

    cells: int
    low: Ints
    high: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", check_cells(self.cells))
        object.__setattr__(self, "low", whole_numbers(self.low, "interval bounds"))
        object.__setattr__(self, "high", whole_numbers(self.high, "interval bounds"))
        if self.low.ndim != 1 or self.low.shape != self.high.shape:
            raise WorkloadError("intervals need two equally long vectors, lower bounds and upper bounds")
        if self.low.size and (
            int(self.low.min()) < 0 or int(self.high.max()) > self.cells or np.any(self.low > self.high)
        ):
            raise WorkloadError(f"intervals are half-open ranges with 0 <= low <= high <= {self.cells}")

    @property
    def shape(self) -> tuple[int, int]:
        return self.low.size, self.cells

    def dot(self, cells: Numbers) -> Numbers:
        sums = sums_before(as_columns(cells, self.cells))
        answers = sums[self.high]
        if np.any(self.low):
            answers -= sums[self.low]
        return answers

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.low.size)
        check_exact(columns)
        steps = np.zeros((self.cells + 1, *columns.shape[1:]), dtype=columns.dtype)
        scatter_add(steps, self.low, columns)
        scatter_add(steps, self.high, -columns)
        return np.cumsum(steps, axis=0)[:-1]

    def fingerprint(self) -> bytes:
        return encode(("intervals", self.cells, self.low, self.high))


@dataclass(frozen=True)
class AllRanges(LineRows):
    """Every non-empty range [low, high) in lexicographic order of (low, high)."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells * (self.cells + 1) // 2, self.cells

    def intervals(self) -> Intervals:
        """The same rows with their bounds written out."""
        self._check_size()
        low, high = np.triu_indices(self.cells + 1, k=1)
        return Intervals(self.cells, low, high)

    def dot(self, cells: Numbers) -> Numbers:
        self._check_size()
        sums = sums_before(as_columns(cells, self.cells))
        answers = np.empty((self.shape[0], *sums.shape[1:]), dtype=sums.dtype)
        start = 0
        for low in range(self.cells):
            stop = start + self.cells - low
            np.subtract(sums[low + 1 :], sums[low], out=answers[start:stop])
            start = stop
        return answers

    def transpose_dot(self, answers: Numbers) -> Numbers:
        self._check_size()
        columns = as_columns(answers, self.shape[0])
        check_exact(columns)
        steps = np.zeros((self.cells + 1, *columns.shape[1:]), dtype=columns.dtype)
        start = 0
        for low in range(self.cells):
            stop = start + self.cells - low
            steps[low] += columns[start:stop].sum(axis=0)
            steps[low + 1 :] -= columns[start:stop]
            start = stop
        return np.cumsum(steps, axis=0)[:-1]

    def fingerprint(self) -> bytes:
        return encode(("all ranges", self.cells))

    def _check_size(self) -> None:
        if self.shape[0] > RANGE_LIMIT:
            raise TooLarge("ranges to answer", self.shape[0], RANGE_LIMIT, "Ask for given Intervals instead.")


def are_most_pairs(cells: int, ranges: int) -> bool:
    """Whether a table of all pairs of ends is no larger than a few times the list of ranges."""
    return (cells + 1) ** 2 <= PAIRS_PER_RANGE * ranges


def total(cells: int) -> Intervals:
    """One row that counts everything."""
    count = check_cells(cells)
    return Intervals(count, np.zeros(1, dtype=np.int64), np.full(1, count, dtype=np.int64))


def sums_before(columns: Numbers) -> Numbers:
    """For each position the sum of the cells before it, the position after the last one included."""
    check_exact(columns)
    sums = np.zeros((columns.shape[0] + 1, *columns.shape[1:]), dtype=columns.dtype)
    if columns.ndim == 1 or columns.shape[1] < WIDE_COLUMNS:
        np.cumsum(columns, axis=0, out=sums[1:])
        return sums
    sums[1:2] = columns[:1]
    for cell in range(1, columns.shape[0]):
        np.add(sums[cell], columns[cell], out=sums[cell + 1])
    return sums


def scatter_add(target: Numbers, places: Ints, values: Numbers) -> None:
    """Adds values[i] to target[places[i]], repeated places included; target must be contiguous."""
    width = 1 if values.ndim == 1 else values.shape[1]
    flat = (places[:, None] * width + np.arange(width)[None, :]).reshape(-1)
    np.add.at(target.reshape(-1), flat, values.reshape(-1))


@dataclass(frozen=True, eq=False)
class Sparse(Rows):
    """The rows of a matrix of whole numbers; a dense or another sparse matrix is converted."""

    matrix: csr_array

    def __post_init__(self) -> None:
        try:
            matrix = csr_array(self.matrix, copy=True)
            matrix.check_format(full_check=True)
        except (TypeError, ValueError, IndexError) as problem:
            raise WorkloadError(f"predicates are the rows of a matrix: {problem}") from None
        if matrix.ndim != 2:
            raise WorkloadError("predicates are the rows of a matrix, not one vector")
        check_cells(matrix.shape[1])
        if matrix.dtype.kind != "b":
            whole_numbers(matrix.data, "entries of predicates")
        matrix = matrix.astype(np.int64)
        check_exact(matrix.data)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    def dot(self, cells: Numbers) -> Numbers:
        columns = as_columns(cells, self.shape[1])
        check_exact(columns, self._largest)
        return np.asarray(self.matrix @ columns)

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.shape[0])
        check_exact(columns, self._largest)
        return np.asarray(self.matrix.T @ columns)

    def column_norms(self, weights: Ints) -> Ints:
        columns = as_weights(weights, self.shape[0])
        check_exact(columns, self._largest)
        return np.asarray(abs(self.matrix).T @ columns)

    def fingerprint(self) -> bytes:
        arrays = (self.matrix.indptr, self.matrix.indices, self.matrix.data)
        return encode(("sparse", self.shape, *(array.astype(np.int64) for array in arrays)))

    @property
    def _largest(self) -> int:
        return int(np.abs(self.matrix.data).max()) if self.matrix.nnz else 1


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


def largest_entry(rows: Rows) -> int:
    """The largest absolute entry."""
    if isinstance(rows, Kronecker):
        return math.prod(largest_entry(factor) for factor in rows.factors)
    return int(np.abs(rows.matrix.data).max(initial=0)) if isinstance(rows, Sparse) else 1


def as_matrix(rows: Rows) -> csr_array:
    """The rows written out, without their zeros."""
    if isinstance(rows, Kronecker):
        return csr_array(reduce(lambda one, two: kron(one, two, format="csr"), map(as_matrix, rows.factors)))
    if isinstance(rows, Identity):
        return csr_array(eye_array(rows.cells, dtype=np.int64, format="csr"))
    return rows.matrix if isinstance(rows, Sparse) else csr_array(rows.dense())


def scaled_rows(rows: Rows, multiplier: int) -> Rows:
    """The rows times a whole number."""
    if multiplier == 1:
        return rows
    if isinstance(rows, Kronecker):
        return Kronecker((scaled_rows(rows.factors[0], multiplier), *rows.factors[1:]))
    return Sparse(as_matrix(rows) * np.int64(multiplier))


def unchanged(rows: csc_array, labels: Ints) -> Bools:
    """The rows that are constant on every component, and 0 where a record can leave or be absent."""
    counted = np.flatnonzero(labels != ZERO)
    _, first, inverse = np.unique(labels[counted], return_index=True, return_inverse=True)
    changes = abs(rows[:, counted] - rows[:, counted[first[inverse]]]).sum(axis=1)
    leaves = abs(rows[:, np.flatnonzero(labels == ZERO)]).sum(axis=1)
    return np.asarray((np.asarray(changes) + np.asarray(leaves)).reshape(-1) == 0, dtype=np.bool_)
