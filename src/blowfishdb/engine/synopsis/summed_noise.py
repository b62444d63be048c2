"""How far the noise of a synopsis can move sums of its cells: the best of three bounds (docs/proofs/accuracy.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import eye_array

from blowfishdb.engine.synopsis.artefact import CellNoise
from blowfishdb.mechanisms.entries import squared
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Sparse, as_intervals


@dataclass(frozen=True, eq=False)
class Placed:
    """Pieces of synopsis cells as a question groups them: the cell, its share in the piece, the question's cell."""

    cell: Ints
    share: Floats
    into: Ints
    groups: int

    def summed(self, values: Floats) -> Floats:
        """What falls into each cell of the question, given a value for each cell of the synopsis."""
        return np.asarray(np.bincount(self.into, self.share * values[self.cell], self.groups), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class SummedNoise:
    """Noise of the cells of a question: deviations, variances that may be added, deviations of running totals."""

    deviations: Floats
    variances: Floats
    running: Floats

    def variances_of(self, rows: Rows) -> Floats:
        """A variance that the noise of each answer does not exceed."""
        entries = Sparse(abs(rows.matrix)) if isinstance(rows, Sparse) else rows
        bound = np.asarray(entries.dot(self.deviations), dtype=np.float64) ** 2
        if np.all(np.isfinite(self.variances)):
            bound = np.minimum(bound, np.asarray(squared(rows).dot(self.variances), dtype=np.float64))
        if np.all(np.isfinite(self.running)):
            bound = np.minimum(bound, self._by_running_totals(rows) ** 2)
        return bound

    def _by_running_totals(self, rows: Rows) -> Floats:
        """A sum of r_c times cells is the sum of r_c - r_(c + 1) times running totals, and deviations add up."""
        spans = as_intervals(rows)
        if spans is not None:
            before = np.concatenate([[0.0], self.running])
            return np.where(spans.low < spans.high, before[spans.low] + before[spans.high], 0.0)
        if not isinstance(rows, Sparse):
            return np.full(rows.shape[0], np.inf)
        cells = self.running.size
        return np.asarray(abs(rows.matrix @ (eye_array(cells) - eye_array(cells, k=-1))) @ self.running)


def summed_noise(noise: CellNoise, placed: Placed) -> SummedNoise:
    """The noise of the pieces, grouped as the question does."""
    return SummedNoise(placed.summed(noise.deviations), _by_blocks(noise, placed), _running(noise.running, placed))


def _by_blocks(noise: CellNoise, placed: Placed) -> Floats:
    """For each cell of the question a variance, such that variances of different cells may be added.

    Pieces of one block share its noise. A block that reaches into k cells counts k times in each, because
    (a1 + ... + ak)^2 <= k (a1^2 + ... + ak^2).
    """
    block, deviations = noise.blocks[placed.cell], placed.share * noise.alone[placed.cell]
    blocks = int(block.max(initial=0)) + 1
    pair, place = np.unique(placed.into * blocks + block, return_inverse=True)
    cell, own = np.divmod(pair, blocks)
    reached = np.bincount(own, minlength=blocks)[own]
    together = np.bincount(place, deviations, pair.size)
    return np.asarray(np.bincount(cell, reached * together**2, placed.groups), dtype=np.float64)


def _running(deviations: Floats, placed: Placed) -> Floats:
    """Deviations of the question's own running totals, where its cells follow the order of the synopsis'.

    The total of its first cells takes all that is used of the cells before some cell e, and a part of e. By the steps
    between these parts it is a sum of running totals of the synopsis.
    """
    unknown = np.full(placed.groups, np.inf)
    order = np.lexsort((placed.into, placed.cell))
    cell, share, into = placed.cell[order], placed.share[order], placed.into[order]
    if not np.all(np.isfinite(deviations)) or np.any(np.diff(into) < 0) or np.unique(into).size != placed.groups:
        return unknown
    used = np.bincount(cell, share, deviations.size)
    steps = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(used)) * deviations[:-1])])
    last = np.searchsorted(into, np.arange(placed.groups), side="right") - 1
    end = cell[last]
    taken = np.concatenate([[0.0], np.cumsum(share)])
    part = np.clip(taken[last + 1] - taken[np.searchsorted(cell, end)], 0.0, used[end])
    before = np.maximum(end - 1, 0)
    ahead = np.where(end > 0, steps[before] + np.abs(used[before] - part) * deviations[before], 0.0)
    return np.asarray(ahead + part * deviations[end])
