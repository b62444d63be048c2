"""One ordered axis: runs and windows, trees of blocks, least squares, and the strategy that answers with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from blowfishdb.errors import Declined
from blowfishdb.inference.least_squares import Chain, Tree, TreeSolver, range_variances
from blowfishdb.mechanisms.strategy import (
    CellStrategy,
    chosen_ranges,
    chosen_rows,
    single_cell_variances,
    spread_choice,
)
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import ZERO, WindowGraph
from blowfishdb.model.numbers import Bools, Floats, Ints, consecutive, distinct
from blowfishdb.model.workload import (
    AllRanges,
    Identity,
    Intervals,
    Prefix,
    Rows,
    Sparse,
    are_most_pairs,
    as_intervals,
    sums_before,
)
from blowfishdb.plan.plan import Measurement, Plan, Problem


@dataclass(frozen=True, eq=False)
class OrderedAxis:
    """One ordered axis cut into spans, one after the other.

    A span is a component of the policy graph, whose total is then `free` (released exactly), or a segment of cells from
    which a record can vanish. `runs` cut the spans further, so that universal vertices stand alone. `reach` is the
    furthest cell that a move along the order leads to, the cell itself where there is none.
    """

    cells: int
    spans: Ints
    free: Bools
    runs: Ints
    reach: Ints
    universal: Ints
    leaves: Bools

    @cached_property
    def span_ends(self) -> Ints:
        """One past the last cell of each span."""
        return np.append(self.spans[1:], self.cells)

    @cached_property
    def run_ends(self) -> Ints:
        """One past the last cell of each run."""
        return np.append(self.runs[1:], self.cells)

    @property
    def longest_run(self) -> int:
        """How many cells the longest run has."""
        return int((self.run_ends - self.runs).max())

    @property
    def has_free_runs(self) -> bool:
        """Whether the total of every run is free."""
        return bool(np.all(self.free)) and self.universal.size == 0

    @cached_property
    def span_of(self) -> Ints:
        """The span of each cell."""
        return np.searchsorted(self.spans, np.arange(self.cells), side="right") - 1

    @cached_property
    def noisy(self) -> Ints:
        """The cells that need noise: all but those that are a free span of their own."""
        alone = self.free & (self.span_ends - self.spans == 1)
        return np.flatnonzero(~alone[self.span_of])

    @cached_property
    def noise_mask(self) -> Floats:
        """1 for each noisy cell, 0 for the others."""
        mask = np.zeros(self.cells)
        mask[self.noisy] = 1.0
        return mask

    @cached_property
    def totals(self) -> Intervals | None:
        """The free totals as rows."""
        if not np.any(self.free):
            return None
        return Intervals(self.cells, self.spans[self.free], self.span_ends[self.free])

    @cached_property
    def chains(self) -> Bools:
        """For each run, whether running sums pay: no record vanishes, and windows end before the run does."""
        is_free = self.free[self.span_of[self.runs]] & (self.universal.size == 0)
        return is_free & (self.reach[self.runs] + 1 < self.run_ends)

    @cached_property
    def noisy_rows(self) -> Identity | Intervals:
        """One row for each noisy cell."""
        cells = self.noisy
        return Identity(self.cells) if cells.size == self.cells else Intervals(self.cells, cells, cells + 1)


def any_move(axis: OrderedAxis) -> OrderedAxis:
    """The same spans when a record can move to any cell of its span."""
    return replace(
        axis, runs=axis.spans, reach=(axis.span_ends - 1)[axis.span_of], universal=np.empty(0, dtype=np.int64)
    )


def read_axis(mechanism: str, problem: Problem) -> OrderedAxis:
    """The axis of a problem over one ordered attribute; declined for any other, and where no cell needs noise."""
    graph = problem.graph
    window = graph.factors[0]
    if len(graph.factors) != 1 or not isinstance(window, WindowGraph):
        raise Declined(mechanism, "it needs one attribute whose policy follows an order")
    labels = graph.components()
    starts = np.concatenate([[True], labels[1:] != labels[:-1]])
    spans = np.flatnonzero(starts)
    moves = graph.has_value_edges
    universal = window.universal if moves and window.size > 1 else np.empty(0, dtype=np.int64)
    cuts = np.concatenate([spans, universal, universal[universal + 1 < window.size] + 1])
    reach = window.reach if moves else np.arange(window.size)
    axis = OrderedAxis(
        window.size, spans, labels[spans] != ZERO, np.unique(cuts).astype(np.int64), reach, universal, graph.to_zero
    )
    if axis.noisy.size == 0:
        raise Declined(mechanism, "no move is hidden, so 'identity' releases every cell exactly")
    return axis


def step_starts(axis: OrderedAxis) -> Ints:
    """Block starts such that a move crosses at most one of them: each run that affords running sums is cut into steps.

    A step ends where the window of the cell before its start ends, so no window holds two boundaries.
    """
    starts = [axis.runs]
    for start, end in zip(axis.runs[axis.chains], axis.run_ends[axis.chains], strict=True):
        cuts = []
        place = int(axis.reach[start])
        while place < end:
            cuts.append(place)
            place = int(axis.reach[place - 1]) + 1
        starts.append(np.array(cuts, dtype=np.int64))
    return distinct(np.concatenate(starts))


def typical_window(axis: OrderedAxis) -> int:
    """The median length of a window in the runs that afford running sums."""
    cell = np.arange(axis.cells)
    run_end = np.repeat(axis.run_ends, axis.run_ends - axis.runs)
    inner = np.repeat(axis.chains, axis.run_ends - axis.runs) & (axis.reach + 1 < run_end)
    return max(1, int(np.median((axis.reach - cell)[inner])))


def spread_places(axis: OrderedAxis, run: int, ratio: float) -> Ints:
    """Places inside one run about `ratio` steps apart, evenly spread in steps."""
    start, end = int(axis.runs[run]), int(axis.run_ends[run])
    steps = step_starts(axis)
    knots = np.concatenate([[start], steps[(steps > start) & (steps < end)]])
    last = min(1.0, (end - knots[-1]) / (knots[-1] - knots[-2]))
    at = np.append(np.arange(knots.size, dtype=np.float64), knots.size - 1 + last)
    count = max(1, int(at[-1] / ratio + 1e-9) - 1)
    places = np.interp(np.arange(1, count + 1) * at[-1] / (count + 1), at, np.append(knots, end))
    return np.unique(np.round(places).astype(np.int64))


def stand_in(axis: OrderedAxis, workload: Rows, window: int, cells: int) -> tuple[OrderedAxis, Rows]:
    """An axis of at most so many cells, one run with constant windows where it is longer, and a workload like this one.

    Errors hardly depend on the length. Workloads that do not scale are replaced by all ranges.
    """
    if axis.cells <= cells:
        return axis, workload
    reach, zero = np.minimum(np.arange(cells) + window, cells - 1), np.zeros(1, dtype=np.int64)
    even = OrderedAxis(
        cells, zero, np.ones(1, np.bool_), zero, reach, np.empty(0, dtype=np.int64), np.zeros(cells, np.bool_)
    )
    return even, type(workload)(cells) if isinstance(workload, Identity | Prefix) else AllRanges(cells)


GRID = 2**24
"""Shares of the loss become whole weights on a grid this fine."""
LEAST_CELL = 2**12
"""A cell beside coarse rows has at least this weight: with less, doubles would no longer tell what the rows add."""


def whole_weights(share: float, height: int, rows: int) -> Ints:
    """One weight for each of `rows` rows with entries up to `height`, rounded down to keep within the share."""
    return np.full(rows, max(1, int(share * GRID / height)), dtype=np.int64)


def boxes(cells: int, low: Ints, high: Ints) -> csr_array:
    """Rows of ones on low <= c < high."""
    lengths = high - low
    column = consecutive(low, lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((np.ones(column.size, dtype=np.int64), column, ends), shape=(low.size, cells))


@dataclass(frozen=True, eq=False)
class TreeLevel:
    """Nodes that tile the axis: where each starts, and which ones are measured."""

    starts: Ints
    measured: Bools


@dataclass(frozen=True, eq=False)
class BlockTree:
    """Cells under nodes under blocks; blocks follow each other in spans, with measured running sums between some.

    `levels` go up from the nodes over the cells to the blocks. `summed` marks the blocks at whose end the running sum
    from the start of their span is measured.
    """

    axis: OrderedAxis
    levels: tuple[TreeLevel, ...]
    summed: Bools

    @cached_property
    def nodes(self) -> Tree:
        """The cells and nodes as levels of parents."""
        starts = [np.arange(self.axis.cells), *(level.starts for level in self.levels)]
        above = pairwise(starts)
        return Tree(tuple(np.searchsorted(tops, nodes, side="right") - 1 for nodes, tops in above), starts[-1].size)

    @property
    def blocks(self) -> Ints:
        """Where each block starts."""
        return self.levels[-1].starts

    @cached_property
    def span_of_block(self) -> Ints:
        """The span of each block."""
        return np.searchsorted(self.axis.spans, self.blocks, side="right") - 1

    @cached_property
    def opens_span(self) -> Bools:
        """Whether each block is the first of its span."""
        return np.concatenate([[True], np.diff(self.span_of_block) > 0])

    @cached_property
    def pinned(self) -> Bools:
        """Whether the running sum at the end of each block is a free total."""
        closes = np.append(self.opens_span[1:], True)
        return np.asarray(closes & self.axis.free[self.span_of_block], dtype=np.bool_)

    def rows(self) -> list[Intervals]:
        """The rows of each group above the cells: one group for each level, then the running sums."""
        cells = self.axis.cells
        groups = []
        for level in self.levels:
            ends = np.append(level.starts[1:], cells)
            groups.append(Intervals(cells, level.starts[level.measured], ends[level.measured]))
        ends = np.append(self.blocks[1:], cells)[self.summed]
        return [*groups, Intervals(cells, self.axis.spans[self.span_of_block[self.summed]], ends)]

    def weights(self, shares: Floats) -> tuple[Ints, ...]:
        """Whole weights for a share of each group of rows: the cells, each level, the running sums."""
        rows = [self.axis.noisy_rows, *self.rows()]
        return tuple(whole_weights(float(s), 1, group.shape[0]) for group, s in zip(rows, shares, strict=True))


def grow(
    axis: OrderedAxis, blocks: Ints, sizes: tuple[int, ...], *, roots: bool = False, sums: bool = False
) -> BlockTree:
    """The tree with nodes of the given sizes (each a multiple of the one before) inside each block.

    Ragged nodes are simply shorter. A node with one child repeats it and a free total needs no noise: neither is
    measured. `roots` measures the totals of the blocks too; `sums` the running sums at the ends of all blocks but
    the last of each span.
    """
    cell = np.arange(axis.cells)
    place = cell - blocks[np.searchsorted(blocks, cell, side="right") - 1]
    span_start, span_end = axis.spans[axis.span_of], axis.span_ends[axis.span_of]
    below = cell
    levels = []
    for size in [*sizes, axis.cells]:
        starts = np.flatnonzero(place % size == 0)
        children = np.diff(np.append(np.searchsorted(below, starts), below.size))
        is_span = (starts == span_start[starts]) & (np.append(starts[1:], axis.cells) == span_end[starts])
        is_total = is_span & axis.free[axis.span_of[starts]]
        wanted = (children > 1) & ~is_total if roots or size < axis.cells else np.zeros(starts.size, dtype=np.bool_)
        levels.append(TreeLevel(starts, wanted))
        below = starts
    goes_on = np.append(~np.isin(blocks[1:], axis.spans), False)
    return BlockTree(axis, tuple(levels), goes_on if sums else np.zeros_like(goes_on))


LEAST_VARIANCE = 4e-22
"""The variance of discrete noise of scale 1/50: anything less is zero for all purposes and spoils divisions."""

STEADY_SCALE = 3
"""From this noise scale on, least squares uses the proportions of continuous noise: they are at most 1 % off, which
costs next to nothing, and then the coefficients of the answers are the same at every noise level."""

CHUNK = 256
"""Queries that are not intervals are answered this many at a time."""


NumberType = TypeVar("NumberType", np.float64, np.int64)


class Estimator(ABC):
    """Weighted least squares for noisy rows, of which the noisy cells come first, and the free totals of an axis."""

    axis: OrderedAxis

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
        seen = rows if noisy.size == rows.shape[0] else rows[noisy]
        np.multiply(seen, spread, out=measured[: noisy.size])
        free = np.zeros((0 if self.exact is None else self.exact.shape[0], *rows.shape[1:]))
        return self.estimate(measured, free, variances)

    def coefficients(self, workload: Rows, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noisy row."""
        towards = self.covariance_dot(chosen_rows(workload, queries).T, variances)
        none = np.empty((0, queries.size))
        seen = np.concatenate([none, *(part.rows.dot(towards) for part in self.parts)])
        return np.asarray((seen / variances[:, None]).T)

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

    steady_scale = STEADY_SCALE

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

    def own_variances(self, variances: Floats) -> Floats:
        return single_cell_variances(self.plan(Fraction(1)), variances)

    def running_variances(self, variances: Floats) -> Floats:
        every = Prefix(self.estimator.axis.cells)
        return self.estimator.answer_variances(every, np.maximum(variances, LEAST_VARIANCE))

    def some_variances(self, count: int, variances: Floats) -> tuple[Ints, Floats]:
        """About so many answers spread over the workload, and the expected squared error of each."""
        spans = None if isinstance(self.problem.workload, AllRanges) else as_intervals(self.problem.workload)
        answers = self.problem.workload.shape[0]
        if spans is None or answers <= count:
            return np.arange(answers), self.answer_variances(variances)
        chosen = spread_choice(answers, count)
        return chosen, self.chosen_variances(chosen, variances)

    def chosen_variances(self, chosen: Ints, variances: Floats) -> Floats:
        """The expected squared error of some of the answers."""
        spans = None if isinstance(self.problem.workload, AllRanges) else as_intervals(self.problem.workload)
        if spans is None:
            return super().chosen_variances(chosen, variances)
        spread = np.maximum(variances, LEAST_VARIANCE)
        return self.estimator.range_variances(spans.low[chosen], spans.high[chosen], spread)

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        return self.estimator.coefficients(self.problem.workload, queries, np.maximum(variances, LEAST_VARIANCE))

    def _steady(self, variances: Floats) -> Floats:
        """The variances themselves, or those of continuous noise where they differ from them by rounding only.

        Estimates depend on the ratios of variances alone: those of continuous noise are given at one unit, so that
        what an estimator remembers serves every epsilon.
        """
        squares = self._weight_squares
        unit_squares = variances * squares
        largest = float(np.max(unit_squares, initial=0.0))
        off = 1.0 / (12.0 * STEADY_SCALE**2)
        if float(np.min(unit_squares, initial=np.inf)) >= (1.0 - off) * largest and float(
            np.min(variances, initial=np.inf)
        ) >= 2.0 * STEADY_SCALE**2 * (1.0 - off):
            return self._continuous
        return np.maximum(variances, LEAST_VARIANCE)

    @cached_property
    def _weight_squares(self) -> Floats:
        weights = np.concatenate([np.empty(0), *(part.weights for part in self.estimator.parts)])
        return np.asarray(weights**2)

    @cached_property
    def _continuous(self) -> Floats:
        """The variances of continuous noise where the least weight has variance 1."""
        return np.asarray(self._weight_squares.min(initial=np.inf) / self._weight_squares)


