"""Trees over the blocks of an axis: which nodes and which running sums of blocks are measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.mechanisms.one_axis.axis import Axis
from blowfishdb.mechanisms.one_axis.shares import whole_weights
from blowfishdb.model.arrays import Bools, Floats, Ints
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.plan import Measurement


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes that tile the axis: where each starts, its first node one level below, and which ones are measured."""

    starts: Ints
    first_child: Ints
    measured: Bools


@dataclass(frozen=True, eq=False)
class BlockTree:
    """Cells under nodes under blocks; blocks follow each other in spans, with measured running sums between some.

    `levels` go up from the nodes over the cells to the blocks. `summed` marks the blocks at whose end the running sum
    from the start of their span is measured.
    """

    axis: Axis
    levels: tuple[Level, ...]
    summed: Bools

    @property
    def blocks(self) -> Ints:
        """Where each block starts."""
        return self.levels[-1].starts

    @cached_property
    def span_of_block(self) -> Ints:
        """The span of each block."""
        return np.searchsorted(self.axis.spans, self.blocks, side="right") - 1

    @cached_property
    def opens_span(self) -> Bools:
        """Whether each block is the first of its span."""
        return np.concatenate([[True], np.diff(self.span_of_block) > 0])

    @cached_property
    def pinned(self) -> Bools:
        """Whether the running sum at the end of each block is a free total."""
        closes = np.append(self.opens_span[1:], True)
        return np.asarray(closes & self.axis.free[self.span_of_block], dtype=np.bool_)

    def rows(self) -> list[Intervals]:
        """The rows of each group above the cells: one group for each level, then the running sums."""
        cells = self.axis.cells
        groups = []
        for level in self.levels:
            ends = np.append(level.starts[1:], cells)
            groups.append(Intervals(cells, level.starts[level.measured], ends[level.measured]))
        ends = np.append(self.blocks[1:], cells)[self.summed]
        return [*groups, Intervals(cells, self.axis.spans[self.span_of_block[self.summed]], ends)]

    def parts(self, shares: Floats) -> tuple[Measurement, ...]:
        """The plan's parts for a share of each group, cells first; groups without rows are left out."""
        rows = [self.axis.noisy_rows, *self.rows()]
        return tuple(
            Measurement(group, whole_weights(float(share), 1, group.shape[0]))
            for group, share in zip(rows, shares, strict=True)
            if group.shape[0]
        )


def grow(axis: Axis, blocks: Ints, sizes: tuple[int, ...], *, roots: bool = False, sums: bool = False) -> BlockTree:
    """The tree with nodes of the given sizes (each a multiple of the one before) inside each block.

    Ragged nodes are simply shorter. A node with one child repeats it and a free total needs no noise: neither is
    measured. `roots` measures the totals of the blocks too; `sums` the running sums at the ends of all blocks but
    the last of each span.
    """
    cell = np.arange(axis.cells)
    place = cell - blocks[np.searchsorted(blocks, cell, side="right") - 1]
    span_start, span_end = axis.spans[axis.span_of], axis.span_ends[axis.span_of]
    below = cell
    levels = []
    for size in [*sizes, axis.cells]:
        starts = np.flatnonzero(place % size == 0)
        first_child = np.searchsorted(below, starts)
        children = np.diff(np.append(first_child, below.size))
        is_span = (starts == span_start[starts]) & (np.append(starts[1:], axis.cells) == span_end[starts])
        is_total = is_span & axis.free[axis.span_of[starts]]
        wanted = (children > 1) & ~is_total if roots or size < axis.cells else np.zeros(starts.size, dtype=np.bool_)
        levels.append(Level(starts, first_child, wanted))
        below = starts
    goes_on = np.append(~np.isin(blocks[1:], axis.spans), False)
    return BlockTree(axis, tuple(levels), goes_on if sums else np.zeros_like(goes_on))
