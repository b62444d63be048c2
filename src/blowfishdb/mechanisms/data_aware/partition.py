"""Private selection of buckets: top-down refinement, the gate, the worst bucket."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.data_aware import counts_touched
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Bools, Ints, as_ints
from blowfishdb.model.serialize import digest
from blowfishdb.model.workload import AllRanges, as_intervals
from blowfishdb.noise.distribution import geometric_quantile
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import RefinementNoise, SelectionNoise

FAN_OUT = 4
"""Parts a block is cut into."""

LARGE_SCALE = 8.0
"""From this noise scale on the whole-number thresholds cost what real-valued ones would."""

LEAST_STEP = 1.001
"""While the loss is above what is allowed, the noise scale grows at least by this ratio."""

CLOSE, TIGHTENINGS = 0.99, 8
"""The part of the allowed loss that is close enough, and the most steps that are made towards it."""


@dataclass(frozen=True)
class CutRule:
    """Where thresholds start, how much they rise a level and how far below them scores count, in noise scales."""

    first: float
    spacing: float
    clip: float

    def __post_init__(self) -> None:
        if self.spacing <= 0 or self.clip < 0:
            raise PlanError("thresholds rise from level to level, and the clip is not negative")


CUT_RULE = CutRule(first=1.0, spacing=3.0, clip=2.0)
RANGE_RULE = CutRule(first=-1.0, spacing=3.0, clip=2.0)
"""Found by `python -m benchmarks tune-dawa` on synthetic tables; the noise is scaled to what they cost."""

LARGEST_PRODUCT = 2**60
"""What a count times the square of the number of cells may reach in whole-number arithmetic."""


@dataclass(frozen=True, eq=False)
class L1Refinement:
    """Blocks of 4, 16, 64, ... cells; a block is cut in four where its deviation clearly exceeds what is usual.

    The score of a block is the least sum of |count - c| over all c; `for_ranges` its mean with the least spread of
    running totals around a line, which bounds what ranges that end inside the block are wrong by, and blocks begin with
    the whole table. Both move by at most 1 with one record, and a part of a block never scores more than the block.
    Publishes the first cell of each block that was not cut.
    """

    cells: int
    noise: RefinementNoise
    for_ranges: bool = False

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """How many cells the blocks of each level have, largest first."""
        return block_sizes(self.cells, from_all=self.for_ranges)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the buckets."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss and the noise depend on."""
        kind = "range refinement" if self.for_ranges else "l1 refinement"
        return digest((kind, self.cells, self.noise.digest()))

    def scores(self, counts: Ints, size: int) -> Ints:
        """The scores of the blocks of one size."""
        single = deviations(counts, size)
        return (single + running_deviations(counts, size)) // 2 if self.for_ranges else single

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """The first cell of each bucket, in increasing order."""
        is_start = np.zeros(self.cells, dtype=np.bool_)
        is_start[:: self.blocks[0]] = True
        drawn = np.split(draws, np.cumsum(self.noise.levels)[:-1])
        reached: Bools = np.ones(int(self.noise.levels[0]), dtype=np.bool_)
        for level, size in enumerate(self.blocks):
            reached = reached & self.noise.cut(level, self.scores(counts, size), drawn[level])
            part = size // FAN_OUT
            starts = np.flatnonzero(np.repeat(reached, FAN_OUT)) * part
            is_start[starts[starts < self.cells]] = True
            reached = np.repeat(reached, FAN_OUT)[: -(-self.cells // part)]
        return np.flatnonzero(is_start)


def l1_refinement(cells: int, graph: CellGraph, epsilon: Fraction, rule: CutRule = CUT_RULE) -> L1Refinement:
    """The refinement by the deviations of counts that costs at most epsilon, with as little noise as is found."""
    return L1Refinement(cells, _refinement_noise(block_sizes(cells), cells, graph, epsilon, rule))


def range_refinement(cells: int, graph: CellGraph, epsilon: Fraction, rule: CutRule = RANGE_RULE) -> L1Refinement:
    """The refinement for ranges that costs at most epsilon, with as little noise as is found."""
    blocks = block_sizes(cells, from_all=True)
    return L1Refinement(cells, _refinement_noise(blocks, cells, graph, epsilon, rule), for_ranges=True)


def _refinement_noise(
    blocks: Sequence[int], cells: int, graph: CellGraph, epsilon: Fraction, rule: CutRule
) -> RefinementNoise:
    levels = np.array([-(-cells // block) for block in blocks])
    scale = float(counts_touched(graph) / epsilon)
    if scale >= LARGE_SCALE:
        scale *= expected_loss(levels.size, rule)
    while True:
        spacing, clip = max(1, math.ceil(rule.spacing * scale)), math.floor(rule.clip * scale)
        noise = RefinementNoise(_short(scale), levels, math.floor(rule.first * scale), spacing, clip)
        loss = noise.epsilon(graph)
        if loss <= epsilon:
            return _tightened(noise, graph, epsilon)
        scale *= max(float(loss / epsilon), LEAST_STEP)


def _tightened(noise: RefinementNoise, graph: CellGraph, epsilon: Fraction) -> RefinementNoise:
    """The same thresholds with less noise, where rounding them to whole numbers left something of epsilon.

    Noise smaller by the unused part costs no more than epsilon, since every term of the loss but the first shrinks.
    """
    for _ in range(TIGHTENINGS):
        used = float(noise.epsilon(graph) / epsilon)
        closer = replace(noise, unit=_short(used * float(noise.unit)))
        if used > CLOSE or closer.epsilon(graph) > epsilon:
            return noise
        noise = closer
    return noise


def expected_loss(levels: int, rule: CutRule) -> float:
    """What a refinement costs for large noise scales, in units of one comparison."""
    gaps = np.maximum(rule.spacing * np.arange(1, levels) - rule.clip, 0.0)
    return 1.0 + float(np.sum(np.exp(-gaps) / (2 - np.exp(-gaps))))


def _short(scale: float) -> Fraction:
    """The scale as a fraction of few digits."""
    return Fraction(scale).limit_denominator(10**6)


def block_sizes(cells: int, *, from_all: bool = False) -> tuple[int, ...]:
    """Powers of the fan-out from the largest below the number of cells down to the fan-out itself.

    With `from_all` the first is the least that holds all cells.
    """
    sizes = [FAN_OUT]
    while sizes[-1] < cells if from_all else sizes[-1] * FAN_OUT < cells:
        sizes.append(sizes[-1] * FAN_OUT)
    return tuple(reversed(sizes))


def _in_blocks(counts: Ints, size: int) -> list[Ints]:
    """The counts with a block of `size` cells in each row, and those of the last block if it is shorter."""
    whole = counts.size // size * size
    parts = [counts[:whole].reshape(-1, size)] if whole else []
    return [*parts, counts[whole:].reshape(1, -1)] if whole < counts.size else parts


def deviations(counts: Ints, size: int) -> Ints:
    """For each block of `size` cells (the last may be shorter) the least sum of |count - c| over all c."""
    sums = []
    for part in _in_blocks(counts, size):
        ordered = np.sort(part, axis=1)
        half = part.shape[1] // 2
        upper = ordered[:, part.shape[1] - half :].sum(axis=1)
        sums.append(upper - ordered[:, :half].sum(axis=1))
    return np.concatenate(sums)


def running_deviations(counts: Ints, size: int) -> Ints:
    """For each block of `size` cells (the last may be shorter) the least spread of its running totals, rounded down.

    The spread around a line of slope c is the largest less the smallest of (the first k counts) - c k, for k from 0 to
    the size of the block. Counts beyond what 64-bit arithmetic can hold for this many cells are cut off: the cap is
    public, and cutting off never makes two neighbouring tables differ more.
    """
    small = np.minimum(counts, LARGEST_PRODUCT // counts.size**2)
    return np.concatenate([_least_spreads(part) for part in _in_blocks(small, size)])


def _least_spreads(blocks: Ints) -> Ints:
    """The least spread of the running totals of each row around a line, rounded down.

    As a function of the slope it is the largest of many lines a - m c, one for each pair of running totals. Of two of
    them, one falling and one rising, the crossing p / q is a lower bound of the least; it is reached when no line lies
    above it there, and else the one that lies highest takes the place of the one it resembles.
    """
    rows, size = blocks.shape
    totals = np.zeros((rows, size + 1), dtype=np.int64)
    np.cumsum(blocks, axis=1, out=totals[:, 1:])
    place, least, left = np.arange(size + 1), np.zeros(rows, dtype=np.int64), np.arange(rows)
    falling, rising = (sign * np.stack([totals[:, -1], np.full(rows, size)]) for sign in (1, -1))
    while left.size:
        (p, q), row = falling - rising, np.arange(left.size)
        around = q[:, None] * totals - p[:, None] * place
        top, bottom = np.argmax(around, axis=1), np.argmin(around, axis=1)
        spread = around[row, top] - around[row, bottom]
        is_open = spread > falling[0] * q - falling[1] * p
        least[left[~is_open]] = spread[~is_open] // q[~is_open]
        highest = np.stack([totals[row, top] - totals[row, bottom], top - bottom])[:, is_open]
        left, totals, falling, rising = left[is_open], totals[is_open], falling[:, is_open], rising[:, is_open]
        falling = np.where(highest[1] > 0, highest, falling)
        rising = np.where(highest[1] > 0, rising, highest)
    return least


MERGE, KEEP = 0, 1
"""What the gate publishes: look for buckets, or measure every cell."""


@dataclass(frozen=True, eq=False)
class L1Gate:
    """Compares the sum over blocks of `block` cells of min(deviation from the median, cap) with a public threshold.

    Where totals are `running`, it is the spread of a block's running totals around a line instead. One record changes
    either of one block by at most 1, so this is a refinement of one node on one level.
    """

    cells: int
    block: int
    cap: int
    threshold: int
    unit: Fraction
    running: bool = False

    @property
    def noise(self) -> RefinementNoise:
        """One variable for the one comparison. The sum is never negative, so nothing is clipped."""
        return RefinementNoise(self.unit, np.ones(1, dtype=np.int64), self.threshold, 1, self.threshold)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the outcome."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss, the noise and the outcome depend on."""
        kind = "running gate" if self.running else "l1 gate"
        return digest((kind, self.cells, self.block, self.cap, self.threshold, self.noise.digest()))

    def unevenness(self, counts: Ints) -> int:
        """The sum that is compared, before noise."""
        uneven = running_deviations if self.running else deviations
        return int(np.minimum(uneven(counts, self.block), self.cap).sum())

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """MERGE or KEEP; a tie is MERGE."""
        return np.where(self.noise.cut(0, np.array([self.unevenness(counts)]), draws), KEEP, MERGE)


def l1_gate(
    cells: int, graph: CellGraph, epsilon: Fraction, block: int, cap: float, share: float, *, running: bool = False
) -> L1Gate:
    """The gate that costs exactly epsilon and says KEEP where blocks reach more than `share` of the cap on average."""
    whole_cap = max(1, math.ceil(cap))
    threshold = math.floor(share * whole_cap * -(-cells // block))
    free = L1Gate(cells, block, whole_cap, threshold, Fraction(1), running)
    return replace(free, unit=free.epsilon(graph) / epsilon)


RATIO = 1.1
"""Neighbouring levels differ by this ratio, or by 1."""

LARGEST = 10**15
"""The largest level: no table deviates more than it has rows, and none has this many."""


@dataclass(frozen=True, eq=False)
class WorstBucket:
    """Publishes which of some public levels is nearest to the largest deviation of a bucket from its median.

    One record moves that deviation by at most 1, and with it the distance to every level.
    """

    cells: int
    starts: Ints
    unit: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", as_ints(self.starts))

    @property
    def noise(self) -> SelectionNoise:
        """One variable for each level."""
        return SelectionNoise(self.unit, np.ones(1, int), np.ones(1, int), np.array([levels().size]), one_sided=True)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the level."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss, the noise and the level depend on."""
        return digest(("worst bucket", self.cells, self.starts, self.noise.digest()))

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """The number of the level; a tie goes to the lowest."""
        worst = int(bucket_deviations(counts, self.starts).max())
        return np.array([int(np.argmin(np.abs(levels() - worst) - draws))])

    def bound(self, chosen: int, beta: float) -> float:
        """What no bucket's deviation exceeds, with probability 1 - beta, given the published level.

        The level wins against the one nearest to the truth, so it is further away by at most its own noise; the nearest
        one is at most half a step away.
        """
        noise = int(geometric_quantile(float(self.unit), beta / levels().size))
        return (float(levels()[chosen]) + noise + 1.0) / (1.0 - (RATIO - 1.0) / 2.0)


def worst_bucket(cells: int, starts: Ints, graph: CellGraph, epsilon: Fraction) -> WorstBucket:
    """The stage that costs exactly epsilon."""
    return WorstBucket(cells, starts, WorstBucket(cells, starts, Fraction(1)).epsilon(graph) / epsilon)


def levels() -> Ints:
    """0, 1, 2, ... and then by a constant ratio."""
    steps = math.ceil(math.log(LARGEST) / math.log(RATIO))
    grown = np.ceil(RATIO ** np.arange(steps + 1)).astype(np.int64)
    return np.unique(np.append(grown, np.arange(int(1 / (RATIO - 1)) + 1)))


def bucket_deviations(counts: Ints, starts: Ints) -> Ints:
    """For each bucket the least sum of |count - c| over all c: its upper half less its lower half."""
    lengths = np.diff(np.append(starts, counts.size))
    bucket = np.repeat(np.arange(starts.size), lengths)
    ordered = counts[np.lexsort((counts, bucket))]
    place = np.arange(counts.size) - np.repeat(starts, lengths)
    half = np.repeat(lengths // 2, lengths)
    upper = place >= np.repeat(lengths, lengths) - half
    sign = upper.astype(np.int64) - (place < half)
    return np.asarray(np.add.reduceat(sign * ordered, starts))


@dataclass(frozen=True)
class GateRule:
    """What the gate spends and where it says that measuring every cell is better than any buckets.

    `share` is its part of epsilon. Deviations of blocks of `block` cells count up to `cap` / epsilon, times the noise
    level of the policy. Where they reach more than a part of the cap on average, every cell is measured: the part
    `uneven_for_ranges` for workloads of long ranges, `uneven_for_cells` for those of which half or more count no more
    than `short` cells, which suffer most when cells are merged. Deviations are those of counts, or of `running` totals.
    """

    share: Fraction
    block: int
    cap: float
    uneven_for_ranges: float
    uneven_for_cells: float
    short: int
    running: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise PlanError("the gate takes a part of epsilon between 0 and 1")
        if self.block < 2 or self.cap <= 0 or self.short < 1:
            raise PlanError("the gate looks at blocks of two cells or more, up to a positive cap")
        if self.uneven_for_ranges <= 0 or self.uneven_for_cells <= 0:
            raise PlanError("the gate's limits are positive parts of the cap")


GATE_RULE = GateRule(Fraction(1, 100), 4, 20.0, 0.4, 0.2, 16)
RANGE_GATE = GateRule(GATE_RULE.share, 64, 65.0, 0.4, 0.4, 16, running=True)
"""Found by `python -m benchmarks tune-dawa` on synthetic tables; the loss does not depend on them."""

FEWEST_FOR_RANGES, FEW_SHORT = 1024, 0.125
"""Tables of so many cells, of which less than this part of the queries is short, are merged with ranges in view."""


def gate_stage(problem: Problem, allowed: Fraction, epsilon: Fraction, rule: GateRule = GATE_RULE) -> L1Gate:
    """The gate of a program that spends epsilon in all and allows this stage a part of it."""
    cap = rule.cap * noise_level(problem.graph) / float(epsilon)
    limit = uneven_limit(problem, rule)
    return l1_gate(problem.graph.cells, problem.graph, allowed, rule.block, cap, limit, running=rule.running)


def noise_level(graph: CellGraph) -> float:
    """How noisy ranges over single cells are, relative to classical differential privacy; it grows like a logarithm.

    Where records move a few steps along one axis, ranges are as accurate as on an axis with as many cells as steps.
    """
    moved = counts_touched(graph)
    axis = graph.factors[0]
    if moved == 1 or len(graph.factors) > 1 or not isinstance(axis, WindowGraph) or np.any(graph.to_zero):
        return float(moved)
    steps = float(np.max(axis.reach - np.arange(axis.size))) if not axis.universal.size else float(axis.size)
    return moved * min(1.0, math.log2(steps + 2) / math.log2(axis.size + 2))


def uneven_limit(problem: Problem, rule: GateRule = GATE_RULE) -> float:
    """How uneven blocks may be for the gate to look for buckets; it depends on the workload alone."""
    short = min(1.0, 2 * short_part(problem, rule.short))
    return rule.uneven_for_ranges + short * (rule.uneven_for_cells - rule.uneven_for_ranges)


def short_part(problem: Problem, short: int) -> float:
    """The part of the queries that count no more than `short` cells; none where all ranges are asked for."""
    if isinstance(problem.workload, AllRanges):
        return 0.0
    counted = problem.workload.dot(np.ones(problem.graph.cells, dtype=np.int64))
    return float(np.mean(np.abs(counted) <= short))


def asks_long_ranges(problem: Problem) -> bool:
    """Whether the queries are ranges over many cells, nearly all of them long; it depends on the workload alone."""
    if problem.graph.cells < FEWEST_FOR_RANGES:
        return False
    is_of_ranges = isinstance(problem.workload, AllRanges) or as_intervals(problem.workload) is not None
    return is_of_ranges and short_part(problem, RANGE_GATE.short) < FEW_SHORT
