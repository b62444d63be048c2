"""Policy graphs on the cells of one axis: what they can say, whatever their family."""

from __future__ import annotations

from typing import Protocol

from blowfishdb.model.arrays import Ints

EDGE_LIMIT = 20_000_000
"""No graph lists more edges than this; larger ones are handled symbolically or refused."""


class AxisGraph(Protocol):
    """An undirected graph without loops on the cells 0 .. size-1 of one axis."""

    @property
    def size(self) -> int: ...

    @property
    def edge_count(self) -> int:
        """How many edges there are, without listing them."""
        ...

    def edges(self) -> Ints:
        """All edges as rows (u, v) with u < v, in lexicographic order; TooLarge above EDGE_LIMIT."""
        ...

    def neighbours(self, vertex: int) -> Ints:
        """The sorted neighbours of one cell."""
        ...

    def joined(self, first: Ints, second: Ints) -> Ints:
        """For each pair, 1 where the two cells are equal or joined by an edge, else 0."""
        ...

    def components(self) -> Ints:
        """A label for each cell, equal exactly within connected components, numbered by first appearance."""
        ...

    def distance(self, first: int, second: int) -> int | None:
        """Number of steps between two cells; None when no path joins them."""
        ...

    def fingerprint(self) -> bytes:
        """Bytes that determine the graph, for digests."""
        ...
