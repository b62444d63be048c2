"""Weights of a set of marginals with the least total error, in closed form but for one small search."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from blowfishdb.model.arrays import Floats

HEAVIEST = 1000
SHARPNESS = (20.0, 400.0)
"""Exponents of the norm that stands for the largest of several losses: smooth while searching, then nearly exact."""
STEPS = 60

Axes = tuple[int, ...]


def residual_sizes(shape: tuple[int, ...], requested: Sequence[Axes], inner: Sequence[Axes]) -> Floats:
    """For each residual the total error of the requested marginals when it is known with variance 1 a cell."""
    sizes = []
    for axes in inner:
        own = math.prod(1 - 1 / shape[axis] for axis in axes)
        cells = math.prod(shape[axis] for axis in axes)
        sizes.append(sum(own * cells / _rest(shape, outer, axes) for outer in requested if set(axes) <= set(outer)))
    return np.array(sizes)


def best_weights(
    shape: tuple[int, ...], inner: Sequence[Axes], sizes: Floats, candidates: Sequence[Axes], losses: Floats
) -> list[int]:
    """A whole weight for each candidate marginal, 0 for those not worth measuring."""
    gains = np.array([[1 / _rest(shape, m, s) if set(s) <= set(m) else 0.0 for m in candidates] for s in inner])
    rough = [
        improved_weights(np.log(start), gains, sizes, losses, SHARPNESS[0]) for start in _starts(gains, candidates)
    ]
    fine = improved_weights(min(rough)[1], gains, sizes, losses, SHARPNESS[1])
    found = [np.where(gains.max(axis=0) >= 1.0, float(HEAVIEST), 0.0)]
    for _, logs in (*rough, fine):
        share = np.exp(np.array(logs) - max(logs))
        found += [np.round(HEAVIEST * np.where(share < least, 0.0, share)) for least in (1e-3, 0.02, 0.1)]
    best = min(found, key=lambda whole: _error(whole, gains, sizes, losses))
    return [int(weight) for weight in best]


def improved_weights(
    start: Sequence[float] | Floats, gains: Floats, sizes: Floats, losses: Floats, sharpness: float
) -> tuple[float, list[float]]:
    """The log error reached from a start, and the logarithms of the weights there."""
    constants, bounds = (gains, sizes, losses, sharpness), [(-12.0, 2.0)] * len(start)
    found = minimize(_log_error, start, constants, "L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": STEPS})
    return float(found.fun), [float(value) for value in found.x]


def _starts(gains: Floats, candidates: Sequence[Axes]) -> list[Floats]:
    """All candidates alike, and mostly those that give one residual that nothing smaller gives."""
    even = np.ones(len(candidates))
    tight = np.where(gains.max(axis=0) >= 1.0, 1.0, 0.01)
    widest = np.where([len(axes) == max(map(len, candidates)) for axes in candidates], 1.0, 0.01)
    return [even, tight, widest]


def _error(weights: Floats, gains: Floats, sizes: Floats, losses: Floats) -> float:
    precision = gains @ weights**2
    if np.any(precision <= 0):
        return math.inf
    return float((sizes / precision).sum() * (losses @ weights).max() ** 2)


def _log_error(logs: Floats, gains: Floats, sizes: Floats, losses: Floats, sharpness: float) -> tuple[float, Floats]:
    weights = np.exp(logs)
    precision = gains @ weights**2
    spread = float((sizes / precision).sum())
    each = losses @ weights
    top = float(each.max())
    powers = (each / top) ** sharpness
    loss = top * powers.sum() ** (1 / sharpness)
    slope = ((each / top) ** (sharpness - 1) @ losses) * powers.sum() ** (1 / sharpness - 1)
    gradient = -(sizes / precision**2) @ gains * 2 * weights / spread + 2 * slope / loss
    return math.log(spread) + 2 * math.log(loss), weights * gradient


def _rest(shape: tuple[int, ...], outer: Axes, inner: Axes) -> int:
    return math.prod(shape[axis] for axis in outer if axis not in inner)
