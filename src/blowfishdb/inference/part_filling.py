"""The nearest point inside a box in which every part of the cells has its given total; all parts at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.inference.water_filling import ROUNDING
from blowfishdb.model.arrays import Bools, Floats, Ints

HALVINGS = 200
"""More than enough to halve any interval of floats until nothing lies between its ends."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Cells put in order of their parts: part p holds `order[starts[p]:starts[p + 1]]`, at least one cell."""

    order: Ints
    starts: Ints
    totals: Floats

    @staticmethod
    def of(labels: Ints, totals: Floats) -> Parts:
        """The parts that have a cell; cells with a negative label are in none."""
        used = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=totals.size))
        order = np.argsort(labels, kind="stable")
        order = order[np.count_nonzero(labels < 0) :]
        starts = np.searchsorted(labels[order], used)
        return Parts(order, starts, totals[used])

    @property
    def part_of(self) -> Ints:
        """The part of each cell in order."""
        sizes = np.diff(self.starts, append=self.order.size)
        return np.repeat(np.arange(self.starts.size), sizes)

    def sums(self, cells: Floats) -> Floats:
        """The sum over each part, from its cells in order."""
        return np.add.reduceat(cells, self.starts) if self.starts.size else np.empty(0)


def unreachable(parts: Parts, values: Floats, low: Floats, high: Floats) -> Bools:
    """For which parts no point of the box has the total, up to the rounding of sums."""
    slack = ROUNDING * (parts.sums(np.abs(values[parts.order])) + np.abs(parts.totals))
    below, above = parts.sums(low[parts.order]), parts.sums(high[parts.order])
    return np.asarray((parts.totals < below - slack) | (parts.totals > above + slack))


def fill_parts(parts: Parts, values: Floats, low: Floats, high: Floats) -> Floats:
    """The minimiser of the squared distance to `values` with low <= x <= high, low >= 0, and every part's total.

    In each part x_i = clip(value_i - level), whose sum never grows with the level: the level is found by halving.
    """
    part = parts.part_of
    own, floor = values[parts.order], low[parts.order]
    # Nothing below 0 makes up for a cell above the part's total, so the upper ends may be taken to be finite.
    ceiling = np.maximum(np.minimum(high[parts.order], parts.totals[part]), floor)
    least = np.full(parts.totals.size, np.inf)
    most = np.full(parts.totals.size, -np.inf)
    np.minimum.at(least, part, own - ceiling)
    np.maximum.at(most, part, own - floor)
    for _ in range(HALVINGS):
        middle = least + (most - least) / 2.0
        if np.all((middle == least) | (middle == most)):
            break
        is_high = parts.sums(np.clip(own - middle[part], floor, ceiling)) > parts.totals
        least, most = np.where(is_high, middle, least), np.where(is_high, most, middle)
    filled = np.clip(own - most[part], floor, ceiling)
    inner = ((filled > floor) & (filled < ceiling)).astype(np.float64)
    share = inner / np.maximum(parts.sums(inner), 1.0)[part]
    filled = np.clip(filled + (parts.totals - parts.sums(filled))[part] * share, floor, ceiling)
    found = values.copy()
    found[parts.order] = filled
    return found
