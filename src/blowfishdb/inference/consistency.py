"""Consistent answers that keep the guarantee: a point of the raw simultaneous box that meets totals, order and sign."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from blowfishdb.errors import InvalidInput
from blowfishdb.model.cached import compiled
from blowfishdb.model.numbers import Bools, Floats, Ints


def finite_vector(values: ArrayLike, what: str) -> Floats:
    """The values as a float64 vector."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not np.all(np.isfinite(vector)):
        raise InvalidInput(f"{what} are a vector of finite numbers")
    return vector


def half_widths(widths: ArrayLike, size: int) -> Floats:
    """One half-width for each value: 0 for an exact answer, infinite for one without an interval."""
    vector = spread(widths, size, "half-widths")
    if np.any(np.isnan(vector)) or np.any(vector < 0.0):
        raise InvalidInput("half-widths of intervals are not negative")
    return vector


def spread(values: ArrayLike, size: int, what: str) -> Floats:
    """One number for each value, from a vector or one number for all."""
    given = np.asarray(values, dtype=np.float64)
    if given.shape not in ((), (size,)):
        raise InvalidInput(f"{what} are one number or {size} of them, not shape {given.shape}")
    return np.broadcast_to(given, (size,))


COMPILE_ABOVE = 200_000
"""Values from which compiling the pooling loop (about a second, once) pays."""


def isotonic_in_band(values: ArrayLike, low: ArrayLike, high: ArrayLike) -> Floats:
    """The nearest values that never decrease with low <= value <= high, the bounds themselves never decreasing.

    Here clipping the free solution would not be optimal; see docs/proofs/consistency.md.
    """
    vector = finite_vector(values, "values")
    floor, ceiling = spread(low, vector.size, "lower bounds"), spread(high, vector.size, "upper bounds")
    rises = all(np.all(bounds[1:] >= bounds[:-1]) for bounds in (floor, ceiling))
    if not np.all(floor <= ceiling) or not rises:
        raise InvalidInput("the bounds of a band never decrease, and the lower one is never above the upper one")
    from scipy.optimize import isotonic_regression  # takes a while to load

    free: Floats = isotonic_regression(vector).x if vector.size else vector.copy()
    if np.all(free >= floor) and np.all(free <= ceiling):
        return free
    work = compiled(pool) if vector.size > COMPILE_ABOVE else pool
    return np.clip(work(vector, floor, ceiling), floor, ceiling)


def pool(values: Floats, low: Floats, high: Floats) -> Floats:
    """Isotonic regression with bounds that never decrease, by pooling adjacent violators.

    A block's best level is its mean, clipped between the low of its last and the high of its first value: the only
    bounds that matter, since bounds never decrease. Merging keeps that interval non-empty.
    """
    size = values.size
    start = np.empty(size, dtype=np.int64)
    weight, mean, level = np.empty(size), np.empty(size), np.empty(size)
    blocks = 0
    for i in range(size):
        start[blocks] = i
        weight[blocks], mean[blocks] = 1.0, values[i]
        level[blocks] = min(max(values[i], low[i]), high[i])
        while blocks > 0 and level[blocks - 1] > level[blocks]:
            blocks -= 1
            both = weight[blocks] + weight[blocks + 1]
            mean[blocks] += (mean[blocks + 1] - mean[blocks]) * (weight[blocks + 1] / both)
            weight[blocks] = both
            level[blocks] = min(max(mean[blocks], low[i]), high[start[blocks]])
        blocks += 1
    result = np.empty(size)
    for b in range(blocks):
        end = start[b + 1] if b + 1 < blocks else size
        for i in range(start[b], end):
            result[i] = level[b]
    return result


SUM_ROUNDING = 1e-12
"""Relative rounding that sums of many floats may carry."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Cells put in order of their parts: part p holds `order[starts[p]:starts[p + 1]]`, at least one cell."""

    order: Ints
    starts: Ints
    totals: Floats

    @staticmethod
    def of(labels: Ints, totals: Floats) -> Parts:
        """The parts that have a cell; cells with a negative label are in none."""
        used = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=totals.size))
        order = np.argsort(labels, kind="stable")
        order = order[np.count_nonzero(labels < 0) :]
        starts = np.searchsorted(labels[order], used)
        return Parts(order, starts, totals[used])

    @property
    def part_of(self) -> Ints:
        """The part of each cell in order."""
        sizes = np.diff(self.starts, append=self.order.size)
        return np.repeat(np.arange(self.starts.size), sizes)

    def sums(self, cells: Floats) -> Floats:
        """The sum over each part, from its cells in order."""
        return np.add.reduceat(cells, self.starts) if self.starts.size else np.empty(0)


