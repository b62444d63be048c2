"""Tails of answers: exact for one noise variable, proven bounds for sums of Laplace variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.special import gammaln

from blowfishdb.accuracy.candidates import Candidate, least_passing
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise import distribution

KEPT = 64
"""Coefficients of an answer that are treated one by one; the smaller ones are bounded together."""
TILTS = np.geomspace(0.3, 60.0, 44)
"""Where the bound is tried, in standard deviations; each of them is valid, so is the least."""
SHIFTS = np.array([1.0, 1.5, 2.0, 2.5, 3.0])
"""How far, in units of the coefficients' norm, the discrete tail is compared with the continuous one."""

DUST = 1e-12
"""Coefficients below this are rounding errors of an answer that does not depend on the variable."""
LEAST_CAP = 1e-100
"""A larger cap is sound too; this one has a square that floats can hold."""


class Tails(ABC):
    """Bounds on the tails of answers whose noise variables have scale unit / weight, `count` answers for each entry."""

    count: Floats

    @abstractmethod
    def tails(self, unit: float, alpha: Floats) -> Floats:
        """For each entry a bound on P(|error| > alpha), decreasing in alpha and in 1 / unit."""

    def failure(self, unit: float, alpha: float) -> float:
        """A bound on the expected number of answers off by more than alpha."""
        return float(self.count @ self.tails(unit, np.full(self.count.shape, alpha)))

    def worst(self, unit: float, alpha: float) -> float:
        """A bound on the probability that the worst single answer is off by more than alpha."""
        return float(np.max(self.tails(unit, np.full(self.count.shape, alpha)), initial=0.0))


@dataclass(frozen=True, eq=False)
class LaplaceSums(Tails):
    """Answers sum_j c_j X_j, one per row, with noise scales sizes_j at unit 1.

    `largest` holds the largest |c_j| times scale, each of which occurs `times` in the row; `rest` is the sum of squares
    of the others, none of which exceeds `cap`; `norm` is the Euclidean norm of c itself; `count` says how many answers
    the row stands for.
    """

    largest: Floats
    times: Floats
    rest: Floats
    cap: Floats
    norm: Floats
    count: Floats

    def tails(self, unit: float, alpha: Floats) -> Floats:
        """For each row a bound on P(|sum| > alpha), noise of scale unit times size."""
        best = np.min(self._intercepts(unit) - self._tilt * (alpha / unit)[:, None], axis=1, initial=0.0)
        return np.where(self.norm > 0, np.minimum(1.0, 2.0 * np.exp(best)), 0.0)

    def inflated(self, factor: float) -> LaplaceSums:
        """The bounds for answers known by variance alone that vary more by this factor."""
        root = np.sqrt(factor)
        return replace(self, rest=factor * self.rest, cap=root * self.cap, norm=root * self.norm)

    def _intercepts(self, unit: float) -> Floats:
        """What each tilt proves at alpha 0, in logarithms: for the discrete sum itself, or for the continuous one.

        P(D > a) P(F >= -d) <= P(D + F > a - d), where D + F is the continuous sum and F its rounding.
        """
        intercepts = self._last_intercepts.get(unit)
        if intercepts is None:
            shifted = self._tilt * (self.norm / unit)[:, None]
            lost = np.full(shifted.shape, np.inf)
            for shift in SHIFTS:
                np.minimum(lost, shift * shifted - np.log1p(-np.exp(-(shift**2))), out=lost)
            intercepts = np.minimum(self._logs[0], self._logs[1] + lost)
            # Bounds are remembered and shared by threads: what one of them clears, another has in hand.
            self._last_intercepts.clear()
            self._last_intercepts[unit] = intercepts
        return intercepts

    @cached_property
    def _last_intercepts(self) -> dict[float, Floats]:
        """The intercepts of the unit that was asked for last: a search for alpha asks for one unit many times."""
        return {}

    @cached_property
    def _top(self) -> Floats:
        """The largest size of each answer; 1 for an answer without noise."""
        top = np.maximum(self.cap, np.max(self.largest, axis=1, initial=0.0))
        return np.where(top > 0, top, 1.0)

    @cached_property
    def _tilt(self) -> Floats:
        """Arguments of the moment generating function, all below its pole."""
        spread = np.sqrt(2.0 * (self.times * np.sum(self.largest**2, axis=1) + self.rest))
        result: Floats = TILTS / np.sqrt(
            np.maximum(spread, self._top)[:, None] ** 2 + (TILTS * self._top[:, None]) ** 2
        )
        return result

    @cached_property
    def _logs(self) -> tuple[Floats, Floats]:
        """log M(s), at most -(rest / cap^2) log(1 - s^2 cap^2) from the small ones; and log of M(s) f / s.

        f is a bound on the density of the sum tilted by s, and M(s) f / s is given as M(s) where that is less. With
        q = (s c)^2 the tilted variable has the squares of two means c / (1 -+ sc), together 2 c^2 (1 + q) / (1 - q)^2.
        """
        tilt, top, times = self._tilt, self._top[:, None], self.times[:, None]
        squares = tilt**2
        product, spread = np.ones_like(tilt), np.zeros_like(tilt)
        for size in self.largest.T:
            square = (size**2)[:, None]
            gap = 1.0 - squares * square
            # At most KEPT factors, none below 1 / (1 + largest tilt^2): the product is far from the least float.
            product *= gap
            spread += square * (2.0 - gap) / gap**2
        log_mgf = -times * np.log(product)
        # The number of variables of size cap that have the sum of squares rest.
        bundled = np.divide(self.rest, self.cap**2, out=np.zeros_like(self.rest), where=self.cap > 0)
        log_mgf -= bundled[:, None] * np.log1p(-squares * self.cap[:, None] ** 2)
        spread = 2.0 * (times * spread + self.rest[:, None])
        widest = top / (1.0 - tilt * top)
        shape = np.maximum(spread / (2.0 * widest**2), 0.75)
        fourier = gammaln(shape - 0.5) - gammaln(shape) - np.log(2.0 * np.sqrt(np.pi) * widest)
        density = np.minimum(-0.5 * np.log(np.maximum(spread, top**2)), np.where(shape > 0.75, fourier, np.inf))
        is_single = np.max(self.largest, axis=1, initial=0.0)[:, None] == top
        single = np.where(is_single, -np.log(widest + top / (1.0 + tilt * top)), np.inf)
        return log_mgf, log_mgf + np.minimum(0.0, np.minimum(density, single) - np.log(tilt))


