"""How much of a workload lives at each scale, and the trees that suit it best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.entries import spread_choice
from blowfishdb.mechanisms.one_axis.shares import balanced_shares, level_error
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Intervals, as_intervals

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


def level_plans(workload: Rows, length: int, *, free: bool, equal: bool) -> list[LevelPlan]:
    """Trees of each fan-out on runs of `length` cells, best first.

    `free`: the total of a run costs nothing. `equal`: all levels get the same share, the root too unless it is
    free, and trees go all the way up; otherwise shares are optimised and the topmost or all levels may be missing.
    """
    energy: dict[int, float] = {}
    workload = probe(workload)
    candidates = [] if equal else [[1]]
    for fan_out in [f for f in FAN_OUTS if f < length]:
        sizes = [1]
        while sizes[-1] * fan_out < length:
            sizes.append(sizes[-1] * fan_out)
        if equal:
            candidates.append(sizes)
        elif fan_out >= LEAST_FAN_OUT or length <= FAN_OUTS[-1]:
            candidates.extend([sizes, sizes[:-1]])
    distinct = {tuple(sizes): sizes for sizes in candidates or [[1]]}
    plans = [_one_plan(workload, sizes, length, energy, free=free, equal=equal) for sizes in distinct.values()]
    return sorted(plans, key=lambda plan: plan.error)


def _one_plan(
    workload: Rows, sizes: list[int], length: int, energy: dict[int, float], *, free: bool, equal: bool
) -> LevelPlan:
    tops = [*sizes, length] if equal and not free and length > sizes[-1] else sizes
    for size in [*tops, length]:
        if size not in energy:
            energy[size] = block_energy(workload, size)
    above = [energy[size] for size in tops[1:]] + [energy[length] if free else 0.0]
    energies = np.maximum(np.array([energy[size] for size in tops]) - np.array(above), 0.0)
    error = level_error(energies, np.array(tops, dtype=np.float64))
    even = np.full(len(tops), 1.0 / len(tops))
    if equal:
        return LevelPlan(tuple(sizes[1:]), even, error(even)[0])
    shares = balanced_shares(energies, np.array(tops, dtype=np.float64))
    return LevelPlan(tuple(sizes[1:]), shares, error(shares)[0])