def unreachable(parts: Parts, values: Floats, low: Floats, high: Floats) -> Bools:
    """For which parts no point of the box has the total, up to the rounding of sums."""
    slack = SUM_ROUNDING * (parts.sums(np.abs(values[parts.order])) + np.abs(parts.totals))
    below, above = parts.sums(low[parts.order]), parts.sums(high[parts.order])
    return np.asarray((parts.totals < below - slack) | (parts.totals > above + slack))


def fill_parts(parts: Parts, values: Floats, low: Floats, high: Floats) -> Floats:
    """The minimiser of the squared distance to `values` with low <= x <= high, low >= 0, and every part's total.

    In each part x_i = clip(value_i - level), whose sum never grows with the level: it is found exactly between two
    neighbouring break points. Never leaves the box, not even by rounding.
    """
    if parts.starts.size == 1 and parts.order.size == values.size:
        return _fill_all(values, low, high, float(parts.totals[0]))
    part = parts.part_of
    cells, floor = values[parts.order], low[parts.order]
    # Nothing below 0 makes up for a cell above the part's total, so the upper ends may be taken to be finite.
    ceiling = np.maximum(np.minimum(high[parts.order], parts.totals[part]), floor)
    filled = np.clip(cells - _levels(parts, cells - ceiling, cells - floor, parts.sums(ceiling))[part], floor, ceiling)
    inner = ((filled > floor) & (filled < ceiling)).astype(np.float64)
    share = inner / np.maximum(parts.sums(inner), 1.0)[part]
    filled = np.clip(filled + (parts.totals - parts.sums(filled))[part] * share, floor, ceiling)
    cells = values.copy()
    cells[parts.order] = filled
    return cells


LOOKED_AT = 1024
"""Break points among which the level of one part is looked for before those around it are put in order."""


def _fill_all(values: Floats, low: Floats, high: Floats, total: float) -> Floats:
    """The same where all cells are one part."""
    ceiling = np.maximum(np.minimum(high, total), low)
    filled = np.clip(values - _level(values, low, ceiling, total), low, ceiling)
    inner = (filled > low) & (filled < ceiling)
    filled[inner] += (total - float(filled.sum())) / max(1, int(np.count_nonzero(inner)))
    return np.clip(filled, low, ceiling)


def _level(values: Floats, floor: Floats, ceiling: Floats, total: float) -> float:
    """The level at which the sum of clip(values - level) crosses the total, by bisection and then exactly.

    Between two levels the sum is that at the first, less what cells lose there; the few break points between them are
    put in order, not all.
    """

    def at(level: float) -> float:
        return float(np.clip(values - level, floor, ceiling).sum())

    begins, ends = values - ceiling, values - floor
    step = max(1, values.size // LOOKED_AT)
    looked_at = np.sort(np.concatenate([begins[::step], ends[::step], [begins.min(), ends.max()]]))
    first, last = 0, looked_at.size - 1
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if at(looked_at[middle]) > total else (first, middle)
    start, stop = looked_at[first], looked_at[last]
    falling = np.count_nonzero((begins <= start) & (ends > start))
    between = [points[(points > start) & (points < stop)] for points in (begins, ends)]
    breaks = np.concatenate([[start], *between, [stop]])
    change = np.concatenate([[-falling], np.repeat([-1, 1], [one.size for one in between]), [0]])
    order = np.argsort(breaks, kind="stable")
    breaks, slopes = breaks[order], np.cumsum(change[order]).astype(np.float64)
    sums = at(start) + np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(breaks))])
    place = max(0, int(np.count_nonzero(sums > total)) - 1)
    return float(breaks[place] + max(0.0, (total - sums[place]) / slopes[place] if slopes[place] else 0.0))


def _levels(parts: Parts, begins: Floats, ends: Floats, tops: Floats) -> Floats:
    """For each part the level at which its sum crosses its total; a cell falls while the level is between its ends."""
    points, places = np.concatenate([begins, ends]), np.tile(parts.part_of, 2)
    order = np.lexsort((points, places)) if parts.starts.size > 1 else np.argsort(points, kind="stable")
    breaks, part = points[order], places[order]
    first = 2 * parts.starts
    # Each cell begins and ends to fall within its part, so that nothing is left falling where a part ends.
    slopes = np.cumsum(np.repeat([-1.0, 1.0], begins.size)[order])
    fallen = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(breaks))])
    sums = tops[part] + fallen - fallen[first][part]
    above = np.add.reduceat((sums > parts.totals[part]).astype(np.int64), first) if first.size else first
    last = first + np.maximum(above - 1, 0)
    steps = np.divide(parts.totals - sums[last], slopes[last], out=np.zeros(last.size), where=slopes[last] < 0.0)
    return np.asarray(breaks[last] + np.maximum(steps, 0.0))


