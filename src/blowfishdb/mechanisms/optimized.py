"""Optimized: the shape and shares of the loss with the least expected squared error on one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from blowfishdb.mechanisms.axis import (
    GRID,
    LEAST_CELL,
    BlockTree,
    CoarseCorrection,
    EstimatingStrategy,
    OrderedAxis,
    TreeCorrection,
    any_move,
    boxes,
    grow,
    read_axis,
    spread_places,
    stand_in,
    step_starts,
    typical_window,
    whole_weights,
)
from blowfishdb.mechanisms.hats import TunedHats, TunedLines, few_values, tuned_rows
from blowfishdb.mechanisms.strategy import column_energies, spread_choice
from blowfishdb.model.numbers import Floats, Ints, consecutive
from blowfishdb.model.workload import AllRanges, Intervals, Rows, are_most_pairs, as_intervals, sums_before
from blowfishdb.plan.plan import Problem

SHARPNESS = 150.0
"""The largest loss is smoothed by a power mean of this order while searching; the certificate uses the true one."""

LEAST_LOG, MOST_LOG = -7.5, 4.0
"""Logarithms of shares stay between these while searching; beyond, they would only cost digits."""

BALANCING_STEPS = 16
LEAST_SHARE = 1e-6

LEAST_ERROR = 1e-12
"""Errors below this, of queries that free totals answer, count as this much."""


def best_shares(error: Callable[[Floats], tuple[float, Floats]], losses: Floats, start: Floats) -> tuple[float, Floats]:
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

    # BFGS works in plain numpy; L-BFGS-B would call threaded linear algebra on 5 x 5 matrices at every step.
    minimum = minimize(objective, np.log(start), jac=True, method="BFGS", options={"maxiter": 40, "gtol": 1e-3})
    best = np.exp(np.clip(minimum.x, LEAST_LOG, MOST_LOG))
    best = best / float((losses @ best).max())
    return error(best)[0], best


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


COLUMN_CHUNK = 64
"""Columns of the workload's Gram matrix that are worked on at once."""


@dataclass(frozen=True, eq=False)
class RowGroup:
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


def reach_losses(axis: OrderedAxis, groups: list[RowGroup]) -> Floats:
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
    losses = np.concatenate(edges)
    # In order and each once, as np.unique by rows gives them in many times as long.
    losses = losses[np.lexsort(losses.T[::-1])]
    differs = losses.sum(axis=1) > 0
    differs[1:] &= np.any(losses[1:] != losses[:-1], axis=1)
    return np.asarray(losses[differs])


def window_maxima(values: Floats, first: Ints, last: Ints) -> Floats:
    """The largest value in each window first .. last, by doubling."""
    tables = [values]
    while 2 ** len(tables) <= values.size:
        step = 2 ** (len(tables) - 1)
        tables.append(np.maximum(tables[-1], np.append(tables[-1][step:], np.full(step, -np.inf))))
    depth = np.log2(last - first + 1).astype(np.int64)
    table = np.stack(tables)
    return np.asarray(np.maximum(table[depth, first], table[depth, last + 1 - 2**depth]))


def coarse_error(axis: OrderedAxis, workload: Rows, groups: list[RowGroup]) -> Callable[[Floats], tuple[float, Floats]]:
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


def coarse_rows(axis: OrderedAxis, groups: list[RowGroup]) -> tuple[Floats, Ints]:
    """The rows of the groups (heights 1) and the free totals over the noisy cells, and the group of each of them."""
    totals = boxes(axis.cells, axis.spans[axis.free], axis.span_ends[axis.free])
    rows = vstack([*(group.unit_rows for group in groups), totals], format="csr").toarray() * axis.noise_mask
    group_of = np.repeat(np.arange(len(groups) + 1), [*(g.matrix.shape[0] for g in groups), totals.shape[0]])
    is_seen = rows.any(axis=1)
    return rows[is_seen], group_of[is_seen]


def spare_loss(axis: OrderedAxis, groups: list[RowGroup]) -> Callable[[Floats], Floats]:
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


FAN_OUTS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 50, 64)
"""Children per node that are tried; the best for ranges lie between 10 and 24."""

LEAST_FAN_OUT = 6
"""Optimised shares on long runs never prefer fewer children than this."""

