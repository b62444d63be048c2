"""Proven upper bounds on the tails of sums of independent Laplace variables, continuous and discrete."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from blowfishdb.model.arrays import Floats

KEPT = 64
"""Coefficients of an answer that are treated one by one; the smaller ones are bounded together."""
TILTS = np.geomspace(0.2, 400.0, 72)
"""Where the bound is tried, in standard deviations; each of them is valid, so is the least."""
SHIFTS = np.array([1.0, 1.5, 2.0, 2.5, 3.0])
"""How far, in units of the coefficients' norm, the discrete tail is compared with the continuous one."""

DUST = 1e-12
"""Coefficients below this are rounding errors of an answer that does not depend on the variable."""
LEAST_CAP = 1e-100
"""A larger cap is sound too; this one has a square that floats can hold."""


@dataclass(frozen=True, eq=False)
class LaplaceSums:
    """Answers sum_j c_j X_j, one per row, with noise scales sizes_j at unit 1.

    `largest` holds the largest |c_j| times scale and `times` how often each occurs; `rest` is the sum of squares of the
    others, none of which exceeds `cap`; `norm` is the Euclidean norm of c itself; `count` says how many answers the row
    stands for.
    """

    largest: Floats
    times: Floats
    rest: Floats
    cap: Floats
    norm: Floats
    count: Floats

    def failure(self, unit: float, alpha: float) -> float:
        """A bound on the expected number of answers off by more than alpha, noise of scale unit times size."""
        return float(self.count @ self.tails(unit, np.full(self.norm.shape, alpha)))

    def worst(self, unit: float, alpha: float) -> float:
        """A bound on the probability that the worst single answer is off by more than alpha."""
        return float(np.max(self.tails(unit, np.full(self.norm.shape, alpha)), initial=0.0))

    def tails(self, unit: float, alpha: Floats) -> Floats:
        """For each answer a bound on P(|sum| > alpha), decreasing in alpha and in 1 / unit."""
        plain = np.min(self._log_mgf - self._tilt * (alpha / unit)[:, None], axis=1, initial=0.0)
        best = np.minimum(plain, self._shifted(unit, alpha))
        return np.where(self.norm > 0, np.minimum(1.0, 2.0 * np.exp(best)), 0.0)

    def inflated(self, factor: float) -> LaplaceSums:
        """The bounds for answers known by variance alone that vary more by this factor."""
        root = np.sqrt(factor)
        return replace(self, rest=factor * self.rest, cap=root * self.cap, norm=root * self.norm)

    def _shifted(self, unit: float, alpha: Floats) -> Floats:
        """P(D > a) P(F >= -d) <= P(D + F > a - d), where D + F is the continuous sum and F its rounding."""
        best = np.zeros(self.norm.shape)
        for shift in SHIFTS:
            room = (alpha - shift * self.norm) / unit
            continuous = np.min(self._log_tail - self._tilt * room[:, None], axis=1)
            found = continuous - np.log1p(-np.exp(-(shift**2)))
            best = np.where(room > 0, np.minimum(best, found), best)
        return best

    @cached_property
    def _top(self) -> Floats:
        """The largest size of each answer; 1 for an answer without noise."""
        top = np.maximum(self.cap, np.max(self.largest, axis=1, initial=0.0))
        return np.where(top > 0, top, 1.0)

    @cached_property
    def _tilt(self) -> Floats:
        """Arguments of the moment generating function, all below its pole."""
        spread = np.sqrt(2.0 * (np.sum(self.times * self.largest**2, axis=1) + self.rest))
        result: Floats = TILTS / np.sqrt(
            np.maximum(spread, self._top)[:, None] ** 2 + (TILTS * self._top[:, None]) ** 2
        )
        return result

    @cached_property
    def _log_mgf(self) -> Floats:
        """log E exp(s sum), at most -(rest / cap^2) log(1 - s^2 cap^2) from the small ones."""
        squares = self._tilt**2
        total = -_bundle(self.rest, self.cap)[:, None] * np.log1p(-squares * self.cap[:, None] ** 2)
        for size, times in zip(self.largest.T, self.times.T, strict=True):
            total -= times[:, None] * np.log1p(-squares * size[:, None] ** 2)
        return total

    @cached_property
    def _log_tail(self) -> Floats:
        """The logarithm of M(s) f / s, f a bound on the density of the sum tilted by s."""
        tilt, top = self._tilt, self._top[:, None]
        spread = 2.0 * self.rest[:, None] * np.ones_like(tilt)
        for size, times in zip(self.largest.T, self.times.T, strict=True):
            up, down = size[:, None] / (1.0 - tilt * size[:, None]), size[:, None] / (1.0 + tilt * size[:, None])
            spread += times[:, None] * (up**2 + down**2)
        widest = top / (1.0 - tilt * top)
        single = -np.log(widest + top / (1.0 + tilt * top))
        shape = np.maximum(spread / (2.0 * widest**2), 0.75)
        fourier = gammaln(shape - 0.5) - gammaln(shape) - np.log(2.0 * np.sqrt(np.pi) * widest)
        density = np.minimum(-0.5 * np.log(np.maximum(spread, top**2)), np.where(shape > 0.75, fourier, np.inf))
        density = np.where(
            np.max(self.largest, axis=1, initial=0.0)[:, None] == top, np.minimum(density, single), density
        )
        return np.minimum(self._log_mgf, self._log_mgf + density - np.log(tilt))


def _bundle(rest: Floats, cap: Floats) -> Floats:
    """How many variables of size cap have the sum of squares rest."""
    return np.divide(rest, cap**2, out=np.zeros_like(rest), where=cap > 0)


def from_coefficients(coefficients: Floats, sizes: Floats, count: Floats) -> LaplaceSums:
    """The bounds for answers with these coefficients (answers by variables) on variables of these sizes."""
    largest = np.max(np.abs(coefficients), axis=1, initial=0.0, keepdims=True)
    coefficients = np.where(np.abs(coefficients) > DUST * np.maximum(largest, 1.0), coefficients, 0.0)
    scaled = np.abs(coefficients) * sizes
    norm = np.sqrt(np.sum(coefficients**2, axis=1))
    if scaled.shape[1] <= KEPT:
        nothing = np.zeros(scaled.shape[0])
        return LaplaceSums(scaled, np.ones_like(scaled), nothing, nothing, norm, count)
    parted = np.partition(scaled, scaled.shape[1] - KEPT, axis=1)
    small, large = parted[:, :-KEPT], parted[:, -KEPT:]
    return LaplaceSums(
        large, np.ones_like(large), np.sum(small**2, axis=1), np.maximum(np.max(small, axis=1), LEAST_CAP), norm, count
    )


def from_terms(terms: Floats, size: float, count: Floats) -> LaplaceSums:
    """The bounds for answers that add up `terms` variables of one size with coefficients 1 or -1."""
    nothing = np.zeros_like(terms)
    noisy = np.where(terms > 0, size, 0.0)
    return LaplaceSums(noisy[:, None], terms[:, None], nothing, nothing, np.sqrt(terms), count)


def from_variances(half_variances: Floats, norms: Floats, count: Floats) -> LaplaceSums:
    """The bounds when only sum (c_j scale_j)^2 of each answer is known: as if it were one variable."""
    none = np.zeros((half_variances.size, 0))
    return LaplaceSums(none, none, half_variances, np.sqrt(half_variances), norms, count)
