"""What coarse rows leave of the loss to each cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.one_axis.axis import Axis
from blowfishdb.mechanisms.one_axis.coarse_rows import Group, window_maxima
from blowfishdb.model.arrays import Bools, Floats


@dataclass(frozen=True, eq=False)
class Spare:
    """Loss of the groups per unit of their shares at each cell: on its worst move, and when a record vanishes.

    On a move u to v the groups lose at most hats(u) + hats(v) + |falling(u) - falling(v)|. If no cell takes more
    than half of what any of its moves leaves, and no more than a vanishing record leaves, no loss exceeds 1.
    """

    moved: Floats
    vanished: Floats
    moves: Bools
    leaves: Bools
    has_hubs: bool

    def cells(self, shares: Floats) -> Floats:
        """The share of each cell: the common one (first of `shares`), or more where there is loss to spare."""
        common = np.full(self.moves.size, shares[0])
        if self.has_hubs:
            return common
        by_moves = np.where(self.moves, (1 - self.moved @ shares[1:]) / 2, np.inf)
        room = np.minimum(by_moves, np.where(self.leaves, 1 - self.vanished @ shares[1:], np.inf))
        return np.where(np.isfinite(room), np.maximum(common, room), common)


def spare_loss(axis: Axis, groups: list[Group]) -> Spare:
    """The spare loss of each cell beside the given groups."""
    cell = np.arange(axis.cells)
    back = np.searchsorted(axis.reach, cell)
    moved, vanished = np.zeros((2, axis.cells, len(groups)))
    for place, group in enumerate(groups):
        over = group.column_sums
        vanished[:, place] = over
        if group.falling:
            moved[:, place] = np.maximum(over - over[axis.reach], over[back] - over)
        else:
            moved[:, place] = over + window_maxima(over, back, axis.reach)
    moves = (axis.reach > cell) | (back < cell)
    return Spare(moved, vanished, moves, axis.leaves, axis.hubs.size > 0)
