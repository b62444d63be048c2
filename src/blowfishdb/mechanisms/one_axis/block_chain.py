"""Running sums of blocks: least squares and covariances along a chain, in time proportional to the blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

from blowfishdb.model.arrays import Bools, Floats, Ints

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
        from blowfishdb.mechanisms.one_axis.chain_kernel import filter_and_smooth

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
