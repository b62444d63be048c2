"""The policy graph on the cells of one query: factors, how they compose, and the vertex that no record has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.encoding import digest, encode
from blowfishdb.model.graphs import EDGE_LIMIT, AxisGraph, GridGraph, by_first_appearance
from blowfishdb.model.numbers import Bools, Ints, as_ints

Case = Literal["atoms", "general"]


@dataclass(frozen=True, eq=False)
class ConstraintMoves:
    """The moves that make up the difference of two neighbouring tables under public constraints.

    Neighbours differ by at most `most` moves, each inside one group. Group g is the cells
    `members[starts[g]:starts[g + 1]]`, and the vertex that no row counts if `with_zero[g]`; at most `times[g]` moves
    are inside it. Case "atoms": the groups are atoms of the constraints, alike ones together. Case "general": one group
    holds everything.
    """

    case: Case
    starts: Ints
    members: Ints
    with_zero: Bools
    times: Ints
    most: int

    def __post_init__(self) -> None:
        for name in ("starts", "members", "times"):
            object.__setattr__(self, name, as_ints(getattr(self, name)))
        groups = self.times.size
        if self.starts.size != groups + 1 or self.with_zero.size != groups or int(self.starts[-1]) != self.members.size:
            raise PolicyError("groups of cells need their starts, their times and their members")
        if self.most < 1 or (groups and int(self.times.min()) < 1):
            raise PolicyError("a change makes at least one move, and so may each group of cells")

    @property
    def groups(self) -> int:
        return int(self.times.size)

    def is_everything(self, cells: int) -> bool:
        """Whether one group holds all cells, so that its worst pair is the worst edge of the graph."""
        return self.groups == 1 and self.members.size == cells

    def merged(self, buckets: Ints) -> ConstraintMoves:
        """The same groups over buckets of cells; groups that shrink to one vertex can no longer change anything."""
        group = np.repeat(np.arange(self.groups), np.diff(self.starts))
        width = int(buckets.max()) + 1
        keys = np.unique(group * width + buckets[self.members])
        return collected(self, keys // width, keys % width)

    def fingerprint(self) -> bytes:
        """Bytes that determine all of this, for digests."""
        with_zero = np.asarray(self.with_zero, dtype=np.bool_)
        return encode(("together", self.case, self.most, self.starts, self.members, with_zero, self.times))


def collected(like: ConstraintMoves, group: Ints, member: Ints) -> ConstraintMoves:
    """Groups from pairs (group, member) in order, with the other properties of `like`; single vertices are left out."""
    sizes = np.bincount(group, minlength=like.groups)
    changing = sizes + like.with_zero >= 2
    return ConstraintMoves(
        like.case,
        np.concatenate([[0], np.cumsum(sizes[changing])]),
        member[changing[group]],
        np.asarray(like.with_zero[changing], dtype=np.bool_),
        like.times[changing],
        like.most,
    )


Composition = Literal["record", "attribute"]
Presence = Literal["public", "secret", "only"]
Factor = AxisGraph | GridGraph

ZERO = -1
"""Stands for the vertex where every row is 0: a record that the filter rejects, or that is absent."""


def factor_shape(factor: Factor) -> tuple[int, ...]:
    """How many cells the factor has along each of its axes."""
    return factor.shape if isinstance(factor, GridGraph) else (factor.size,)


@dataclass(frozen=True, eq=False)
class CellGraph:
    """Which moves of one record, cell to cell, the policy hides.

    `record`: a move may step along every factor at once (strong product); `attribute`: along exactly one (Cartesian).
    `outside[c]` tells that some move leads from cell c to a value the filter rejects. With presence `secret` every
    cell is also joined to absence; with `only` nothing else is. Where public constraints make several records
    change together, `constraint_moves` describes such a change, the edges are its moves, and `rows_per_person` is the
    most moves that it makes.
    """

    factors: tuple[Factor, ...]
    composition: Composition
    outside: Bools
    presence: Presence
    rows_per_person: int = 1
    constraint_moves: ConstraintMoves | None = None

    def __post_init__(self) -> None:
        if not self.factors:
            raise PolicyError("a cell graph needs at least one factor")
        outside = np.array(np.broadcast_to(self.outside, (self.cells,)), dtype=np.bool_)
        outside.setflags(write=False)
        object.__setattr__(self, "outside", outside)
        if self.composition not in ("record", "attribute"):
            raise PolicyError(f"composition is 'record' or 'attribute', not {self.composition!r}")
        if self.presence not in ("public", "secret", "only"):
            raise PolicyError(f"presence is 'public', 'secret' or 'only', not {self.presence!r}")
        if self.rows_per_person < 1:
            raise PolicyError("a person has at least one row")
        moves = self.constraint_moves
        if moves is not None and (self.rows_per_person != moves.most or self.presence != "public"):
            raise PolicyError("records that change together count as that many rows, absence among their moves")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for factor in self.factors for size in factor_shape(factor))

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    @property
    def has_value_edges(self) -> bool:
        """Whether moves between cells are hidden at all."""
        return self.presence != "only"

    @property
    def to_zero(self) -> Bools:
        """The cells joined to the vertex that no row counts."""
        return self.outside if self.presence == "public" else np.ones(self.cells, dtype=np.bool_)

    @property
    def value_edge_bound(self) -> int:
        """At least as many as there are edges between cells, without listing them."""
        if not self.has_value_edges:
            return 0
        sizes = [factor.size for factor in self.factors]
        counts = [f.edge_count_bound if isinstance(f, GridGraph) else f.edge_count for f in self.factors]
        if self.composition == "record":
            return (math.prod(n + 2 * e for n, e in zip(sizes, counts, strict=True)) - math.prod(sizes)) // 2
        return sum(e * (self.cells // n) for n, e in zip(sizes, counts, strict=True))

    def value_edges(self) -> Ints:
        """All edges between flattened cells (row-major), u < v, in lexicographic order."""
        if self.value_edge_bound > EDGE_LIMIT:
            raise TooLarge("edges of the projected policy", self.value_edge_bound, EDGE_LIMIT, "Use coarser bins.")
        if not self.has_value_edges:
            return np.empty((0, 2), dtype=np.int64)
        moves, sizes = [factor.edges() for factor in self.factors], [factor.size for factor in self.factors]
        pairs = self._strong(moves, sizes) if self.composition == "record" else self._cartesian(moves, sizes)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    @staticmethod
    def _strong(moves: list[Ints], sizes: list[int]) -> Ints:
        first = second = np.zeros(1, dtype=np.int64)
        for edges, size in zip(moves, sizes, strict=True):
            one = np.concatenate([edges[:, 0], edges[:, 1], np.arange(size)])
            two = np.concatenate([edges[:, 1], edges[:, 0], np.arange(size)])
            first = (first[:, None] * size + one[None, :]).reshape(-1)
            second = (second[:, None] * size + two[None, :]).reshape(-1)
        keep = first < second
        return np.stack([first[keep], second[keep]], axis=1)

    @staticmethod
    def _cartesian(moves: list[Ints], sizes: list[int]) -> Ints:
        parts = []
        for axis, edges in enumerate(moves):
            before, after = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
            rest = (np.arange(before)[:, None] * sizes[axis] * after + np.arange(after)[None, :]).reshape(-1, 1)
            parts.append(np.stack([(rest + edges[None, :, k] * after).reshape(-1) for k in (0, 1)], axis=1))
        return np.concatenate(parts)

    def edges(self) -> Ints:
        """Value edges, then one row (cell, ZERO) for each cell joined to the vertex that no row counts."""
        cells = np.flatnonzero(self.to_zero)
        return np.concatenate([self.value_edges(), np.stack([cells, np.full(cells.size, ZERO)], axis=1)])

    def components(self) -> Ints:
        """A label per cell; cells whose component contains the ZERO vertex carry the label ZERO."""
        if not self.has_value_edges:
            return np.full(self.cells, ZERO, dtype=np.int64)
        labels = np.zeros(1, dtype=np.int64)
        for factor in self.factors:
            factor_labels = factor.components()
            labels = (labels[:, None] * (int(factor_labels.max()) + 1) + factor_labels[None, :]).reshape(-1)
        free = ~np.isin(labels, labels[self.to_zero])
        result = np.full(self.cells, ZERO, dtype=np.int64)
        result[free] = by_first_appearance(labels[free])
        return result

    def fingerprint(self) -> bytes:
        """Bytes that determine everything above, for digests."""
        factors = tuple(factor.fingerprint() for factor in self.factors)
        moves = None if self.constraint_moves is None else self.constraint_moves.fingerprint()
        return encode(
            ("cell graph", self.composition, self.presence, self.rows_per_person, self.outside, factors, moves)
        )

    def digest(self) -> str:
        """A hash of everything above."""
        return digest(self.fingerprint())
