"""What mechanisms on one ordered axis share: runs of cells, windows, rows, shares of the loss, trees of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from blowfishdb.errors import Declined
from blowfishdb.inference.trees import Tree
from blowfishdb.mechanisms.strategy import column_energies
from blowfishdb.model.graphs import ZERO, WindowGraph
from blowfishdb.model.numbers import Bools, Floats, Ints, consecutive, distinct
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix, Rows, are_most_pairs, sums_before
from blowfishdb.plan.plan import Problem


@dataclass(frozen=True, eq=False)
class Axis:
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


def any_move(axis: Axis) -> Axis:
    """The same spans when a record can move to any cell of its span."""
    return replace(
        axis, runs=axis.spans, reach=(axis.span_ends - 1)[axis.span_of], universal=np.empty(0, dtype=np.int64)
    )


def read_axis(mechanism: str, problem: Problem) -> Axis:
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
    axis = Axis(
        window.size, spans, labels[spans] != ZERO, np.unique(cuts).astype(np.int64), reach, universal, graph.to_zero
    )
    if axis.noisy.size == 0:
        raise Declined(mechanism, "no move is hidden, so 'identity' releases every cell exactly")
    return axis


def step_starts(axis: Axis) -> Ints:
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


def typical_window(axis: Axis) -> int:
    """The median length of a window in the runs that afford running sums."""
    cell = np.arange(axis.cells)
    run_end = np.repeat(axis.run_ends, axis.run_ends - axis.runs)
    inner = np.repeat(axis.chains, axis.run_ends - axis.runs) & (axis.reach + 1 < run_end)
    return max(1, int(np.median((axis.reach - cell)[inner])))


def spread_places(axis: Axis, run: int, ratio: float) -> Ints:
    """Places inside one run about `ratio` steps apart, evenly spread in steps."""
    start, end = int(axis.runs[run]), int(axis.run_ends[run])
    steps = step_starts(axis)
    knots = np.concatenate([[start], steps[(steps > start) & (steps < end)]])
    last = min(1.0, (end - knots[-1]) / (knots[-1] - knots[-2]))
    at = np.append(np.arange(knots.size, dtype=np.float64), knots.size - 1 + last)
    count = max(1, int(at[-1] / ratio + 1e-9) - 1)
    places = np.interp(np.arange(1, count + 1) * at[-1] / (count + 1), at, np.append(knots, end))
    return np.unique(np.round(places).astype(np.int64))


def stand_in(axis: Axis, workload: Rows, window: int, cells: int) -> tuple[Axis, Rows]:
    """An axis of at most so many cells, one run with constant windows where it is longer, and a workload like this one.

    Errors hardly depend on the length. Workloads that do not scale are replaced by all ranges.
    """
    if axis.cells <= cells:
        return axis, workload
    reach, zero = np.minimum(np.arange(cells) + window, cells - 1), np.zeros(1, dtype=np.int64)
    even = Axis(cells, zero, np.ones(1, np.bool_), zero, reach, np.empty(0, dtype=np.int64), np.zeros(cells, np.bool_))
    return even, type(workload)(cells) if isinstance(workload, Identity | Prefix) else AllRanges(cells)


GRID = 2**24
"""Shares of the loss become whole weights on a grid this fine."""

SHARPNESS = 150.0
"""The largest loss is smoothed by a power mean of this order while searching; the certificate uses the true one."""

LEAST_LOG, MOST_LOG = -7.5, 4.0
"""Logarithms of shares stay between these while searching; beyond, they would only cost digits."""

BALANCING_STEPS = 16
LEAST_SHARE = 1e-6

LEAST_ERROR = 1e-12
"""Errors below this, of queries that free totals answer, count as this much."""


def whole_weights(share: float, height: int, rows: int) -> Ints:
    """One weight for each of `rows` rows with entries up to `height`, rounded down to keep within the share."""
    return np.full(rows, max(1, int(share * GRID / height)), dtype=np.int64)


def best_shares(
    error: Callable[[Floats], tuple[float, Floats]], losses: Floats, starts: Sequence[Floats]
) -> tuple[float, Floats]:
    """The least error at loss 1 and the shares that give it.

    `error` gives the error of shares and its gradient, and is homogeneous of degree -2; `losses` (edges by groups)
    is the loss per unit of share: only the direction of the shares matters, for error times squared largest loss.
    """
    from scipy.optimize import minimize  # takes a while to load, and many questions do without

    def objective(logs: Floats) -> tuple[float, Floats]:
        inside = np.clip(logs, LEAST_LOG, MOST_LOG)
        shares = np.exp(inside)
        value, slope = error(shares)
        value = max(value, LEAST_ERROR)
        edge = losses @ shares
        top = float(edge.max())
        powers = (edge / top) ** SHARPNESS
        mean = float(powers.sum())
        loss_slope = losses.T @ (powers / edge.clip(min=1e-300)) / mean
        smooth = np.log(top) + np.log(mean) / SHARPNESS
        return np.log(value) + 2 * smooth, (slope / value + 2 * loss_slope) * shares * (inside == logs)

    best = (np.inf, np.ones(losses.shape[1]))
    for start in starts:
        # BFGS works in plain numpy; L-BFGS-B would call threaded linear algebra on 5 x 5 matrices at every step.
        minimum = minimize(objective, np.log(start), jac=True, method="BFGS", options={"maxiter": 40, "gtol": 1e-3})
        shares = np.exp(np.clip(minimum.x, LEAST_LOG, MOST_LOG))
        shares = shares / float((losses @ shares).max())
        value = error(shares)[0]
        if value < best[0]:
            best = (value, shares)
    return best


def balanced_shares(energies: Floats, sizes: Floats) -> Floats:
    """The shares, summing to 1, at which one more bit of loss helps equally on every level of a balanced tree.

    The levels share eigenvectors: what is constant on nodes of one size and sums to zero on the next is seen by that
    level and every finer one, with precision (share^2 / 2) x size each. Several trees may be given at
    once, a row each; levels of size 0 are not there. Each step moves shares towards the levels that gain most; the
    error is about cubic in them, hence the root.
    """
    used = sizes > 0
    shares = used / used.sum(axis=-1, keepdims=True)
    for _ in range(BALANCING_STEPS):
        precision = np.cumsum(shares**2 * sizes, axis=-1)
        gain = shares * sizes * np.cumsum((energies / precision**2)[..., ::-1], axis=-1)[..., ::-1]
        most = gain.max(axis=-1, keepdims=True)
        moved = shares * np.cbrt(gain / np.where(most > 0, most, 1.0))
        shares = np.where(used, np.maximum(np.where(most > 0, moved, shares), LEAST_SHARE), 0.0)
        shares /= shares.sum(axis=-1, keepdims=True)
    return np.asarray(shares)


def hats(cells: int, starts: Ints, ends: Ints, spacing: int) -> csr_array:
    """Triangles 1, 2, ..., spacing, ..., 2, 1 centred every `spacing` cells in each run, cut off at the run's ends.

    Away from the ends the triangles over a cell always sum to `spacing`.
    """
    counts = (ends - starts + spacing // 2) // spacing
    run = np.repeat(np.arange(starts.size), counts)
    place = consecutive(0, counts)
    first = starts[run] + place * spacing - (spacing - 1) // 2
    shape = spacing - np.abs(np.arange(1 - spacing, spacing))
    column = first[:, None] + np.arange(2 * spacing - 1)
    row = np.broadcast_to(np.arange(run.size)[:, None], column.shape)
    inside = (column >= starts[run][:, None]) & (column < ends[run][:, None])
    entries = np.broadcast_to(shape, column.shape)[inside]
    return csr_array(coo_array((entries, (row[inside], column[inside])), shape=(run.size, cells)))


def ramps(cells: int, starts: Ints, tops: Ints, width: int) -> csr_array:
    """Running sums from `starts` that count a cell `width` times before its `tops` and fall to 0 in steps of one."""
    lengths = tops + width - 1 - starts
    row = np.repeat(np.arange(tops.size), lengths)
    column = consecutive(starts, lengths)
    entries = np.minimum(width, tops[row] + width - 1 - column)
    return csr_array(coo_array((entries, (row, column)), shape=(tops.size, cells)))


def boxes(cells: int, low: Ints, high: Ints) -> csr_array:
    """Rows of ones on low <= c < high."""
    lengths = high - low
    column = consecutive(low, lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((np.ones(column.size, dtype=np.int64), column, ends), shape=(low.size, cells))


COLUMN_CHUNK = 64
"""Columns of the workload's Gram matrix that are worked on at once."""


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that share one weight, with entries from 0 to `height`; `falling` when no row ever rises along a run."""

    matrix: csr_array
    height: int
    falling: bool = False

    @property
    def unit_rows(self) -> csr_array:
        """The rows divided by their height."""
        return csr_array(self.matrix / float(self.height))

    @property
    def column_sums(self) -> Floats:
        """The loss per unit of share when a record vanishes from each cell."""
        return np.asarray(self.unit_rows.sum(axis=0), dtype=np.float64)


def gram_dot(workload: Rows, columns: Floats) -> Floats:
    """W'W times the columns; for all ranges, entry (i, j) of W'W is (min + 1)(n - max) and nothing is listed."""
    if isinstance(workload, Intervals) and are_most_pairs(workload.cells, workload.low.size):
        return _gram_of_pairs(workload, columns)
    if not isinstance(workload, AllRanges):
        product = np.empty(columns.shape)
        for start in range(0, columns.shape[1], COLUMN_CHUNK):
            part = slice(start, start + COLUMN_CHUNK)
            product[:, part] = workload.transpose_dot(workload.dot(columns[:, part]))
        return product
    below = np.arange(1.0, workload.cells + 1)[:, None]
    above = below[::-1]
    up_to = np.cumsum(below * columns, axis=0)
    after = np.cumsum((above * columns)[::-1], axis=0)[::-1]
    return above * up_to + below * (after - above * columns)


def _gram_of_pairs(workload: Intervals, columns: Floats) -> Floats:
    """W'W times the columns: ranges are differences of running sums, and each pair of ends is looked at once."""
    ends = workload.cells + 1
    pairs = np.bincount(workload.low * ends + workload.high, minlength=ends * ends).reshape(ends, ends)
    between = pairs + pairs.T
    sums = sums_before(columns)
    at_ends = between.sum(axis=1)[:, None] * sums - between.astype(np.float64) @ sums
    return np.cumsum(at_ends[:0:-1], axis=0)[::-1]