DIRECT_WORK = 20_000_000
"""Workloads that are not intervals are probed entry by entry up to this size; beyond, all ranges stand in for them."""

MOST_RANGES = 2_000
"""Longer lists of ranges are judged by an even choice of this many."""


@dataclass(frozen=True, eq=False)
class LevelPlan:
    """Node sizes above the cells, the shares of cells and levels, and the expected squared error at loss 1."""

    sizes: tuple[int, ...]
    shares: Floats
    error: float


def probe(workload: Rows) -> Rows:
    """The workload itself, or an even choice of its rows where it is a long list of ranges."""
    spans = None if isinstance(workload, AllRanges) else as_intervals(workload)
    if spans is None:
        return workload
    chosen = spread_choice(spans.shape[0], MOST_RANGES)
    return Intervals(spans.cells, spans.low[chosen], spans.high[chosen])


def block_energy(workload: Rows, size: int) -> float:
    """The summed squared norm of the queries after averaging over blocks of `size` cells: tr(P W'W)."""
    cells = workload.shape[1]
    starts = np.arange(0, cells, size)
    lengths = np.minimum(size, cells - starts).astype(np.float64)
    spans = None if isinstance(workload, AllRanges) else as_intervals(workload)
    if spans is not None:
        return _interval_energy(spans.low, spans.high, size)
    if isinstance(workload, AllRanges) or workload.shape[0] * cells > DIRECT_WORK:
        return _all_range_energy(starts.astype(np.float64), lengths, float(cells))
    block = np.arange(cells) // size
    indicator = (block[:, None] == np.arange(starts.size)[None, :]).astype(np.float64)
    return float(np.sum(np.asarray(workload.dot(indicator)) ** 2 / lengths))


def _interval_energy(low: Ints, high: Ints, size: int) -> float:
    """A range covers some blocks whole and cuts at most two; the last block counts as if it were whole."""
    filled = high > low
    low, high = low[filled], high[filled]
    first, last = low // size, (high - 1) // size
    head = np.minimum((first + 1) * size, high) - low
    tail = np.where(last > first, high - last * size, 0)
    whole = np.maximum(last - first - 1, 0) * size
    return float(np.sum((head.astype(np.float64) ** 2 + tail.astype(np.float64) ** 2) / size + whole))


def _all_range_energy(starts: Floats, lengths: Floats, cells: float) -> float:
    """Sums of (min + 1)(n - max) over pairs inside each block, in closed form."""
    m = lengths
    after, left = starts + 1, cells - starts
    least = m * (m - 1) * (2 * m - 1) / 6
    most = m * (m - 1) * (4 * m + 1) / 6
    product = (m * (m - 1) / 2) ** 2
    return float(np.sum((m * m * after * left + left * least - after * most - product) / m))


def level_energies(workload: Rows, trees: Sequence[Sequence[int]], length: int, *, free: bool) -> list[Floats]:
    """For each tree, by the sizes of its levels, the energy of the queries that each level sees and none above it.

    `free`: the total of a run of `length` cells costs nothing.
    """
    workload = probe(workload)
    energy = {size: block_energy(workload, size) for size in {length, *(size for sizes in trees for size in sizes)}}
    top = energy[length] if free else 0.0
    return [np.maximum(-np.diff([*(energy[size] for size in sizes), top]), 0.0) for sizes in trees]


def level_plans(workload: Rows, length: int, *, free: bool, fan_outs: Sequence[int] | None = None) -> list[LevelPlan]:
    """Trees of each fan-out on runs of `length` cells with the best shares, best first; the total may be `free`.

    Trees may lack their topmost level, or all levels: then the cells alone are measured.
    """
    if fan_outs is None:
        fan_outs = FAN_OUTS if length <= FAN_OUTS[-1] else FAN_OUTS[FAN_OUTS.index(LEAST_FAN_OUT) :]
    whole = [tree_sizes(fan_out, length) for fan_out in fan_outs]
    trees = list(dict.fromkeys([(1,), *(part for tree in whole for part in (tree, tree[:-1]) if part)]))
    sizes = np.zeros((len(trees), max(map(len, trees))))
    energies = np.zeros_like(sizes)
    for row, (tree, energy) in enumerate(zip(trees, level_energies(workload, trees, length, free=free), strict=True)):
        sizes[row, : len(tree)], energies[row, : len(tree)] = tree, energy
    shares = balanced_shares(energies, sizes)
    errors = 2 * np.sum(energies / np.cumsum(shares**2 * sizes, axis=1), axis=1)
    plans = [LevelPlan(tree[1:], shares[row, : len(tree)], float(errors[row])) for row, tree in enumerate(trees)]
    return sorted(plans, key=lambda plan: plan.error)


