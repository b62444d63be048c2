"""Which cells of a query a record can be in, for each combination of what facts and query both look at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.facts.signatures import Signatures
from blowfishdb.model.filtering import Verdict
from blowfishdb.model.segments import AxisCells, Segments


@dataclass(frozen=True, eq=False)
class Pieces:
    """`piece_of` numbers, for each combination of the facts' segments, the set of cells its records may be in.

    Piece p is the cells `index[place[p]][masks[mask[p]]]` (none where place is -1), and `zero[p]` tells that some of
    its records do not count.
    """

    piece_of: Ints
    place: Ints
    mask: Ints
    zero: Bools
    index: Ints
    masks: Bools

    @property
    def count(self) -> int:
        return int(self.place.size)

    def cells(self, piece: int) -> Ints:
        """The flat cells of a piece."""
        if self.place[piece] < 0:
            return np.empty(0, dtype=np.int64)
        return np.asarray(self.index[self.place[piece]][self.masks[self.mask[piece]]].reshape(-1), dtype=np.int64)


def pieces_of(
    told: Signatures, verdict: Verdict, cuts: Mapping[str, Segments], layout: Mapping[str, AxisCells]
) -> Pieces:
    """The pieces of a query's cells under the facts; attributes that only the query looks at may take any value."""
    shape = tuple(axis.cells for axis in layout.values()) or (1,)
    axes = list(layout)
    shared = [name for name in told.names if name in cuts]
    segment = {name: _query_segments(told.cuts[name], cuts[name]) for name in shared}
    bound = [name for name in axes if name in shared]
    filtered = [name for name in verdict.names if name not in shared and name in layout]
    rest = [name for name in axes if name not in bound and name not in filtered]
    order = [axes.index(name) for name in (*bound, *filtered, *rest)]
    sizes = [math.prod(layout[name].cells for name in names) for names in (bound, filtered, rest)]
    index = np.arange(math.prod(shape)).reshape(shape).transpose(order or None).reshape(sizes)
    masks, zeros, key = _by_filter(told, verdict, shared, segment, layout)
    place = np.zeros((1,) * len(told.names), dtype=np.int64)
    is_cell = np.ones((1,) * len(told.names), dtype=np.bool_)
    for name in bound:
        own = layout[name].cell_of[segment[name]]
        place = place * layout[name].cells + told.along(name, np.maximum(own, 0))
        is_cell = is_cell & (told.along(name, own) >= 0)
    different, which = np.unique(masks, axis=0, return_inverse=True)
    mask = which.reshape(-1)[key]
    is_cell = is_cell & np.asarray(different.any(axis=1))[mask]
    keys = np.where(is_cell, place * different.shape[0] + mask, -1) * 2 + zeros[key]
    found, numbers = np.unique(keys, return_inverse=True)
    pair = found // 2
    return Pieces(
        piece_of=np.broadcast_to(numbers.reshape(keys.shape), told.pattern.shape),
        place=np.where(pair < 0, -1, pair // different.shape[0]),
        mask=np.where(pair < 0, 0, pair % different.shape[0]),
        zero=found % 2 == 1,
        index=index,
        masks=different,
    )


def _query_segments(fine: Segments, coarse: Segments) -> Ints:
    """The query's segment of each of the finer segments."""
    special = coarse.starts.size + np.arange(len(coarse.slots))
    return np.concatenate([coarse.of(fine.starts), special])


def _by_filter(
    told: Signatures,
    verdict: Verdict,
    shared: list[str],
    segment: Mapping[str, Ints],
    layout: Mapping[str, AxisCells],
) -> tuple[Bools, Bools, Ints]:
    """What the filter lets through, row by row of the shared attributes it looks at.

    For each row: which cells of the filter's own axes can be reached, and whether a record can be rejected; then the
    row of each combination.
    """
    key = np.zeros((1,) * len(told.names), dtype=np.int64)
    own = [layout[name].cells for name in verdict.names if name not in shared and name in layout]
    if verdict.accepted is None:
        return np.ones((1, math.prod(own)), dtype=np.bool_), np.ones(1, dtype=np.bool_), key
    first = [name for name in verdict.names if name in shared]
    places = [verdict.names.index(name) for name in first]
    accepted = np.moveaxis(verdict.accepted, places, range(len(places)))
    rejected = ~accepted.reshape(*accepted.shape[: len(first)], -1)
    zeros = rejected.any(axis=-1).reshape(-1)
    for place, name in enumerate(name for name in verdict.names if name not in shared):
        axis = len(first) + place
        if name not in layout:
            accepted = np.asarray(accepted.any(axis=axis, keepdims=True))
            continue
        cell_of = layout[name].cell_of
        front = np.moveaxis(accepted, axis, 0)
        merged = np.zeros((layout[name].cells, *front.shape[1:]), dtype=np.bool_)
        np.logical_or.at(merged, cell_of[cell_of >= 0], front[cell_of >= 0])
        accepted = np.moveaxis(merged, 0, axis)
    for name in first:
        count = verdict.accepted.shape[verdict.names.index(name)]
        key = key * count + told.along(name, segment[name])
    return accepted.reshape(zeros.size, -1), zeros, key
