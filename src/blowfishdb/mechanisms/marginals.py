"""Marginals: measures the best set of marginals with the best weights, and combines all that overlap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.product_weights import ways_to_move
from blowfishdb.mechanisms.products import SHARPNESS, improved_weights
from blowfishdb.mechanisms.strategy import GOLDEN, CellStrategy
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Kronecker, Rows, Stacked, as_intervals, marginals, total
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem

NAME = "marginals"
SETS = 256
"""All sets of axes are candidates up to this many; beyond, those inside the requested ones, and all axes together."""

Axes = tuple[int, ...]
HEAVIEST = 1000
LEAST_SHARE = 1e-6
LEAST_VARIANCE = 1e-200
"""The noise of an epsilon of some hundreds has a smaller variance, 0 as a double: it counts as this one."""
PLAIN, SCATTERED, ROUNDS, POLISHED = 3, 24, 40, 3
"""Starts that favour no set, starts that favour some, steps from each, and results that are rounded."""


def propose(problem: Problem) -> MarginalStrategy:
    """Serves workloads that are one or more marginals over at least two axes."""
    shape = problem.graph.shape
    if len(shape) < 2:
        raise Declined(NAME, "it needs at least two axes")
    requested = requested_marginals(problem.workload, shape)
    if requested is None:
        raise Declined(NAME, "the queries are not marginals")
    free = free_axes(problem.graph)
    noisy = [axes for axes in below(requested) if free is None or not set(axes) <= set(free)]
    if not noisy:
        raise Declined(NAME, "every answer is exact: no edge of the policy changes these marginals")
    candidates = _candidates(requested, len(shape), noisy)
    sizes = _residual_sizes(shape, requested, noisy)
    weights = _best_weights(shape, noisy, sizes, candidates, _losses(problem.graph, candidates))
    measured = tuple(axes for axes, weight in zip(candidates, weights, strict=True) if weight)
    return MarginalStrategy(problem, requested, measured, tuple(weight for weight in weights if weight), free)


def requested_marginals(workload: Rows, shape: tuple[int, ...]) -> tuple[Axes, ...] | None:
    """The axes of each marginal of the workload, in its order; None where some part is not a marginal."""
    if isinstance(workload, Stacked):
        parts = [requested_marginals(part, shape) for part in workload.parts]
        if any(part is None for part in parts):
            return None
        return tuple(itertools.chain.from_iterable(part for part in parts if part is not None))
    if isinstance(workload, Identity):
        return (tuple(range(len(shape))),)
    if not isinstance(workload, Kronecker) or tuple(factor.shape[1] for factor in workload.factors) != shape:
        return None
    chosen = []
    for axis, factor in enumerate(workload.factors):
        spans = as_intervals(factor)
        if isinstance(factor, Identity):
            chosen.append(axis)
        elif spans is None or spans.shape[0] != 1 or spans.high[0] - spans.low[0] != shape[axis]:
            return None
    return (tuple(chosen),)


def free_axes(graph: CellGraph) -> Axes | None:
    """The axes that no edge moves, whose marginal is exact; None when records may leave, so that nothing is."""
    if graph.to_zero.any():
        return None
    moving = set().union(*_moving_axes(graph)) if graph.has_value_edges else set()
    return tuple(axis for axis in range(len(graph.shape)) if axis not in moving)


def below(requested: Sequence[Axes]) -> list[Axes]:
    """Every set of axes inside a requested one, the empty set included."""
    sets = {part for axes in requested for size in range(len(axes) + 1) for part in itertools.combinations(axes, size)}
    return sorted(sets, key=lambda axes: (len(axes), axes))


def _candidates(requested: Sequence[Axes], axes: int, noisy: Sequence[Axes]) -> list[Axes]:
    every = tuple(range(axes))
    if 2**axes <= SETS:
        sets = below([every])
    else:
        inside = noisy if len(noisy) <= SETS else requested
        sets = list(dict.fromkeys([*inside, every]))
    useful = set(noisy)
    return [one for one in sets if useful & set(below([one]))]


def _moving_axes(graph: CellGraph) -> list[set[int]]:
    return [{a for a, g in enumerate(way) if g is not None and g.edge_count} for way in ways_to_move(graph)]


def _losses(graph: CellGraph, candidates: Sequence[Axes]) -> Floats:
    """Ways to move by candidates: what each marginal of weight 1 loses."""
    rows = [[2.0 * bool(moving & set(axes)) for axes in candidates] for moving in _moving_axes(graph)]
    if graph.to_zero.any():
        rows.append([1.0] * len(candidates))
    return np.array(rows)


def _residual_sizes(shape: tuple[int, ...], requested: Sequence[Axes], inner: Sequence[Axes]) -> Floats:
    """For each residual the total error of the requested marginals when it is known with variance 1 a cell."""
    sizes = []
    for axes in inner:
        centred = math.prod(1 - 1 / shape[axis] for axis in axes)
        cells = math.prod(shape[axis] for axis in axes)
        sizes.append(sum(centred * cells / _rest(shape, outer, axes) for outer in requested if set(axes) <= set(outer)))
    return np.array(sizes)


def _best_weights(
    shape: tuple[int, ...], inner: Sequence[Axes], sizes: Floats, candidates: Sequence[Axes], losses: Floats
) -> list[int]:
    """A whole weight for each candidate marginal, 0 for those not worth measuring."""
    gains = np.array([[1 / _rest(shape, m, s) if set(s) <= set(m) else 0.0 for m in candidates] for s in inner])
    starts = _starts(gains, candidates)
    balanced = _balanced(starts, gains, sizes, losses)
    if len(losses) > 1:  # balancing knows one loss best: several are also searched from the plain starts
        plain = [improved_weights(np.log(start), gains, sizes, losses, SHARPNESS[0])[1] for start in starts[:PLAIN]]
        balanced = np.vstack([np.exp(plain), balanced])
    errors = [_error(weights, gains, sizes, losses) for weights in balanced]
    rough = [np.log(balanced[place]) for place in np.argsort(errors)[:POLISHED]]
    fine = improved_weights(rough[0], gains, sizes, losses, SHARPNESS[1])[1]
    tried = [np.where(gains.max(axis=0) >= 1.0, float(HEAVIEST), 0.0)]
    for logs in (*rough, np.array(fine)):
        share = np.exp(logs - logs.max())
        tried += [np.round(HEAVIEST * np.where(share < least, 0.0, share)) for least in (1e-3, 0.02, 0.1)]
    best = min(tried, key=lambda whole: _error(whole, gains, sizes, losses))
    return [int(weight) for weight in best]


def _starts(gains: Floats, candidates: Sequence[Axes]) -> Floats:
    """All candidates alike, those that give one residual that nothing smaller gives, the widest, and scattered ones.

    Where axes are alike the best sets are not: a few wide marginals that together hold all requested ones. Only starts
    that favour some sets lead there, so most are scattered: fractional parts of squares times the golden ratio.
    """
    even = np.ones(len(candidates))
    tight = np.where(gains.max(axis=0) >= 1.0, 1.0, 0.01)
    widest = np.where([len(axes) == max(map(len, candidates)) for axes in candidates], 1.0, 0.01)
    place = np.arange(1.0, SCATTERED * even.size + 1).reshape(SCATTERED, -1)
    scattered = (place**2 * GOLDEN % 1.0) ** (1 + np.arange(SCATTERED) % 3)[:, None]
    return np.vstack([even, tight, widest, np.maximum(scattered, LEAST_SHARE)])


def _balanced(starts: Floats, gains: Floats, sizes: Floats, losses: Floats) -> Floats:
    """From each start, a row each, weights at which one more bit of loss helps equally on every marginal.

    Each step moves weights towards the marginals that gain most for what they lose; the error is about cubic in them,
    hence the root. The largest loss is smoothed by a power mean.
    """
    weights = starts
    for _ in range(ROUNDS):
        precision = weights**2 @ gains.T
        each = weights @ losses.T
        slope = (each / each.max(axis=1, keepdims=True)) ** (SHARPNESS[0] - 1) @ losses
        worth = weights * ((sizes / precision**2) @ gains) / slope
        weights = weights * np.cbrt(worth / worth.max(axis=1, keepdims=True))
        weights = np.maximum(weights / weights.max(axis=1, keepdims=True), LEAST_SHARE)
    return np.asarray(weights)


def _error(weights: Floats, gains: Floats, sizes: Floats, losses: Floats) -> float:
    precision = gains @ weights**2
    if np.any(precision <= 0):
        return math.inf
    return float((sizes / precision).sum() * (losses @ weights).max() ** 2)


def _rest(shape: tuple[int, ...], outer: Axes, inner: Axes) -> int:
    """How many cells of the marginal over `outer` make one of the marginal over `inner`."""
    return math.prod(shape[axis] for axis in outer if axis not in inner)


@dataclass(frozen=True, eq=False)
class MarginalStrategy(CellStrategy):
    """Marginals over `measured` with whole weights; the marginal over `free` is exact (None: nothing is).

    Every marginal is a sum of residuals, one for each set of axes inside it: residual S is what the marginal over S
    says beyond those over fewer axes. All measured marginals that contain S estimate it, independently.
    """

    problem: Problem
    requested: tuple[Axes, ...]
    measured: tuple[Axes, ...]
    weights: tuple[int, ...]
    free: Axes | None

    mechanism = NAME

    @property
    def has_fixed_coefficients(self) -> bool:
        """One measured marginal is taken as it is; how several are weighed depends on their variances."""
        return len(self.measured) == 1

    def plan(self, unit: Fraction) -> Plan:
        parts = []
        for axes, weight in zip(self.measured, self.weights, strict=True):
            rows = [Identity(n) if axis in axes else total(n) for axis, n in enumerate(self._shape)]
            weights = [weight] + [1] * (len(rows) - 1)
            parts.append(
                KroneckerMeasurement(tuple(Measurement(r, np.array([w])) for r, w in zip(rows, weights, strict=True)))
            )
        exact = None if self.free is None else marginals(self._shape, [self.free])
        return Plan(unit, tuple(parts), exact)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Counts of all cells with the estimated marginals and nothing beyond them; takes vectors or columns."""
        residuals = self._residuals(measured, exact, variances)
        return self._assembled(tuple(range(len(self._shape))), residuals, measured.shape[1:])

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        residuals = self._residuals(measured, exact, variances)
        return np.concatenate([self._assembled(axes, residuals, measured.shape[1:]) for axes in self.requested])

    def answer_variances(self, variances: Floats) -> Floats:
        """All cells of a marginal have the same variance: residuals of different sets are uncorrelated."""
        answers = []
        for axes in self.requested:
            spread = 0.0
            for inner in self._noisy_below(axes):
                centred = math.prod(1 - 1 / self._shape[axis] for axis in inner)
                spread += centred / (self._precisions(inner, variances).sum() * _rest(self._shape, axes, inner) ** 2)
            answers.append(np.full(_rest(self._shape, axes, ()), spread))
        return np.concatenate(answers)

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        sizes = [_rest(self._shape, axes, ()) for axes in self.requested]
        ends = np.cumsum(sizes)
        home = np.searchsorted(ends, queries, side="right")
        rows = np.zeros((queries.size, int(self._starts[-1])))
        for place, axes in enumerate(self.requested):
            answers = np.flatnonzero(home == place)
            units = np.zeros((sizes[place], answers.size))
            units[queries[answers] - ends[place] + sizes[place], np.arange(answers.size)] = 1.0
            units = units.reshape((*self._sizes(axes), answers.size))
            for inner in self._noisy_below(axes):
                precisions = self._precisions(inner, variances)
                shares = precisions / precisions.sum() / _rest(self._shape, axes, inner)
                residual = _residual(units, axes, inner)
                for number in np.flatnonzero(shares):
                    outer, first = self.measured[number], self._starts[number]
                    shape = (*self._sizes(outer), answers.size)
                    along = np.broadcast_to(_expanded(residual, outer, inner), shape).reshape(-1, answers.size)
                    rows[answers, first : first + len(along)] += shares[number] * along.T
        return rows

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return self.problem.graph.shape

    def _sizes(self, axes: Axes) -> tuple[int, ...]:
        return tuple(self._shape[axis] for axis in axes)

    def _noisy_below(self, axes: Axes) -> list[Axes]:
        return [inner for inner in below([axes]) if self.free is None or not set(inner) <= set(self.free)]

    @cached_property
    def _starts(self) -> Ints:
        return np.cumsum([0, *(_rest(self._shape, axes, ()) for axes in self.measured)])

    def _precisions(self, inner: Axes, variances: Floats) -> Floats:
        """One over the variance at which each measured marginal gives residual `inner`; 0 where it cannot."""
        return np.array(
            [
                1 / (_rest(self._shape, outer, inner) * max(variances[start], LEAST_VARIANCE))
                if set(inner) <= set(outer)
                else 0.0
                for outer, start in zip(self.measured, self._starts[:-1], strict=True)
            ]
        )

    def _residuals(self, measured: Floats, exact: Floats, variances: Floats) -> dict[Axes, Floats]:
        rest = measured.shape[1:]
        blocks = [
            measured[start:stop].reshape((*self._sizes(axes), *rest))
            for axes, start, stop in zip(self.measured, self._starts[:-1], self._starts[1:], strict=True)
        ]
        residuals = {}
        for inner in below(self.requested):
            if self.free is not None and set(inner) <= set(self.free):
                known = exact.reshape((*self._sizes(self.free), *rest))
                residuals[inner] = _residual(known, self.free, inner)
                continue
            precisions = self._precisions(inner, variances)
            shares = precisions / precisions.sum()
            useful = [(b, o, s) for b, o, s in zip(blocks, self.measured, shares, strict=True) if s]
            residuals[inner] = np.asarray(sum(share * _residual(block, outer, inner) for block, outer, share in useful))
        return residuals

    def _assembled(self, axes: Axes, residuals: dict[Axes, Floats], rest: tuple[int, ...]) -> Floats:
        whole = np.zeros((*self._sizes(axes), *rest))
        for inner in below([axes]):
            if inner in residuals:
                whole += _expanded(residuals[inner], axes, inner) / _rest(self._shape, axes, inner)
        return whole.reshape((-1, *rest))


def _residual(block: Floats, outer: Axes, inner: Axes) -> Floats:
    """Sums out the axes that are not inner, then takes the mean off along those that are."""
    residual = block.sum(axis=tuple(k for k, axis in enumerate(outer) if axis not in inner))
    for place in range(len(inner)):
        residual = residual - residual.mean(axis=place, keepdims=True)
    return np.asarray(residual)


def _expanded(residual: Floats, outer: Axes, inner: Axes) -> Floats:
    """The residual with an axis of length 1 for each outer axis that is not inner."""
    return np.expand_dims(residual, [place for place, axis in enumerate(outer) if axis not in inner])
