"""The result of every loss computation: how much, on which edge, and whether that edge attains it."""

from __future__ import annotations

from dataclasses import dataclass

from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import ZERO


@dataclass(frozen=True)
class WorstEdge:
    """Loss at unit 1 of one record moving once. `tight` tells that `edge` attains it; otherwise it is a bound."""

    loss: int
    edge: tuple[int, int] | None
    tight: bool = True


NO_EDGE = WorstEdge(0, None)


def larger(first: WorstEdge, second: WorstEdge) -> WorstEdge:
    """The one with the greater loss; on a tie the first, unless only the second is attained."""
    if first.loss == second.loss:
        return first if first.tight or not second.tight else second
    return first if first.loss > second.loss else second


def worst_of(losses: Ints, edges: Ints) -> WorstEdge:
    """The first edge with the greatest of the given losses."""
    if losses.size == 0:
        return NO_EDGE
    index = int(losses.argmax())
    return WorstEdge(int(losses[index]), (int(edges[index, 0]), int(edges[index, 1])))


def worst_to_zero(norms: Ints, joined: Ints) -> WorstEdge:
    """The worst way to leave for the vertex that no row counts: the largest column norm among the joined cells."""
    if joined.size == 0:
        return NO_EDGE
    cell = int(joined[norms[joined].argmax()])
    return WorstEdge(int(norms[cell]), (cell, ZERO))
