"""Exact weighted least squares for block trees, in time proportional to the number of cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from blowfishdb.mechanisms.one_axis.block_chain import Chain, chain_covariance, solve_chain
from blowfishdb.mechanisms.one_axis.block_tree import BlockTree
from blowfishdb.mechanisms.one_axis.tree_variances import Upward, span_range_variances
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.plan import Measurement

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
