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
        classes, count = self._classes
        return float(count @ self._tails(classes, unit / self.weight, alpha))

    def worst(self, unit: float, alpha: float) -> float:
        """A bound on the probability that the worst single answer is off by more than alpha."""
        classes, _ = self._classes
        return float(self._tails(classes, unit / self.weight, alpha).max())

    def _tails(self, classes: Ints, scale: float, alpha: float) -> Floats:
        beyond = np.floor(alpha) + 1.0
        found = np.zeros(classes.size)
        found[classes == 1] = distribution.tail(scale, alpha)
        found[classes == 2] = two_terms_tail(scale, alpha)
        many = classes > 2
        found[many] = self._many.tails(scale, np.full(int(many.sum()), beyond))
        if scale < COARSE_ENOUGH:
            moments = classes[many, None] * distribution.log_mgf(scale, EXPONENTS) - EXPONENTS * beyond
            found[many] = np.minimum(found[many], 2.0 * np.exp(np.min(moments, axis=1, initial=0.0)))
        return found

    @cached_property
    def _classes(self) -> tuple[Ints, Floats]:
        """Numbers of terms, large ones rounded up by at most 1/64 (more terms, larger tails), and their counts."""
        step = 2 ** np.maximum(np.floor(np.log2(np.maximum(self.terms, 1))).astype(np.int64) - 6, 0)
        classes, place = np.unique(-(-self.terms // step) * step, return_inverse=True)
        return classes, np.bincount(place, weights=self.count.astype(np.float64))

    @cached_property
    def _many(self) -> LaplaceSums:
        classes, _ = self._classes
        terms = classes[classes > 2].astype(np.float64)
        return from_terms(terms, 1.0, np.ones_like(terms))


def two_terms_tail(scale: float, k: float) -> float:
    """P(|X + Y| > k) for two independent discrete Laplace variables, from their sum's closed form.

    With q = exp(-1 / scale), P(X + Y = s) = ((1-q)/(1+q))^2 q^s (s + 1 + 2 q^2 / (1 - q^2)) for s >= 0.
    """
    q, gap = np.exp(-1.0 / scale), -np.expm1(-1.0 / scale)
    least = np.floor(k) + 1.0
    inner = least + 1.0 + 2.0 * q**2 / (gap * (1.0 + q)) + q / gap
    return float(min(1.0, 2.0 * gap / (1.0 + q) ** 2 * np.exp(-least / scale) * inner))