def from_coefficients(coefficients: Floats, sizes: Floats, count: Floats) -> LaplaceSums:
    """The bounds for answers with these coefficients (answers by variables) on variables of these sizes."""
    largest = np.max(np.abs(coefficients), axis=1, initial=0.0, keepdims=True)
    coefficients = np.where(np.abs(coefficients) > DUST * np.maximum(largest, 1.0), coefficients, 0.0)
    scaled = np.abs(coefficients) * sizes
    norm = np.sqrt(np.sum(coefficients**2, axis=1))
    if scaled.shape[1] <= KEPT:
        nothing = np.zeros(scaled.shape[0])
        return LaplaceSums(scaled, np.ones_like(norm), nothing, nothing, norm, count)
    parted = np.partition(scaled, scaled.shape[1] - KEPT, axis=1)
    small, large = parted[:, :-KEPT], parted[:, -KEPT:]
    return LaplaceSums(
        large, np.ones_like(norm), np.sum(small**2, axis=1), np.maximum(np.max(small, axis=1), LEAST_CAP), norm, count
    )


def from_terms(terms: Floats, size: float, count: Floats) -> LaplaceSums:
    """The bounds for answers that add up `terms` variables of one size with coefficients 1 or -1."""
    nothing = np.zeros_like(terms)
    noisy = np.where(terms > 0, size, 0.0)
    return LaplaceSums(noisy[:, None], terms, nothing, nothing, np.sqrt(terms), count)


def from_variances(half_variances: Floats, norms: Floats, count: Floats) -> LaplaceSums:
    """The bounds when only sum (c_j scale_j)^2 of each answer is known: as if it were one variable."""
    none = np.zeros((half_variances.size, 0))
    return LaplaceSums(none, np.ones_like(half_variances), half_variances, np.sqrt(half_variances), norms, count)


EXPONENTS = np.geomspace(1e-9, 1e3, 240)
"""Arguments at which the moment generating function of the discrete noise is tried."""

COARSE_ENOUGH = 30.0
"""From this scale on the bound for continuous noise is the better one."""


