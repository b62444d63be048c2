"""Whether some estimates vary no more than others, answer by answer; where that is in doubt, they do.

The variance of discrete Laplace noise falls by a factor e for each unit of its rate (1 / scale), so floats hold none of
it at large rates: rates are compared as fractions, and variances by their logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.accuracy.candidates import Candidate
from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.mechanisms.strategy import NO_VARIABLE
from blowfishdb.model.numbers import Bools, Floats
from blowfishdb.noise import distribution

ROUNDED = 1e-9
"""How far off a coefficient that is no whole number may be, as a part of the largest of its answer."""
SUMMED = 1e-6
"""How far off the sum of such squares may be, as a part of itself."""
IN_LOGARITHMS = 1e-9
"""How far off the logarithm of a variance may be, for the rates that the sampler serves and many above."""


@dataclass(frozen=True, eq=False)
class _Spread:
    """For each answer the sum of the squared coefficients on the variables of each rate."""

    rates: list[Fraction]
    squares: Floats

    def over(self, rates: list[Fraction]) -> Floats:
        """The sums by the given rates, which all of its own are among."""
        place = {rate: column for column, rate in enumerate(rates)}
        squares = np.zeros((self.squares.shape[0], len(rates)))
        squares[:, [place[rate] for rate in self.rates]] = self.squares
        return squares


def vary_no_more(one: Candidate, level: Fraction, other: Candidate, other_level: Fraction) -> bool:
    """Whether every answer of one candidate surely has at most the variance that it has of the other."""
    mine, yours = _spread(one, level, 1.0), _spread(other, other_level, -1.0)
    if mine is None or yours is None or mine.squares.shape[0] != yours.squares.shape[0]:
        return False
    rates = sorted({*mine.rates, *yours.rates})
    most, least = mine.over(rates), yours.over(rates)
    # A variance falls with its rate: who has no more than the other of all up to each rate varies no more in all.
    is_within = np.all(np.cumsum(most, axis=1) <= np.cumsum(least, axis=1), axis=1)
    return bool(np.all(is_within | _vary_less(most, least, rates)))


def no_wider(mine: HalfWidths, yours: HalfWidths, *, by_pairs: bool) -> bool:
    """Whether no half-width is wider than the other, alone or together.

    Intervals `by_pairs` are read off the noise of two rows: where that is known of the others, it is so of these.
    """
    is_within = mine.simultaneous <= yours.simultaneous and bool(np.all(mine.together <= yours.together))
    if not is_within or not np.all(mine.per_answer <= yours.per_answer):
        return False
    if not by_pairs or yours.scales is None:
        return True
    return mine.scales is not None and bool(np.all(mine.scales <= yours.scales))


def _vary_less(most: Floats, least: Floats, rates: list[Fraction]) -> Bools:
    """Whether sums of squares by rate surely give a smaller variance."""
    logarithms = np.array([_log_variance(rate) for rate in rates])
    return _log_sum(most, logarithms) + IN_LOGARITHMS <= _log_sum(least, logarithms) - IN_LOGARITHMS


def _log_sum(squares: Floats, logarithms: Floats) -> Floats:
    """The logarithm of the variance of each answer; that of none is minus infinity."""
    with np.errstate(divide="ignore"):
        terms = np.log(squares) + logarithms
        largest = np.max(terms, axis=1, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0.0)
        return np.asarray(np.log(np.exp(terms - shift[:, None]).sum(axis=1)) + shift)


def _log_variance(rate: Fraction) -> float:
    """log(2 q / (1 - q)^2), q = exp(-rate)."""
    each = float(rate)
    return float(np.log(2.0) - each - 2.0 * np.log(-np.expm1(-each)))


def _spread(candidate: Candidate, level: Fraction, outward: float) -> _Spread | None:
    """The squares of each answer, where they are not known exactly rounded `outward`; None where they are not known."""
    strategy, (weights, place) = candidate.strategy, candidate.weight_classes
    rates = [level * weight / candidate.plan.unit for weight in weights.tolist()]
    answers, direct = candidate.problem.workload.shape[0], strategy.direct
    if direct is not None:
        squares = np.zeros((answers, weights.size))
        (noisy,) = np.nonzero(direct != NO_VARIABLE)
        squares[noisy, place[direct[noisy]]] = 1.0
        return _Spread(rates, squares)
    if candidate.is_wide:
        return None
    variances = np.asarray(distribution.variance(candidate.scales(level)))
    if not strategy.has_fixed_coefficients and not np.all(variances > 0.0):
        return None
    coefficients = np.abs(strategy.coefficients(np.arange(answers), variances))
    if not np.all(np.isfinite(coefficients)):
        return None
    by_rate = csr_array((np.ones(place.size), (np.arange(place.size), place)), shape=(place.size, weights.size))
    is_whole = np.all(coefficients == np.round(coefficients), axis=1)[:, None]
    off = outward * ROUNDED * np.max(coefficients, axis=1, initial=0.0)[:, None]
    bounded = np.where(is_whole, coefficients, np.maximum(coefficients + off, 0.0))
    sums = np.asarray(np.square(bounded) @ by_rate)
    return _Spread(rates, np.where(is_whole, sums, sums * (1.0 + outward * SUMMED)))
