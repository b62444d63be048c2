"""What the noise tests share: p-values of a draw against the exact law, and streams that can be scripted."""

from __future__ import annotations

import os
from decimal import Decimal, getcontext
from fractions import Fraction
from math import ceil, log

import numpy as np
from numpy.typing import NDArray
from scipy import stats

# Below this a draw is called wrong. Fewer than a thousand checks a run keep its false alarms below 1e-6.
ALARM = 1e-9

getcontext().prec = 500


def decimal_exp(rate: Fraction) -> Decimal:
    """exp(-rate) to about 500 decimal digits, by a route the project does not use."""
    return (-Decimal(rate.numerator) / Decimal(rate.denominator)).exp()


def laplace_cdf(scale: float, k: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(X <= k) for integers k, from the two geometric series."""
    norm = 1.0 + np.exp(-1.0 / scale)
    below = np.exp(np.minimum(k, 0.0) / scale) / norm
    return np.where(k < 0, below, 1.0 - np.exp(-(np.maximum(k, 0.0) + 1.0) / scale) / norm)


def geometric_cdf(scale: float, k: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(G <= k) for integers k >= 0."""
    return -np.expm1(-(k + 1.0) / scale)


def laplace_edges(scale: float, bins: int = 64) -> NDArray[np.float64]:
    """Integers that cut the law into at most `bins` parts of comparable probability."""
    half = {ceil(-scale * log(2.0 * i / bins)) for i in range(1, bins // 2)} | {0}
    return np.array(sorted({-k - 1 for k in half} | half), float)


def geometric_edges(scale: float, bins: int = 64) -> NDArray[np.float64]:
    """Integers that cut the one-sided law into at most `bins` parts of comparable probability."""
    return np.array(sorted({ceil(-scale * log(i / bins)) - 1 for i in range(1, bins)}), float)


def chi_square(draws: NDArray[np.int64], edges: NDArray[np.float64], cdf: NDArray[np.float64]) -> float:
    """The p-value of the draws' counts between the edges; parts that expect fewer than 20 are joined.

    What is still rare joins its neighbour: a part that expects 0.0005, such as the 0 of a huge scale, would raise an
    alarm whenever it is seen once.
    """
    observed = np.diff(np.searchsorted(np.sort(draws), edges, side="right"), prepend=0, append=draws.size)
    expected = np.diff(cdf, prepend=0.0, append=1.0) * draws.size
    rare = expected < 20.0
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 20.0:
        observed, expected = (np.append(found[:-2], found[-2:].sum()) for found in (observed, expected))
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, observed.size - 1))


def laplace_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """How well the draws fit the discrete Laplace of that scale."""
    edges = laplace_edges(scale)
    return chi_square(draws, edges, laplace_cdf(scale, edges))


def geometric_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """How well the draws fit the geometric of that scale."""
    edges = geometric_edges(scale)
    return chi_square(draws, edges, geometric_cdf(scale, edges))


def normal_p_value(total: float, mean: float, variance: float) -> float:
    """The two-sided p-value of a sum of many independent terms."""
    return float(2.0 * stats.norm.sf(abs(total - mean) / np.sqrt(variance)))


class RepeatableStream:
    """A stream that gives the same bits for the same seed, so that a reference can follow it."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def fill(self, lanes: NDArray[np.uint16]) -> None:
        lanes[...] = self._generator.integers(0, 1 << 16, lanes.shape, np.uint16)

    def integer(self, bits: int) -> int:
        return int.from_bytes(self._generator.bytes(-(-bits // 8)), "big") >> (-bits % 8)


class ScriptedStream:
    """A stream that hands out given lanes, one value a pass, and given integers, and counts what is left."""

    def __init__(self, lanes: list[int], integers: list[int]) -> None:
        self.lanes = lanes
        self.integers = integers
        self.widths: list[int] = []

    def fill(self, lanes: NDArray[np.uint16]) -> None:
        lanes[...] = self.lanes.pop(0)

    def integer(self, bits: int) -> int:
        self.widths.append(bits)
        value = self.integers.pop(0)
        if not 0 <= value < 1 << bits:
            raise OverflowError(f"the script's integer does not have {bits} bits")
        return value


class RepeatingStream:
    """A broken stream: after the first pass every pass sees the same lanes again."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[int, ...], NDArray[np.uint16]] = {}

    def fill(self, lanes: NDArray[np.uint16]) -> None:
        if lanes.shape not in self._lanes:
            fresh = np.frombuffer(os.urandom(lanes.nbytes), np.uint16).reshape(lanes.shape)
            self._lanes[lanes.shape] = fresh
        lanes[...] = self._lanes[lanes.shape]

    def integer(self, bits: int) -> int:
        return int.from_bytes(os.urandom(-(-bits // 8)), "big") >> (-bits % 8)
