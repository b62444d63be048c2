"""Consistent answers that keep the guarantee: always a point of the raw simultaneous box, or the raw answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from blowfishdb.errors import InvalidInput
from blowfishdb.inference.checks import finite_vector, half_widths
from blowfishdb.inference.isotonic import isotonic_in_band
from blowfishdb.inference.part_filling import Parts, fill_parts, unreachable
from blowfishdb.inference.water_filling import fill_to_total, reaches
from blowfishdb.model.arrays import Floats, Ints

ROUNDING = 1e-9
"""How far a public fact may lie beyond an interval and still count as inside: rounding of floats, no more."""


@dataclass(frozen=True, eq=False)
class Consistent:
    """Answers that meet the constraints when `feasible`; else the raw answers, and a note that says why."""

    values: Floats
    feasible: bool
    note: str


@dataclass(frozen=True, eq=False)
class Known:
    """Answers that public facts tell: which ones, and what they are."""

    places: Ints
    values: Floats


NOTHING_KNOWN = Known(np.empty(0, dtype=np.int64), np.empty(0))


def consistent_counts(raw: ArrayLike, widths: ArrayLike, known: Known = NOTHING_KNOWN) -> Consistent:
    """Answers >= 0, each within its raw interval; never further from a true count than the raw answer.

    Known answers are met exactly. This is all that marginals or ranges read off least-squares cells are given: they
    add up as the cells do wherever nothing had to be clipped.
    """
    vector = finite_vector(raw, "raw answers")
    width = half_widths(widths, vector.size)
    high = vector + width
    if np.any(high < 0.0):
        return _raw(vector, f"the interval of answer {int(np.argmax(high < 0.0))} holds no count of 0 or more")
    missed = np.abs(vector[known.places] - known.values) > width[known.places] * (1.0 + ROUNDING) + ROUNDING
    if np.any(missed):
        return _raw(vector, f"the interval of answer {int(known.places[np.argmax(missed)])} misses a public fact")
    values = np.maximum(vector, 0.0)
    values[known.places] = known.values
    return Consistent(values, True, "")


def consistent_parts(raw: ArrayLike, widths: ArrayLike, labels: Ints, totals: Floats) -> Consistent:
    """The nearest counts >= 0 inside the raw box in which the cells of each part add up to its known total.

    Cells with a negative label are in no part; parts without cells are passed over.
    """
    clipped = consistent_counts(raw, widths)
    if not clipped.feasible:
        return clipped
    vector = finite_vector(raw, "raw answers")
    width = half_widths(widths, vector.size)
    low, high = np.maximum(vector - width, 0.0), vector + width
    parts = Parts.of(labels, totals)
    missed = unreachable(parts, vector, low, high)
    if np.any(missed):
        total = float(parts.totals[np.argmax(missed)])
        return _raw(vector, f"no counts inside the intervals add up to the publicly known {total:g}")
    return Consistent(np.maximum(fill_parts(parts, vector, low, high), 0.0), True, "")


def consistent_histogram(raw: ArrayLike, widths: ArrayLike, total: float | None = None) -> Consistent:
    """The nearest counts >= 0 inside raw - width .. raw + width, with the known total if there is one."""
    clipped = consistent_counts(raw, widths)
    if total is None or not clipped.feasible:
        return clipped
    vector, aim = finite_vector(raw, "raw answers"), _known_total(total)
    width = half_widths(widths, vector.size)
    low, high = np.maximum(vector - width, 0.0), vector + width
    if not reaches(vector, low, high, aim):
        return _raw(vector, f"no counts inside the intervals add up to the known total {aim:g}")
    return Consistent(fill_to_total(vector, low, high, aim, np.ones(vector.size)), True, "")


def consistent_cdf(
    raw: ArrayLike, widths: ArrayLike, total: float | None = None, known: Known = NOTHING_KNOWN
) -> Consistent:
    """The nearest cumulative counts inside the raw box that never decrease, from 0 up to the known total.

    Known cumulative counts are met exactly.
    """
    vector = finite_vector(raw, "raw answers")
    width = half_widths(widths, vector.size)
    top = math.inf if total is None else _known_total(total)
    floor, ceiling = np.maximum(vector - width, 0.0), np.minimum(vector + width, top)
    slack = ROUNDING * (1.0 + np.abs(known.values))
    if np.any(floor[known.places] > known.values + slack) or np.any(ceiling[known.places] < known.values - slack):
        return _raw(vector, "the interval of a cumulative count misses a public fact")
    floor[known.places] = ceiling[known.places] = known.values
    low = np.maximum.accumulate(floor)
    high = np.minimum.accumulate(ceiling[::-1])[::-1]
    crossed = low > high
    if np.any(crossed):
        place = int(np.argmax(crossed))
        return _raw(vector, f"no cumulative counts lie inside the intervals: they contradict at answer {place}")
    return Consistent(isotonic_in_band(vector, low, high), True, "")


def _known_total(total: float) -> float:
    aim = float(total)
    if not math.isfinite(aim) or aim < 0.0:
        raise InvalidInput(f"a known total is finite and not negative, not {aim}")
    return aim


def _raw(vector: Floats, reason: str) -> Consistent:
    return Consistent(vector.copy(), False, f"raw answers returned: {reason}")
