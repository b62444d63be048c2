"""Optimized: the shape and shares of the loss with the least expected squared error on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array, vstack

from blowfishdb.mechanisms.axis import (
    GRID,
    LEAST_ERROR,
    LEAST_LOG,
    Axis,
    BlockTree,
    Group,
    any_move,
    balanced_shares,
    best_shares,
    boxes,
    coarse_error,
    coarse_rows,
    gram_dot,
    grow,
    hats,
    ramps,
    reach_losses,
    read_axis,
    spare_loss,
    spread_places,
    stand_in,
    step_starts,
    typical_window,
    whole_weights,
)
from blowfishdb.mechanisms.axis_estimate import CoarseCorrection, EstimatingStrategy, TreeCorrection
from blowfishdb.mechanisms.strategy import spread_choice
from blowfishdb.model.numbers import Floats, Ints, distinct
from blowfishdb.model.workload import AllRanges, Intervals, Rows, as_intervals
from blowfishdb.plan.plan import Problem

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
    """A range covers some blocks whole and cuts at most two."""
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

MOST_WEIGHTS = 256
"""Each different weight costs the sampler a table, so cells use no more than this many."""


@dataclass(frozen=True)
class SmoothShape:
    """Hats at the given spacings; running sums with ramps, their distance and length given in windows, or None.

    `totals` measures the total of each span that is not free: only records that vanish change it, never a move.
    """

    spacings: tuple[int, ...]
    ramp: tuple[float, float] | None = None
    totals: bool = False

    def groups(self, axis: Axis) -> list[Group]:
        """The rows on one axis, without the cells."""
        groups = [Group(hats(axis.cells, axis.runs, axis.run_ends, spacing), spacing) for spacing in self.spacings]
        if self.totals:
            noisy = ~axis.free
            groups.append(Group(boxes(axis.cells, axis.spans[noisy], axis.span_ends[noisy]), 1, falling=True))
        return groups if self.ramp is None else [*groups, _ramp_group(axis, *self.ramp)]

    def build(self, axis: Axis, shares: Floats) -> CoarseCorrection:
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
            _few_values(np.maximum(1, (cells * GRID).astype(np.int64))),
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

    def tree(self, axis: Axis) -> BlockTree:
        """The tree on one axis."""
        starts = axis.runs
        if self.blocks == "steps":
            starts = step_starts(axis)
        if self.blocks == "cells":
            is_start = np.repeat(axis.chains, axis.run_ends - axis.runs)
            is_start[axis.runs] = True
            starts = np.flatnonzero(is_start)
        return grow(axis, starts, self.sizes, roots=self.totals, sums=self.blocks != "runs")

    def groups(self, axis: Axis) -> list[Group]:
        """The rows on one axis, without the cells: a group for each size, then the running sums."""
        rows = self.tree(axis).rows()
        matrices = [boxes(axis.cells, group.low, group.high) for group in rows]
        nodes = [Group(matrix, 1) for matrix in matrices[: len(self.sizes)]]
        return [*nodes, Group(matrices[-1], 1, falling=True)]

    def build(self, axis: Axis, shares: Floats) -> TreeCorrection:
        """The rows with whole weights; `shares` as for the groups, cells first."""
        total = float(shares[:-1].sum()) if self.totals else 0.0
        tree = self.tree(axis)
        return TreeCorrection(tree, tree.weights(np.concatenate([shares[:-1], [total], shares[-1:]])))


def _few_values(weights: Ints) -> Ints:
    """The weights, rounded down to at most MOST_WEIGHTS different ones between the least and the largest."""
    if distinct(weights).size <= MOST_WEIGHTS:
        return weights
    least = int(weights.min())
    step = (int(weights.max()) - least) // MOST_WEIGHTS + 1
    return least + (weights - least) // step * step


def _ramp_group(axis: Axis, ratio: float, length: float) -> Group:
    width = max(1, round(length * typical_window(axis)))
    tops, starts = [], []
    for run in np.flatnonzero(axis.chains):
        start, end = int(axis.runs[run]), int(axis.run_ends[run])
        top = spread_places(axis, int(run), ratio) - width // 2
        top = top[(top > start) & (top + width - 1 < end)]
        tops.append(top)
        starts.append(np.full(top.size, start))
    return Group(ramps(axis.cells, np.concatenate(starts), np.concatenate(tops), width), width, falling=True)


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
class Choice:
    """A shape, the share of each of its groups (cells first), and the expected squared error at loss 1."""

    shape: SmoothShape | TreeShape
    shares: Floats
    error: float


def choose(axis: Axis, workload: Rows) -> Choice:
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


def _choose_without_sums(axis: Axis, workload: Rows) -> Choice:
    plans = level_plans(workload, axis.longest_run, free=axis.has_free_runs)
    smooth = [plan for plan in plans[:MOST_TRIED] if _fits(axis, plan.sizes, None)]
    totals = bool(np.any(axis.reach > np.arange(axis.cells))) and not np.all(axis.free)
    if smooth:
        fewer = [plan for plan in smooth if len(plan.sizes) < len(smooth[0].sizes)]
        tried = smooth[:3] if axis.cells <= POLISHED_CELLS else [smooth[0], *fewer[:1]]
        shapes = [SmoothShape(plan.sizes, totals=totals) for plan in tried]
        return min((_tuned(axis, workload, shape) for shape in shapes), key=lambda choice: choice.error)
    best = plans[0]
    return Choice(
        TreeShape(best.sizes, totals=totals and axis.universal.size == 0), np.append(best.shares, 0.0), best.error
    )


def _whole(axis: Axis, workload: Rows) -> tuple[int, ...]:
    """The best node sizes when windows are ignored."""
    return level_plans(workload, axis.longest_run, free=axis.has_free_runs)[0].sizes


def _fits(axis: Axis, spacings: tuple[int, ...], window: int | None) -> bool:
    rows = sum(axis.cells // spacing + 1 for spacing in spacings) + axis.spans.size
    if window is not None:
        rows += axis.cells // window
    return rows <= MOST_ROWS and rows**2 * axis.cells <= MOST_WORK


def _tuned(axis: Axis, workload: Rows, shape: SmoothShape | TreeShape) -> Choice:
    groups = shape.groups(axis)
    filled = [place for place, group in enumerate(groups) if group.matrix.shape[0]]
    used = [groups[place] for place in filled]
    tuned = None
    if used and axis.cells <= POLISHED_CELLS and axis.universal.size == 0 and isinstance(shape, SmoothShape):
        tuned = _filled(axis, workload, used)
    if tuned is None:
        losses = reach_losses(axis, used)
        start = 1.0 / (losses.shape[1] * losses.max(axis=0))
        tuned = best_shares(coarse_error(axis, workload, used), losses, [start])
    error, best = tuned
    shares = np.zeros(len(groups) + 1)
    shares[[0, *(1 + place for place in filled)]] = best
    return Choice(shape, shares, error)


def _filled(axis: Axis, workload: Rows, groups: list[Group]) -> tuple[float, Floats] | None:
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
