"""Least squares on one axis, by a dense system of coarse rows or on a tree, and the strategy that answers with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from blowfishdb.inference.trees import Chain, TreeSolver, range_variances
from blowfishdb.mechanisms.axis import Axis, BlockTree, boxes
from blowfishdb.mechanisms.strategy import CellStrategy, chosen_rows, spread_choice
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import AllRanges, Intervals, Rows, Sparse, are_most_pairs, as_intervals
from blowfishdb.plan.plan import Measurement, Plan, Problem

LEAST_VARIANCE = 4e-22
"""The variance of discrete noise of scale 1/50: anything less is zero for all purposes and spoils divisions."""

STEADY_SCALE = 3
"""From this noise scale on, least squares uses the proportions of continuous noise: they are at most 1 % off, which
costs next to nothing, and then the coefficients of the answers are the same at every noise level."""

CHUNK = 256
"""Queries that are not intervals are answered this many at a time."""


Number = TypeVar("Number", np.float64, np.int64)


class Estimator(ABC):
    """Weighted least squares for noisy rows, of which the noisy cells come first, and the free totals of an axis."""

    axis: Axis

    @property
    @abstractmethod
    def parts(self) -> tuple[Measurement, ...]:
        """The noisy rows: the noisy cells in increasing order, then others."""

    @property
    def exact(self) -> Intervals | None:
        """The free totals."""
        return self.axis.totals

    @property
    def noisy(self) -> Ints:
        """The cells of the first part."""
        return self.axis.noisy

    @abstractmethod
    def estimate(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The best linear unbiased estimate of every cell, for vectors or column matrices."""

    @abstractmethod
    def range_variances(self, low: Ints, high: Ints, variances: Floats) -> Floats:
        """The variance of the estimated sum of the cells low <= c < high, for each pair."""

    def covariance_dot(self, rows: Floats | Ints, variances: Floats) -> Floats:
        """The covariance of the cell estimates times the given column(s).

        Least squares returns covariance x A' R^-1 y; with y = R row on the noisy cells alone, A' R^-1 y is the row.
        """
        noisy = self.noisy
        spread = variances[: noisy.size].reshape(-1, *(1,) * (rows.ndim - 1))
        measured = np.zeros((variances.size, *rows.shape[1:]))
        measured[: noisy.size] = rows[noisy] * spread
        free = np.zeros((0 if self.exact is None else self.exact.shape[0], *rows.shape[1:]))
        return self.estimate(measured, free, variances)

    def answer_variances(self, workload: Rows, variances: Floats) -> Floats:
        """The expected squared error of each answer, exact."""
        spans = as_intervals(workload)
        if spans is not None:
            return self.range_variances(spans.low, spans.high, variances)
        answers = np.empty(workload.shape[0])
        for start in range(0, answers.size, CHUNK):
            chosen = np.arange(start, min(start + CHUNK, answers.size))
            rows = chosen_rows(workload, chosen).T
            answers[chosen] = np.einsum("ij,ij->j", rows, self.covariance_dot(rows, variances))
        return answers

    def total_variance(self, workload: Rows, variances: Floats) -> float:
        """The summed expected squared error of all answers; all ranges are never listed.

        The sum of (F_j - F_i)^2 over i < j is (n + 1) sum F_j^2 - (sum F_j)^2, F the n + 1 running sums.
        """
        if not isinstance(workload, AllRanges):
            return float(np.sum(self.answer_variances(workload, variances)))
        place = np.arange(workload.cells + 1)
        each = self.range_variances(np.zeros_like(place), place, variances)
        times = (workload.cells - place[:-1]).astype(np.float64)
        together = float(times @ self.covariance_dot(times, variances))
        return float(place.size * np.sum(each) - together)


