"""Baselines for one axis: HB, Privelet, EFPA, P-HP, AHP, StructureFirst and MWEM."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Intervals, Rectangles, Rows
from papers.baselines.noise import least, noisy, rounded_up

# HB (Qardaji, Yang, Li 2013): a tree with the fan-out of least variance, every level alike, made consistent.


def hb(counts: Ints, epsilon: Fraction, workload: Rows, with_root: bool = True) -> Floats:
    """The answers from its cells."""
    return np.asarray(workload.dot(hb_cells(counts, epsilon, with_root)))


def hb_cells(counts: Ints, epsilon: Fraction, with_root: bool = True) -> Floats:
    """A record is in one node of each measured level, each with scale levels / epsilon.

    The published code measures the root; without it the error of random ranges is lower.
    """
    fan_out = best_fan_out(counts.size)
    height = height_for(counts.size, fan_out)
    levels = height + with_root
    level = np.zeros(fan_out**height, dtype=np.int64)
    level[: counts.size] = counts
    measured = [noisy(level, levels / epsilon)]
    for _ in range(levels - 1):
        level = level.reshape(-1, fan_out).sum(axis=1)
        measured.append(noisy(level, levels / epsilon))
    return consistent(measured, fan_out)[: counts.size]


@lru_cache(maxsize=4096)
def best_fan_out(cells: int) -> int:
    """The one with the least average variance of a range by the paper's equation (3)."""

    def variance(fan_out: int) -> float:
        height = height_for(cells, fan_out)
        return (fan_out - 1) * height**3 - 2 * (fan_out + 1) * height**2 / 3

    return min(range(2, max(3, cells + 1)), key=variance)


def height_for(cells: int, fan_out: int) -> int:
    """How many levels below the root the tree needs."""
    return max(1, math.ceil(math.log(cells, fan_out) - 1e-9))


def consistent(measured: list[Floats], fan_out: int) -> Floats:
    """Least-squares leaves from equally noisy levels, leaves first, by one pass up and one down."""
    combined = [measured[0]]
    for depth, own in enumerate(measured[1:], start=2):
        below = combined[-1].reshape(-1, fan_out).sum(axis=1)
        wide, narrow = fan_out**depth, fan_out ** (depth - 1)
        combined.append(((wide - narrow) * own + (narrow - 1) * below) / (wide - 1))
    cells = combined.pop()
    while combined:
        parts = combined.pop().reshape(-1, fan_out)
        cells = (parts + (cells - parts.sum(axis=1))[:, None] / fan_out).reshape(-1)
    return cells


# Privelet (Xiao, Wang, Gehrke 2010): noise on the Haar wavelet of the counts.


