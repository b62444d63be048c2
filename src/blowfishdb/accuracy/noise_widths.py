"""Half-widths of answers of which only the noise variance is known: what data-aware mechanisms can promise."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import erfc

from blowfishdb.accuracy.bound import least_alpha
from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.errors import AccuracyError
from blowfishdb.model.arrays import Floats

PRECISION = 1e-6
CLASSES = 200
"""Answers are bounded by so many classes of size, each rounded up to its largest member."""
STEP, STEPS = 0.02, 3000
"""The grid of standard deviations on which the tail is tabulated; beyond it the last value counts."""


def noise_widths(variances: Floats, beta: float) -> HalfWidths:
    """Half-widths at beta for weighted sums of independent discrete Laplace variables with these variances.

    `variances` are sums of 2 (coefficient x scale)^2; the coefficients themselves need not be known
    (docs/proofs/accuracy.md, "Variances alone").
    """
    if not 0 < beta < 1:
        raise AccuracyError(f"beta is a probability strictly between 0 and 1, not {beta}")
    spread = np.sqrt(variances)
    largest = float(spread.max(initial=0.0))
    if largest == 0.0:
        return HalfWidths(np.zeros_like(spread), 0.0)
    alone = least_alpha(lambda alpha: float(tail(np.array([alpha]))[0]), beta, 1.0, PRECISION)
    sizes, count = _classes(spread[spread > 0] / largest)
    together = largest * least_alpha(lambda alpha: float(count @ tail(alpha / sizes)), beta, 1.0, PRECISION)
    return HalfWidths(np.minimum(alone * spread, together), together)


def tail(deviations: Floats) -> Floats:
    """A bound on P(|S| > so many standard deviations), for every sum S of independent discrete Laplace variables."""
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
    found, count = np.unique(np.ceil(sizes * CLASSES) / CLASSES, return_counts=True)
    return found, count.astype(np.float64)