def tree_sizes(fan_out: int, length: int) -> tuple[int, ...]:
    """The node sizes below `length`, the cells first."""
    sizes = [1]
    while sizes[-1] * fan_out < length:
        sizes.append(sizes[-1] * fan_out)
    return tuple(sizes)


NEGLIGIBLE = 1e-4
"""A group with a smaller part of the loss than this is not measured."""


@dataclass(frozen=True)
class SmoothShape:
    """Hats at the given spacings; running sums with ramps, their distance and length given in windows, or None.

    `totals` measures the total of each span that is not free: only records that vanish change it, never a move.
    """

    spacings: tuple[int, ...]
    ramp: tuple[float, float] | None = None
    totals: bool = False

    def groups(self, axis: OrderedAxis) -> list[RowGroup]:
        """The rows on one axis, without the cells."""
        groups = [RowGroup(hats(axis.cells, axis.runs, axis.run_ends, spacing), spacing) for spacing in self.spacings]
        if self.totals:
            noisy = ~axis.free
            groups.append(RowGroup(boxes(axis.cells, axis.spans[noisy], axis.span_ends[noisy]), 1, falling=True))
        return groups if self.ramp is None else [*groups, _ramp_group(axis, *self.ramp)]

    def build(self, axis: OrderedAxis, shares: Floats) -> CoarseCorrection:
        """The rows with whole weights; cells with loss to spare use it up."""
        groups = self.groups(axis)
        used = np.flatnonzero(shares[1:] > NEGLIGIBLE)
        groups, shares = [groups[k] for k in used], np.append(shares[0], shares[1:][used])
        cells = spare_loss(axis, groups)(shares)[axis.noisy]
        none = csr_array((0, axis.cells), dtype=np.int64)
        weights = [
            whole_weights(float(share), group.height, group.matrix.shape[0])
            for group, share in zip(groups, shares[1:], strict=True)
        ]
        return CoarseCorrection(
            axis,
            few_values(np.maximum(LEAST_CELL, (cells * GRID).astype(np.int64))),
            csr_array(vstack([none, *(group.matrix for group in groups)], format="csr"), dtype=np.int64),
            np.concatenate([np.empty(0, dtype=np.int64), *weights]),
        )


@dataclass(frozen=True)
class TreeShape:
    """Nodes of the given sizes in blocks: whole runs, or steps or single cells with running sums between them.

    `totals` measures the blocks too, with as much of the loss as all levels below: where records both move and vanish
    a move costs the levels twice and the total nothing, so that the total is measured for nothing.
    """

    sizes: tuple[int, ...]
    blocks: Literal["runs", "steps", "cells"] = "runs"
    totals: bool = False

    def tree(self, axis: OrderedAxis) -> BlockTree:
        """The tree on one axis."""
        starts = axis.runs
        if self.blocks == "steps":
            starts = step_starts(axis)
        if self.blocks == "cells":
            is_start = np.repeat(axis.chains, axis.run_ends - axis.runs)
            is_start[axis.runs] = True
            starts = np.flatnonzero(is_start)
        return grow(axis, starts, self.sizes, roots=self.totals, sums=self.blocks != "runs")

    def groups(self, axis: OrderedAxis) -> list[RowGroup]:
        """The rows on one axis, without the cells: a group for each size, then the running sums."""
        rows = self.tree(axis).rows()
        matrices = [boxes(axis.cells, group.low, group.high) for group in rows]
        nodes = [RowGroup(matrix, 1) for matrix in matrices[: len(self.sizes)]]
        return [*nodes, RowGroup(matrices[-1], 1, falling=True)]

    def build(self, axis: OrderedAxis, shares: Floats) -> TreeCorrection:
        """The rows with whole weights; `shares` as for the groups, cells first."""
        total = float(shares[:-1].sum()) if self.totals else 0.0
        tree = self.tree(axis)
        return TreeCorrection(tree, tree.weights(np.concatenate([shares[:-1], [total], shares[-1:]])))