def privelet(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """A record is in the total and in one difference of halves per level: each gets (levels + 1) / epsilon."""
    levels = max(1, (counts.size - 1).bit_length())
    sums = np.zeros(2**levels, dtype=np.int64)
    sums[: counts.size] = counts
    differences = []
    while sums.size > 1:
        differences.append(sums[::2] - sums[1::2])
        sums = sums[::2] + sums[1::2]
    scale = (levels + 1) / epsilon
    cells = noisy(sums, scale)
    for difference in reversed(differences):
        bent = noisy(difference, scale)
        cells = np.stack([cells + bent, cells - bent], axis=1).reshape(-1) / 2
    return np.asarray(workload.dot(cells[: counts.size]))


# EFPA (Acs, Castelluccia, Chen 2012) with the noise that its proof needs: low frequencies only, chosen privately.
#
# The published code adds noise to the magnitudes of the Fourier coefficients and leaves their phases exact, so it is
# not private at any epsilon. Here cosine and sine parts both get noise.

GRID = 2**12
"""Coefficients are counted in steps of this fraction of a record."""


def efpa(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """Half of epsilon picks how many frequencies to keep, half perturbs their cosine and sine parts."""
    cells = counts.size
    parts = _parts(np.fft.rfft(counts) / math.sqrt(cells), cells)
    kept = np.arange(1, parts.size + 1, 2)
    energy = np.concatenate([[0.0], np.cumsum(parts[::-1] ** 2)])[::-1]
    noise = math.sqrt(2.0) * kept**1.5 / math.sqrt(cells) * 2 / float(epsilon)
    count = int(kept[least(np.sqrt(energy[kept]) + noise, 1, epsilon / 2)])
    # A record adds at most 1 / root n to the first part and 2 / root n to each later pair; rounding adds a step each.
    steps = rounded_up(count / math.sqrt(cells) * GRID + count)
    whole = np.floor(parts[:count] * GRID + 0.5).astype(np.int64)
    estimate = np.zeros(parts.size)
    estimate[:count] = noisy(whole, steps * 2 / epsilon) / GRID
    return np.asarray(workload.dot(np.fft.irfft(_complex(estimate, cells) * math.sqrt(cells), cells)))


def _parts(transform: np.ndarray[tuple[int, ...], np.dtype[np.complex128]], cells: int) -> Floats:
    """Orthonormal coordinates: the constant part, then a cosine and a sine part for each frequency."""
    pairs = np.stack([transform.real[1:], transform.imag[1:]], axis=1) * math.sqrt(2)
    if cells % 2 == 0:
        pairs[-1] /= math.sqrt(2)
    return np.concatenate([transform.real[:1], pairs.reshape(-1)])


def _complex(parts: Floats, cells: int) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
    pairs = parts[1:].reshape(-1, 2) / math.sqrt(2)
    if cells % 2 == 0:
        pairs[-1] *= math.sqrt(2)
    return np.concatenate([parts[:1].astype(np.complex128), pairs[:, 0] + 1j * pairs[:, 1]])


# P-HP (Acs, Castelluccia, Chen 2012): runs are bisected at private cuts, then every run is counted.

MOST_RUNS = 200
SENSITIVITY = 2
"""One record moves the summed distances to the means of one run by less than 2."""


@dataclass(frozen=True)
class Run:
    """The cells low .. high-1, their summed distance to their mean, and how many cuts made them."""

    low: int
    high: int
    deviation: float
    depth: int


def php(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """Half of epsilon finds the runs, half counts them."""
    starts = php_starts(counts, epsilon / 2, 2 / float(epsilon))
    totals = noisy(np.add.reduceat(counts, starts), 2 / epsilon)
    lengths = np.diff(np.append(starts, counts.size))
    return np.asarray(workload.dot(np.repeat(np.maximum(totals, 0) / lengths, lengths)))


def php_starts(counts: Ints, epsilon: Fraction, per_run: float) -> Ints:
    """The first cell of each run: half of epsilon cuts, half picks how many of the cuts to keep."""
    depth = max(1, int(counts.size).bit_length() - 1)
    history = _cut(counts, epsilon / 2 / depth, depth, per_run)
    costs = np.array([sum(run.deviation + per_run for run in runs) for runs in history])
    return np.array(sorted(run.low for run in history[least(costs, SENSITIVITY, epsilon / 2)]), dtype=np.int64)


def _cut(counts: Ints, epsilon: Fraction, depth: int, per_run: float) -> list[list[Run]]:
    """Every partition on the way, from one run on; runs of one depth are disjoint, so each depth costs epsilon once."""
    from papers.baselines.kernels import deviations_of_heads

    values = counts.astype(np.float64)
    whole = Run(0, counts.size, float(deviations_of_heads(values)[-1]), 0)
    open_runs = [whole]
    closed: list[Run] = []
    history = [[whole]]
    while open_runs and len(open_runs) + len(closed) <= MOST_RUNS:
        run = open_runs.pop(0)
        inside = values[run.low : run.high]
        heads = deviations_of_heads(inside)[:-1]
        tails = deviations_of_heads(inside[::-1].copy())[:-1][::-1]
        costs = np.concatenate([[run.deviation + per_run], heads + tails + 2 * per_run])
        place = least(costs, SENSITIVITY, epsilon)
        if place == 0:
            closed.append(run)
            continue
        middle = run.low + place
        for part in (
            Run(run.low, middle, float(heads[place - 1]), run.depth + 1),
            Run(middle, run.high, float(tails[place - 1]), run.depth + 1),
        ):
            is_done = part.high - part.low == 1 or part.depth == depth
            (closed if is_done else open_runs).append(part)
        history.append([*open_runs, *closed])
    return history


# AHP (Zhang, Chen, Xu, Meng, Xie 2014): cells are grouped by their noisy counts, then the groups are counted.

GROUPING_SHARE = Fraction(17, 20)
SMALL = 0.35
"""Noisy counts below SMALL log(cells) / epsilon are taken as 0 before grouping."""


def ahp(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """Most of epsilon finds the groups, the rest counts them; cells of a group need not be neighbours."""
    first = epsilon * GROUPING_SHARE
    rough = noisy(counts, 1 / first)
    rough[rough <= SMALL * math.log(counts.size) / float(first)] = 0.0
    order = np.argsort(rough, kind="stable")
    starts = _groups(rough[order], float(epsilon - first))
    lengths = np.diff(np.append(starts, counts.size))
    totals = noisy(np.add.reduceat(counts[order], starts), 1 / (epsilon - first))
    cells = np.empty(counts.size)
    cells[order] = np.repeat(totals / lengths, lengths)
    return np.asarray(workload.dot(cells))


def _groups(rising: Floats, epsilon: float) -> Ints:
    """Starts of groups of sorted counts: one is closed where the next count does better in a group of its own."""
    sums = np.concatenate([[0.0], np.cumsum(rising)])
    squares = np.concatenate([[0.0], np.cumsum(rising**2)])
    size = np.arange(1, rising.size + 1)
    noise = 2.0 / epsilon**2

    def error(low: int, high: int) -> float:
        spread = squares[high] - squares[low] - (sums[high] - sums[low]) ** 2 / (high - low)
        return float(spread + noise / (high - low))

    starts = [0]
    for place in range(1, rising.size):
        ahead = size[: rising.size - place]
        means = (sums[place + 1 :] - sums[place]) / ahead
        alone = float(np.min((rising[place] - means) ** 2 + noise / ahead**2))
        if error(starts[-1], place + 1) >= error(starts[-1], place) + alone:
            starts.append(place)
    return np.array(starts, dtype=np.int64)


# StructureFirst (Xu, Zhang, Xiao, Yang, Yu, Winslett 2013) in a sound form: buckets first, then a tree inside each.
#
# The paper's scores are squared deviations; one record moves them by up to twice the largest count, which it takes from
# the data. Here that count is published with noise, and larger counts are cut off before the buckets are chosen.

CELLS_PER_BUCKET = 10
"""How many buckets there are is not chosen privately: the number of cells over this."""
CAP_SHARE = Fraction(1, 20)
MARGIN = 3
"""The noisy largest count is raised by so many scales, so that it is hardly ever too low."""
STRUCTURE_SHARE = Fraction(9, 20)


def structure_first(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """A twentieth of epsilon bounds the counts, nine twentieths choose the buckets, half counts inside them."""
    scale = 1 / (epsilon * CAP_SHARE)
    cap = max(1, int(noisy(counts.max()[None], scale)[0] + MARGIN * scale))
    starts = _starts(np.minimum(counts, cap), cap, epsilon * STRUCTURE_SHARE)
    left = epsilon * (1 - CAP_SHARE - STRUCTURE_SHARE)
    cells = noisy(counts, 1 / left)
    for low, high in zip(starts, np.append(starts[1:], counts.size), strict=True):
        if high - low > 1:
            cells[low:high] = hb_cells(counts[low:high], left)
    return np.asarray(workload.dot(cells))


def _starts(counts: Ints, cap: int, epsilon: Fraction) -> Ints:
    """The first cell of each bucket, chosen from the last to the first.

    A record moves each score by at most 2 cap + 1, so scores are counted in steps of that size.
    """
    buckets = max(1, counts.size // CELLS_PER_BUCKET)
    heads, sums, squares = _best_heads(counts.tobytes(), buckets)
    starts = np.zeros(buckets, dtype=np.int64)
    end = counts.size
    for bucket in range(buckets - 1, 0, -1):
        places = np.arange(bucket, end)
        inside = sums[end] - sums[places]
        spread = squares[end] - squares[places] - inside**2 // (end - places)
        scores = heads[bucket - 1, places] + spread
        end = int(places[least((scores // (2 * cap + 1)).astype(np.float64), 1, epsilon / (buckets - 1))])
        starts[bucket] = end
    return starts


@lru_cache(maxsize=4)
def _best_heads(counts: bytes, buckets: int) -> tuple[Ints, Ints, Ints]:
    """The least squared deviation of the first so many cells in so many buckets; and sums and squares before a place.

    The deviation of each bucket is rounded up to a whole number, so that all of it is exact.
    """
    from papers.baselines.kernels import best_heads

    cells = np.frombuffer(counts, dtype=np.int64)
    sums, squares = (np.concatenate([[0], np.cumsum(values)]) for values in (cells, cells**2))
    return best_heads(sums, squares, buckets), sums, squares


TOTAL_SHARE = Fraction(1, 20)
"""Part of epsilon for the number of records, which the published code takes without noise."""
UPDATES = 100
BOX_UPDATES = 20
"""Passes over what is measured, for intervals and for boxes."""


def mwem(counts: Ints, epsilon: Fraction, workload: Intervals | Rectangles, rounds: int = 10) -> Floats:
    """Each round spends half of its share to pick a range whose estimate is bad, half to measure it."""
    total = max(1.0, float(noisy(counts.sum()[None], 1 / (epsilon * TOTAL_SHARE))[0]))
    share = epsilon * (1 - TOTAL_SHARE) / (2 * rounds)
    cells = np.full(counts.size, total / counts.size)
    left = np.ones(workload.shape[0], dtype=np.bool_)
    chosen: list[int] = []
    measured: list[float] = []
    exact = workload.dot(counts)
    for _ in range(rounds):
        candidates = np.flatnonzero(left)
        off = -np.abs(exact - workload.dot(cells))[candidates]
        place = int(candidates[least(off, 1, share)])
        left[place] = False
        chosen.append(place)
        measured.append(float(noisy(exact[place][None], 1 / share)[0]))
        _fit(cells, workload, chosen, measured, total)
    return np.asarray(workload.dot(cells))


def _fit(
    cells: Floats, workload: Intervals | Rectangles, chosen: list[int], measured: list[float], total: float
) -> None:
    """Updates the cells in place.

    No update tells cells apart that every chosen range has both or neither of. They are equal therefore, and are
    fitted as one block.
    """
    if isinstance(workload, Rectangles):
        _fit_boxes(cells.reshape(workload.grid), workload.low[chosen], workload.high[chosen], measured, total)
        return
    from papers.baselines.kernels import reweigh

    low, high = workload.low[chosen], workload.high[chosen]
    cuts = _cuts(low, high, cells.size)
    lengths, sums = np.diff(cuts), np.add.reduceat(cells, cuts[:-1])
    reweigh(sums, np.searchsorted(cuts, low), np.searchsorted(cuts, high), np.array(measured), total, UPDATES)
    cells[:] = np.repeat(sums / lengths, lengths)


def _fit_boxes(grid: Floats, low: Ints, high: Ints, measured: list[float], total: float) -> None:
    from papers.baselines.kernels import FLOOR, LARGEST_STEP

    cuts = [_cuts(low[:, axis], high[:, axis], size) for axis, size in enumerate(grid.shape)]
    first, last = (
        np.stack([np.searchsorted(own, end[:, axis]) for axis, own in enumerate(cuts)], axis=1) for end in (low, high)
    )
    boxes = [tuple(map(slice, *ends)) for ends in zip(first, last, strict=True)]
    blocks = grid
    for axis, own in enumerate(cuts):
        blocks = np.add.reduceat(blocks, own[:-1], axis=axis)
    before = blocks.copy()
    for _ in range(BOX_UPDATES):
        for box, value in zip(boxes, measured, strict=True):
            step = (value - blocks[box].sum()) / (2.0 * total)
            blocks[box] *= np.exp(np.clip(step, -LARGEST_STEP, LARGEST_STEP))
            blocks *= total / blocks.sum()
        np.maximum(blocks, FLOOR, out=blocks)
    factors = blocks / before
    for axis, own in enumerate(cuts):
        factors = np.repeat(factors, np.diff(own), axis=axis)
    grid *= factors


def _cuts(low: Ints, high: Ints, size: int) -> Ints:
    """Where the blocks of one axis begin, and where the last one ends."""
    return np.unique(np.concatenate([[0, size], low, high]))