LOST = 1e-9
"""The share of a variance below which what is left of it is not known to enough digits."""
MOST_COEFFICIENTS = 2**22
"""Coefficients that are worked out for such variances; where that is not enough, they stay as they are."""


@dataclass(frozen=True, eq=False)
class CoarseCorrection(Estimator):
    """Noisy cells y with variances V, coarse rows H with variances D, free totals as rows of variance 0.

    The estimate is y + V H'(D + H V H')^-1 (h - H y), h what the coarse rows gave (Woodbury's identity).
    """

    axis: OrderedAxis
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

    def coefficients(self, workload: Rows, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noisy row.

        Of an answer w y + w V H'(D + H V H')^-1 (h - H y) that on h is g = w V H'(D + H V H')^-1, that on y is w - g H.
        """
        spread, whitener = self._whitened(variances)
        weighted, ranges = (self._dense_rows * spread).T, chosen_ranges(workload, queries)
        rows, matrix, count = chosen_rows(workload, queries), self._dense_rows, self.noisy.size
        if ranges is None:
            seen = rows @ weighted
        else:
            low, high = ranges
            running = sums_before(weighted)
            seen = running[high] - running[low]
        if count < self.axis.cells:
            rows, matrix = rows[:, self.noisy], matrix[:, self.noisy]
        given = (seen @ whitener.T) @ whitener
        # Row by row in memory, as bounds on tails read them: several times faster than column by column.
        coefficients = np.empty((queries.size, variances.size))
        np.matmul(given, matrix, out=coefficients[:, :count])
        np.subtract(rows, coefficients[:, :count], out=coefficients[:, :count])
        coefficients[:, count:] = given[:, : variances.size - count]
        return coefficients

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
        alone = np.concatenate([[0.0], np.cumsum(self._whitened(variances)[0])])
        ranges = self._less_what_rows_tell(alone, low, high, variances)
        # What two nearly equal numbers leave is mostly rounding: then it is added up by coefficients.
        lost = np.flatnonzero(ranges < LOST * (alone[high] - alone[low]))
        if 0 < lost.size * variances.size <= MOST_COEFFICIENTS:
            some = Intervals(self.axis.cells, low[lost], high[lost])
            ranges[lost] = self.coefficients(some, np.arange(lost.size), variances) ** 2 @ variances
        return ranges

    def _less_what_rows_tell(self, alone: Floats, low: Ints, high: Ints, variances: Floats) -> Floats:
        """The variances of ranges by the cells alone, whose running sums are `alone`, less what the rows take off."""
        spread, whitener = self._whitened(variances)
        before = np.zeros((self._rows.shape[0], self.axis.cells + 1))
        np.cumsum(self._dense_rows * spread, axis=1, out=before[:, 1:])
        if not np.any(low):
            running = whitener @ before
            return np.asarray(np.maximum(alone - np.einsum("ij,ij->j", running, running), 0.0)[high])
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
        """The variance of each cell (0 where it is exact), and K with K'K = (D + H V H')^-1; two are remembered."""
        key = variances.tobytes()
        last = self._last_whitened.pop(key, None)
        if last is None:
            spread, noise = self._spreads(variances)
            system = (self._dense_rows * spread) @ self._dense_rows.T
            system[np.diag_indices_from(system)] += noise
            last = spread, np.linalg.inv(np.linalg.cholesky(system))
            for older in list(self._last_whitened)[:-1]:
                self._last_whitened.pop(older, None)
        self._last_whitened[key] = last
        return last

    @cached_property
    def _last_whitened(self) -> dict[bytes, tuple[Floats, Floats]]:
        """The last for continuous noise and for another. Estimators travel between processes: no function is held."""
        return {}


@dataclass(frozen=True, eq=False)
class TreeCorrection(Estimator):
    """Noisy cells under a measured tree of blocks, with running sums between blocks.

    `weights` are those of the cells, of the measured nodes of each level, and of the running sums.
    """

    tree: BlockTree
    weights: tuple[Ints, ...]
    axis: OrderedAxis = field(init=False)

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

    def split(self, values: NDArray[NumberType]) -> list[NDArray[NumberType]]:
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