def _ramp_group(axis: OrderedAxis, ratio: float, length: float) -> RowGroup:
    width = max(1, round(length * typical_window(axis)))
    tops, starts = [], []
    for run in np.flatnonzero(axis.chains):
        start, end = int(axis.runs[run]), int(axis.run_ends[run])
        top = spread_places(axis, int(run), ratio) - width // 2
        top = top[(top > start) & (top + width - 1 < end)]
        tops.append(top)
        starts.append(np.full(top.size, start))
    return RowGroup(ramps(axis.cells, np.concatenate(starts), np.concatenate(tops), width), width, falling=True)


MOST_ROWS = 700
MOST_WORK = 2.5e9
"""Coarse rows, and their square times the cells, up to which smooth rows are worked on as one dense system."""

POLISHED_CELLS = 256
"""Up to this many cells the ends of the axis matter, and shares are tuned together with the cells' spare loss."""

RAMPS = ((1.0, 0.75), (1.3, 1.0))
"""Distance between running sums and length of their ramps, in windows."""

MOST_TRIED = 6
"""Node sizes are taken from this many best by level energies."""

SHORT_WINDOW = 2
"""Up to this window, running sums at every cell may win, which trees handle best."""

IMPOSSIBLE = 1e3
"""Stands for the logarithm of the error of shares that leave nothing to some cell."""

FIRST_SHARE = 0.2
"""Where the search for a group's share begins."""


@dataclass(frozen=True, eq=False)
class ShapeChoice:
    """A shape, the share of each of its groups (cells first), and the expected squared error at loss 1."""

    shape: SmoothShape | TreeShape | TunedHats | TunedLines
    shares: Floats
    error: float