def reach_losses(axis: Axis, groups: list[Group]) -> Floats:
    """The loss per unit of share of the cells and of each group, on the worst moves up the order from each cell.

    Running sums lose most on the longest move. Other rows lose most on a move to where they weigh most, once moves
    are longer than the rows; for shorter moves the longest one stands for all.
    """
    cell, noisy = np.arange(axis.cells), axis.noise_mask
    moves = np.flatnonzero(axis.reach > cell)
    leaving = np.flatnonzero(axis.leaves)
    norms = [noisy, *(group.column_sums for group in groups)]
    moved = [2.0 * noisy[moves]]
    for group, over in zip(groups, norms[1:], strict=True):
        columns = group.unit_rows.tocsc()
        longest = np.asarray(abs(columns[:, moves] - columns[:, axis.reach[moves]]).sum(axis=0))
        if not group.falling:
            widest = int(np.diff(group.matrix.indptr).max(initial=0))
            apart = (over + window_maxima(over, cell, axis.reach))[moves]
            longest = np.where((axis.reach - cell)[moves] >= widest, apart, longest)
        moved.append(longest)
    edges = [np.stack(moved, axis=1), np.stack([norm[leaving] for norm in norms], axis=1)]
    if axis.universal.size:
        spoke = np.stack(norms, axis=1)
        spoke[:, 0] += 1.0
        edges.append(spoke)
    losses = np.unique(np.concatenate(edges), axis=0)
    return np.asarray(losses[losses.sum(axis=1) > 0])


