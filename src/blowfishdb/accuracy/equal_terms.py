"""Tails of answers that are plain sums of equally noisy variables: exact up to two terms, bounded beyond."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.accuracy.sum_tails import LaplaceSums, from_terms
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.noise import distribution

EXPONENTS = np.geomspace(1e-9, 1e3, 240)
"""Arguments at which the moment generating function of the discrete noise is tried."""

COARSE_ENOUGH = 30.0
"""From this scale on the bound for continuous noise is the better one."""


@dataclass(frozen=True, eq=False)
class EqualTerms:
    """count[i] answers add or subtract terms[i] variables of scale unit / weight; all errors are whole numbers."""

    terms: Ints
    count: Ints
    weight: int

    def failure(self, unit: float, alpha: float) -> float:
        """A bound on the expected number of answers off by more than alpha."""
        return float(self._classes[1] @ self._tails(unit, alpha))

    def worst(self, unit: float, alpha: float) -> float:
        """A bound on the probability that the worst single answer is off by more than alpha."""
        return float(self._tails(unit, alpha).max())

    def _tails(self, unit: float, alpha: float) -> Floats:
        return equal_term_tails(
            self._classes[0], self._many, unit / self.weight, np.full(self._classes[0].shape, alpha)
        )

    @cached_property
    def _classes(self) -> tuple[Ints, Floats]:
        """The rounded numbers of terms, and how many answers have each."""
        classes, place = rounded_terms(self.terms)
        return classes, np.bincount(place, weights=self.count.astype(np.float64)).astype(np.float64)

    @cached_property
    def _many(self) -> LaplaceSums:
        return many_terms(self._classes[0])


def rounded_terms(terms: Ints) -> tuple[Ints, Ints]:
    """Numbers of terms, large ones rounded up by at most 1/64 (more terms, larger tails), and which is whose."""
    step = 2 ** np.maximum(np.floor(np.log2(np.maximum(terms, 1))).astype(np.int64) - 6, 0)
    classes, place = np.unique(-(-terms // step) * step, return_inverse=True)
    return classes, place


def many_terms(terms: Ints) -> LaplaceSums:
    """The bounds for the entries above two, at scale 1."""
    many = terms[terms > 2].astype(np.float64)
    return from_terms(many, 1.0, np.ones_like(many))


def equal_term_tails(terms: Ints, many: LaplaceSums, scale: float, alpha: Floats) -> Floats:
    """P(|sum of terms[i] variables| > alpha[i]), exact up to two terms, bounded beyond; `many` is many_terms(terms)."""
    found = np.zeros(terms.size)
    found[terms == 1] = distribution.tail(scale, alpha[terms == 1])
    found[terms == 2] = two_terms_tail(scale, alpha[terms == 2])
    large = terms > 2
    beyond = np.floor(alpha[large]) + 1.0
    found[large] = many.tails(scale, beyond)
    if scale < COARSE_ENOUGH:
        moments = terms[large, None] * distribution.log_mgf(scale, EXPONENTS) - EXPONENTS * beyond[:, None]
        found[large] = np.minimum(found[large], 2.0 * np.exp(np.min(moments, axis=1, initial=0.0)))
    return found


def two_terms_tail(scale: float, k: Floats) -> Floats:
    """P(|X + Y| > k) for two independent discrete Laplace variables, from their sum's closed form.

    With q = exp(-1 / scale), P(X + Y = s) = ((1-q)/(1+q))^2 q^s (s + 1 + 2 q^2 / (1 - q^2)) for s >= 0.
    """
    q, gap = np.exp(-1.0 / scale), -np.expm1(-1.0 / scale)
    least = np.floor(k) + 1.0
    inner = least + 1.0 + 2.0 * q**2 / (gap * (1.0 + q)) + q / gap
    return np.asarray(2.0 * gap / (1.0 + q) ** 2 * np.exp(-least / scale) * inner)
