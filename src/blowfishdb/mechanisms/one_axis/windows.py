"""How the windows of a policy pace an axis: hops, the places between them, and a shorter stand-in axis."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.one_axis.axis import Axis
from blowfishdb.model.arrays import Ints, distinct
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Identity, Prefix


def hop_starts(axis: Axis) -> Ints:
    """Block starts such that a move crosses at most one of them: each run that affords running sums is cut hop by hop.

    A hop ends where the window of the cell before its start ends, so no window holds two boundaries.
    """
    starts = [axis.runs]
    for start, end in zip(axis.runs[axis.chains], axis.run_ends[axis.chains], strict=True):
        cuts = []
        place = int(axis.reach[start])
        while place < end:
            cuts.append(place)
            place = int(axis.reach[place - 1]) + 1
        starts.append(np.array(cuts, dtype=np.int64))
    return distinct(np.concatenate(starts))


def typical_window(axis: Axis) -> int:
    """The median length of a window in the runs that afford running sums."""
    cell = np.arange(axis.cells)
    run_end = np.repeat(axis.run_ends, axis.run_ends - axis.runs)
    inner = np.repeat(axis.chains, axis.run_ends - axis.runs) & (axis.reach + 1 < run_end)
    return max(1, int(np.median((axis.reach - cell)[inner])))


def spread_places(axis: Axis, run: int, ratio: float) -> Ints:
    """Places inside one run about `ratio` hops apart, evenly spread in hops."""
    start, end = int(axis.runs[run]), int(axis.run_ends[run])
    hops = hop_starts(axis)
    knots = np.concatenate([[start], hops[(hops > start) & (hops < end)]])
    last = min(1.0, (end - knots[-1]) / (knots[-1] - knots[-2]))
    at = np.append(np.arange(knots.size, dtype=np.float64), knots.size - 1 + last)
    count = max(1, int(at[-1] / ratio + 1e-9) - 1)
    places = np.interp(np.arange(1, count + 1) * at[-1] / (count + 1), at, np.append(knots, end))
    return np.unique(np.round(places).astype(np.int64))


def even_axis(cells: int, window: int) -> Axis:
    """A stand-in: one run with constant windows and a free total."""
    reach = np.minimum(np.arange(cells) + window, cells - 1)
    zero = np.zeros(1, dtype=np.int64)
    none = np.empty(0, dtype=np.int64)
    return Axis(cells, zero, np.ones(1, np.bool_), zero, reach, none, np.zeros(cells, np.bool_))


def like(workload: Rows, cells: int) -> Rows:
    """A workload of the same kind over another number of cells; all ranges for kinds that do not scale."""
    if isinstance(workload, (Identity, Prefix)):
        return type(workload)(cells)
    return AllRanges(cells)