def window_maxima(values: Floats, first: Ints, last: Ints) -> Floats:
    """The largest value in each window first .. last, by doubling."""
    tables = [values]
    while 2 ** len(tables) <= values.size:
        step = 2 ** (len(tables) - 1)
        tables.append(np.maximum(tables[-1], np.append(tables[-1][step:], np.full(step, -np.inf))))
    depth = np.log2(last - first + 1).astype(np.int64)
    table = np.stack(tables)
    return np.asarray(np.maximum(table[depth, first], table[depth, last + 1 - 2**depth]))


def coarse_error(axis: Axis, workload: Rows, groups: list[Group]) -> Callable[[Floats], tuple[float, Floats]]:
    """The workload's total expected squared error at the given shares (cells first), and its gradient.

    With cells of variance v and coarse rows H of variances D (0 for free totals) the least-squares covariance is
    v I - v^2 H'(D + v H H')^-1 H; every product with W'W is computed once, so an evaluation costs (rows of H)^3.
    """
    rows, group_of = coarse_rows(axis, groups)
    overlap = rows @ rows.T
    seen = rows @ gram_dot(workload, rows.T)
    whole = float(column_energies(workload) @ axis.noise_mask)

    def error(shares: Floats) -> tuple[float, Floats]:
        relative = np.append((shares[0] / shares[1:]) ** 2, 0.0)
        inverse = np.linalg.inv(overlap + np.diag(relative[group_of]))
        explained = inverse @ seen
        left = whole - float(np.trace(explained))
        per_row = np.einsum("ij,ij->i", explained, inverse)
        per_group = np.bincount(group_of, weights=per_row, minlength=len(groups) + 1)[:-1]
        scale = 2.0 / shares[0] ** 2
        slope = np.empty(shares.size)
        slope[1:] = -2 * per_group * shares[0] ** 2 / shares[1:] ** 3 * scale
        slope[0] = 2 * float(np.sum(per_group / shares[1:] ** 2)) * shares[0] * scale - 2 * left * scale / shares[0]
        return left * scale, slope

    return error


