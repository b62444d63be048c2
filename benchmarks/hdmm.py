"""HDMM's strategies, written anew: p-Identity on one axis, its product on several, and weighted marginals.

McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries under differential
privacy (2018). Errors are those of continuous Laplace noise, one record more or less. Searches begin at random and end
when a step gains less than a part of 10^-4, as in the authors' code, so figures of other seeds differ by a percent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize

from blowfishdb.model.numbers import Floats

GAIN = 1e-4
CELLS_PER_ROW = 16
"""One row that is free to optimise for so many cells, as the authors advise."""


def identity_error(gram: Floats, rows: int, seed: int) -> float:
    """OPT_0: the summed variance over the workload, up to the factor 2 / epsilon^2, of the best strategy found.

    The strategy is the cells above `rows` rows B >= 0, every column divided by its sum s; with M = diag(s) W'W diag(s)
    its error is tr(M (I + B'B)^-1), and (I + B'B)^-1 = I - B'(I + BB')^-1 B.
    """
    cells = len(gram)

    def error(entries: Floats) -> tuple[float, Floats]:
        matrix = entries.reshape(rows, cells)
        sums = 1.0 + matrix.sum(axis=0)
        scaled = gram * sums * sums[:, None]
        inverse = np.linalg.inv(np.eye(rows) + matrix @ matrix.T)
        seen, solved = matrix @ scaled, inverse @ matrix
        spread = np.diag(scaled) - np.einsum("ij,ij->j", solved, seen)
        first = inverse @ seen
        slope = -2 * (first - (first @ matrix.T) @ solved) + 2 * spread / sums
        return float(spread.sum()), slope.ravel()

    return _least(error, np.random.default_rng(seed).random(rows * cells))


def marginals_error(shape: Sequence[int], requested: Sequence[tuple[int, ...]], seed: int) -> float:
    """OPT_M: the same for the best weights found for the marginals over all sets of axes."""
    axes = range(len(shape))
    sets = [set(part) for size in range(len(shape) + 1) for part in itertools.combinations(axes, size)]
    inner = [part for part in sets if any(part <= set(outer) for outer in requested)]

    def cells(part: set[int]) -> int:
        return math.prod(shape[axis] for axis in part)

    sizes = np.array(
        [
            sum(
                math.prod(shape[axis] - 1 for axis in part) / cells(set(outer) - part)
                for outer in requested
                if part <= set(outer)
            )
            for part in inner
        ]
    )
    gains = np.array([[1 / cells(outer - part) if part <= outer else 0.0 for outer in sets] for part in inner])

    def error(weights: Floats) -> tuple[float, Floats]:
        precision, loss = gains @ weights**2, float(weights.sum())
        spread = float((sizes / precision).sum())
        slope = -2 * weights * ((sizes / precision**2) @ gains)
        return spread * loss**2, slope * loss**2 + 2 * loss * spread

    return _least(error, np.random.default_rng(seed).random(len(sets)))


def _least(error: Callable[[Floats], tuple[float, Floats]], start: Floats) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):  # a search may step to weights that leave something unseen
        found = minimize(
            error, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * start.size, options={"ftol": GAIN}
        )
    return float(found.fun)
