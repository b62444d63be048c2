"""Queries over cells in one order: every cell, every prefix, all ranges, given ranges."""

from __future__ import annotations

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

RANGE_LIMIT = 2**25
"""Rows of an AllRanges workload that may be answered one by one (8191 cells)."""
WIDE_COLUMNS = 512
"""From so many columns on, adding up row by row is several times faster than numpy's running sums down the columns."""
PAIRS_PER_RANGE = 4
"""Pairs of ends for each range up to which all pairs are looked at rather than the list."""


@dataclass(frozen=True)
class Identity:
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

    def dense(self) -> Ints:
        return written_out(self)

    def column_norms(self, weights: Ints) -> Ints:
        return as_weights(weights, self.cells).copy()

    def fingerprint(self) -> bytes:
        return encode(("identity", self.cells))


@dataclass(frozen=True)
class Prefix:
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

    def dense(self) -> Ints:
        return written_out(self)

    def column_norms(self, weights: Ints) -> Ints:
        return self.transpose_dot(as_weights(weights, self.cells))

    def fingerprint(self) -> bytes:
        return encode(("prefix", self.cells))


@dataclass(frozen=True, eq=False)
class Intervals:
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
        found = sums[self.high]
        if np.any(self.low):
            found -= sums[self.low]
        return found

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.low.size)
        check_exact(columns)
        steps = np.zeros((self.cells + 1, *columns.shape[1:]), dtype=columns.dtype)
        scatter_add(steps, self.low, columns)
        scatter_add(steps, self.high, -columns)
        return np.cumsum(steps, axis=0)[:-1]

    def dense(self) -> Ints:
        return written_out(self)

    def column_norms(self, weights: Ints) -> Ints:
        return self.transpose_dot(as_weights(weights, self.low.size))

    def fingerprint(self) -> bytes:
        return encode(("intervals", self.cells, self.low, self.high))


@dataclass(frozen=True)
class AllRanges:
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

    def dense(self) -> Ints:
        return written_out(self)

    def column_norms(self, weights: Ints) -> Ints:
        return self.transpose_dot(as_weights(weights, self.shape[0]))

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
