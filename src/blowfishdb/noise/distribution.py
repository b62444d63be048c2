"""The discrete Laplace P(k) ~ exp(-|k| / scale): moments, tails, quantiles; and its half, the geometric."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blowfishdb.errors import AccuracyError, InvalidInput, NoiseScaleError

# The scales that the exact sampler serves.
MIN_SCALE: Final = Fraction(1, 1000)
MAX_SCALE: Final = Fraction(10**9)
# The scales for which the formulas here hold to float precision, every quantile an exact float.
_FORMULA_RANGE: Final = (1e-6, 1e12)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def pmf(scale: ArrayLike, k: ArrayLike) -> Floats:
    """P(X = k) for integers k."""
    t = _scales(scale)
    return np.tanh(0.5 / t) * np.exp(-np.abs(_numbers(k)) / t)


def variance(scale: ArrayLike) -> Floats:
    """Var X = 1 / (2 sinh^2(1 / (2 scale)))."""
    t = _scales(scale)
    return 2.0 * np.exp(-1.0 / t) / np.square(np.expm1(-1.0 / t))


def tail(scale: ArrayLike, k: ArrayLike) -> Floats:
    """P(|X| > k) for real k >= 0."""
    t = _scales(scale)
    return 2.0 * np.exp(-(_floors(k) + 1.0) / t) / (1.0 + np.exp(-1.0 / t))


def quantile(scale: ArrayLike, beta: ArrayLike) -> Ints:
    """The least integer k >= 0 with P(|X| > k) <= beta."""
    t, b = np.broadcast_arrays(_scales(scale), _betas(beta))
    guess = -t * (np.log(b) + np.log1p(np.exp(-1.0 / t)) - np.log(2.0))
    k = np.maximum(np.ceil(guess) - 1.0, 0.0)
    return _settled(tail, t, b, k)


def simultaneous_tail(scales: ArrayLike, counts: ArrayLike, k: float) -> float:
    """P(some |X_i| > k) for independent X_i, counts[i] of them of scale scales[i]."""
    t, c = _groups(scales, counts)
    return _any_beyond(t, c, float(_floors(k)))


def simultaneous_quantile(scales: ArrayLike, counts: ArrayLike, beta: float) -> int:
    """The least integer k >= 0 with P(some |X_i| > k) <= beta; 0 when there is no variable at all."""
    t, c = _groups(scales, counts)
    b = float(_betas(beta))
    if not c.any():
        return 0
    t, c = t[c > 0], c[c > 0]
    # Each variable alone must meet beta; beta shared out equally among all of them is enough.
    low = int(quantile(t, b).max()) - 1
    high = int(quantile(t, b / c.sum()).max())
    while _any_beyond(t, c, high) > b:
        high += 1
    return low + 1 + bisect_left(range(low + 1, high), True, key=lambda k: _any_beyond(t, c, k) <= b)


def log_mgf(scale: ArrayLike, s: ArrayLike) -> Floats:
    """log E exp(s X) = -log(1 - sinh^2(s/2) / sinh^2(1/(2 scale))); infinite from |s| = 1 / scale on."""
    t, x = np.broadcast_arrays(_scales(scale), np.abs(_numbers(s)))
    b = 0.5 / t
    inside = 0.5 * x < b
    a = np.where(inside, 0.5 * x, 0.0)
    squared = np.square(np.exp(a - b) * np.expm1(-2.0 * a) / np.expm1(-2.0 * b))
    near_zero = squared < 0.5
    # sinh^2 b - sinh^2 a = sinh(b - a) sinh(b + a) keeps its digits where the quotient comes near 1.
    gap = np.where(near_zero | ~inside, b, b - a)
    product = 2.0 * _log_sinh(b) - _log_sinh(gap) - _log_sinh(b + a)
    finite = np.where(near_zero, -np.log1p(-np.minimum(squared, 0.5)), product)
    result: Floats = np.where(inside, finite, np.inf)
    return result


def geometric_tail(scale: ArrayLike, k: ArrayLike) -> Floats:
    """P(G > k) for real k >= 0, where P(G = k) ~ exp(-k / scale), k >= 0."""
    return np.exp(-(_floors(k) + 1.0) / _scales(scale))


def geometric_quantile(scale: ArrayLike, beta: ArrayLike) -> Ints:
    """The least integer k >= 0 with P(G > k) <= beta."""
    t, b = np.broadcast_arrays(_scales(scale), _betas(beta))
    k = np.maximum(np.ceil(-t * np.log(b)) - 1.0, 0.0)
    return _settled(geometric_tail, t, b, k)


def _settled(tail_of: Callable[[ArrayLike, ArrayLike], Floats], t: Floats, b: Floats, k: Floats) -> Ints:
    """The quantile next to a guess k that rounding may have moved by one."""
    above: Floats = np.where(tail_of(t, k) > b, k + 1.0, k)
    below = np.maximum(above - 1.0, 0.0)
    least: Floats = np.where(tail_of(t, below) <= b, below, above)
    return least.astype(np.int64)


def _any_beyond(t: Floats, c: Floats, k: float) -> float:
    """1 - prod P(|X_i| <= k)^c_i, accurate when it is tiny and when it is nearly 1."""
    beyond = 2.0 * np.exp(-(k + 1.0) / t) / (1.0 + np.exp(-1.0 / t))
    within = -(np.expm1(-(k + 1.0) / t) + np.exp(-1.0 / t) * np.expm1(-k / t)) / (1.0 + np.exp(-1.0 / t))
    logs = np.where(beyond < 0.5, np.log1p(-np.minimum(beyond, 0.5)), np.log(within))
    return float(-np.expm1(np.dot(c, logs)))


def _log_sinh(x: Floats) -> Floats:
    return x + np.log(-0.5 * np.expm1(-2.0 * x))


def _scales(scale: ArrayLike) -> Floats:
    t = _numbers(scale)
    low, high = _FORMULA_RANGE
    if not np.all((t >= low) & (t <= high)):
        raise NoiseScaleError(f"Noise scales must lie between {low:g} and {high:g}.")
    return t


def _betas(beta: ArrayLike) -> Floats:
    b = _numbers(beta)
    if not np.all((b > 0.0) & (b < 1.0)):
        raise AccuracyError("A failure probability beta must lie strictly between 0 and 1.")
    return b


def _floors(k: ArrayLike) -> Floats:
    bound = _numbers(k)
    if not np.all(bound >= 0.0):
        raise AccuracyError("A bound on the noise must be a number >= 0.")
    return np.floor(bound)


def _groups(scales: ArrayLike, counts: ArrayLike) -> tuple[Floats, Floats]:
    t, c = np.atleast_1d(_scales(scales)), np.atleast_1d(_numbers(counts))
    if t.ndim != 1 or t.shape != c.shape:
        raise InvalidInput(f"{t.shape} scales and {c.shape} counts do not pair up.")
    if not np.all((c >= 0.0) & np.isfinite(c)):
        raise InvalidInput("Counts of noise variables must be finite and not negative.")
    return t, c


def _numbers(values: ArrayLike) -> Floats:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InvalidInput("Expected numbers.") from problem
