"""Ordered: measures running sums along the order of the cells, so that a move to a neighbour changes few of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.strategy import chosen_rows, distinct
from blowfishdb.model.graphs import ZERO, CellGraph, WindowGraph
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.workload import AllRanges, Intervals, Rows, Stacked, as_intervals
from blowfishdb.plan.plan import Measurement, Plan, Problem

NAME = "ordered"


def propose(problem: Problem) -> OrderedStrategy:
    """Serves one ordered axis; runs that records can only leave on the left are summed from the right."""
    graph = problem.graph
    axis = graph.factors[0]
    if len(graph.factors) != 1 or not isinstance(axis, WindowGraph):
        raise Declined(NAME, "running sums need one attribute whose policy follows an order")
    starts = np.concatenate([[True], axis.reach[:-1] == np.arange(axis.size - 1)])
    run = np.cumsum(starts) - 1
    first = np.flatnonzero(starts)
    last = np.concatenate([first[1:], [axis.size]]) - 1
    cell = np.arange(axis.size)
    leaves = graph.to_zero
    dear_forward = np.zeros(first.size, dtype=np.int64)
    dear_backward = np.zeros(first.size, dtype=np.int64)
    np.maximum.at(dear_forward, run[leaves], (last[run] - cell + 1)[leaves])
    np.maximum.at(dear_backward, run[leaves], (cell - first[run] + 1)[leaves])
    backward = (dear_backward < dear_forward)[run]
    label = graph.components()
    is_total = cell == np.where(backward, first[run], last[run])
    exact = is_total & (label != ZERO) & (axis.universal.size == 0)
    if axis.universal.size and axis.size == 1:
        exact = label != ZERO
    return OrderedStrategy(problem, first[run], last[run], backward, exact)


def is_line(graph: CellGraph) -> bool:
    """Whether records move by at most one step along one axis and can neither leave nor be absent.

    There running sums are what every mechanism comes to.
    """
    axis = graph.factors[0]
    if len(graph.factors) > 1 or not isinstance(axis, WindowGraph) or axis.universal.size or np.any(graph.to_zero):
        return False
    return bool(np.all(axis.reach <= np.arange(1, axis.size + 1)))


@dataclass(frozen=True, eq=False)
class OrderedStrategy:
    """Cell i stands for the sum of its run first .. last up to i, or from i on where `backward`.

    Runs are the pieces no window crosses, universal vertices among them. Where `exact` is set that sum is the whole
    run, which no edge can change; every other one is a noise variable, in the order of the cells.
    """

    problem: Problem
    first: Ints
    last: Ints
    backward: Bools
    exact: Bools

    @property
    def mechanism(self) -> str:
        return NAME

    @cached_property
    def direct(self) -> Ints | None:
        if isinstance(self.problem.workload, AllRanges):
            return None
        spans = as_intervals(self.problem.workload)
        if spans is None or np.any(self._terms(spans) > 1):
            return None
        left, right = self._cut[spans.low], self._cut[spans.high]
        wholes, before = self._noisy_wholes
        one_whole = before[spans.high] > before[spans.low]
        padded = np.append(wholes, -1)
        variable = np.maximum(np.maximum(left, right), np.where(one_whole, padded[before[spans.low]], -1))
        return np.where(spans.low < spans.high, variable, -1)

    def plan(self, unit: Fraction) -> Plan:
        noisy = Measurement(self._sums(~self.exact), np.ones(1, dtype=np.int64)) if np.any(~self.exact) else None
        return Plan(unit, (noisy,) if noisy else (), self._sums(self.exact) if np.any(self.exact) else None)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Differences of neighbouring running sums; takes vectors or column matrices."""
        del variances
        sums = np.empty((self.exact.size, *measured.shape[1:]))
        sums[~self.exact] = measured
        sums[self.exact] = exact
        cells = sums.copy()
        forward, backward = self._inner
        cells[forward] -= sums[forward - 1]
        cells[backward] -= sums[backward + 1]
        return cells

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        return np.asarray(self.problem.workload.dot(self.estimate_cells(measured, exact, variances)))

    def answer_variances(self, variances: Floats) -> Floats:
        return self.variances_of(self.problem.workload, variances)

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers; all ranges are never listed."""
        if not isinstance(self.problem.workload, AllRanges):
            return float(np.sum(self.answer_variances(variances)))
        cut, wholes = self._spread(variances)
        cell = np.arange(cut.size - 1)
        return float(cut.sum() * cell.size + wholes @ ((cell + 1.0) * (cell.size - cell)))

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        rows = chosen_rows(self.problem.workload, queries)
        return np.asarray((self._differences.T @ rows.T).T, dtype=np.float64)

    def answer_terms(self) -> Ints | None:
        """How many variables each answer adds up or subtracts; None when rows are not intervals."""
        spans = as_intervals(self.problem.workload)
        return None if spans is None else self._terms(spans)

    def term_counts(self) -> tuple[Ints, Ints] | None:
        """How many variables an answer adds up, and how many answers do so; all ranges are never listed."""
        if isinstance(self.problem.workload, AllRanges):
            return self._terms_of_all_ranges()
        terms = self.answer_terms()
        return None if terms is None else distinct(terms)

    def _terms_of_all_ranges(self) -> tuple[Ints, Ints] | None:
        """Both ends are free or noisy; several noisy wholes make too many cases to be worth it."""
        wholes, _ = self._noisy_wholes
        if wholes.size:
            return None
        noisy_ends = int(np.sum(self._cut >= 0))
        free = self._cut.size - noisy_ends
        counts = [free * (free - 1) // 2, free * noisy_ends, noisy_ends * (noisy_ends - 1) // 2]
        return np.arange(3), np.array(counts)

    def _sums(self, chosen: Bools) -> Intervals:
        cell = np.arange(self.exact.size)
        low = np.where(self.backward, cell, self.first)[chosen]
        high = np.where(self.backward, self.last, cell)[chosen] + 1
        return Intervals(self.exact.size, low, high)

    @cached_property
    def _variable(self) -> Ints:
        """The noise variable of each cell's running sum, -1 where it is exact."""
        return np.where(self.exact, -1, np.cumsum(~self.exact) - 1)

    @cached_property
    def _is_whole(self) -> Bools:
        return np.asarray(np.arange(self.exact.size) == np.where(self.backward, self.first, self.last))

    @cached_property
    def _inner(self) -> tuple[Ints, Ints]:
        """Cells that subtract the sum before them, and cells that subtract the sum after them."""
        cell = np.arange(self.exact.size)
        forward = np.flatnonzero(~self.backward & (cell > self.first))
        return forward, np.flatnonzero(self.backward & (cell < self.last))

    @cached_property
    def _cut(self) -> Ints:
        """For each place between cells (0 .. n) the variable that a range ending there adds, -1 for none."""
        places = np.full(self.exact.size + 1, -1)
        forward, backward = self._inner
        places[forward] = self._variable[forward - 1]
        places[backward + 1] = self._variable[backward + 1]
        return places

    @cached_property
    def _noisy_wholes(self) -> tuple[Ints, Ints]:
        """Variables that are totals of whole runs, and how many of them lie before each place."""
        chosen = self._is_whole & ~self.exact
        return self._variable[chosen], np.concatenate([[0], np.cumsum(chosen)])

    def _terms(self, spans: Intervals) -> Ints:
        """A range reads the sums at its two ends and the totals of the runs that end inside it."""
        before = self._noisy_wholes[1]
        ends = (self._cut[spans.low] >= 0).astype(np.int64) + (self._cut[spans.high] >= 0)
        return np.where(spans.low < spans.high, ends + before[spans.high] - before[spans.low], 0)

    def _spread(self, variances: Floats) -> tuple[Floats, Floats]:
        """The variance that each place between cells adds, and that each cell adds as the total of a run."""
        padded = np.append(variances, 0.0)
        wholes = np.where(self._is_whole, padded[self._variable], 0.0)
        return padded[self._cut], wholes

    def variances_of(self, rows: Rows, variances: Floats) -> Floats:
        """The expected squared error of the answers to any rows over the same cells."""
        spans = as_intervals(rows)
        if spans is not None:
            cut, wholes = self._spread(variances)
            before = np.concatenate([[0.0], np.cumsum(wholes)])
            answers = cut[spans.low] + cut[spans.high] + before[spans.high] - before[spans.low]
            return np.where(spans.low < spans.high, answers, 0.0)
        if isinstance(rows, Stacked):
            return np.concatenate([self.variances_of(part, variances) for part in rows.parts])
        matrix = csr_array(rows.dense()) @ self._differences
        return np.asarray(matrix.power(2) @ variances)

    @cached_property
    def _differences(self) -> csr_array:
        """Cells by noise variables: each cell as a difference of running sums."""
        cell = np.arange(self.exact.size)
        forward, backward = self._inner
        row = np.concatenate([cell, forward, backward])
        column = self._variable[np.concatenate([cell, forward - 1, backward + 1])]
        value = np.concatenate([np.ones(cell.size), np.full(row.size - cell.size, -1.0)])
        noisy = column >= 0
        shape = (cell.size, int(np.sum(~self.exact)))
        return csr_array(coo_array((value[noisy], (row[noisy], column[noisy])), shape=shape))
