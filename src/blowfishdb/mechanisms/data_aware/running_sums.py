"""Reads an even-within-buckets histogram off noisy running sums: monotone, then straight where the noise allows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded
from scipy.optimize import isotonic_regression

from blowfishdb.model.arrays import Bools, Floats, Ints

PENALTY = 5.0
"""What one more bucket must improve the fit by, in variances of a sum; found on synthetic histograms."""


CLEARLY_ROUGH = 24.0
"""In variances of a sum, times the root of the number of cells: five standard deviations of an estimated risk."""


@dataclass(frozen=True, eq=False)
class EvenRuns:
    """Cells that are even within buckets; `starts` holds the first cell of each bucket."""

    cells: Floats
    starts: Ints


def even_runs(sums: Floats, total: float, variance: float) -> EvenRuns:
    """The cells behind noisy sums of the first 1, 2, ... cells, the exact total last, all noise alike.

    Counts are not negative, so the sums are made monotone first, which only brings them closer. Then, in blocks whose
    lengths are powers of two, cells are taken as even where a straight line fits their sums nearly as well; unless
    the estimated risk tells that the counts are so rough that evening them out gains little.
    """
    monotone = _monotone(sums, total)
    starts = _best_blocks(np.concatenate([[0.0], monotone, [total]]), PENALTY * variance)
    knots = np.append(starts, sums.size + 1)
    lengths = np.diff(knots)
    cells = np.repeat(_steps(_monotone(_spline(monotone, total, knots), total), total) / lengths, lengths)
    if _is_too_rough(sums, monotone, cells, lengths, total, variance):
        return EvenRuns(_steps(monotone, total), np.arange(cells.size))
    return EvenRuns(cells, starts)


def _is_too_rough(sums: Floats, monotone: Floats, even: Floats, lengths: Ints, total: float, variance: float) -> bool:
    """Whether monotone cells have a clear risk of which evening out saves less than half, both by Stein's formula.

    Twice the covariance of an estimate with the raw cells is 4/m variances for a level of m equal sums, and
    24/((l + 1)(l + 2)) for the slope of a line through the l + 1 sums of a bucket.
    """
    raw = _steps(sums, total)
    noise = 2.0 * variance * sums.size
    levels = np.diff(np.flatnonzero(np.diff(monotone, prepend=-1.0, append=np.inf)))
    risk = np.sum((_steps(monotone, total) - raw) ** 2) + variance * np.sum(4.0 / levels) - noise
    tied = np.sum(24.0 / ((lengths + 1.0) * (lengths + 2.0)))
    risk_even = np.sum((even - raw) ** 2) + variance * tied - noise
    return bool(risk > CLEARLY_ROUGH * variance * np.sqrt(raw.size) and risk_even > risk / 2)


def _steps(sums: Floats, total: float) -> Floats:
    """What each sum adds to the one before, from 0 to the total."""
    return np.diff(np.concatenate([[0.0], sums, [total]]))


def _monotone(sums: Floats, total: float) -> Floats:
    """The nearest sums that never fall, between 0 and the total."""
    if sums.size == 0:
        return sums
    return np.asarray(np.clip(isotonic_regression(sums).x, 0.0, total))


def _best_blocks(path: Floats, penalty: float) -> Ints:
    """The first cells of the blocks that minimise squared distances to straight lines plus a penalty a block."""
    cells = path.size - 1
    best = np.full(cells, penalty)
    halved: list[Bools] = []
    length = 1
    while length < cells:
        length *= 2
        pairs = np.append(best, 0.0) if best.size % 2 else best
        apart = pairs[::2] + pairs[1::2]
        whole = _distances_to_lines(path, length) + penalty
        halved.append(apart < whole)
        best = np.where(halved[-1], apart, whole)
    starts, blocks = [], np.zeros(1, dtype=np.int64)
    for split in reversed(halved):
        starts.append(blocks[~split[blocks]] * length)
        length //= 2
        blocks = np.repeat(2 * blocks[split[blocks]], 2)
        blocks[1::2] += 1
        blocks = blocks[blocks * length < cells]
    return np.sort(np.concatenate([*starts, blocks])).astype(np.int64)


def _distances_to_lines(path: Floats, length: int) -> Floats:
    """For each block of `length` cells (the last may be shorter) the squared distance of its sums to a line."""
    blocks = (path.size - 1) // length
    whole = blocks * length
    inner = path[:whole].reshape(blocks, length)
    found = [_squared_residuals(np.concatenate([inner, path[length : whole + 1 : length, None]], axis=1))]
    if whole < path.size - 1:
        found.append(_squared_residuals(path[None, whole:]))
    return np.concatenate(found)


def _squared_residuals(points: Floats) -> Floats:
    """The squared distance of each row, at equal steps, to its least-squares line."""
    step = np.arange(points.shape[1]) - (points.shape[1] - 1) / 2
    # Large counts cancel before anything is squared.
    level = points - points[:, :1]
    level = level - level.mean(axis=1, keepdims=True)
    slope = level @ step / float(step @ step)
    return np.asarray(((level - slope[:, None] * step) ** 2).sum(axis=1))


def _spline(sums: Floats, total: float, knots: Ints) -> Floats:
    """Heights at the inner knots of the broken line from 0 to the total that is nearest to all the sums."""
    inner = knots.size - 2
    if inner == 0:
        return np.empty(0)
    place = np.arange(1, sums.size + 1)
    piece = np.searchsorted(knots, place, side="right") - 1
    after = (place - knots[piece]) / (knots[piece + 1] - knots[piece])
    before = 1.0 - after

    def gathered(left: Floats, right: Floats) -> Floats:
        return np.asarray(np.bincount(piece, left, knots.size) + np.bincount(piece + 1, right, knots.size), float)

    diagonal = gathered(before * before, after * after)[1:-1]
    beside = np.bincount(piece, before * after, knots.size)
    wanted = gathered(before * sums, after * sums)[1:-1]
    wanted[-1] -= beside[inner] * total
    if inner == 1:
        return wanted / diagonal
    return np.asarray(solveh_banded(np.stack([np.append(0.0, beside[1:inner]), diagonal]), wanted))
