"""Exact weighted least squares on trees of blocks, and the variances of range sums estimated from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded

from blowfishdb.mechanisms.axis import BlockTree
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.plan import Measurement

COMPILED = 5_000
"""Longer chains are worth the compiler's start-up time."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Independent estimates of block totals with variances `own`, and running sums measured with `noise`.

    `noise` is infinite at the end of a block whose running sum is not measured. Where `pinned`, the running sum
    is the exact row number `total_of`. A block that `opens` a span starts from zero.
    """

    own: Floats
    noise: Floats
    opens: Bools
    pinned: Bools
    total_of: Ints

    @property
    def links(self) -> Bools:
        """For each block, whether the next one continues its span."""
        return np.append(~self.opens[1:], False)


def chain_system(chain: Chain) -> tuple[Floats, Floats]:
    """The diagonal of the least-squares system of the running sums, and the entries beside it."""
    next_pull = np.where(chain.links, np.append(1.0 / chain.own[1:], 0.0), 0.0)
    diagonal = 1.0 / chain.own + 1.0 / chain.noise + next_pull
    beside = -next_pull
    inner = np.flatnonzero(chain.pinned & ~chain.opens)
    beside[inner - 1] = 0.0
    diagonal[chain.pinned] = 1.0
    return diagonal, beside


def solve_chain(chain: Chain, totals: Floats, sums: Floats, exact: Floats) -> Floats:
    """The least-squares totals of the blocks; `sums` are the measured running sums in order."""
    shape = (-1, *(1,) * (totals.ndim - 1))
    pull = (1.0 / chain.own).reshape(shape)
    hold = 1.0 / chain.noise
    diagonal, beside = chain_system(chain)
    right = pull * totals
    right[:-1] -= (chain.links[:-1].reshape(shape) * pull[1:]) * totals[1:]
    right[hold > 0] += hold[hold > 0].reshape(shape) * sums
    known = np.flatnonzero(chain.pinned)
    inner = known[~chain.opens[known]]
    right[inner - 1] += pull[inner] * exact[chain.total_of[inner]]
    right[known] = exact[chain.total_of[known]]
    if np.any(beside):
        running = solveh_banded(np.stack([diagonal, beside]), right, lower=True, check_finite=False)
    else:
        running = right / diagonal.reshape(shape)
    found = running.copy()
    later = np.flatnonzero(~chain.opens)
    found[later] -= running[later - 1]
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class SumCovariance:
    """Covariances of the estimated running sums: for i <= j in one span, variance(j) times the gains from i to j."""

    variance: Floats
    log_gain: Floats
    opens: Bools

    def at(self, block: Ints, share: Floats) -> list[tuple[Ints, Floats]]:
        """The point a `share` of the way through a block, as the running sums around it with coefficients."""
        before = np.where(self.opens[block], 0.0, 1.0 - share)
        return [(np.maximum(block - 1, 0), before), (block, share)]

    def of_difference(self, low: list[tuple[Ints, Floats]], high: list[tuple[Ints, Floats]]) -> Floats:
        """The variance of the point `high` minus the point `low`; one point may serve many."""
        terms = [*((node, -weight) for node, weight in low), *high]
        terms = [(node, weight) for node, weight in terms if np.any(weight)]
        total = np.zeros(1)
        for place, (node, weight) in enumerate(terms):
            total = total + weight**2 * self.variance[node]
            for other, other_weight in terms[:place]:
                first, last = np.minimum(node, other), np.maximum(node, other)
                fade = np.exp(np.minimum(self.log_gain[last] - self.log_gain[first], 0.0))
                total = total + 2 * weight * other_weight * self.variance[last] * fade
        return total


def chain_covariance(chain: Chain) -> SumCovariance:
    """Variances by a forward filter and a backward smoother; no step subtracts nearly equal numbers."""
    arrays = (chain.own, 1.0 / chain.noise, chain.opens, chain.pinned, chain.links)
    if chain.own.size > COMPILED:
        from blowfishdb.mechanisms.kernels import filter_and_smooth

        variance, gain = filter_and_smooth(*(np.array(part) for part in arrays))
    else:
        variance, gain = _filter_and_smooth(*(part.tolist() for part in arrays))
    log_gain = np.concatenate([[0.0], np.cumsum(np.log(gain))[:-1]])
    return SumCovariance(np.asarray(variance), log_gain, chain.opens)


def _filter_and_smooth(
    own: list[float], hold: list[float], opens: list[bool], pinned: list[bool], links: list[bool]
) -> tuple[list[float], list[float]]:
    """The compiled loop in plain Python, for chains that are done before a compiler has loaded."""
    count = len(own)
    filtered = [0.0] * count
    before = 0.0
    for i in range(count):
        ahead = (0.0 if opens[i] else before) + own[i]
        before = 0.0 if pinned[i] else ahead / (1.0 + ahead * hold[i])
        filtered[i] = before
    variance, gain = filtered.copy(), [1.0] * count
    for i in range(count - 2, -1, -1):
        if links[i]:
            gain[i] = filtered[i] / (filtered[i] + own[i + 1])
            variance[i] = filtered[i] * (1.0 - gain[i]) + gain[i] ** 2 * variance[i + 1]
    return variance, gain


@dataclass(frozen=True, eq=False)
class Upward:
    """Variance of every node's total, level by level from the cells to the blocks.

    `own` is what the node's subtree tells with the node's own measurement, `sums` (not for cells) without it.
    """

    own: tuple[Floats, ...]
    sums: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class _End:
    """A place in the axis seen from one level: its node, and how the node's part before it depends on the node.

    That part is slope x (node total) + rest, and the rest is independent of all that is measured higher up.
    """

    node: Ints
    slope: Floats
    rest: Floats


def span_range_variances(tree: BlockTree, up: Upward, covariance: SumCovariance, low: Ints, high: Ints) -> Floats:
    """The variance of each range sum; a range does not leave the span it starts in."""
    if low.size and np.all(low == low[0]):
        low = low[:1]
    left, right = (_End(place, np.zeros(place.size), np.zeros(place.size)) for place in (low, high))
    slope, rest = np.zeros((2, high.size))
    for level, own, sums in zip(tree.levels, up.own, up.sums, strict=False):
        children = np.diff(np.append(level.first_child, own.size))
        parent = np.append(np.repeat(np.arange(sums.size), children), sums.size)
        ahead = np.concatenate([[0.0], np.cumsum(own)])
        starts = np.append(level.first_child, own.size)
        size, total = np.append(own, 1.0), np.append(sums, 1.0)
        new_left, new_right = (_lift(end, parent, starts, ahead, size, total) for end in (left, right))
        joined = left.node == right.node
        meet = new_left.node == new_right.node
        apart = (
            (1 - left.slope) ** 2 * size[left.node]
            + left.rest
            + (ahead[right.node] - ahead[np.minimum(left.node + 1, own.size)])
            + right.slope**2 * size[right.node]
            + right.rest
        )
        whole = np.where(joined, rest + slope**2 * size[left.node], apart)
        inner = np.where(joined, slope * size[left.node] / total[new_left.node], new_right.slope - new_left.slope)
        slope = np.where(meet, inner, 0.0)
        rest = np.where(meet, whole - inner**2 * total[new_left.node], 0.0)
        left, right = new_left, new_right
    return _along_blocks(tree, covariance, (low, high), (left, right), (slope, rest))


def _lift(end: _End, parent: Ints, starts: Ints, ahead: Floats, size: Floats, total: Floats) -> _End:
    """The same place seen from one level up."""
    node = parent[end.node]
    before = ahead[end.node] - ahead[starts[node]]
    part = size[end.node]
    slope = (before + end.slope * part) / total[node]
    rest = end.rest + before + end.slope**2 * part - slope**2 * total[node]
    return _End(node, slope, rest)


def _along_blocks(
    tree: BlockTree,
    covariance: SumCovariance,
    places: tuple[Ints, Ints],
    ends: tuple[_End, _End],
    inside: tuple[Floats, Floats],
) -> Floats:
    """Joins both ends through the running sums of the blocks, or one block's total when both lie inside it."""
    low, high = places
    left, right = ends
    closes = np.isin(high, tree.axis.span_ends)
    last = tree.blocks.size - 1
    block_left = np.minimum(left.node, last)
    block_right = np.minimum(np.where(closes, right.node - 1, right.node), last)
    start = covariance.at(block_left, left.slope)
    stop = covariance.at(block_right, np.where(closes, 1.0, right.slope))
    apart = covariance.of_difference(start, stop) + left.rest + np.where(closes, 0.0, right.rest)
    one = np.ones(low.size)
    block = covariance.of_difference(covariance.at(block_left, 0.0 * one), covariance.at(block_left, one))
    together = inside[0] ** 2 * block + inside[1]
    found = np.where((left.node == right.node) & ~closes, together, apart)
    return np.where(low < high, np.maximum(found, 0.0), 0.0)


Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, eq=False)
class TreeCorrection:
    """Noisy cells under a measured tree: a pass up, one solve along the blocks, a pass down.

    `shares` holds the part of the loss that the cells, each level and the running sums take.
    """

    tree: BlockTree
    shares: Floats

    @cached_property
    def parts(self) -> tuple[Measurement, ...]:
        """The noisy cells, each level, the running sums."""
        return self.tree.parts(self.shares)

    @cached_property
    def exact(self) -> Intervals | None:
        """The free totals."""
        return self.tree.axis.totals

    @cached_property
    def noisy(self) -> Ints:
        """The cells of the first part."""
        return self.tree.axis.noisy

    def estimate(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The best linear unbiased estimate of every cell."""
        up = self.upward(variances)
        values = self.split(measured)
        column = (-1, *(1,) * (measured.ndim - 1))
        own = np.zeros((self.tree.axis.cells, *measured.shape[1:]))
        own[self.noisy] = values[0]
        owns, sums = [own], []
        for level, total, above, got in zip(self.tree.levels, up.sums, up.own[1:], values[1:-1], strict=True):
            whole = np.add.reduceat(owns[-1], level.first_child, axis=0)
            combined = whole.copy()
            trust = 1.0 - above[level.measured] / total[level.measured]
            combined[level.measured] += trust.reshape(column) * (got - whole[level.measured])
            sums.append(whole)
            owns.append(combined)
        final = solve_chain(self.chain(up.own[-1], variances), owns[-1], values[-1], exact)
        for depth in range(len(sums) - 1, -1, -1):
            children = np.diff(np.append(self.tree.levels[depth].first_child, owns[depth].shape[0]))
            gap = np.repeat((final - sums[depth]) / up.sums[depth].reshape(column), children, axis=0)
            final = owns[depth] + up.own[depth].reshape(column) * gap
        return np.asarray(final)

    def range_variances(self, low: Ints, high: Ints, variances: Floats) -> Floats:
        """The variance of the estimated sum of each range; spans are independent, so a range adds up its pieces."""
        up = self.upward(variances)
        covariance = chain_covariance(self.chain(up.own[-1], variances))
        axis = self.tree.axis
        ends = axis.span_ends
        first = np.searchsorted(axis.spans, low, side="right") - 1
        last = np.searchsorted(axis.spans, np.maximum(high - 1, low), side="right") - 1
        crosses = last > first
        if not np.any(crosses):
            return span_range_variances(self.tree, up, covariance, low, high)
        totals = np.concatenate([[0.0], np.cumsum(span_range_variances(self.tree, up, covariance, axis.spans, ends))])
        between = np.where(crosses, totals[last] - totals[np.minimum(first + 1, last)], 0.0)
        head = span_range_variances(self.tree, up, covariance, low, np.where(crosses, ends[first], high))
        tail = span_range_variances(self.tree, up, covariance, np.where(crosses, axis.spans[last], high), high)
        return head + between + tail

    def split(self, values: NDArray[Number]) -> list[NDArray[Number]]:
        """Values of the noisy rows by group: cells, levels, running sums; empty groups included."""
        tree: BlockTree = self.tree
        counts = [self.noisy.size, *(int(level.measured.sum()) for level in tree.levels), int(tree.summed.sum())]
        return np.split(values, np.cumsum(counts)[:-1])

    def upward(self, variances: Floats) -> Upward:
        """What each node's total is worth from its own subtree; a cell that is exact counts as 1, which cancels out."""
        values = self.split(variances)
        leaf = np.ones(self.tree.axis.cells)
        leaf[self.noisy] = values[0]
        own, sums = [leaf], []
        for level, noise in zip(self.tree.levels, values[1:-1], strict=True):
            total = np.add.reduceat(own[-1], level.first_child)
            combined = total.copy()
            inner = total[level.measured]
            combined[level.measured] = inner * (noise / (inner + noise))
            sums.append(total)
            own.append(combined)
        return Upward(tuple(own), tuple(sums))

    def chain(self, block_variances: Floats, variances: Floats) -> Chain:
        """The blocks with what their subtrees tell of them, and the running sums between them."""
        tree = self.tree
        noise = np.full(tree.blocks.size, np.inf)
        noise[tree.summed] = self.split(variances)[-1]
        free = np.cumsum(tree.axis.free) - 1
        return Chain(block_variances, noise, tree.opens_span, tree.pinned, free[tree.span_of_block])