@dataclass(frozen=True, eq=False)
class EqualSums(Tails):
    """count[i] answers add or subtract terms[i] variables of scale unit / weight; all errors are whole numbers."""

    terms: Ints
    count: Floats
    weight: int

    def tails(self, unit: float, alpha: Floats) -> Floats:
        """P(|sum of terms[i] variables| > alpha[i]), exact up to two terms, bounded beyond."""
        scale, terms = unit / self.weight, self.terms
        tails = np.zeros(terms.size)
        tails[terms == 1] = distribution.tail(scale, alpha[terms == 1])
        tails[terms == 2] = two_terms_tail(scale, alpha[terms == 2])
        large = terms > 2
        beyond = np.floor(alpha[large]) + 1.0
        tails[large] = self._many.tails(scale, beyond)
        if scale < COARSE_ENOUGH:
            moments = terms[large, None] * distribution.log_mgf(scale, EXPONENTS) - EXPONENTS * beyond[:, None]
            tails[large] = np.minimum(tails[large], 2.0 * np.exp(np.min(moments, axis=1, initial=0.0)))
        return tails

    @cached_property
    def _many(self) -> LaplaceSums:
        """The bounds for the entries above two, at scale 1."""
        many = self.terms[self.terms > 2].astype(np.float64)
        return from_terms(many, 1.0, np.ones_like(many))


def equal_sums(terms: Ints, count: Ints | Floats, weight: int) -> tuple[EqualSums, Ints]:
    """Answers with these numbers of terms, and the entry of each.

    Large numbers are rounded up by at most 1/64, so that entries are few: more terms have larger tails.
    """
    step = 2 ** np.maximum(np.floor(np.log2(np.maximum(terms, 1))).astype(np.int64) - 6, 0)
    classes, place = np.unique(-(-terms // step) * step, return_inverse=True)
    return EqualSums(classes, np.bincount(place, weights=count).astype(np.float64), weight), place


def two_terms_tail(scale: float, k: Floats) -> Floats:
    """P(|X + Y| > k) for two independent discrete Laplace variables, from their sum's closed form.

    With q = exp(-1 / scale), P(X + Y = s) = ((1-q)/(1+q))^2 q^s (s + 1 + 2 q^2 / (1 - q^2)) for s >= 0.
    """
    q, gap = np.exp(-1.0 / scale), -np.expm1(-1.0 / scale)
    least = np.floor(k) + 1.0
    inner = least + 1.0 + 2.0 * q**2 / (gap * (1.0 + q)) + q / gap
    return np.asarray(2.0 * gap / (1.0 + q) ** 2 * np.exp(-least / scale) * inner)


@dataclass(frozen=True, eq=False)
class ExactTails:
    """Tails of independent discrete Laplace variables; answers that share a variable count once."""

    candidate: Candidate
    direct: Ints
    together: bool

    def failure(self, epsilon: Fraction, alpha: float) -> float:
        """P(some answer is off by more than alpha), or the probability that the worst answer is."""
        weights, counts = self._groups
        scales = float(self.candidate.plan.unit / epsilon) / weights
        if self.together:
            return distribution.simultaneous_tail(scales, counts, alpha)
        return float(distribution.tail(scales, alpha).max(initial=0.0))

    def least_epsilon(self, alpha: float, beta: float) -> Fraction:
        """The least grid epsilon that keeps the promise."""
        guess = self.candidate.plan.unit / Fraction(max(alpha, 1.0))
        return least_passing(lambda epsilon: self.failure(epsilon, alpha) <= beta, guess)

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """The least whole alpha that holds at this epsilon."""
        return self._quantile(float(self.candidate.plan.unit / epsilon), beta)

    def price(self, beta: float) -> float:
        """alpha times epsilon where noise is so large that rounding does not matter."""
        coarse = self.candidate.coarse_unit
        return self._quantile(coarse, beta) * float(self.candidate.plan.unit) / coarse

    def _quantile(self, unit: float, beta: float) -> float:
        weights, counts = self._groups
        if self.together:
            return float(distribution.simultaneous_quantile(unit / weights, counts, beta))
        return float(distribution.quantile(unit / weights, beta).max(initial=0))

    @cached_property
    def _groups(self) -> tuple[Ints, Ints]:
        """Distinct weights of the variables in use, and how many variables have each."""
        used = np.zeros(self.candidate.weights.size, dtype=np.bool_)
        used[self.direct[self.direct >= 0]] = True
        values, place = self.candidate.weight_classes
        counts = np.bincount(place[used], minlength=values.size)
        return values[counts > 0], counts[counts > 0]