@dataclass(frozen=True, eq=False)
class EstimatingStrategy(CellStrategy):
    """Answers every query from the least-squares estimate of the cells."""

    mechanism: str
    problem: Problem
    estimator: Estimator

    @property
    def steady_scale(self) -> int:
        """From this scale of all noise on, the coefficients of the answers are those of continuous noise."""
        return STEADY_SCALE

    def plan(self, unit: Fraction) -> Plan:
        """The measurements, at the given noise level."""
        return Plan(unit, self.estimator.parts, self.estimator.exact)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The count of every cell; takes vectors or column matrices."""
        return self.estimator.estimate(measured, exact, self._steady(variances))

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer, exact."""
        return self.estimator.answer_variances(self.problem.workload, np.maximum(variances, LEAST_VARIANCE))

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers; all ranges are never listed."""
        return self.estimator.total_variance(self.problem.workload, np.maximum(variances, LEAST_VARIANCE))

    def some_variances(self, count: int, variances: Floats) -> tuple[Ints, Floats]:
        """About so many answers spread over the workload, and the expected squared error of each."""
        spans = None if isinstance(self.problem.workload, AllRanges) else as_intervals(self.problem.workload)
        answers = self.problem.workload.shape[0]
        if spans is None or answers <= count:
            return np.arange(answers), self.answer_variances(variances)
        chosen = spread_choice(answers, count)
        spread = np.maximum(variances, LEAST_VARIANCE)
        return chosen, self.estimator.range_variances(spans.low[chosen], spans.high[chosen], spread)

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        spread = np.maximum(variances, LEAST_VARIANCE)
        towards = self.estimator.covariance_dot(chosen_rows(self.problem.workload, queries).T, spread)
        none = np.empty((0, queries.size))
        seen = np.concatenate([none, *(part.rows.dot(towards) for part in self.estimator.parts)])
        return np.asarray((seen / spread[:, None]).T)

    def _steady(self, variances: Floats) -> Floats:
        """The variances themselves, or those of continuous noise where they differ from them by rounding only."""
        weights = np.concatenate([np.empty(0), *(part.weights for part in self.estimator.parts)])
        unit_squares = variances * weights**2
        largest = float(np.max(unit_squares, initial=0.0))
        off = 1.0 / (12.0 * STEADY_SCALE**2)
        if float(np.min(unit_squares, initial=np.inf)) >= (1.0 - off) * largest and float(
            np.min(variances, initial=np.inf)
        ) >= 2.0 * STEADY_SCALE**2 * (1.0 - off):
            return np.asarray(largest / weights**2)
        return np.maximum(variances, LEAST_VARIANCE)


@dataclass(frozen=True, eq=False)
class CoarseCorrection(Estimator):
    """Noisy cells y with variances V, coarse rows H with variances D, free totals as rows of variance 0.

    The estimate is y + V H'(D + H V H')^-1 (h - H y), h what the coarse rows gave (Woodbury's identity).
    """

    axis: Axis
    cell_weights: Ints
    coarse: csr_array
    coarse_weights: Ints

    @cached_property
    def parts(self) -> tuple[Measurement, ...]:
        """The noisy cells, then the coarse rows; groups without rows are left out."""
        groups = ((self.axis.noisy_rows, self.cell_weights), (Sparse(self.coarse), self.coarse_weights))
        return tuple(Measurement(rows, weights) for rows, weights in groups if weights.size)

    @cached_property
    def _rows(self) -> csr_array:
        """Coarse rows, then the free totals of more than one cell."""
        return csr_array(vstack([self.coarse, self._totals[0]], format="csr"), dtype=np.float64)

    @cached_property
    def _dense_rows(self) -> Floats:
        return np.asarray(self._rows.toarray())

    @cached_property
    def _totals(self) -> tuple[csr_array, Ints, Ints]:
        """Free totals of several cells as rows; which exact rows these are; which exact rows are single cells."""
        exact = self.exact
        if exact is None:
            none = np.empty(0, dtype=np.int64)
            return csr_array((0, self.axis.cells), dtype=np.int64), none, none
        length = exact.high - exact.low
        long, single = np.flatnonzero(length > 1), np.flatnonzero(length == 1)
        return boxes(self.axis.cells, exact.low[long], exact.high[long]), long, single

    def estimate(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        cells, missed = self._first_look(measured, exact)
        if not self._rows.shape[0]:
            return cells
        spread, whitener = self._whitened(variances)
        step = self._rows.T @ (whitener.T @ (whitener @ missed))
        step *= spread.reshape(-1, *(1,) * (measured.ndim - 1))
        cells += step
        return cells

    def _first_look(self, measured: Floats, exact: Floats) -> tuple[Floats, Floats]:
        """The cells as they were measured or are known, and by how much each row says otherwise."""
        _, long, single = self._totals
        count = self.noisy.size
        cells = np.zeros((self.axis.cells, *measured.shape[1:]))
        cells[self.noisy] = measured[:count]
        if single.size and self.exact is not None:
            cells[self.exact.low[single]] = exact[single]
        return cells, np.concatenate([measured[count:], exact[long]]) - self._rows @ cells

    def _spreads(self, variances: Floats) -> tuple[Floats, Floats]:
        """The variance of each cell and of each row, 0 where it is exact."""
        count = self.noisy.size
        spread = np.zeros(self.axis.cells)
        spread[self.noisy] = variances[:count]
        noise = np.zeros(self._rows.shape[0])
        noise[: variances.size - count] = variances[count:]
        return spread, noise

    def range_variances(self, low: Ints, high: Ints, variances: Floats) -> Floats:
        spread, whitener = self._whitened(variances)
        alone = np.concatenate([[0.0], np.cumsum(spread)])
        before = np.zeros((self._rows.shape[0], self.axis.cells + 1))
        np.cumsum(self._dense_rows * spread, axis=1, out=before[:, 1:])
        whitened = (whitener @ before).T.copy()
        if are_most_pairs(self.axis.cells, low.size):
            squares = np.einsum("ij,ij->i", whitened, whitened)
            left = alone - squares
            together = (whitened @ whitened.T)[low, high]
            return np.asarray(np.maximum(left[high] - left[low] + 2.0 * (together - squares[low]), 0.0))
        ranges = np.empty(low.size)
        for start in range(0, low.size, 4096):
            part = slice(start, start + 4096)
            change = whitened[high[part]] - whitened[low[part]]
            ranges[part] = alone[high[part]] - alone[low[part]] - np.einsum("ij,ij->i", change, change)
        return np.maximum(ranges, 0.0)

    def _whitened(self, variances: Floats) -> tuple[Floats, Floats]:
        """The variance of each cell (0 where it is exact), and K with K'K = (D + H V H')^-1; the last is remembered."""
        return self._last_whitened(variances.tobytes())

    @cached_property
    def _last_whitened(self) -> Callable[[bytes], tuple[Floats, Floats]]:
        @lru_cache(maxsize=1)
        def whitened(variances: bytes) -> tuple[Floats, Floats]:
            spread, noise = self._spreads(np.frombuffer(variances))
            system = (self._dense_rows * spread) @ self._dense_rows.T
            system[np.diag_indices_from(system)] += noise
            return spread, np.linalg.inv(np.linalg.cholesky(system))

        return whitened


@dataclass(frozen=True, eq=False)
class TreeCorrection(Estimator):
    """Noisy cells under a measured tree of blocks, with running sums between blocks.

    `weights` are those of the cells, of the measured nodes of each level, and of the running sums.
    """

    tree: BlockTree
    weights: tuple[Ints, ...]
    axis: Axis = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", self.tree.axis)

    @cached_property
    def parts(self) -> tuple[Measurement, ...]:
        """The noisy cells, each level, the running sums."""
        rows = [self.axis.noisy_rows, *self.tree.rows()]
        return tuple(Measurement(group, w) for group, w in zip(rows, self.weights, strict=True) if w.size)

    def estimate(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        *values, sums = self.split(measured)
        solver = self.solver(variances)
        chain = self.chain(solver, variances)
        return solver.estimate(self._by_node(values, 0.0), lambda blocks: chain.solve(blocks, sums, exact))[0]

    def range_variances(self, low: Ints, high: Ints, variances: Floats) -> Floats:
        """The variance of the estimated sum of each range; spans are independent, so a range adds up its pieces."""
        solver = self.solver(variances)
        chain, axis = self.chain(solver, variances), self.tree.axis
        ends = axis.span_ends

        def within(start: Ints, stop: Ints) -> Floats:
            return range_variances(solver, chain, start, stop, np.isin(stop, ends))

        first = np.searchsorted(axis.spans, low, side="right") - 1
        last = np.searchsorted(axis.spans, np.maximum(high - 1, low), side="right") - 1
        crosses = last > first
        if not np.any(crosses):
            return within(low, high)
        totals = np.concatenate([[0.0], np.cumsum(within(axis.spans, ends))])
        between = np.where(crosses, totals[last] - totals[np.minimum(first + 1, last)], 0.0)
        head = within(low, np.where(crosses, ends[first], high))
        return head + between + within(np.where(crosses, axis.spans[last], high), high)

    def split(self, values: NDArray[Number]) -> list[NDArray[Number]]:
        """Values of the noisy rows by group: cells, levels, running sums; empty groups included."""
        tree: BlockTree = self.tree
        counts = [self.noisy.size, *(int(level.measured.sum()) for level in tree.levels), int(tree.summed.sum())]
        return np.split(values, np.cumsum(counts)[:-1])

    def solver(self, variances: Floats) -> TreeSolver:
        """Least squares below the running sums; a cell that is exact counts as if of variance 1, which cancels out."""
        noise = self._by_node(self.split(variances)[:-1], np.inf)
        noise[0][np.isinf(noise[0])] = 1.0
        return TreeSolver(self.tree.nodes, tuple(noise))

    def chain(self, solver: TreeSolver, variances: Floats) -> Chain:
        """The blocks with what their subtrees tell of them, and the running sums between them."""
        tree = self.tree
        noise = np.full(tree.blocks.size, np.inf)
        noise[tree.summed] = self.split(variances)[-1]
        free = np.cumsum(tree.axis.free) - 1
        return Chain(solver.below[-1], noise, tree.opens_span, tree.pinned, free[tree.span_of_block])

    def _by_node(self, values: list[Floats], default: float) -> list[Floats]:
        """The values of cells and measured nodes as one array for each level, `default` where nothing is measured."""
        sizes = [self.tree.axis.cells, *(level.starts.size for level in self.tree.levels)]
        places = [self.noisy, *(level.measured for level in self.tree.levels)]
        levels = [np.full((size, *values[0].shape[1:]), default) for size in sizes]
        for level, place, given in zip(levels, places, values, strict=True):
            level[place] = given
        return levels
