"""Linear queries over the cells, as implicit whole-number matrices that are never written out."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Protocol, SupportsIndex

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.errors import TooLarge, WorkloadError
from blowfishdb.model.encoding import encode
from blowfishdb.model.numbers import SAFE_SUM, Ints, Numbers, as_ints


class Rows(Protocol):
    """An integer matrix, queries by cells, that is rarely written out.

    `dot` and `transpose_dot` take a vector or a matrix of column vectors and keep its dtype (int64 stays exact).
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        ...

    def dot(self, cells: Numbers) -> Numbers:
        """The answers to every query."""
        ...

    def transpose_dot(self, answers: Numbers) -> Numbers:
        """The transposed matrix times the given vector(s)."""
        ...

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
        ...

    def fingerprint(self) -> bytes:
        """Bytes that determine the matrix, for digests."""
        ...


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
"""From so many columns on, adding up row by row is several times faster than numpy's running sums down the columns."""
PAIRS_PER_RANGE = 4
"""Pairs of ends for each range up to which all pairs are looked at rather than the list."""


@dataclass(frozen=True)
class Identity(NonNegativeRows):
    """The count of every cell."""

    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", check_cells(self.cells))

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells, self.cells

    def dot(self, cells: Numbers) -> Numbers:
        return as_columns(cells, self.cells).copy()

    def transpose_dot(self, answers: Numbers) -> Numbers:
        return as_columns(answers, self.cells).copy()

    def fingerprint(self) -> bytes:
        return encode(("identity", self.cells))


@dataclass(frozen=True)
class Prefix(NonNegativeRows):
    """Row i counts the cells 0 to i; the last row is the total."""

    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", check_cells(self.cells))

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells, self.cells

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
class AllRanges(NonNegativeRows):
    """Every non-empty range [low, high) in lexicographic order of (low, high)."""

    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", check_cells(self.cells))

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
    """Whether a table of all pairs of ends is no larger than a few times a list of so many ranges."""
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
