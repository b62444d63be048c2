"""Chooses the shape and the shares with the least expected squared error for a workload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import vstack

from blowfishdb.mechanisms.one_axis.axis import Axis
from blowfishdb.mechanisms.one_axis.coarse_rows import Group, coarse_error, free_totals, gram_dot, reach_losses
from blowfishdb.mechanisms.one_axis.energies import level_plans
from blowfishdb.mechanisms.one_axis.shapes import SmoothShape, TreeShape
from blowfishdb.mechanisms.one_axis.shares import LEAST_ERROR, LEAST_LOG, best_shares
from blowfishdb.mechanisms.one_axis.spare_loss import spare_loss
from blowfishdb.mechanisms.one_axis.windows import even_axis, like, typical_window
from blowfishdb.model.arrays import Floats
from blowfishdb.model.rows import Rows

MOST_ROWS = 700
MOST_WORK = 2.5e9
"""Coarse rows, and their square times the cells, up to which smooth rows are worked on as one dense system."""

POLISHED_CELLS = 256
"""Up to this many cells the ends of the axis matter, and shares are tuned together with the cells' spare loss."""

RAMPS = ((1.0, 0.75), (1.3, 1.0))
"""Distance between running sums and length of their ramps, in windows."""

MOST_TRIED = 6
"""Node sizes are taken from this many best by level energies."""

SHORT_WINDOW = 2
"""Up to this window, running sums at every cell may win, which trees handle best."""

IMPOSSIBLE = 1e3
"""Stands for the logarithm of the error of shares that leave nothing to some cell."""

FIRST_SHARE = 0.2
"""Where the search for a group's share begins."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A shape, the share of each of its groups (cells first), and the expected squared error at loss 1."""

    shape: SmoothShape | TreeShape
    shares: Floats
    error: float