def choose(axis: OrderedAxis, workload: Rows) -> ShapeChoice:
    """The best of a few candidates that level energies favour."""
    if not np.any(axis.chains):
        return _choose_without_sums(axis, workload)
    window = typical_window(axis)
    inner = [plan.sizes for plan in level_plans(workload, window, free=True)] if window > 1 else [()]
    smooth = [sizes for sizes in inner[:MOST_TRIED] if _fits(axis, sizes, window)]
    shapes: list[SmoothShape | TreeShape] = []
    if smooth and window > SHORT_WINDOW:
        shown = stand_in(axis, workload, window, max(2 * POLISHED_CELLS, 24 * window))
        within = {smooth[0]} | ({()} if axis.cells <= POLISHED_CELLS else set())
        shapes += [SmoothShape(sizes, ramp) for sizes in sorted(within) for ramp in RAMPS]
        shapes.append(SmoothShape(_whole(*shown)))
    else:
        few = max(POLISHED_CELLS // 2, min(24 * window, max(1024, 4 * window)))
        shown = stand_in(axis, workload, window, few)
        shapes += [TreeShape((), "cells")] if window <= SHORT_WINDOW else []
        shapes += [TreeShape(inner[0], "steps")] if window > 1 else []
        shapes.append(TreeShape(_whole(*shown)))
    return min((_tuned(*shown, shape) for shape in shapes), key=lambda choice: choice.error)


def _choose_without_sums(axis: OrderedAxis, workload: Rows) -> ShapeChoice:
    tuned = tuned_rows(axis, workload)
    if tuned is not None:
        loss = 2.0 if axis.free[0] else 1.0  # a move leaves one cell for another
        return ShapeChoice(tuned, np.empty(0), (loss * tuned.rmse) ** 2 * workload.shape[0])
    plans = level_plans(workload, axis.longest_run, free=axis.has_free_runs)
    smooth = [plan for plan in plans[:MOST_TRIED] if _fits(axis, plan.sizes, None)]
    totals = bool(np.any(axis.reach > np.arange(axis.cells))) and not np.all(axis.free)
    if smooth:
        fewer = [plan for plan in smooth if len(plan.sizes) < len(smooth[0].sizes)]
        tried = smooth[:3] if axis.cells <= POLISHED_CELLS else [smooth[0], *fewer[:1]]
        shapes = [SmoothShape(plan.sizes, totals=totals) for plan in tried]
        return min((_tuned(axis, workload, shape) for shape in shapes), key=lambda choice: choice.error)
    best = plans[0]
    return ShapeChoice(
        TreeShape(best.sizes, totals=totals and axis.universal.size == 0), np.append(best.shares, 0.0), best.error
    )


def _whole(axis: OrderedAxis, workload: Rows) -> tuple[int, ...]:
    """The best node sizes when windows are ignored."""
    return level_plans(workload, axis.longest_run, free=axis.has_free_runs)[0].sizes


def _fits(axis: OrderedAxis, spacings: tuple[int, ...], window: int | None) -> bool:
    rows = sum(axis.cells // spacing + 1 for spacing in spacings) + axis.spans.size
    if window is not None:
        rows += axis.cells // window
    return rows <= MOST_ROWS and rows**2 * axis.cells <= MOST_WORK


def _tuned(axis: OrderedAxis, workload: Rows, shape: SmoothShape | TreeShape) -> ShapeChoice:
    groups = shape.groups(axis)
    filled = [place for place, group in enumerate(groups) if group.matrix.shape[0]]
    used = [groups[place] for place in filled]
    tuned = None
    if used and axis.cells <= POLISHED_CELLS and axis.universal.size == 0 and isinstance(shape, SmoothShape):
        tuned = _filled(axis, workload, used)
    if tuned is None:
        losses = reach_losses(axis, used)
        start = 1.0 / (losses.shape[1] * losses.max(axis=0))
        tuned = best_shares(coarse_error(axis, workload, used), losses, start)
    error, best = tuned
    shares = np.zeros(len(groups) + 1)
    shares[[0, *(1 + place for place in filled)]] = best
    return ShapeChoice(shape, shares, error)


def _filled(axis: OrderedAxis, workload: Rows, groups: list[RowGroup]) -> tuple[float, Floats] | None:
    """The error and the shares of the groups, tuned while the cells always take what is left; None if that fails."""
    from scipy.optimize import minimize  # takes a while to load, and many questions do without

    gram = gram_dot(workload, np.eye(axis.cells))
    rows, group_of = coarse_rows(axis, groups)
    spare = spare_loss(axis, groups)

    def log_error(logs: Floats) -> float:
        coarse = np.exp(np.clip(logs, LEAST_LOG, 0.0))
        cells = spare(np.append(0.0, coarse))
        if float(cells.min()) <= 0.0:
            return IMPOSSIBLE
        spread = axis.noise_mask * 2 / cells**2
        noise = np.append(2 / coarse**2, 0.0)[group_of]
        seen = rows * spread
        solved = np.linalg.solve(np.diag(noise) + seen @ rows.T, seen)
        left = float(gram.diagonal() @ spread) - float(np.sum((seen @ gram) * solved))
        return float(np.log(max(left, LEAST_ERROR)))

    options = {"maxiter": 60 * len(groups), "xatol": 1e-2, "fatol": 1e-5}
    minimum = minimize(log_error, np.log(np.full(len(groups), FIRST_SHARE)), method="Nelder-Mead", options=options)
    if minimum.fun >= IMPOSSIBLE:
        return None
    return float(np.exp(minimum.fun)), np.append(0.0, np.exp(np.clip(minimum.x, LEAST_LOG, 0.0)))


NAME = "optimized"
LONG_WINDOW = 0.2
"""The part of the axis from which a window may as well be the whole of it."""


def propose(problem: Problem) -> EstimatingStrategy:
    """Serves one ordered attribute: smooth rows up to some thousands of cells, optimised trees beyond."""
    axis = read_axis(NAME, problem)
    # Plans for more moves lose no more on fewer; they may be better where universal vertices or long windows leave
    # little order.
    is_loose = axis.universal.size or int((axis.reach - np.arange(axis.cells)).max()) >= LONG_WINDOW * axis.cells
    axes = [axis, any_move(axis)] if is_loose else [axis]
    chosen = [(choose(each, problem.workload), each) for each in axes]
    best, used = min(chosen, key=lambda entry: entry[0].error)
    return EstimatingStrategy(NAME, problem, best.shape.build(used, best.shares))