ROUNDING = 1e-9
"""How far a public constraint may lie beyond an interval and still count as inside: rounding of floats, no more."""


@dataclass(frozen=True, eq=False)
class Consistent:
    """Answers that meet the constraints when `feasible`; else the raw answers, and a note that says why."""

    values: Floats
    feasible: bool
    note: str


@dataclass(frozen=True, eq=False)
class ConstrainedAnswers:
    """Answers that public constraints tell: which ones, and what they are."""

    places: Ints
    values: Floats


NO_CONSTRAINED_ANSWERS = ConstrainedAnswers(np.empty(0, dtype=np.int64), np.empty(0))


def consistent_counts(
    raw: ArrayLike, widths: ArrayLike, known: ConstrainedAnswers = NO_CONSTRAINED_ANSWERS
) -> Consistent:
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
        return _raw(vector, f"the interval of answer {int(known.places[np.argmax(missed)])} misses a public constraint")
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
    vector, low, high = _box(raw, widths)
    parts = Parts.of(labels, totals)
    missed = unreachable(parts, vector, low, high)
    if np.any(missed):
        total = float(parts.totals[np.argmax(missed)])
        return _raw(vector, f"no counts inside the intervals add up to the known total {total:g}")
    return Consistent(np.maximum(fill_parts(parts, vector, low, high), 0.0), True, "")


def consistent_histogram(raw: ArrayLike, widths: ArrayLike, total: float | None = None) -> Consistent:
    """The nearest counts >= 0 inside raw - width .. raw + width, with the known total if there is one."""
    if total is None:
        return consistent_counts(raw, widths)
    return consistent_parts(raw, widths, np.zeros(np.size(raw), dtype=np.int64), np.array([_known_total(total)]))


def consistent_cdf(
    raw: ArrayLike, widths: ArrayLike, total: float | None = None, known: ConstrainedAnswers = NO_CONSTRAINED_ANSWERS
) -> Consistent:
    """The nearest cumulative counts inside the raw box that never decrease, from 0 up to the known total.

    Known cumulative counts are met exactly.
    """
    vector, floor, high = _box(raw, widths)
    ceiling = np.minimum(high, math.inf if total is None else _known_total(total))
    slack = ROUNDING * (1.0 + np.abs(known.values))
    if np.any(floor[known.places] > known.values + slack) or np.any(ceiling[known.places] < known.values - slack):
        return _raw(vector, "the interval of a cumulative count misses a public constraint")
    floor[known.places] = ceiling[known.places] = known.values
    low = np.maximum.accumulate(floor)
    high = np.minimum.accumulate(ceiling[::-1])[::-1]
    crossed = low > high
    if np.any(crossed):
        place = int(np.argmax(crossed))
        return _raw(vector, f"no cumulative counts lie inside the intervals: they contradict at answer {place}")
    return Consistent(isotonic_in_band(vector, low, high), True, "")


def _box(raw: ArrayLike, widths: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The raw answers, and the ends of their intervals, the lower ones not below 0."""
    vector = finite_vector(raw, "raw answers")
    width = half_widths(widths, vector.size)
    return vector, np.maximum(vector - width, 0.0), vector + width


def _known_total(total: float) -> float:
    aim = float(total)
    if not math.isfinite(aim) or aim < 0.0:
        raise InvalidInput(f"a known total is finite and not negative, not {aim}")
    return aim


def _raw(vector: Floats, reason: str) -> Consistent:
    return Consistent(vector.copy(), False, f"raw answers returned: {reason}")


def nonnegative(values: ArrayLike, total: float | None = None) -> Floats:
    """The nearest counts >= 0 with the given total; without one, with the values' own total.

    A negative sum of values has no such counts; the total is then taken as 0. This projection knows no intervals and
    can double the largest error: for answers with a guarantee use `consistent_histogram`.
    """
    vector = finite_vector(values, "counts")
    aim = max(0.0, float(vector.sum())) if total is None else float(total)
    if not math.isfinite(aim) or aim < 0.0:
        raise InvalidInput(f"the total of counts is finite and not negative, not {aim}")
    if vector.size == 0:
        if aim != 0.0:
            raise InvalidInput("no counts can only have the total 0")
        return vector.copy()
    parts = Parts.of(np.zeros(vector.size, dtype=np.int64), np.array([aim]))
    return fill_parts(parts, vector, np.zeros(vector.size), np.full(vector.size, np.inf))
