"""Weighted least squares on trees of counts: estimates, counts that are not negative, and variances of sums.

One solver serves trees of blocks on an axis and trees of boxes of a grid. The solver of chains beside it is another
algorithm: roots that are linked by measured running sums form a tridiagonal system, not a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solveh_banded

from blowfishdb.model.cached import cached_property, compiled
from blowfishdb.model.numbers import Bools, Floats, Ints, consecutive

COMPILED = 5_000
"""Longer chains are worth the compiler's start-up time."""


def combined(first: Floats, first_variance: Floats, second: Floats, second_variance: Floats) -> tuple[Floats, Floats]:
    """The inverse-variance mean of two independent views and its variance.

    Variances may be 0 or infinite; of two exact views the second one counts.
    """
    share, variance = _shares(first_variance, second_variance)
    return first + share * (second - first), variance


def _shares(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The share of the second of two views in their mean, and the mean's variance."""
    with np.errstate(invalid="ignore"):
        share = first / (first + second)
        share[np.isnan(share)] = 1.0
        # Both products are the same variance; each is taken where it does not cancel.
        return share, np.where(share < 0.5, first * (1.0 - share), second * share)


def _column(values: Floats | Bools, like: Floats) -> Floats:
    """The vector as a column that multiplies every column of `like`, or the vector itself."""
    return np.asarray(values.reshape(-1, *(1,) * (like.ndim - 1)))


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes in levels, from the deepest up to the roots.

    `parents[k]` holds for each node of level k its parent's place in level k + 1, in increasing order: the children of
    one node stand side by side. A node above the deepest level may have no children.
    """

    parents: tuple[Ints, ...]
    roots: int

    @cached_property
    def inner(self) -> tuple[Ints, ...]:
        """The nodes with children, for each level above the deepest."""
        return tuple(parent[first] for parent, first in zip(self.parents, self.first, strict=True))

    @cached_property
    def starts(self) -> tuple[Ints, ...]:
        """For each level above the deepest, where the children of each node start below; one end mark more."""
        sizes = [*(parent.size for parent in self.parents[1:]), self.roots]
        return tuple(np.searchsorted(p, np.arange(size + 1)) for p, size in zip(self.parents, sizes, strict=True))

    @cached_property
    def first(self) -> tuple[Ints, ...]:
        """The first child of each node with children, level by level."""
        return tuple(np.flatnonzero(np.diff(parent, prepend=-1)) for parent in self.parents)

    def child_sums(self, step: int, values: Floats) -> Floats:
        """The sum over the children, for the inner nodes of level step + 1."""
        return np.asarray(np.add.reduceat(values, self.first[step], axis=0))


@dataclass(frozen=True)
class EmptyRule:
    """When the small children of a node count as empty.

    Each is below `clear` standard deviations of its count, their sum is below `together` deviations of the sum, and
    both that sum and its deviation are below `part` of the node's count.
    """

    clear: float
    together: float
    part: float

    def empty(self, counts: Floats, variances: Floats, totals: Floats, parents: Ints) -> Bools:
        """Which children count as empty; only beside others whose counts are free to make up for theirs."""
        is_small = counts < self.clear * np.sqrt(variances)
        count, variance, others = (
            np.bincount(parents, np.where(chosen, each, 0.0), totals.size)
            for chosen, each in ((is_small, counts), (is_small, variances), (~is_small, variances))
        )
        deviation = np.sqrt(variance)
        is_little = (count < self.together * deviation) & (np.maximum(count, deviation) < self.part * totals)
        return np.asarray(is_small & (is_little & (others > 0))[parents])


@dataclass(frozen=True, eq=False)
class TreeSolver:
    """Least squares for one set of measurements; `noise` is the variance of each node's own one, by level.

    It is infinite where a node is not measured, and finite for every node without children. `below` is the variance
    of each node's count as its own subtree tells it, `summed[k]` that of the sum over the children of each inner node
    of level k + 1, `trust[k]` the share of such a node's own measurement beside that sum. Given the count of a
    parent, its children share the correction in proportion to `below`.
    """

    tree: Tree
    noise: tuple[Floats, ...]

    @cached_property
    def _upward(self) -> tuple[tuple[Floats, ...], tuple[Floats, ...], tuple[Floats, ...]]:
        below, summed, trust = [self.noise[0]], [], []
        for step, (inner, noise) in enumerate(zip(self.tree.inner, self.noise[1:], strict=True)):
            total = self.tree.child_sums(step, below[-1])
            share, variance = _shares(total, noise[inner])
            level = noise.copy()
            level[inner] = variance
            below.append(level)
            summed.append(total)
            trust.append(share)
        return tuple(below), tuple(summed), tuple(trust)

    @property
    def below(self) -> tuple[Floats, ...]:
        return self._upward[0]

    @property
    def summed(self) -> tuple[Floats, ...]:
        return self._upward[1]

    @property
    def trust(self) -> tuple[Floats, ...]:
        return self._upward[2]

    @cached_property
    def shares(self) -> tuple[Floats, ...]:
        """For each node below the roots its share of a correction of its parent's count."""
        shares = []
        for parent, first, below, summed in zip(
            self.tree.parents, self.tree.first, self.below, self.summed, strict=False
        ):
            total = np.repeat(summed, np.diff(np.append(first, parent.size)))
            shares.append(np.divide(below, total, out=np.zeros(below.size), where=total > 0))
        return tuple(shares)

    def estimate(
        self, measured: Sequence[Floats], roots: Callable[[Floats], Floats] | None = None
    ) -> tuple[Floats, ...]:
        """The least squares count of every node, by level: a pass up and a pass down; vectors or column matrices.

        `roots` turns the counts that the trees give the roots into the final ones, where roots are linked.
        """
        values, sums = [measured[0]], []
        for step, (inner, trust) in enumerate(zip(self.tree.inner, self.trust, strict=True)):
            total = self.tree.child_sums(step, values[-1])
            level = np.array(measured[step + 1], dtype=np.float64)
            level[inner] = total + _column(trust, total) * (level[inner] - total)
            values.append(level)
            sums.append(total)
        final = [values[-1] if roots is None else roots(values[-1])]
        for step in range(len(sums) - 1, -1, -1):
            gap = np.zeros_like(final[0])
            inner = self.tree.inner[step]
            gap[inner] = final[0][inner] - sums[step]
            final.insert(0, values[step] + _column(self.shares[step], gap) * gap[self.tree.parents[step]])
        return tuple(final)

    def not_negative(self, values: Sequence[Floats], rule: EmptyRule) -> tuple[Floats, ...]:
        """The counts with none below 0; children add up to their parents unless exact counts among them say more.

        Given the count of a parent, children that the rule takes for empty count 0; the others' counts are replaced by
        the nearest ones that are not negative and add up to it, distances in units of their variances.
        """
        final = [np.maximum(values[-1], 0.0)]
        for step in range(len(values) - 2, -1, -1):
            parents, below = self.tree.parents[step], self.below[step]
            empty = rule.empty(values[step], below, final[0], parents)
            final.insert(0, _filled(values[step], below, final[0], parents, ~empty))
        return tuple(final)

    def variances_of(self, covered: Callable[[Ints, int, Ints], Floats], queries: Ints) -> Floats:
        """The variance of the sum that each query takes over the leaves of the one root, exact.

        `covered` gives the part of a node's count that a query takes, for queries, a level and its nodes; below a node
        that is taken whole or not at all nobody looks. Proof: docs/proofs/region-trees.md.
        """
        level = len(self.tree.parents)
        query, node, up = queries, np.zeros(queries.size, dtype=np.int64), np.arange(queries.size)
        met = []
        while node.size:
            share = covered(query, level, node)
            some = np.flatnonzero(share > 0)
            query, node, share = query[some], node[some], share[some]
            met.append((query, node, up[some], share, level))
            if level == 0:
                break
            starts = self.tree.starts[level - 1]
            opened = np.flatnonzero((share < 1) & (starts[node + 1] > starts[node]))
            count = starts[node[opened] + 1] - starts[node[opened]]
            child = consecutive(starts[node[opened]], count)
            node, query, up, level = child, np.repeat(query[opened], count), np.repeat(opened, count), level - 1
        result = np.zeros(queries.size)
        for (_, node, up, weight, level), (above, node_above, _, weight_above, _) in zip(
            met[:0:-1], met[-2::-1], strict=True
        ):
            spread = weight * self.below[level][node]
            opened = np.flatnonzero(np.bincount(up, minlength=node_above.size))
            mixed = np.bincount(up, weights=spread, minlength=node_above.size)[opened]
            squares = np.bincount(up, weights=weight * spread, minlength=node_above.size)[opened]
            total = self.summed[level][np.searchsorted(self.tree.inner[level], node_above[opened])]
            mean = np.divide(mixed, total, out=np.zeros(opened.size), where=total > 0)
            np.add.at(result, above[opened] - queries[0], np.maximum(squares - mixed * mean, 0.0))
            weight_above[opened] = mean
        for above, node_above, _, weight_above, level in met[:1]:
            result[above - queries[0]] += weight_above**2 * self.below[level][node_above]
        return result


def _filled(counts: Floats, spreads: Floats, totals: Floats, parents: Ints, is_open: Bools) -> Floats:
    """For each parent the counts nearest to its children's, in units of their variances, that add up to its total.

    Children that are not open count 0.
    """
    weights = np.where(np.bincount(parents, spreads, totals.size)[parents] > 0, spreads, 1.0)
    while True:
        missing = totals - np.bincount(parents, np.where(is_open, counts, 0.0), totals.size)
        shares = np.bincount(parents, np.where(is_open, weights, 0.0), totals.size)
        step = np.divide(missing, shares, out=np.zeros(totals.size), where=shares > 0)
        moved = counts + step[parents] * weights
        below = is_open & (moved < 0.0)
        if not np.any(below):
            return np.where(is_open, np.maximum(moved, 0.0), 0.0)
        is_open = is_open & ~below


@dataclass(frozen=True, eq=False)
class Chain:
    """Independent estimates of root totals with variances `below`, and running sums measured with `noise`.

    `noise` is infinite at the end of a root whose running sum is not measured. Where `pinned`, the running sum is the
    exact row number `total_of`. A root that `opens` a span starts from zero.
    """

    below: Floats
    noise: Floats
    opens: Bools
    pinned: Bools
    total_of: Ints

    @cached_property
    def links(self) -> Bools:
        """For each root, whether the next one continues its span."""
        return np.append(~self.opens[1:], False)

    @cached_property
    def system(self) -> tuple[Floats, Floats]:
        """The diagonal of the least-squares system of the running sums, and the entries beside it."""
        next_pull = np.where(self.links, np.append(1.0 / self.below[1:], 0.0), 0.0)
        diagonal = 1.0 / self.below + 1.0 / self.noise + next_pull
        beside = -next_pull
        inner = np.flatnonzero(self.pinned & ~self.opens)
        beside[inner - 1] = 0.0
        diagonal[self.pinned] = 1.0
        return diagonal, beside

    def solve(self, totals: Floats, sums: Floats, exact: Floats) -> Floats:
        """The least-squares totals of the roots; `sums` are the measured running sums in order."""
        pull = _column(1.0 / self.below, totals)
        hold = 1.0 / self.noise
        diagonal, beside = self.system
        right = pull * totals
        right[:-1] -= (_column(self.links[:-1], totals) * pull[1:]) * totals[1:]
        right[hold > 0] += _column(hold[hold > 0], totals) * sums
        known = np.flatnonzero(self.pinned)
        inner = known[~self.opens[known]]
        right[inner - 1] += pull[inner] * exact[self.total_of[inner]]
        right[known] = exact[self.total_of[known]]
        if np.any(beside):
            running = solveh_banded(np.stack([diagonal, beside]), right, lower=True, check_finite=False)
        else:
            running = right / _column(diagonal, right)
        solved = running.copy()
        later = np.flatnonzero(~self.opens)
        solved[later] -= running[later - 1]
        return np.asarray(solved)

    @cached_property
    def _spreads(self) -> tuple[Floats, Floats]:
        """The variance of each running sum, and summed logarithms of how much of each one the next one explains.

        A forward filter and a backward smoother: no step subtracts nearly equal numbers.
        """
        size = self.below.size
        arrays = [self.below, 1.0 / self.noise, self.opens, self.pinned, self.links, np.zeros(size), np.ones(size)]
        if size > COMPILED:
            compiled(filter_and_smooth)(*(np.array(part) for part in arrays[:-2]), *arrays[-2:])
            variance, gain = arrays[-2:]
        else:
            lists = [part.tolist() for part in arrays]
            filter_and_smooth(*lists)
            variance, gain = lists[-2:]
        return np.asarray(variance), np.concatenate([[0.0], np.cumsum(np.log(gain))[:-1]])

    def at(self, root: Ints, share: Floats) -> list[tuple[Ints, Floats]]:
        """The place a `share` of the way through a root, as the running sums around it with coefficients."""
        before = np.where(self.opens[root], 0.0, 1.0 - share)
        return [(np.maximum(root - 1, 0), before), (root, share)]

    def difference_variance(self, low: list[tuple[Ints, Floats]], high: list[tuple[Ints, Floats]]) -> Floats:
        """The variance of the running sum at `high` minus that at `low`; one place may serve many.

        The covariance of running sums i <= j of one span is variance(j) times the gains from i to j.
        """
        variance, log_gain = self._spreads
        terms = [*((root, -weight) for root, weight in low), *high]
        terms = [(root, weight) for root, weight in terms if np.any(weight)]
        total = np.zeros(1)
        for place, (root, weight) in enumerate(terms):
            total = total + weight**2 * variance[root]
            for other, other_weight in terms[:place]:
                first, last = np.minimum(root, other), np.maximum(root, other)
                fade = np.exp(np.minimum(log_gain[last] - log_gain[first], 0.0))
                total = total + 2 * weight * other_weight * variance[last] * fade
        return total


def filter_and_smooth(below: Any, hold: Any, opens: Any, pinned: Any, links: Any, variance: Any, gain: Any) -> None:
    """Variances of the running sums along a chain, and how much of each one the next one explains (from 1s).

    All are lists, which plain Python reads fastest, or arrays, for the compiler.
    """
    before = 0.0
    for i in range(len(below)):
        ahead = (0.0 if opens[i] else before) + below[i]
        before = 0.0 if pinned[i] else ahead / (1.0 + ahead * hold[i])
        variance[i] = before
    for i in range(len(below) - 2, -1, -1):
        if links[i]:
            filtered = variance[i]
            gain[i] = filtered / (filtered + below[i + 1])
            variance[i] = filtered * (1.0 - gain[i]) + gain[i] ** 2 * variance[i + 1]


@dataclass(frozen=True, eq=False)
class _End:
    """An end of a range seen from one level: its node, and how the node's part before it depends on the node.

    That part is slope x (node total) + rest, and the rest is independent of all that is measured higher up.
    """

    node: Ints
    slope: Floats
    rest: Floats

    def lifted(self, parent: Ints, starts: Ints, ahead: Floats, size: Floats, total: Floats) -> _End:
        """The same end seen from one level up."""
        node = parent[self.node]
        before = ahead[self.node] - ahead[starts[node]]
        part = size[self.node]
        slope = (before + self.slope * part) / total[node]
        return _End(node, slope, self.rest + before + self.slope**2 * part - slope**2 * total[node])


def range_variances(solver: TreeSolver, chain: Chain, low: Ints, high: Ints, closes: Bools) -> Floats:
    """The variance of the sum of the leaves low <= i < high, for each pair; every node above a leaf has children.

    A range does not leave the span of roots in which it starts; `closes` tells the ranges that end where a span ends.
    """
    if low.size and np.all(low == low[0]):
        low = low[:1]
    left, right = (_End(place, np.zeros(place.size), np.zeros(place.size)) for place in (low, high))
    slope, rest = np.zeros((2, high.size))
    for parents, starts, below, summed in zip(
        solver.tree.parents, solver.tree.starts, solver.below, solver.summed, strict=False
    ):
        parent = np.append(parents, summed.size)
        ahead = np.concatenate([[0.0], np.cumsum(below)])
        size, total = np.append(below, 1.0), np.append(summed, 1.0)
        new_left, new_right = (end.lifted(parent, starts, ahead, size, total) for end in (left, right))
        joined = left.node == right.node
        meet = new_left.node == new_right.node
        apart = (
            (1 - left.slope) ** 2 * size[left.node]
            + left.rest
            + (ahead[right.node] - ahead[np.minimum(left.node + 1, below.size)])
            + right.slope**2 * size[right.node]
            + right.rest
        )
        whole = np.where(joined, rest + slope**2 * size[left.node], apart)
        inner = np.where(joined, slope * size[left.node] / total[new_left.node], new_right.slope - new_left.slope)
        slope = np.where(meet, inner, 0.0)
        rest = np.where(meet, whole - inner**2 * total[new_left.node], 0.0)
        left, right = new_left, new_right
    # Both ends meet in one root, or are joined through the running sums of the roots.
    last = solver.tree.roots - 1
    root_left = np.minimum(left.node, last)
    root_right = np.minimum(np.where(closes, right.node - 1, right.node), last)
    start = chain.at(root_left, left.slope)
    stop = chain.at(root_right, np.where(closes, 1.0, right.slope))
    apart = chain.difference_variance(start, stop) + left.rest + np.where(closes, 0.0, right.rest)
    one = np.ones(low.size)
    root = chain.difference_variance(chain.at(root_left, 0.0 * one), chain.at(root_left, one))
    variances = np.where((left.node == right.node) & ~closes, slope**2 * root + rest, apart)
    return np.where(low < high, np.maximum(variances, 0.0), 0.0)