def coarse_rows(axis: Axis, groups: list[Group]) -> tuple[Floats, Ints]:
    """The rows of the groups (heights 1) and the free totals over the noisy cells, and the group of each of them."""
    totals = boxes(axis.cells, axis.spans[axis.free], axis.span_ends[axis.free])
    rows = vstack([*(group.unit_rows for group in groups), totals], format="csr").toarray() * axis.noise_mask
    group_of = np.repeat(np.arange(len(groups) + 1), [*(g.matrix.shape[0] for g in groups), totals.shape[0]])
    is_seen = rows.any(axis=1)
    return rows[is_seen], group_of[is_seen]


def spare_loss(axis: Axis, groups: list[Group]) -> Callable[[Floats], Floats]:
    """What gives the share of each cell: the common one (the first of the given shares), or more where loss is spare.

    On a move u to v the groups lose at most hats(u) + hats(v) + |falling(u) - falling(v)|. If no cell takes more
    than half of what any of its moves leaves, and no more than a vanishing record leaves, no loss exceeds 1.
    """
    cell = np.arange(axis.cells)
    back = np.searchsorted(axis.reach, cell)
    # The loss of each group per unit of its share: on the worst move of each cell, and when a record vanishes from it.
    moved, vanished = np.zeros((2, axis.cells, len(groups)))
    for place, group in enumerate(groups):
        over = group.column_sums
        vanished[:, place] = over
        if group.falling:
            moved[:, place] = np.maximum(over - over[axis.reach], over[back] - over)
        else:
            moved[:, place] = over + window_maxima(over, back, axis.reach)
    moves = (axis.reach > cell) | (back < cell)

    def cells(shares: Floats) -> Floats:
        common = np.full(axis.cells, shares[0])
        if axis.universal.size:
            return common
        by_moves = np.where(moves, (1 - moved @ shares[1:]) / 2, np.inf)
        room = np.minimum(by_moves, np.where(axis.leaves, 1 - vanished @ shares[1:], np.inf))
        return np.where(np.isfinite(room), np.maximum(common, room), common)

    return cells


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes that tile the axis: where each starts, and which ones are measured."""

    starts: Ints
    measured: Bools


@dataclass(frozen=True, eq=False)
class BlockTree:
    """Cells under nodes under blocks; blocks follow each other in spans, with measured running sums between some.

    `levels` go up from the nodes over the cells to the blocks. `summed` marks the blocks at whose end the running sum
    from the start of their span is measured.
    """

    axis: Axis
    levels: tuple[Level, ...]
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


def grow(axis: Axis, blocks: Ints, sizes: tuple[int, ...], *, roots: bool = False, sums: bool = False) -> BlockTree:
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
        levels.append(Level(starts, wanted))
        below = starts
    goes_on = np.append(~np.isin(blocks[1:], axis.spans), False)
    return BlockTree(axis, tuple(levels), goes_on if sums else np.zeros_like(goes_on))