def choose(axis: Axis, workload: Rows) -> Choice:
    """The best of a few candidates that level energies favour."""
    if not np.any(axis.chains):
        return _choose_without_sums(axis, workload)
    window = typical_window(axis)
    inner = [plan.sizes for plan in level_plans(workload, window, free=True, equal=False)] if window > 1 else [()]
    smooth = [sizes for sizes in inner[:MOST_TRIED] if _fits(axis, sizes, window)]
    shapes: list[SmoothShape | TreeShape] = []
    if smooth and window > SHORT_WINDOW:
        shown = _stand_in(axis, workload, window, max(2 * POLISHED_CELLS, 24 * window))
        within = {smooth[0]} | ({()} if axis.cells <= POLISHED_CELLS else set())
        shapes += [SmoothShape(sizes, ramp) for sizes in sorted(within) for ramp in RAMPS]
        shapes.append(SmoothShape(_whole(*shown)))
    else:
        few = max(POLISHED_CELLS // 2, min(24 * window, max(1024, 4 * window)))
        shown = _stand_in(axis, workload, window, few)
        shapes += [TreeShape((), "cells")] if window <= SHORT_WINDOW else []
        shapes += [TreeShape(inner[0], "hops")] if window > 1 else []
        shapes.append(TreeShape(_whole(*shown)))
    return min((_tuned(*shown, shape) for shape in shapes), key=lambda choice: choice.error)


def _stand_in(axis: Axis, workload: Rows, window: int, cells: int) -> tuple[Axis, Rows]:
    """An axis of at most so many cells with the same windows: errors hardly depend on its length."""
    return (axis, workload) if axis.cells <= cells else (even_axis(cells, window), like(workload, cells))


def _choose_without_sums(axis: Axis, workload: Rows) -> Choice:
    plans = level_plans(workload, _longest(axis), free=_is_free(axis), equal=False)
    smooth = [plan for plan in plans[:MOST_TRIED] if _fits(axis, plan.sizes, None)]
    totals = bool(np.any(axis.reach > np.arange(axis.cells))) and not np.all(axis.free)
    if smooth:
        fewer = [plan for plan in smooth if len(plan.sizes) < len(smooth[0].sizes)]
        tried = smooth[:3] if axis.cells <= POLISHED_CELLS else [smooth[0], *fewer[:1]]
        shapes = [SmoothShape(plan.sizes, totals=totals) for plan in tried]
        return min((_tuned(axis, workload, shape) for shape in shapes), key=lambda choice: choice.error)
    best = plans[0]
    return Choice(TreeShape(best.sizes, totals=totals and axis.hubs.size == 0), np.append(best.shares, 0.0), best.error)


def _longest(axis: Axis) -> int:
    return int((axis.run_ends - axis.runs).max())


def _is_free(axis: Axis) -> bool:
    return bool(np.all(axis.free)) and axis.hubs.size == 0


def _whole(axis: Axis, workload: Rows) -> tuple[int, ...]:
    """The best node sizes when windows are ignored."""
    return level_plans(workload, _longest(axis), free=_is_free(axis), equal=False)[0].sizes


def _fits(axis: Axis, spacings: tuple[int, ...], window: int | None) -> bool:
    rows = sum(axis.cells // spacing + 1 for spacing in spacings) + axis.spans.size
    if window is not None:
        rows += axis.cells // window
    return rows <= MOST_ROWS and rows**2 * axis.cells <= MOST_WORK


def _tuned(axis: Axis, workload: Rows, shape: SmoothShape | TreeShape) -> Choice:
    groups = shape.groups(axis)
    filled = [place for place, group in enumerate(groups) if group.matrix.shape[0]]
    used = [groups[place] for place in filled]
    tuned = None
    if used and axis.cells <= POLISHED_CELLS and axis.hubs.size == 0 and isinstance(shape, SmoothShape):
        tuned = _filled(axis, workload, used)
    if tuned is None:
        losses = reach_losses(axis, used)
        start = 1.0 / (losses.shape[1] * losses.max(axis=0))
        tuned = best_shares(coarse_error(axis, workload, used), losses, [start])
    error, found = tuned
    shares = np.zeros(len(groups) + 1)
    shares[[0, *(1 + place for place in filled)]] = found
    return Choice(shape, shares, error)


def _filled(axis: Axis, workload: Rows, groups: list[Group]) -> tuple[float, Floats] | None:
    """The error and the shares of the groups, tuned while the cells always take what is left; None if that fails."""
    from scipy.optimize import minimize  # takes a while to load, and many questions do without

    gram = gram_dot(workload, np.eye(axis.cells))
    rows = vstack([*(group.unit_rows for group in groups), free_totals(axis)], format="csr").toarray()
    counts = [*(group.matrix.shape[0] for group in groups), int(axis.free.sum())]
    noisy = np.zeros(axis.cells)
    noisy[axis.noisy] = 1.0
    kept = (rows * noisy).any(axis=1)
    rows = rows[kept]
    spare = spare_loss(axis, groups)

    def log_error(logs: Floats) -> float:
        coarse = np.exp(np.clip(logs, LEAST_LOG, 0.0))
        cells = spare.cells(np.append(0.0, coarse))
        if float(cells.min()) <= 0.0:
            return IMPOSSIBLE
        spread = noisy * 2 / cells**2
        noise = np.repeat(np.append(2 / coarse**2, 0.0), counts)[kept]
        seen = rows * spread
        solved = np.linalg.solve(np.diag(noise) + seen @ rows.T, seen)
        left = float(gram.diagonal() @ spread) - float(np.sum((seen @ gram) * solved))
        return float(np.log(max(left, LEAST_ERROR)))

    options = {"maxiter": 60 * len(groups), "xatol": 1e-2, "fatol": 1e-5}
    found = minimize(log_error, np.log(np.full(len(groups), FIRST_SHARE)), method="Nelder-Mead", options=options)
    if found.fun >= IMPOSSIBLE:
        return None
    return float(np.exp(found.fun)), np.append(0.0, np.exp(np.clip(found.x, LEAST_LOG, 0.0)))
