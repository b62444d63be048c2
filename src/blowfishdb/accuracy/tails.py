"""Tails of answers, exact or bounded, and the accuracy of any linear strategy that they prove."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.special import gammaln

from blowfishdb.accuracy.candidates import LEAST_SCALE, Candidate, first_passing, least_passing
from blowfishdb.errors import TooLarge
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise import distribution

KEPT = 64
"""Coefficients of an answer that are treated one by one; the smaller ones are bounded together."""
TILTS = np.geomspace(0.3, 60.0, 44)
"""Where the bound is tried, in standard deviations; each of them is valid, so is the least."""
SHIFTS = np.array([1.0, 1.5, 2.0, 2.5, 3.0])
"""How far, in units of the coefficients' norm, the discrete tail is compared with the continuous one."""

AT_ONCE = 64
"""Answers whose coefficients are worked on at once."""
DUST = 1e-12
"""Coefficients below this are rounding errors of an answer that does not depend on the variable."""
ROUNDED = 1e-9
"""By how much a tail in closed form is raised for the rounding of floats."""
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
    reach: Floats
    """At least the sum of the |c_j| of each row; infinite where these are not known."""

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
    # A few answers at a time: what is worked out of them on the way stays near the processor.
    some = (coefficients[start : start + AT_ONCE] for start in range(0, max(1, coefficients.shape[0]), AT_ONCE))
    parts = zip(*(_largest_and_rest(rows, sizes) for rows in some), strict=True)
    large, rest, cap, norm, reach = (np.concatenate(each) for each in parts)
    return LaplaceSums(large, np.ones_like(norm), rest, cap, norm, count, reach)


