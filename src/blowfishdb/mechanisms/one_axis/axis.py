"""What the one-dimensional mechanisms know of a problem: runs of cells, which totals are free, how far moves reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.cellgraph import ZERO
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import Identity, Intervals
from blowfishdb.plan.problem import Problem


@dataclass(frozen=True, eq=False)
class Axis:
    """One ordered axis cut into spans, one after the other.

    A span is a component of the policy graph, whose total is then `free` (released exactly), or a stretch of cells from
    which a record can vanish. `runs` cut the spans further, so that hubs stand alone. `reach` is the furthest cell that
    a move along the order leads to, the cell itself where there is none.
    """

    cells: int
    spans: Ints
    free: Bools
    runs: Ints
    reach: Ints
    hubs: Ints
    leaves: Bools

    @cached_property
    def span_ends(self) -> Ints:
        """One past the last cell of each span."""
        return np.append(self.spans[1:], self.cells)

    @cached_property
    def run_ends(self) -> Ints:
        """One past the last cell of each run."""
        return np.append(self.runs[1:], self.cells)

    @cached_property
    def span_of(self) -> Ints:
        """The span of each cell."""
        return np.searchsorted(self.spans, np.arange(self.cells), side="right") - 1

    @cached_property
    def noisy(self) -> Ints:
        """The cells that need noise: all but those that are a free span of their own."""
        alone = self.free & (self.span_ends - self.spans == 1)
        return np.flatnonzero(~alone[self.span_of])

    @cached_property
    def totals(self) -> Intervals | None:
        """The free totals as rows."""
        if not np.any(self.free):
            return None
        return Intervals(self.cells, self.spans[self.free], self.span_ends[self.free])

    @cached_property
    def chains(self) -> Bools:
        """For each run, whether running sums pay: no record vanishes, and windows end before the run does."""
        is_free = self.free[self.span_of[self.runs]] & (self.hubs.size == 0)
        return is_free & (self.reach[self.runs] + 1 < self.run_ends)

    @cached_property
    def noisy_rows(self) -> Identity | Intervals:
        """One row for each noisy cell."""
        cells = self.noisy
        return Identity(self.cells) if cells.size == self.cells else Intervals(self.cells, cells, cells + 1)


def any_move(axis: Axis) -> Axis:
    """The same spans when a record can move to any cell of its span."""
    return replace(axis, runs=axis.spans, reach=(axis.span_ends - 1)[axis.span_of], hubs=np.empty(0, dtype=np.int64))


def read_axis(mechanism: str, problem: Problem) -> Axis:
    """The axis of a problem over one ordered attribute; declined for any other, and where no cell needs noise."""
    graph = problem.graph
    window = graph.factors[0]
    if len(graph.factors) != 1 or not isinstance(window, WindowGraph):
        raise Declined(mechanism, "it needs one attribute whose policy follows an order")
    labels = graph.components()
    starts = np.concatenate([[True], labels[1:] != labels[:-1]])
    spans = np.flatnonzero(starts)
    moves = graph.has_value_edges
    hubs = window.hubs if moves and window.size > 1 else np.empty(0, dtype=np.int64)
    cuts = np.concatenate([spans, hubs, hubs[hubs + 1 < window.size] + 1])
    reach = window.reach if moves else np.arange(window.size)
    axis = Axis(window.size, spans, labels[spans] != ZERO, np.unique(cuts).astype(np.int64), reach, hubs, graph.to_zero)
    if axis.noisy.size == 0:
        raise Declined(mechanism, "no move is hidden, so 'identity' releases every cell exactly")
    return axis
