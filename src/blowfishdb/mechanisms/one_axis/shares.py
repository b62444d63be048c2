"""How much of the loss each group of rows should take: the tiny optimisations behind every optimised plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blowfishdb.model.arrays import Floats, Ints

GRID = 2**24
"""Shares of the loss become whole weights on a grid this fine."""

SHARPNESS = 150.0
"""The largest loss is smoothed by a power mean of this order while searching; the certificate uses the true one."""

LEAST_LOG, MOST_LOG = -7.5, 4.0
"""Logarithms of shares stay between these while searching; beyond, they would only cost digits."""

BALANCING_STEPS = 16
LEAST_SHARE = 1e-6

LEAST_ERROR = 1e-12
"""Errors below this, of queries that free totals answer, count as this much."""


def whole_weights(share: float, height: int, rows: int) -> Ints:
    """One weight for each of `rows` rows with entries up to `height`, rounded down to keep within the share."""
    return np.full(rows, max(1, int(share * GRID / height)), dtype=np.int64)


def best_shares(
    error: Callable[[Floats], tuple[float, Floats]], losses: Floats, starts: Sequence[Floats]
) -> tuple[float, Floats]:
    """The least error at loss 1 and the shares that give it.

    `error` gives the error of shares and its gradient, and is homogeneous of degree -2; `losses` (edges by groups)
    is the loss per unit of share: only the direction of the shares matters, for error times squared largest loss.
    """
    from scipy.optimize import minimize  # takes a while to load, and many questions do without

    def objective(logs: Floats) -> tuple[float, Floats]:
        inside = np.clip(logs, LEAST_LOG, MOST_LOG)
        shares = np.exp(inside)
        value, slope = error(shares)
        value = max(value, LEAST_ERROR)
        edge = losses @ shares
        top = float(edge.max())
        powers = (edge / top) ** SHARPNESS
        mean = float(powers.sum())
        loss_slope = losses.T @ (powers / edge.clip(min=1e-300)) / mean
        smooth = np.log(top) + np.log(mean) / SHARPNESS
        return np.log(value) + 2 * smooth, (slope / value + 2 * loss_slope) * shares * (inside == logs)

    best = (np.inf, np.ones(losses.shape[1]))
    for start in starts:
        # BFGS works in plain numpy; L-BFGS-B would call threaded linear algebra on 5 x 5 matrices at every step.
        found = minimize(objective, np.log(start), jac=True, method="BFGS", options={"maxiter": 40, "gtol": 1e-3})
        shares = np.exp(np.clip(found.x, LEAST_LOG, MOST_LOG))
        shares = shares / float((losses @ shares).max())
        value = error(shares)[0]
        if value < best[0]:
            best = (value, shares)
    return best


def level_error(energies: Floats, sizes: Floats) -> Callable[[Floats], tuple[float, Floats]]:
    """The expected squared error of a balanced tree with the given share at each level, and its gradient.

    The levels share eigenvectors: what is constant on nodes of one size and sums to zero on the next is seen by that
    level and every finer one, with precision (share^2 / 2) x size each.
    """

    def error(shares: Floats) -> tuple[float, Floats]:
        precision = np.cumsum(shares**2 * sizes) / 2
        value = float(np.sum(energies / precision))
        slope = -np.cumsum((energies / precision**2)[::-1])[::-1] * shares * sizes
        return value, slope

    return error


def balanced_shares(energies: Floats, sizes: Floats) -> Floats:
    """The shares, summing to 1, at which one more bit of loss helps equally on every level of a balanced tree.

    Several trees may be given at once, a row each; levels of size 0 are not there. Each step moves shares towards the
    levels that gain most; the error is about cubic in them, hence the root.
    """
    used = sizes > 0
    shares = used / used.sum(axis=-1, keepdims=True)
    for _ in range(BALANCING_STEPS):
        precision = np.cumsum(shares**2 * sizes, axis=-1)
        gain = shares * sizes * np.cumsum((energies / precision**2)[..., ::-1], axis=-1)[..., ::-1]
        most = gain.max(axis=-1, keepdims=True)
        moved = shares * np.cbrt(gain / np.where(most > 0, most, 1.0))
        shares = np.where(used, np.maximum(np.where(most > 0, moved, shares), LEAST_SHARE), 0.0)
        shares /= shares.sum(axis=-1, keepdims=True)
    return np.asarray(shares)
