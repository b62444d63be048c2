"""What a certified strategy promises at an epsilon, and the half-widths of its answers, alone and together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import erfc

from blowfishdb.accuracy.candidates import Candidate, ColumnsGuarantee, Guarantee, check_beta, check_guarantee
from blowfishdb.accuracy.columns import ColumnTails, own_scales
from blowfishdb.accuracy.simulation import LargeSimulation, Simulation, large_simulation
from blowfishdb.accuracy.tails import (
    Bound,
    ExactTails,
    Pairs,
    Tails,
    equal_sums,
    least_alpha,
    rounding,
    variances_alone,
    written_out,
)
from blowfishdb.errors import Declined, TooLarge
from blowfishdb.mechanisms.strategy import NO_VARIABLE
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise import distribution

Method = Literal["exact", "simulated", "bound"]

TOO_LARGE = "no proof of its accuracy is known at this size, and others promise more"
FEWEST_SAMPLES = 250
"""With fewer samples the confidence correction would cost too much, and larger problems too much time."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """The accuracy of a candidate; where several methods apply, the best of their sound results."""

    candidate: Candidate
    guarantee: Guarantee
    known_bound: Bound | None = None

    def __post_init__(self) -> None:
        check_guarantee(self.guarantee)

    def least_epsilon(self, alpha: float, beta: float, *, simulate: bool) -> tuple[Fraction, Method]:
        """The least epsilon that keeps errors within alpha except with probability beta, and how it is known."""
        if self.candidate.is_exact:
            return Fraction(0), "exact"
        best, method = self._least_unclamped(alpha, beta, simulate)
        lowest, highest = self.candidate.served()
        if best is None:
            raise self._declined(TOO_LARGE)
        if best > highest:
            raise self._declined("this accuracy needs noise that is finer than the sampler can draw")
        return max(best, lowest), method

    def alpha(self, epsilon: Fraction, beta: float, *, simulate: bool) -> tuple[float, Method]:
        """The accuracy that holds at this epsilon except with probability beta, and how it is known."""
        if self.candidate.is_exact:
            return 0.0, "exact"
        lowest, highest = self.candidate.served()
        if not lowest <= epsilon <= highest:
            raise self._declined(f"its noise is served for epsilon {float(lowest):.3g} to {float(highest):.3g}")
        if self.exact_tails is not None:
            return self.exact_tails.alpha(epsilon, beta), self._closed_form
        proven: list[tuple[float, Method]] = []
        if self.bound is not None:
            proven.append((self.bound.alpha(epsilon, beta) / self._box, "bound"))
        simulated = self._simulated_alpha(epsilon, beta) if simulate else None
        if simulated is not None:
            proven.append((simulated / self._box, "simulated"))
        if not proven:
            raise self._declined(TOO_LARGE)
        return min(proven)

    def costs_more(self, epsilon: Fraction, alpha: float, beta: float) -> bool:
        """Whether the least epsilon is, without a simulation, surely above this one of the grid: one look tells."""
        if self.candidate.is_exact:
            return False
        if self.exact_tails is not None:
            return not self.exact_tails.holds(epsilon, alpha, beta)
        return self.bound is not None and not self.bound.may_pass(epsilon, alpha * self._box, beta)

    @property
    def is_large(self) -> bool:
        """Whether a simulation takes so long that only the best-ranked strategy is worth it."""
        return self._large is not None

    def _least_unclamped(self, alpha: float, beta: float, simulate: bool) -> tuple[Fraction | None, Method]:
        if self.exact_tails is not None:
            return self.exact_tails.least_epsilon(alpha, beta), self._closed_form
        alpha *= self._box
        best = self._simulated_epsilon(alpha, beta) if simulate else None
        method: Method = "simulated"
        if self.bound is not None:
            proven = self.bound.least_epsilon(alpha, beta, best)
            best, method = (proven, "bound") if proven is not None else (best, method)
        return best, method

    def _simulated_epsilon(self, alpha: float, beta: float) -> Fraction | None:
        """Where noise is too small for the proof of a long simulation a short one goes on, at larger epsilons alone."""
        long = self._long(beta)
        shown = long.least_epsilon(alpha, beta) if long is not None else None
        if shown is not None or not self._may_simulate(beta):
            return shown
        return self._simulation.least_epsilon(alpha, beta, long.highest if long is not None else Fraction(0))

    def _simulated_alpha(self, epsilon: Fraction, beta: float) -> float | None:
        long = self._long(beta)
        shown = long.alpha(epsilon, beta) if long is not None else None
        return self._simulation.alpha(epsilon, beta) if shown is None and self._may_simulate(beta) else shown

    def _long(self, beta: float) -> LargeSimulation | None:
        return self._large if self._large is not None and self._large.can_show(beta) else None

    @property
    def _closed_form(self) -> Method:
        """How the accuracy is known where no other way is needed."""
        return "bound" if isinstance(self.exact_tails, ColumnTails) else "exact"

    @cached_property
    def exact_tails(self) -> ExactTails | ColumnTails | None:
        """None where answers mix several noise variables."""
        direct = self.candidate.strategy.direct
        if direct is None:
            return None
        every = ExactTails(self.candidate, direct, self._together)
        return ColumnTails(every, self.guarantee) if isinstance(self.guarantee, ColumnsGuarantee) else every

    @cached_property
    def bound(self) -> Bound | None:
        """None where the answers are too many to list."""
        if self.known_bound is not None:
            return self.known_bound
        bound = Bound(self.candidate, self._together)
        try:
            return bound if bound.price > 0 else None
        except TooLarge:
            return None

    @cached_property
    def _simulation(self) -> Simulation:
        reach = self.bound.reach if self._together and self.bound is not None else math.inf
        return Simulation(self.candidate, self._together, self.candidate.problem.digest(), reach)

    @cached_property
    def _large(self) -> LargeSimulation | None:
        return large_simulation(self.candidate) if self._together else None

    def _may_simulate(self, beta: float) -> bool:
        """Whether the samples are many enough, also for this beta."""
        return self._simulation.samples >= FEWEST_SAMPLES and self._simulation.can_show(beta)

    @property
    def _together(self) -> bool:
        """Columns are read off several rows: all of these have to hold, also for each column by itself."""
        return self.guarantee != "per-query"

    @property
    def _box(self) -> float:
        """The part of alpha within which all answers keep what is promised."""
        return self.guarantee.box if isinstance(self.guarantee, ColumnsGuarantee) else 1.0

    def _declined(self, reason: str) -> Declined:
        return Declined(self.candidate.strategy.mechanism, reason)


HALVINGS = 40
"""Steps of the search for each half-width; the upper end is reported."""
NO_NOISE = 1e-9
"""An answer whose variance is a smaller part of the largest, all noise alike, has none: the rest is rounding."""


@dataclass(frozen=True, eq=False)
class HalfWidths:
    """With probability 1 - beta an answer is off by at most its `per_answer`, and all by at most `simultaneous`.

    `exact` are the places of answers without any noise. `scales` are those of the answers' noise, 0 for exact ones,
    where each has a discrete Laplace variable to itself and `simultaneous` is a whole number of its steps; else None.
    """

    per_answer: Floats
    simultaneous: float
    exact: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scales: Floats | None = None

    @property
    def together(self) -> Floats:
        """Half-widths that hold for all answers together: `simultaneous`, and 0 for exact answers."""
        widths = np.full(self.per_answer.size, self.simultaneous)
        widths[self.exact] = 0.0
        return widths

    def at(self, places: Ints) -> HalfWidths:
        """The half-widths of some of the answers."""
        exact = np.flatnonzero(np.isin(places, self.exact))
        return HalfWidths(self.per_answer[places], self.simultaneous, exact)

    def divided(self, by: float) -> HalfWidths:
        """The half-widths of answers divided by a number."""
        scales = None if self.scales is None else self.scales / by
        return HalfWidths(self.per_answer / by, self.simultaneous / by, self.exact, scales)

    def widened(self, by: Floats) -> HalfWidths:
        """Half-widths of answers that may be off by more, each by its entry of `by`."""
        exact = self.exact[by[self.exact] == 0.0]
        return HalfWidths(self.per_answer + by, self.simultaneous + float(by.max(initial=0.0)), exact)


def intervals(candidate: Candidate, beta: float, promised: float | None = None) -> HalfWidths:
    """The half-widths at beta of the answers that a candidate's very plan gives.

    `promised` is what all of them are known to stay within at beta, where a simulation has shown it before.
    """
    check_beta(beta)
    if candidate.is_exact:
        answers = candidate.problem.workload.shape[0]
        return HalfWidths(np.zeros(answers), 0.0, np.arange(answers))
    together = promised
    if together is None:
        together, _ = Assessment(candidate, "simultaneous").alpha(Fraction(1), beta, simulate=True)
    exact = _exact_places(candidate)
    alone = np.minimum(_per_answer(candidate, beta), together)
    alone[exact] = 0.0
    return HalfWidths(alone, together, exact, own_scales(candidate) if float(together).is_integer() else None)


def pair_widths(coefficients: Floats, scales: Floats, beta: float) -> Floats:
    """The half-widths at beta of c X + d Y, for each row (c, d), of two discrete Laplace variables of these scales."""
    noisy = np.abs(coefficients) @ scales > 0
    widths = np.zeros(coefficients.shape[0])
    if np.any(noisy):
        pairs = Pairs(coefficients[noisy], scales)
        widths[noisy] = _solve(pairs, 1.0, beta, np.abs(coefficients[noisy]) @ scales)
    return widths


def _exact_places(candidate: Candidate) -> Ints:
    """The answers that no noise variable enters."""
    direct = candidate.strategy.direct
    if direct is not None:
        return np.flatnonzero(direct == NO_VARIABLE)
    # An answer without noise has none whatever the weights are; those that a plan has are needed anyway.
    coarse = candidate.coarse_answer_variances
    few = np.flatnonzero(coarse <= NO_NOISE * float(np.max(coarse, initial=0.0)))
    if not few.size:
        return few
    largest = [int(np.argmax(coarse))]
    variances = candidate.strategy.chosen_variances(np.append(few, largest), np.ones(candidate.weights.size))
    return few[variances[:-1] <= NO_NOISE * float(np.max(variances))]


def _per_answer(candidate: Candidate, beta: float) -> Floats:
    """Exact where an answer is one noise variable, else the least that its tail bound proves."""
    strategy = candidate.strategy
    if strategy.direct is not None:
        values, place = candidate.weight_classes
        by_class = distribution.quantile(float(candidate.plan.unit) / values, beta).astype(np.float64)
        return np.append(by_class[place], 0.0)[strategy.direct]
    scales = candidate.scales(Fraction(1))
    terms = strategy.answer_terms() if scales.min() == scales.max() else None
    if terms is not None:
        sums, place = equal_sums(terms, np.ones(terms.size), 1)
        scale = float(scales[0])
        return np.floor(_solve(sums, scale, beta, scale * np.sqrt(sums.terms)))[place]
    variances, unit = candidate.variances(Fraction(1)), float(candidate.plan.unit)
    if not candidate.is_wide:
        each = written_out(candidate, variances)
        return _solve(each, unit, beta, unit * each.norm)
    known, place = variances_alone(candidate)
    classes = known.inflated(rounding(candidate, Fraction(1)))
    return _solve(classes, unit, beta, unit * np.sqrt(classes.rest))[place]


def _solve(sums: Tails, unit: float, beta: float, guess: Floats) -> Floats:
    """For each answer the least alpha, from above, at which its tail is at most beta."""
    high = np.maximum(guess, 1.0)
    while np.any(missing := sums.tails(unit, high) > beta):
        high = np.where(missing, 2.0 * high, high)
    low = np.zeros_like(high)
    high = np.where(sums.tails(unit, low) <= beta, low, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        holds = sums.tails(unit, middle) <= beta
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return high


PRECISION = 1e-6
CLASSES = 200
"""The number of classes of size by which answers are bounded, each rounded up to its largest member."""
STEP, STEPS = 0.02, 3000
"""The grid of standard deviations on which the tail is tabulated; beyond it the last value counts."""


def noise_widths(variances: Floats, beta: float) -> HalfWidths:
    """Half-widths at beta for weighted sums of independent discrete Laplace variables with these variances.

    `variances` are sums of 2 (coefficient x scale)^2; the coefficients themselves need not be known
    (docs/proofs/accuracy.md, "Variances alone").
    """
    check_beta(beta)
    spread = np.sqrt(variances)
    largest = float(spread.max(initial=0.0))
    if largest == 0.0:
        return HalfWidths(np.zeros_like(spread), 0.0, np.arange(spread.size))
    alone = least_alpha(lambda alpha: float(tail(np.array([alpha]))[0]), beta, 1.0, PRECISION)
    sizes, count = _classes(spread[spread > 0] / largest)
    together = largest * least_alpha(lambda alpha: float(count @ tail(alpha / sizes)), beta, 1.0, PRECISION)
    return HalfWidths(np.minimum(alone * spread, together), together, np.flatnonzero(spread == 0.0))


def tail(deviations: Floats) -> Floats:
    """A bound on P(|S| > that many standard deviations), for every sum S of independent discrete Laplace variables."""
    place = np.clip(np.floor(deviations / STEP), 0, STEPS - 1).astype(np.int64)
    return np.where(place > 0, _tabulated()[place], 1.0)


@cache
def _tabulated() -> Floats:
    """For a = 0, STEP, ... the least over u < a of (integral of the continuous tail from u on) / (a - u)."""
    at = STEP * np.arange(STEPS)
    continuous = np.minimum.accumulate(np.minimum(1.0, _continuous_tail(np.maximum(at, STEP))))
    # The tail falls, so that a step's left end bounds it; past the table it is at most exp(-a) there.
    beyond = np.cumsum((continuous * STEP)[::-1])[::-1] + np.exp(-at[-1])
    table = np.array([1.0, *(np.min(beyond[:a] / (at[a] - at[:a])) for a in range(1, STEPS))])
    return np.minimum.accumulate(np.minimum(table, 1.0))


def _continuous_tail(deviations: Floats) -> Floats:
    """The expectation of a convex function above w -> P(|N(0, w)| > a), w exponential with mean 1.

    The function is P itself up to w = a^2 / 3, where it turns concave, and its tangent from there on.
    """
    turn = deviations**2 / 3.0
    nodes, weights = np.polynomial.legendre.leggauss(200)
    inside = 0.5 * turn[:, None] * (nodes + 1.0)
    below = 0.5 * turn * (erfc(deviations[:, None] / np.sqrt(2.0 * inside)) * np.exp(-inside) @ weights)
    slope = (3.0 / np.e) ** 1.5 / np.sqrt(2.0 * np.pi) / deviations**2
    return np.asarray(1.0001 * below + np.exp(-turn) * (erfc(np.sqrt(1.5)) + slope))


def _classes(sizes: Floats) -> tuple[Floats, Floats]:
    """Sizes in (0, 1] rounded up to a few values, and how many have each."""
    values, count = np.unique(np.ceil(sizes * CLASSES) / CLASSES, return_counts=True)
    return values, count.astype(np.float64)
