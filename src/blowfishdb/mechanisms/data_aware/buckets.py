"""Runs of cells that are counted together: where they start, and what a workload over cells asks of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.data_aware.greedy_weights import PartialRanges
from blowfishdb.model.arrays import Floats, Ints, as_ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Intervals, as_intervals


@dataclass(frozen=True, eq=False)
class Buckets:
    """A partition of the cells into runs; `starts` holds the first cell of each."""

    cells: int
    starts: Ints

    def __post_init__(self) -> None:
        starts = as_ints(self.starts)
        object.__setattr__(self, "starts", starts)
        if starts.ndim != 1 or starts.size == 0 or starts[0] != 0 or np.any(np.diff(starts) <= 0):
            raise PlanError("buckets start at the first cell and then at increasing cells")
        if int(starts[-1]) >= self.cells:
            raise PlanError("every bucket starts within the cells")

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return int(self.starts.size)

    @cached_property
    def ends(self) -> Ints:
        """One past the last cell of each bucket."""
        return np.append(self.starts[1:], self.cells)

    @cached_property
    def lengths(self) -> Ints:
        """How many cells each bucket has."""
        return self.ends - self.starts

    @cached_property
    def of_cells(self) -> Ints:
        """The bucket of each cell."""
        return np.repeat(np.arange(self.count), self.lengths)

    def spread(self, totals: Floats) -> Floats:
        """The cells when each bucket's total is shared out evenly."""
        return np.repeat(totals / self.lengths, self.lengths)

    def parts_before(self, places: Ints) -> tuple[Ints, Floats]:
        """For each place between cells its bucket, and the part of that bucket before it."""
        bucket = np.minimum(np.searchsorted(self.starts, places, side="right") - 1, self.count - 1)
        return bucket, (places - self.starts[bucket]) / self.lengths[bucket]

    def cut_counts(self, workload: Rows) -> Ints:
        """For each query how many buckets it counts some cells of but not all: those that can bias its answer."""
        spans = None if isinstance(workload, AllRanges) else as_intervals(workload)
        if spans is None:
            most = int(np.sum(self.lengths > 1))
            return np.full(workload.shape[0], min(2, most) if isinstance(workload, AllRanges) else most)
        (first, before), (last, until) = self.parts_before(spans.low), self.parts_before(spans.high)
        left, right = (before > 0) & (spans.high > spans.low), (until > 0) & (until < 1) & (spans.high > spans.low)
        return np.where(first == last, left | right, left.astype(np.int64) + right).astype(np.int64)

    def partial_ranges(self, workload: Rows) -> PartialRanges | None:
        """What each query covers of the buckets, where all are ranges that hold a cell and few enough to list."""
        spans = None if isinstance(workload, AllRanges) else as_intervals(workload)
        if spans is None or np.any(spans.low == spans.high):
            return None
        (first, before), (last, until) = self.parts_before(spans.low), self.parts_before(spans.high)
        ended = until == 0.0
        last, until = np.where(ended, last - 1, last), np.where(ended, 1.0, until)
        one = first == last
        return PartialRanges(first, last, np.where(one, until - before, 1.0 - before), np.where(one, 0.0, until))

    def rounded(self, workload: Rows) -> Intervals | AllRanges:
        """Ranges of whole buckets like those the workload asks for; all ranges where it asks for other things."""
        spans = None if isinstance(workload, AllRanges) else as_intervals(workload)
        if spans is None:
            return AllRanges(self.count)
        low, high = (self._nearest(places) for places in (spans.low, spans.high))
        return Intervals(self.count, low, high)

    def _nearest(self, places: Ints) -> Ints:
        bucket, part = self.parts_before(places)
        return bucket + (part >= 1 / 2)