def _largest_and_rest(coefficients: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The largest coefficients times their sizes, the squares and the cap of the others, the norm and the reach."""
    absolute = np.abs(coefficients)
    largest = np.max(absolute, axis=1, initial=0.0, keepdims=True)
    reach = np.sum(absolute, axis=1)
    absolute[absolute <= DUST * np.maximum(largest, 1.0)] = 0.0
    norm = np.sqrt(np.sum(absolute**2, axis=1))
    scaled = np.multiply(absolute, sizes, out=absolute)
    if scaled.shape[1] <= KEPT:
        nothing = np.zeros(scaled.shape[0])
        return scaled, nothing, nothing, norm, reach
    scaled.partition(scaled.shape[1] - KEPT, axis=1)
    small, large = scaled[:, :-KEPT], scaled[:, -KEPT:].copy()
    rest, cap = np.sum(small**2, axis=1), np.maximum(np.max(small, axis=1), LEAST_CAP)
    return large, rest, cap, norm, reach


def from_terms(terms: Floats) -> LaplaceSums:
    """The bounds for answers that add up `terms` variables of size 1 with coefficients 1 or -1."""
    nothing = np.zeros_like(terms)
    noisy = np.where(terms > 0, 1.0, 0.0)
    return LaplaceSums(noisy[:, None], terms, nothing, nothing, np.sqrt(terms), np.ones_like(terms), terms)


def from_variances(half_variances: Floats, norms: Floats) -> LaplaceSums:
    """The bounds when only sum (c_j scale_j)^2 of each answer is known: as if it were one variable."""
    none, ones = np.zeros((half_variances.size, 0)), np.ones_like(half_variances)
    return LaplaceSums(none, ones, half_variances, np.sqrt(half_variances), norms, ones, np.full(ones.shape, np.inf))


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
        return from_terms(self.terms[self.terms > 2].astype(np.float64))


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


ALIKE = 0.999
"""Two sizes whose ratio is nearer to 1 are both taken as the larger one, which only widens the tail."""
LEAST_RATIO = 1e-9
PAIR_SHIFTS = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0])


@dataclass(frozen=True, eq=False)
class Pairs(Tails):
    """Answers c X + d Y of two independent noise variables, one for each row of `coefficients`, of these `scales`.

    Their continuous tail is known in closed form; the whole-number one is at most that a little further in
    (docs/proofs/accuracy.md).
    """

    coefficients: Floats
    scales: Floats

    @cached_property
    def count(self) -> Floats:
        """One answer for each row."""
        return np.ones(self.coefficients.shape[0])

    def tails(self, unit: float, alpha: Floats) -> Floats:
        """For each row a bound on P(|sum| > alpha), noise of scale unit times scale; exact for one variable alone."""
        sizes = unit * np.sort(np.abs(self._noisy) * self.scales, axis=1)
        norm = np.sqrt(np.sum(self._noisy**2, axis=1))
        best = self._sums.tails(unit, alpha / self._largest)
        for shift in PAIR_SHIFTS:
            inner = np.maximum(alpha - shift * norm, 0.0)
            best = np.minimum(best, _two_laplace_tail(sizes[:, 1], sizes[:, 0], inner) / -np.expm1(-(shift**2)))
        is_alone = np.count_nonzero(self._noisy, axis=1) == 1
        if np.any(is_alone):
            place = np.argmax(np.abs(self._noisy[is_alone]), axis=1)
            size = np.abs(self._noisy[is_alone, place])
            best[is_alone] = distribution.tail(unit * self.scales[place], alpha[is_alone] / size)
        return best

    def tail(self, alpha: float, unit: float = 1.0) -> float:
        """The bound of the first row."""
        return float(self.tails(unit, np.array([alpha]))[0])

    @cached_property
    def _noisy(self) -> Floats:
        """The coefficients, 0 on what has no noise."""
        return np.where(self.scales > 0, self.coefficients, 0.0)

    @cached_property
    def _largest(self) -> Floats:
        """The largest coefficient of each row, 1 where all are 0."""
        largest = np.max(np.abs(self._noisy), axis=1)
        return np.where(largest > 0, largest, 1.0)

    @cached_property
    def _sums(self) -> LaplaceSums:
        return from_coefficients(self._noisy / self._largest[:, None], self.scales, self.count)


def _two_laplace_tail(large: Floats, small: Floats, alpha: Floats) -> Floats:
    """P(|X + Y| > alpha) for continuous Laplace variables of these scales: (a^2 e^-x/a - b^2 e^-x/b) / (a^2 - b^2)."""
    size = np.where(large > 0, large, 1.0)
    ratio, far = small / size, alpha / size
    is_alike = ratio > ALIKE
    apart = np.where(is_alike, 0.5, np.maximum(ratio, LEAST_RATIO))
    unequal = (np.exp(-far) - apart**2 * np.exp(-far / apart)) / (1.0 - apart**2)
    tail = np.where(is_alike, (1.0 + far / 2.0) * np.exp(-far), unequal)
    return np.where(large > 0, np.minimum(1.0, tail * (1.0 + ROUNDED)), 0.0)


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
        """The least grid epsilon that keeps the promise; the least that is served where no noise reaches an answer."""
        if self._groups[0].size == 0:
            return self.candidate.served()[0]
        guess = self.candidate.plan.unit / Fraction(max(alpha, 1.0))
        return least_passing(lambda epsilon: self.holds(epsilon, alpha, beta), guess)

    def holds(self, epsilon: Fraction, alpha: float, beta: float) -> bool:
        """Whether this epsilon keeps the promise."""
        return self.failure(epsilon, alpha) <= beta

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """The least whole alpha that holds at this epsilon."""
        return self.within(float(self.candidate.plan.unit / epsilon), beta)

    def price(self, beta: float) -> float:
        """alpha times epsilon where noise is so large that rounding does not matter."""
        coarse = self.candidate.coarse_unit
        return self.within(coarse, beta) * float(self.candidate.plan.unit) / coarse

    def within(self, unit: float, beta: float) -> float:
        """The least whole alpha that holds where noise variables have scale unit / weight."""
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


MOST_ANSWERS = 4_000_000
"""Answers whose variances are listed at most."""
CLASS_WIDTH = 0.01
"""Variances are rounded up by at most this much, in logarithms, so that a million answers are few classes."""
SMALLEST = 1e-6
"""The least variance that an answer is given, as a part of the largest."""
REFERENCE_BETA = 0.05
"""The beta at which strategies are ranked before any is simulated: no ranking depends on the accuracy target."""
ROUGHLY = 1e-3
PRECISION = 1e-6
"""How closely alpha is found, relative to itself; the upper end is reported."""
NUDGE = 0.45
"""How far beside the expected end a search looks, in units of its precision."""
HALVE_EVERY = 4
TINY = 1e-300
"""A failure that is as good as 0; its logarithm is a number."""


def tails_of(candidate: Candidate, variances: Floats) -> tuple[Tails, bool]:
    """The sharpest bounds that the size allows, and whether they hold at every noise level.

    Where only variances are used they do up to the factor that `rounding` gives.
    """
    strategy, weights = candidate.strategy, candidate.weights
    terms = strategy.term_counts() if weights.min() == weights.max() else None
    if terms is not None:
        return equal_sums(*terms, int(weights[0]))[0], True
    answers = candidate.problem.workload.shape[0]
    if answers > MOST_ANSWERS:
        raise TooLarge("answers to bound one by one", answers, MOST_ANSWERS, "Ask for fewer ranges.")
    if not candidate.is_wide:
        return written_out(candidate, variances), False
    sums, place = variances_alone(candidate)
    return replace(sums, count=np.bincount(place).astype(np.float64)), False


def written_out(candidate: Candidate, variances: Floats) -> LaplaceSums:
    """Bounds from the coefficients of every answer on every noise variable."""
    size, answers, strategy = candidate.weights.size, candidate.problem.workload.shape[0], candidate.strategy
    if answers < size:
        coefficients = strategy.coefficients(np.arange(answers), variances)
    else:
        coefficients = strategy.decode(np.eye(size), np.zeros((candidate.exact_rows, size)), variances)
    return from_coefficients(coefficients, 1.0 / candidate.weights, np.ones(coefficients.shape[0]))


def variances_alone(candidate: Candidate) -> tuple[LaplaceSums, Ints]:
    """Bounds from the answers' variances, rounded up to a few classes, and the class of each answer."""
    variances = candidate.coarse_answer_variances
    largest = max(float(variances.max()), np.finfo(np.float64).tiny)
    steps = np.ceil(np.log(np.maximum(variances / largest, SMALLEST)) / CLASS_WIDTH).astype(np.int64)
    classes = np.flatnonzero(np.bincount(-steps))[::-1]
    place = np.searchsorted(-classes, steps)
    classes = -classes
    half = largest * np.exp(classes * CLASS_WIDTH) / (2.0 * candidate.coarse_unit**2)
    norms = np.sqrt(half) * float(candidate.weights.max())
    return from_variances(half, norms), place


def rounding(candidate: Candidate, epsilon: Fraction) -> float:
    """How much larger than the discrete variances the continuous ones are at most.

    Least squares at this level does no worse than with the weights of another, so sum (c_j / w_j)^2 and |c|^2 grow
    at most by this factor over their values for continuous noise.
    """
    scale = float(candidate.plan.unit / epsilon) / float(candidate.weights.max())
    return float(2.0 * scale**2 / distribution.variance(max(scale, LEAST_SCALE)))


@dataclass(frozen=True, eq=False)
class Bound:
    """P(some answer off by more than alpha) is at most the sum of the probabilities of the answers."""

    candidate: Candidate
    together: bool

    def least_epsilon(self, alpha: float, beta: float, limit: Fraction | None = None) -> Fraction | None:
        """The least grid epsilon proven to keep the promise; None when it is above `limit`."""
        _, at_every_level = self._coarse
        if limit is not None and not self.may_pass(limit, alpha, beta):
            return None
        guess = Fraction(self.price / max(alpha, 1.0))
        start = least_passing(lambda epsilon: self.may_pass(epsilon, alpha, beta), guess)
        if at_every_level:
            return start if limit is None or start <= limit else None
        _, highest = self.candidate.served()
        stop = highest if limit is None else min(limit, highest)
        return first_passing(lambda e: self._failure_at(e, alpha) <= beta, start, stop)

    def may_pass(self, epsilon: Fraction, alpha: float, beta: float) -> bool:
        """Whether this epsilon would do if noise were continuous; where it would not, it and no less one does."""
        failure = self._failure(self._coarse[0], float(self.candidate.plan.unit) / float(epsilon), alpha)
        return failure <= beta or self.candidate.silence(epsilon) <= beta

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """An alpha proven to hold at this epsilon, the least up to PRECISION; a whole number where errors are."""
        if self.candidate.silence(epsilon) <= beta:
            return 0.0
        _, at_every_level = self._coarse
        tails, unit = self._tails_at(epsilon), float(self.candidate.plan.unit / epsilon)
        alpha = least_alpha(lambda a: self._failure(tails, unit, a), beta, self.price / float(epsilon), PRECISION)
        return float(np.floor(alpha)) if at_every_level else alpha

    @property
    def reach(self) -> float:
        """At least the sum of the absolute coefficients of every answer, infinite where these are not written out."""
        tails, _ = self._coarse
        return float(np.max(tails.reach, initial=0.0)) if isinstance(tails, LaplaceSums) else math.inf

    @property
    def is_sharp(self) -> bool:
        """Whether the bound knows more of each answer than its variance."""
        return self._coarse[1] or not self.candidate.is_wide

    @cached_property
    def price(self) -> float:
        """About alpha times epsilon at the reference beta, where noise is so large that rounding does not matter."""
        tails, _ = self._coarse
        coarse = self.candidate.coarse_unit
        alpha = least_alpha(lambda a: self._failure(tails, coarse, a), REFERENCE_BETA, coarse, ROUGHLY)
        return alpha / coarse * float(self.candidate.plan.unit)

    def _failure_at(self, epsilon: Fraction, alpha: float) -> float:
        proven = self._failure(self._tails_at(epsilon), float(self.candidate.plan.unit / epsilon), alpha)
        return min(proven, self.candidate.silence(epsilon))

    def _tails_at(self, epsilon: Fraction) -> Tails:
        tails, at_every_level = self._coarse
        if at_every_level or self.candidate.is_steady(epsilon):
            return tails
        if self.is_sharp or not isinstance(tails, LaplaceSums):
            is_same = self.candidate.strategy.has_fixed_coefficients
            return tails if is_same else tails_of(self.candidate, self.candidate.variances(epsilon))[0]
        return tails.inflated(rounding(self.candidate, epsilon))

    def _failure(self, tails: Tails, unit: float, alpha: float) -> float:
        return tails.failure(unit, alpha) if self.together else tails.worst(unit, alpha)

    @cached_property
    def _coarse(self) -> tuple[Tails, bool]:
        return tails_of(self.candidate, self.candidate.coarse_variances)


def least_alpha(failure: Callable[[float], float], beta: float, guess: float, precision: float) -> float:
    """The least alpha, from above, whose failure is at most beta; failures fall in alpha, about exponentially."""

    def excess(alpha: float) -> float:
        return math.log(max(failure(alpha), TINY) / beta)

    low, high = 0.0, max(guess, 1.0)
    above, below = math.inf, excess(high)
    while below > 0.0:
        low, high, above = high, 2.0 * high, below
        below = excess(high)
    if low == 0.0:
        above = excess(low)
        if above <= 0.0:
            return low
    # Where a straight line would meet 0, a little to either side in turn so that both ends close in; now and then half.
    side, steps = 1.0, 0
    while high - low > precision * high:
        crossing = low + (high - low) * above / (above - below) + side * NUDGE * precision * high
        steps += 1
        middle = crossing if low < crossing < high and steps % HALVE_EVERY else (low + high) / 2.0
        gap = excess(middle)
        if gap <= 0.0:
            high, below, side = middle, gap, -1.0
        else:
            low, above, side = middle, gap, 1.0
    return high
