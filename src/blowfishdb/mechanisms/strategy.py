"""What every mechanism proposes: a plan without a noise level, and how to read answers and their noise off it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import ClassVar, TypeAlias

import numpy as np
from scipy.sparse import coo_array, csr_array

from blowfishdb.model.cached import cached_property
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
from blowfishdb.plan.plan import EdgePlan, Measurement, Plan, Problem

NO_VARIABLE = -1
"""In place of a noise variable: the answer is exact."""
MOST_WRITTEN_OUT = 2048
"""Up to this many answers and noise variables it is written out how each depends on each."""
AT_ONCE = 256


class Strategy(ABC):
    """A data-independent way to answer a problem.

    `mechanism` is the name users see; `variances` is always the variance of each noise variable of the plan, in the
    plan's order. What is not abstract may be left as it is: accuracy is then computed from what is.
    """

    mechanism: str
    steady_scale: ClassVar[int | None] = None
    """From this scale of all noise on, answers combine it as they would combine continuous noise; None: never."""

    @property
    def direct(self) -> Ints | None:
        """For each answer the one noise variable it equals, or NO_VARIABLE; None when answers mix several."""
        return None

    @property
    def has_fixed_coefficients(self) -> bool:
        """Whether answers combine the noise in one way, whatever its variances."""
        return False

    @abstractmethod
    def plan(self, unit: Fraction) -> Plan | EdgePlan:
        """The measurements, at the given noise level."""

    @abstractmethod
    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Answers to the workload from the measured and the exact rows; linear; takes vectors or column matrices.

        For an edge plan `measured` is the noise alone and the result is the error of each answer.
        """

    @abstractmethod
    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""

    def chosen_variances(self, chosen: Ints, variances: Floats) -> Floats:
        """The expected squared error of some of the answers."""
        return self.answer_variances(variances)[chosen]

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers."""
        return float(np.sum(self.answer_variances(variances)))

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        exact = np.zeros((_exact_rows(self.plan(Fraction(1))), variances.size))
        return self.decode(np.eye(variances.size), exact, variances)[queries]

    def answer_terms(self) -> Ints | None:
        """How many variables each answer adds up or subtracts; None when they may have other factors."""
        return None

    def term_counts(self) -> tuple[Ints, Ints] | None:
        """The different numbers of variables that answers add up, and how many answers have each; or None."""
        return None

    def own_variances(self, variances: Floats) -> Floats:
        """For each cell the variance of its own measurement: 0 where it is exact, infinite where it has none.

        Where answers are least squares they vary no more than the same answers from these measurements alone (Gauss
        and Markov); strategies that are not have infinite ones.
        """
        del variances
        return np.full(self.plan(Fraction(1)).cells, np.inf)

    def running_variances(self, variances: Floats) -> Floats | None:
        """The variance of the total of the first 1, 2, ... cells where every cell is asked; None if it is not known."""
        plan = self.plan(Fraction(1))
        if max(plan.cells, variances.size) > MOST_WRITTEN_OUT:
            return None
        running = np.zeros(plan.cells)
        for start in range(0, variances.size, AT_ONCE):
            some = variances[start : start + AT_ONCE]
            one_each = np.eye(variances.size, some.size, -start)
            totals = np.cumsum(self.decode(one_each, np.zeros((_exact_rows(plan), some.size)), variances), axis=0)
            running += totals**2 @ some
        return running


def _exact_rows(plan: Plan | EdgePlan) -> int:
    return plan.exact.shape[0] if isinstance(plan, Plan) and plan.exact is not None else 0


class CellStrategy(Strategy):
    """A strategy that estimates the count of every cell: its answers are the workload over the estimate."""

    problem: Problem

    @abstractmethod
    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The count of every cell; takes vectors or column matrices."""

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The answer to every query."""
        return np.asarray(self.problem.workload.dot(self.estimate_cells(measured, exact, variances)))


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
    ranges = chosen_ranges(rows, queries)
    if ranges is None:
        picks = np.zeros((rows.shape[0], queries.size), dtype=np.int64)
        picks[queries, np.arange(queries.size)] = 1
        return np.asarray(rows.transpose_dot(picks)).T
    low, high = ranges
    cell = np.arange(rows.shape[1])
    return ((low[:, None] <= cell) & (cell < high[:, None])).astype(np.int64)


def chosen_ranges(rows: Rows, queries: Ints) -> tuple[Ints, Ints] | None:
    """The given rows of the workload as ranges low <= c < high; None where some row of it is none."""
    if isinstance(rows, AllRanges):
        start = np.arange(rows.cells)
        before = start * rows.cells - start * (start - 1) // 2
        low = np.searchsorted(before, queries, side="right") - 1
        return low, low + 1 + queries - before[low]
    spans = as_intervals(rows)
    return None if spans is None else (spans.low[queries], spans.high[queries])


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


def single_cell_variances(plan: Plan, variances: Floats) -> Floats:
    """For each cell the least variance of a row that counts it alone: 0 for an exact one, infinite for none."""
    cells, first = np.full(plan.cells, np.inf), 0
    for part in plan.parts:
        spread = variances[first : first + part.weights.size]
        first += part.weights.size
        spans = as_intervals(part.rows) if isinstance(part, Measurement) else None
        if spans is not None:
            single = spans.high - spans.low == 1
            np.minimum.at(cells, spans.low[single], spread[single])
    exact = None if plan.exact is None else as_intervals(plan.exact)
    if exact is not None:
        cells[exact.low[exact.high - exact.low == 1]] = 0.0
    return cells


def row_variances(plan: Plan | EdgePlan) -> Floats:
    """The variance that continuous noise of the same scale would have: a little more than that of the discrete noise.

    Bounds that know variances alone are proven for it (docs/proofs/accuracy.md).
    """
    return np.asarray(2.0 * (float(plan.unit) / plan.weights) ** 2)


CHUNK = 4_000_000


@dataclass(frozen=True, eq=False)
class ForestStrategy(CellStrategy):
    """One noise variable for each cell of `noisy`: the total of its subtree; the totals of the trees are exact.

    `parent` of a root is the cell itself, and the number of cells where nothing above the subtree is counted. A cell
    is its subtree less the subtrees of its children, so an answer's coefficient on a subtree is the step of its row
    along the edge above it. `rows` and `totals` count the subtrees of the noisy cells and of the roots.
    """

    mechanism: str
    problem: Problem
    parent: Ints
    rows: Rows | None
    totals: Rows | None

    has_fixed_coefficients = True

    @cached_property
    def noisy(self) -> Ints:
        """The cells that are not roots."""
        return np.flatnonzero(self.parent != np.arange(self.parent.size))

    @cached_property
    def roots(self) -> Ints:
        """The cells whose trees have exact totals."""
        return np.flatnonzero(self.parent == np.arange(self.parent.size))

    def plan(self, unit: Fraction) -> Plan:
        parts = () if self.rows is None else (Measurement(self.rows, np.ones(1, dtype=np.int64)),)
        return Plan(unit, parts, self.totals)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Each cell as its subtree less the subtrees of its children; takes vectors or column matrices."""
        del variances
        cells = np.empty((self.parent.size, *measured.shape[1:]))
        cells[self.noisy], cells[self.roots] = measured, exact
        return cells - self._below @ measured if self._edges.size else cells

    def answer_variances(self, variances: Floats) -> Floats:
        return self.variances_of(self.problem.workload, variances)

    def own_variances(self, variances: Floats) -> Floats:
        if self._edges.size:
            return super().own_variances(variances)
        return single_cell_variances(self.plan(Fraction(1)), variances)

    def variances_of(self, rows: Rows, variances: Floats) -> Floats:
        """The expected squared error of the answers to any rows over the same cells."""
        if not self._edges.size:
            return np.asarray(squared(rows).dot(self._on_cells(variances)))
        answers = np.zeros(rows.shape[0])
        step = max(1, CHUNK // max(rows.shape))
        for start in range(0, self.noisy.size, step):
            chosen = slice(start, start + step)
            steps = -self._below[:, chosen].toarray()
            steps[self.noisy[chosen], np.arange(steps.shape[1])] += 1
            answers += (rows.dot(steps) ** 2).astype(np.float64) @ variances[chosen]
        return answers

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        rows = chosen_rows(self.problem.workload, queries)
        return np.asarray(rows[:, self.noisy] - (self._below.T @ rows.T).T, dtype=np.float64)

    def _on_cells(self, variances: Floats) -> Floats:
        spread = np.zeros(self.parent.size)
        spread[self.noisy] = variances
        return spread

    @cached_property
    def _edges(self) -> Ints:
        """The variables whose subtree lies below another cell."""
        return np.flatnonzero(self.parent[self.noisy] < self.parent.size)

    @cached_property
    def _below(self) -> csr_array:
        """Cells by noise variables: 1 at the parent of each subtree."""
        above = self.parent[self.noisy[self._edges]]
        ones = np.ones(above.size, dtype=np.int64)
        return csr_array(coo_array((ones, (above, self._edges)), shape=(self.parent.size, self.noisy.size)))


@dataclass(frozen=True, eq=False)
class LineStrategy(ForestStrategy):
    """A forest whose edges join neighbouring cells: ranges meet few edges, all of which are counted, never listed."""

    @cached_property
    def direct(self) -> Ints | None:
        spans = None if isinstance(self.problem.workload, AllRanges) else as_intervals(self.problem.workload)
        if spans is None or np.any(self._terms(spans) > 1):
            return None
        wholes, before = self._wholes
        one_whole = before[spans.high] > before[spans.low]
        padded = np.append(wholes, -1)
        ends = np.maximum(self._cut[spans.low], self._cut[spans.high])
        variable = np.maximum(ends, np.where(one_whole, padded[before[spans.low]], -1))
        return np.where(spans.low < spans.high, variable, -1)

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers; all ranges are never listed."""
        workload = self.problem.workload
        if self._edges.size and not isinstance(workload, AllRanges):
            return super().total_variance(variances)
        cut, wholes = self._spread(variances)
        return float(cut.sum() * self.parent.size + column_energies(workload) @ wholes)

    def variances_of(self, rows: Rows, variances: Floats) -> Floats:
        spans = as_intervals(rows) if self._edges.size else None
        if spans is not None:
            cut, wholes = self._spread(variances)
            before = np.concatenate([[0.0], np.cumsum(wholes)])
            answers = cut[spans.low] + cut[spans.high] + before[spans.high] - before[spans.low]
            return np.where(spans.low < spans.high, answers, 0.0)
        if self._edges.size and isinstance(rows, Stacked):
            return np.concatenate([self.variances_of(part, variances) for part in rows.parts])
        return super().variances_of(rows, variances)

    def running_variances(self, variances: Floats) -> Floats:
        return self.variances_of(Prefix(self.parent.size), variances)

    def answer_terms(self) -> Ints | None:
        """How many variables each answer adds up or subtracts; None when they may have other factors."""
        workload = self.problem.workload
        if not self._edges.size:
            mask = self._on_cells(np.ones(self.noisy.size)).astype(np.int64)
            return np.asarray(workload.dot(mask)) if is_zero_one(workload) else None
        spans = as_intervals(workload)
        return None if spans is None else self._terms(spans)

    def term_counts(self) -> tuple[Ints, Ints] | None:
        """How many variables an answer adds up, and how many answers do so; all ranges are never listed."""
        if isinstance(self.problem.workload, AllRanges):
            return self._terms_of_all_ranges()
        terms = self.answer_terms()
        return None if terms is None else value_counts(terms)

    def _terms_of_all_ranges(self) -> tuple[Ints, Ints] | None:
        """By length when all cells are measured alone, by noisy ends when no whole is; other cases are too many."""
        cells, wholes = self.parent.size, self._wholes[0].size
        if wholes == cells:
            return np.arange(1, cells + 1), np.arange(cells, 0, -1)
        if wholes:
            return None
        noisy, free = self._edges.size, cells + 1 - self._edges.size
        return np.arange(3), np.array([free * (free - 1) // 2, free * noisy, noisy * (noisy - 1) // 2])

    @cached_property
    def _cut(self) -> Ints:
        """For each place between cells (0 .. n) the variable that a range ending there adds, -1 for none."""
        places, cell = np.full(self.parent.size + 1, -1), self.noisy[self._edges]
        places[np.maximum(cell, self.parent[cell])] = self._edges
        return places

    @cached_property
    def _wholes(self) -> tuple[Ints, Ints]:
        """Variables of subtrees that are below no cell, and how many of them lie before each place."""
        is_whole = self.parent == self.parent.size
        return np.flatnonzero(is_whole[self.noisy]), np.concatenate([[0], np.cumsum(is_whole)])

    def _terms(self, spans: Intervals) -> Ints:
        """A range reads the sums at its two ends and the wholes that end inside it."""
        before = self._wholes[1]
        ends = (self._cut[spans.low] >= 0).astype(np.int64) + (self._cut[spans.high] >= 0)
        return np.where(spans.low < spans.high, ends + before[spans.high] - before[spans.low], 0)

    def _spread(self, variances: Floats) -> tuple[Floats, Floats]:
        """The variance that each place between cells adds, and that each cell adds as a whole."""
        wholes = np.where(self.parent == self.parent.size, self._on_cells(variances), 0.0)
        return np.append(variances, 0.0)[self._cut], wholes
