"""What every mechanism proposes: a plan without a noise level, and how to read answers and their noise off it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Protocol, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import (
    AllRanges,
    Identity,
    Intervals,
    Kronecker,
    Prefix,
    Rectangles,
    Rows,
    Sparse,
    Stacked,
    as_intervals,
)
from blowfishdb.plan.plan import EdgePlan, Plan, Problem

NO_VARIABLE = -1
"""In place of a noise variable: the answer is exact."""


class Strategy(Protocol):
    """A data-independent way to answer a problem.

    `variances` is always the variance of each noise variable of the plan, in the plan's order.
    """

    @property
    def mechanism(self) -> str:
        """The name users see."""
        ...

    @property
    def direct(self) -> Ints | None:
        """For each answer the one noise variable it equals, or NO_VARIABLE; None when answers mix several."""
        ...

    def plan(self, unit: Fraction) -> Plan | EdgePlan:
        """The measurements, at the given noise level."""
        ...

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Answers to the workload from the measured and the exact rows; linear; takes vectors or column matrices.

        For an edge plan `measured` is the noise alone and the result is the error of each answer.
        """
        ...

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        ...


class CellStrategy(ABC):
    """A strategy that estimates the count of every cell: its answers are the workload over the estimate."""

    mechanism: str
    problem: Problem

    @property
    def has_fixed_coefficients(self) -> bool:
        """Whether answers combine the noise in one way, whatever its variances."""
        return False

    @property
    def direct(self) -> Ints | None:
        """None: answers mix several noise variables."""
        return None

    @abstractmethod
    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The count of every cell; takes vectors or column matrices."""

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The answer to every query."""
        return np.asarray(self.problem.workload.dot(self.estimate_cells(measured, exact, variances)))

    @abstractmethod
    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers."""
        return float(np.sum(self.answer_variances(variances)))


Mechanism: TypeAlias = Callable[[Problem], Strategy]
"""Proposes a strategy for a problem, or raises Declined with the reason."""

GOLDEN = (5**0.5 - 1) / 2

ZERO_ONE = (AllRanges, Identity, Intervals, Prefix, Rectangles)


def squared(rows: Rows) -> Rows:
    """The workload whose entries are the squares: it maps variances of cells to variances of answers."""
    if isinstance(rows, ZERO_ONE):
        return rows
    if isinstance(rows, Kronecker):
        return Kronecker(tuple(squared(factor) for factor in rows.factors))
    if isinstance(rows, Stacked):
        return Stacked(tuple(squared(part) for part in rows.parts))
    matrix = rows.matrix if isinstance(rows, Sparse) else csr_array(rows.dense())
    return Sparse(matrix.multiply(matrix))


def is_zero_one(rows: Rows) -> bool:
    """Whether every entry is known to be 0 or 1."""
    if isinstance(rows, Kronecker):
        return all(is_zero_one(factor) for factor in rows.factors)
    if isinstance(rows, Stacked):
        return all(is_zero_one(part) for part in rows.parts)
    return isinstance(rows, ZERO_ONE) or (isinstance(rows, Sparse) and bool(np.all(rows.matrix.data == 1)))


def column_energies(rows: Rows) -> Floats:
    """For each cell the sum of its squared entries over all queries; all ranges are never listed."""
    if isinstance(rows, AllRanges):
        cell = np.arange(rows.cells, dtype=np.float64)
        return (cell + 1) * (rows.cells - cell)
    if isinstance(rows, Kronecker):
        return np.asarray(reduce(np.multiply.outer, map(column_energies, rows.factors))).reshape(-1)
    if isinstance(rows, Stacked):
        return np.asarray(np.sum([column_energies(part) for part in rows.parts], axis=0))
    return np.asarray(squared(rows).transpose_dot(np.ones(rows.shape[0])))


def chosen_rows(rows: Rows, queries: Ints) -> Ints:
    """The given rows of the workload, written out."""
    spans = None if isinstance(rows, AllRanges) else as_intervals(rows)
    if spans is not None:
        low, high = spans.low[queries], spans.high[queries]
    elif isinstance(rows, AllRanges):
        start = np.arange(rows.cells)
        before = start * rows.cells - start * (start - 1) // 2
        low = np.searchsorted(before, queries, side="right") - 1
        high = low + 1 + queries - before[low]
    else:
        picks = np.zeros((rows.shape[0], queries.size), dtype=np.int64)
        picks[queries, np.arange(queries.size)] = 1
        return np.asarray(rows.transpose_dot(picks)).T
    cell = np.arange(rows.shape[1])
    return ((low[:, None] <= cell) & (cell < high[:, None])).astype(np.int64)


def spread_choice(size: int, count: int) -> Ints:
    """About `count` of the numbers below `size`, spread evenly yet never in step with blocks of a fixed length."""
    if size <= count:
        return np.arange(size)
    place = np.arange(count)
    return np.minimum((place + place * GOLDEN % 1.0) * (size / count), size - 1).astype(np.int64)


def value_counts(terms: Ints) -> tuple[Ints, Ints]:
    """The different numbers of terms, and how often each occurs."""
    counts = np.bincount(terms)
    values = np.flatnonzero(counts)
    return values, counts[values].astype(np.int64)


def row_variances(plan: Plan | EdgePlan) -> Floats:
    """The variance that continuous noise of the same scale would have: a little more than that of the discrete noise.

    Bounds that know variances alone are proven for it (docs/proofs/accuracy.md).
    """
    return np.asarray(2.0 * (float(plan.unit) / plan.weights) ** 2)
