"""The structures that optimised plans are chosen from: smooth rows for short axes, trees for long ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array, vstack

from blowfishdb.mechanisms.one_axis.axis import Axis
from blowfishdb.mechanisms.one_axis.block_tree import BlockTree, grow
from blowfishdb.mechanisms.one_axis.coarse_least_squares import CoarseCorrection
from blowfishdb.mechanisms.one_axis.coarse_rows import Group
from blowfishdb.mechanisms.one_axis.shares import GRID, whole_weights
from blowfishdb.mechanisms.one_axis.smooth_rows import boxes, hats, ramps
from blowfishdb.mechanisms.one_axis.spare_loss import spare_loss
from blowfishdb.mechanisms.one_axis.tree_least_squares import TreeCorrection
from blowfishdb.mechanisms.one_axis.windows import hop_starts, spread_places, typical_window
from blowfishdb.model.arrays import Floats, Ints, distinct

NEGLIGIBLE = 1e-4
"""A group with a smaller part of the loss than this is not measured."""

MOST_WEIGHTS = 256
"""Each different weight costs the sampler a table, so cells use no more than this many."""


@dataclass(frozen=True)
class SmoothShape:
    """Hats at the given spacings; running sums with ramps, their distance and length given in windows, or None.

    `totals` measures the total of each span that is not free: only records that vanish change it, never a move.
    """

    spacings: tuple[int, ...]
    ramp: tuple[float, float] | None = None
    totals: bool = False

    def groups(self, axis: Axis) -> list[Group]:
        """The rows on one axis, without the cells."""
        found = [Group(hats(axis.cells, axis.runs, axis.run_ends, spacing), spacing) for spacing in self.spacings]
        if self.totals:
            noisy = ~axis.free
            found.append(Group(boxes(axis.cells, axis.spans[noisy], axis.span_ends[noisy]), 1, falling=True))
        return found if self.ramp is None else [*found, _ramp_group(axis, *self.ramp)]

    def build(self, axis: Axis, shares: Floats) -> CoarseCorrection:
        """The rows with whole weights; cells with loss to spare use it up."""
        groups = self.groups(axis)
        used = np.flatnonzero(shares[1:] > NEGLIGIBLE)
        groups, shares = [groups[k] for k in used], np.append(shares[0], shares[1:][used])
        cells = spare_loss(axis, groups).cells(shares)[axis.noisy]
        none = csr_array((0, axis.cells), dtype=np.int64)
        weights = [
            whole_weights(float(share), group.height, group.matrix.shape[0])
            for group, share in zip(groups, shares[1:], strict=True)
        ]
        return CoarseCorrection(
            axis,
            _few_values(np.maximum(1, (cells * GRID).astype(np.int64))),
            csr_array(vstack([none, *(group.matrix for group in groups)], format="csr"), dtype=np.int64),
            np.concatenate([np.empty(0, dtype=np.int64), *weights]),
        )


@dataclass(frozen=True)
class TreeShape:
    """Nodes of the given sizes in blocks: whole runs, or hops or single cells with running sums between them.

    `totals` measures the blocks too, with as much of the loss as all levels below: where records both move and vanish
    a move costs the levels twice and the total nothing, so that the total is measured for nothing.
    """

    sizes: tuple[int, ...]
    blocks: Literal["runs", "hops", "cells"] = "runs"
    totals: bool = False

    def tree(self, axis: Axis) -> BlockTree:
        """The tree on one axis."""
        starts = axis.runs
        if self.blocks == "hops":
            starts = hop_starts(axis)
        if self.blocks == "cells":
            is_start = np.repeat(axis.chains, axis.run_ends - axis.runs)
            is_start[axis.runs] = True
            starts = np.flatnonzero(is_start)
        return grow(axis, starts, self.sizes, roots=self.totals, sums=self.blocks != "runs")

    def groups(self, axis: Axis) -> list[Group]:
        """The rows on one axis, without the cells: a group for each size, then the running sums."""
        rows = self.tree(axis).rows()
        matrices = [boxes(axis.cells, group.low, group.high) for group in rows]
        nodes = [Group(matrix, 1) for matrix in matrices[: len(self.sizes)]]
        return [*nodes, Group(matrices[-1], 1, falling=True)]

    def build(self, axis: Axis, shares: Floats) -> TreeCorrection:
        """The rows with whole weights; `shares` as for the groups, cells first."""
        total = float(shares[:-1].sum()) if self.totals else 0.0
        return TreeCorrection(self.tree(axis), np.concatenate([shares[:-1], [total], shares[-1:]]))


def _few_values(weights: Ints) -> Ints:
    """The weights, rounded down to at most MOST_WEIGHTS different ones between the least and the largest."""
    if distinct(weights).size <= MOST_WEIGHTS:
        return weights
    least = int(weights.min())
    step = (int(weights.max()) - least) // MOST_WEIGHTS + 1
    return least + (weights - least) // step * step


def _ramp_group(axis: Axis, ratio: float, length: float) -> Group:
    width = max(1, round(length * typical_window(axis)))
    tops, starts = [], []
    for run in np.flatnonzero(axis.chains):
        start, end = int(axis.runs[run]), int(axis.run_ends[run])
        top = spread_places(axis, int(run), ratio) - width // 2
        top = top[(top > start) & (top + width - 1 < end)]
        tops.append(top)
        starts.append(np.full(top.size, start))
    return Group(ramps(axis.cells, np.concatenate(starts), np.concatenate(tops), width), width, falling=True)
