"""Policy graphs on cells: windows, listed edges, cliques, joint graphs, and their composition for one query."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Bools, Ints, as_ints, check_sum, consecutive
from blowfishdb.model.serialize import digest, encode

EDGE_LIMIT = 20_000_000
"""No graph lists more edges than this; larger ones are handled symbolically or refused."""


class AxisGraph(Protocol):
    """An undirected graph without loops on the cells 0 .. size-1 of one axis."""

    @property
    def size(self) -> int: ...

    @property
    def edge_count(self) -> int:
        """How many edges there are, without listing them."""

    def edges(self) -> Ints:
        """All edges as rows (u, v) with u < v, in lexicographic order; TooLarge above EDGE_LIMIT."""

    def joined(self, first: Ints, second: Ints) -> Ints:
        """For each pair, 1 where the two cells are equal or joined by an edge, else 0."""

    def components(self) -> Ints:
        """A label for each cell, equal exactly within connected components, numbered by first appearance."""

    def distance(self, first: int, second: int) -> int | None:
        """Number of steps between two cells; None when no path joins them."""

    def fingerprint(self) -> bytes:
        """Bytes that determine the graph, for digests."""


@dataclass(frozen=True, eq=False)
class WindowGraph:
    """Cell i is joined to i+1 .. reach[i] (reach never decreases), and every universal vertex to every other cell.

    Universal vertices are cells such as NULL that stand beside the order; they reach themselves, and no window crosses
    them.
    """

    reach: Ints
    universal: Ints

    def __post_init__(self) -> None:
        reach, universal = as_ints(self.reach), as_ints(self.universal)
        object.__setattr__(self, "reach", reach)
        object.__setattr__(self, "universal", universal)
        index = np.arange(reach.size)
        if reach.size == 0:
            raise PolicyError("a policy graph needs at least one cell")
        if np.any(reach < index) or np.any(reach >= reach.size) or np.any(np.diff(reach) < 0):
            raise PolicyError("reach must be within the axis, at or after each cell, and never decrease")
        if universal.size and (np.any(np.diff(universal) <= 0) or universal[0] < 0 or universal[-1] >= reach.size):
            raise PolicyError("universal vertices must be distinct cells of the axis in increasing order")
        if np.any(reach[universal] != universal) or np.any((reach[universal - 1] >= universal) & (universal > 0)):
            raise PolicyError("no window may start at, reach or cross a universal vertex")

    @property
    def size(self) -> int:
        return int(self.reach.size)

    @property
    def is_universal(self) -> Bools:
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.universal] = True
        return mask

    @property
    def edge_count(self) -> int:
        window = int(np.sum(self.reach - np.arange(self.size)))
        plain = self.size - self.universal.size
        return window + self.universal.size * plain + self.universal.size * (self.universal.size - 1) // 2

    def edges(self) -> Ints:
        if self.edge_count > EDGE_LIMIT:
            raise TooLarge("edges of a policy graph", self.edge_count, EDGE_LIMIT, "Use coarser bins.")
        index = np.arange(self.size)
        count = self.reach - index
        parts = [np.stack([np.repeat(index, count), consecutive(index + 1, count)], axis=1)]
        mask = self.is_universal
        for universal_vertex in self.universal:
            others = index[~mask | (index > universal_vertex)]
            others = others[others != universal_vertex]
            parts.append(np.stack([np.minimum(others, universal_vertex), np.maximum(others, universal_vertex)], axis=1))
        return in_order(np.concatenate(parts)).astype(np.int64)

    def joined(self, first: Ints, second: Ints) -> Ints:
        low, high = np.minimum(first, second), np.maximum(first, second)
        mask = self.is_universal
        return np.asarray(mask[low] | mask[high] | (high <= self.reach[low]), dtype=np.int64)

    def components(self) -> Ints:
        if self.universal.size and self.size > 1:
            return np.zeros(self.size, dtype=np.int64)
        starts = np.concatenate([[False], self.reach[:-1] == np.arange(self.size - 1)])
        return np.cumsum(starts).astype(np.int64)

    def distance(self, first: int, second: int) -> int | None:
        low, high = min(first, second), max(first, second)
        direct = 0
        while low < high:
            step = int(self.reach[low])
            if step == low:
                break
            low, direct = step, direct + 1
        through_universal = (first != second) * (1 if self.is_universal[[first, second]].any() else 2)
        if low < high:
            return int(through_universal) if self.universal.size else None
        return min(direct, int(through_universal)) if self.universal.size else direct

    def fingerprint(self) -> bytes:
        return encode(("window", self.reach, self.universal))


VERTEX_LIMIT = 2**24
"""Listed graphs keep one number per vertex, and two vertices make one int64 key."""


def by_first_appearance(labels: Ints) -> Ints:
    """The same grouping with labels numbered 0, 1, ... in order of first appearance."""
    steps = np.diff(labels, prepend=labels[:1])
    if not labels[:1].any() and bool(np.all((steps == 0) | (steps == 1))):
        return labels
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse.reshape(-1)]


def in_order(pairs: Ints) -> Ints:
    """The edges in lexicographic order."""
    keys = pairs[:, 0].astype(np.int64) * (int(pairs.max(initial=0)) + 1) + pairs[:, 1]
    return pairs if np.all(keys[1:] >= keys[:-1]) else pairs[np.argsort(keys, kind="stable")]


def ordered_pairs(graph: Factor) -> tuple[Ints, Ints]:
    """Every edge in both directions, and each vertex with itself."""
    (low, high), stay = graph.edges().T, np.arange(graph.size)
    return np.concatenate([low, high, stay]), np.concatenate([high, low, stay])


def product_labels(components: Iterable[Ints]) -> Ints:
    """A label per combination of cells of several axes, from the labels along each."""
    labels = np.zeros(1, dtype=np.int64)
    for axis_labels in components:
        labels = (labels[:, None] * (int(axis_labels.max()) + 1) + axis_labels[None, :]).reshape(-1)
    return labels


def adjacency(edges: Ints, size: int) -> csr_array:
    """The edges as a sparse matrix, each in one direction."""
    ones = np.ones(edges.shape[0], dtype=np.int8)
    return csr_array(coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(size, size)))


def steps_between(edges: Ints, size: int, first: int, second: int) -> int | None:
    """The length of a shortest path along undirected edges; None where there is no path."""
    _, parent = breadth_first_order(adjacency(edges, size), first, directed=False)
    steps = 0
    while second != first:
        if parent[second] < 0:
            return None
        second, steps = int(parent[second]), steps + 1
    return steps


@dataclass(frozen=True, eq=False)
class EdgeGraph:
    """Exactly the listed edges."""

    size: int
    pairs: Ints

    def __post_init__(self) -> None:
        pairs = as_ints(np.asarray(self.pairs, dtype=np.int64).reshape(-1, 2))
        if self.size < 1:
            raise PolicyError("a policy graph needs at least one cell")
        if self.size > VERTEX_LIMIT:
            raise TooLarge("vertices of a listed graph", self.size, VERTEX_LIMIT, "Use coarser bins.")
        if pairs.shape[0] > EDGE_LIMIT:
            raise TooLarge("edges of a policy graph", pairs.shape[0], EDGE_LIMIT, "Use coarser bins.")
        if pairs.size and (pairs.min() < 0 or pairs.max() >= self.size):
            raise PolicyError(f"an edge names a cell outside 0..{self.size - 1}")
        ordered = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
        object.__setattr__(self, "pairs", as_ints(np.unique(ordered, axis=0).reshape(-1, 2)))

    @property
    def edge_count(self) -> int:
        return int(self.pairs.shape[0])

    def edges(self) -> Ints:
        return self.pairs

    def joined(self, first: Ints, second: Ints) -> Ints:
        keys = self.pairs[:, 0] * self.size + self.pairs[:, 1]
        wanted = np.minimum(first, second) * self.size + np.maximum(first, second)
        return np.asarray((first == second) | np.isin(wanted, keys), dtype=np.int64)

    def components(self) -> Ints:
        _, labels = connected_components(adjacency(self.pairs, self.size), directed=False)
        return by_first_appearance(labels.astype(np.int64))

    def distance(self, first: int, second: int) -> int | None:
        return steps_between(self.pairs, self.size, first, second)

    def fingerprint(self) -> bytes:
        return encode(("edges", self.size, self.pairs))


@dataclass(frozen=True, eq=False)
class CliqueGraph:
    """Cells with equal labels are joined to each other, and to nothing else."""

    labels: Ints

    def __post_init__(self) -> None:
        labels = as_ints(self.labels)
        if labels.size == 0:
            raise PolicyError("a policy graph needs at least one cell")
        object.__setattr__(self, "labels", as_ints(by_first_appearance(labels)))

    @property
    def size(self) -> int:
        return int(self.labels.size)

    @property
    def edge_count(self) -> int:
        sizes = np.bincount(self.labels).astype(object)
        return int(np.sum(sizes * (sizes - 1) // 2))

    def edges(self) -> Ints:
        if self.edge_count > EDGE_LIMIT:
            raise TooLarge("edges of a policy graph", self.edge_count, EDGE_LIMIT, "Use coarser bins.")
        parts = [np.empty((0, 2), dtype=np.int64)]
        for block in np.split(np.argsort(self.labels, kind="stable"), np.cumsum(np.bincount(self.labels))[:-1]):
            low, high = np.triu_indices(block.size, k=1)
            parts.append(np.stack([block[low], block[high]], axis=1))
        return in_order(np.concatenate(parts))

    def joined(self, first: Ints, second: Ints) -> Ints:
        return np.asarray(self.labels[first] == self.labels[second], dtype=np.int64)

    def components(self) -> Ints:
        return self.labels

    def distance(self, first: int, second: int) -> int | None:
        if self.labels[first] != self.labels[second]:
            return None
        return int(first != second)

    def fingerprint(self) -> bytes:
        return encode(("cliques", self.labels))


@dataclass(frozen=True, eq=False)
class JointEdges(EdgeGraph):
    """Exactly the listed edges between flattened cells (row-major) of several axes."""

    shape: tuple[int, ...]

    @cached_property
    def axes(self) -> tuple[EdgeGraph, ...]:
        """For each axis the cells that some edge joins, wherever it leads along the others."""
        places = np.unravel_index(self.pairs, self.shape)
        return tuple(EdgeGraph(size, place) for size, place in zip(self.shape, places, strict=True))

    def fingerprint(self) -> bytes:
        return encode(("joint edges", self.shape, self.pairs))


Metric = Literal["l1", "l2", "linf"]


@dataclass(frozen=True, eq=False)
class GridGraph:
    """Boxes are joined when the distance between the *sets* is at most theta.

    Axis j has cells with positions lows[j][i] .. highs[j][i] in whole units that theta shares. universal[j] are cells
    such as NULL that have no position: along axis j they are at distance 0 from every cell, the others still count.
    """

    lows: tuple[Ints, ...]
    highs: tuple[Ints, ...]
    theta: int
    metric: Metric
    universal: tuple[Ints, ...]

    def __post_init__(self) -> None:
        for name in ("lows", "highs", "universal"):
            object.__setattr__(self, name, tuple(as_ints(axis) for axis in getattr(self, name)))
        if not len(self.lows) == len(self.highs) == len(self.universal) >= 1:
            raise PolicyError("a joint threshold needs positions for each of its attributes")
        if self.theta < 0:
            raise PolicyError("theta must not be negative")
        for low, high in zip(self.lows, self.highs, strict=True):
            if low.size == 0 or low.size != high.size or np.any(low > high):
                raise PolicyError("each cell of a joint threshold needs a low position at or below its high one")
        furthest = self.theta + max(int(np.abs(axis).max()) for axis in (*self.lows, *self.highs))
        power = 2 if self.metric == "l2" else 1
        check_sum("distances of a joint threshold", len(self.lows) * (2 * furthest) ** power)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(low.size) for low in self.lows)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def axis_within(self, axis: int, radius: int) -> WindowGraph:
        """The threshold graph of one axis alone at the given radius; its positions must be in order."""
        low, high, universal = self.lows[axis], self.highs[axis], self.universal[axis]
        plain = np.setdiff1d(np.arange(low.size), universal)
        if np.any(np.diff(low[plain]) < 0) or np.any(np.diff(high[plain]) < 0):
            raise PolicyError("positions of a joint threshold must not decrease along an axis")
        if universal.size and plain.size and plain[-1] > universal[0]:
            raise PolicyError("cells without a position stand last on their axis")
        reach = np.arange(low.size)
        reach[plain] = self.reaches(axis, np.array([radius]), plain.size)[0]
        return WindowGraph(reach=np.maximum(reach, np.arange(low.size)), universal=universal)

    def reaches(self, axis: int, radii: Ints, cells: int) -> Ints:
        """For each radius and each of the first cells of an axis in order, the last of them within that radius."""
        low, high = self.lows[axis][:cells], self.highs[axis][:cells]
        return np.searchsorted(low, high[None, :] + radii[:, None], side="right") - 1

    def _gap(self, axis: int, first: Ints, second: Ints) -> Ints:
        """The distance of two cells along one axis."""
        low, high, universal = self.lows[axis], self.highs[axis], self.universal[axis]
        gap = np.maximum(0, np.maximum(low[second] - high[first], low[first] - high[second]))
        return np.where(np.isin(first, universal) | np.isin(second, universal), 0, gap)

    @property
    def edge_count_bound(self) -> int:
        """At least as many as there are edges: those of the Linf ball, without listing them."""
        graphs = [self.axis_within(axis, self.theta) for axis in range(len(self.shape))]
        return (math.prod(graph.size + 2 * graph.edge_count for graph in graphs) - self.size) // 2

    def edges(self) -> Ints:
        """All edges between flattened cells (row-major), u < v."""
        first = second = cost = np.zeros(1, dtype=np.int64)
        limit = self.theta**2 if self.metric == "l2" else self.theta
        for axis, size in enumerate(self.shape):
            one, two = ordered_pairs(self.axis_within(axis, self.theta))
            gap = self._gap(axis, one, two)
            if first.size * one.size > 4 * EDGE_LIMIT:
                raise TooLarge("pairs of a joint policy", first.size * one.size, 4 * EDGE_LIMIT, "Use coarser bins.")
            step = gap**2 if self.metric == "l2" else gap
            total = np.maximum.outer(cost, step) if self.metric == "linf" else np.add.outer(cost, step)
            near = total <= limit
            first = (first[:, None] * size + one[None, :])[near]
            second = (second[:, None] * size + two[None, :])[near]
            cost = total[near]
        keep = first < second
        return in_order(np.stack([first[keep], second[keep]], axis=1))

    def joined(self, first: Ints, second: Ints) -> Ints:
        """For each pair of flattened cells, 1 where they are equal or joined."""
        one, two = np.unravel_index(first, self.shape), np.unravel_index(second, self.shape)
        gaps = np.stack([self._gap(axis, one[axis], two[axis]) for axis in range(len(self.shape))])
        if self.metric == "l2":
            near = (gaps**2).sum(axis=0) <= self.theta**2
        else:
            near = (gaps.sum(axis=0) if self.metric == "l1" else gaps.max(axis=0)) <= self.theta
        return np.asarray(near, dtype=np.int64)

    def components(self) -> Ints:
        """A label per flattened cell: cells in one component of every axis are connected, one axis at a time."""
        return product_labels(self.axis_within(axis, self.theta).components() for axis in range(len(self.shape)))

    def fingerprint(self) -> bytes:
        """Bytes that determine the graph, for digests."""
        return encode(("grid", self.metric, self.theta, self.lows, self.highs, self.universal))


ClassCase = Literal["atoms", "general"]


@dataclass(frozen=True, eq=False)
class Exchanges:
    """The minimal changes under constraints that overlap, by the kinds of moves that they are made of.

    The moves of kind k are `pairs[starts[k]:starts[k + 1]]`, from a cell to a cell, ZERO where nothing counts. Those of
    kind 0 change no constraint. All moves of another kind change the constraints alike, and back again when reversed.
    Each line of `elements` is a change that keeps them: how many moves of kinds 1, 2, ... it makes, negative where they
    are reversed.
    """

    starts: Ints
    pairs: Ints
    elements: Ints

    def __post_init__(self) -> None:
        for name in ("starts", "pairs", "elements"):
            object.__setattr__(self, name, as_ints(getattr(self, name)))
        numbers = self.elements.shape[1] if self.elements.ndim == 2 else -1
        if self.pairs.shape != (int(self.starts[-1]), 2) or numbers != self.starts.size - 2:
            raise PolicyError("kinds of moves need their starts, their pairs of cells and a number in every element")

    def merged(self, buckets: Ints) -> Exchanges:
        """The same changes over buckets of cells."""
        return replace(self, pairs=np.append(buckets, ZERO)[self.pairs])

    def fingerprint(self) -> bytes:
        """Bytes that determine all of this, for digests."""
        return encode(("exchanges", self.starts, self.pairs, self.elements))


@dataclass(frozen=True, eq=False)
class ConstraintMoves:
    """The moves that make up the difference of two neighbouring tables under public constraints.

    Neighbours differ by at most `most` moves, each inside one group. Group g is the cells
    `members[starts[g]:starts[g + 1]]`, and the vertex that no row counts if `with_zero[g]`; at most `times[g]` moves
    are inside it. Case "atoms": the groups are atoms of the constraints, alike ones together. Case "general": one group
    holds everything, and `exchanges` says more about the changes where that is not too much.
    """

    case: ClassCase
    starts: Ints
    members: Ints
    with_zero: Bools
    times: Ints
    most: int
    exchanges: Exchanges | None = None

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
        merged = collected(self, keys // width, keys % width)
        return merged if self.exchanges is None else replace(merged, exchanges=self.exchanges.merged(buckets))

    def fingerprint(self) -> bytes:
        """Bytes that determine all of this, for digests."""
        with_zero = np.asarray(self.with_zero, dtype=np.bool_)
        more = () if self.exchanges is None else (self.exchanges.fingerprint(),)
        return encode(("together", self.case, self.most, self.starts, self.members, with_zero, self.times, *more))


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
    return factor.shape if isinstance(factor, GridGraph | JointEdges) else (factor.size,)


def axis_graphs(factor: Factor) -> tuple[AxisGraph, ...]:
    """A graph for each axis of the factor: an edge of the factor moves along each of them by one edge or not at all."""
    if isinstance(factor, GridGraph):
        return tuple(factor.axis_within(axis, factor.theta) for axis in range(len(factor.shape)))
    return factor.axes if isinstance(factor, JointEdges) else (factor,)


@dataclass(frozen=True, eq=False)
class CellGraph:
    """Which moves of one record, cell to cell, the policy hides.

    `record`: a move may step along every factor at once (strong product); `attribute`: along exactly one (Cartesian).
    `outside[c]` tells that some move leads from cell c to a value the filter rejects. With presence `secret` every
    cell is also joined to absence; with `only` nothing else is. Where public constraints make several records
    change together, `constraint_moves` describes such a change, the edges are its moves, and `rows_per_person` is the
    most moves that it makes. `is_exact` tells that every edge is the move of some record; otherwise there may be more
    edges than moves. It says nothing about the edges themselves, so it is not part of the digest.
    """

    factors: tuple[Factor, ...]
    composition: Composition
    outside: Bools
    presence: Presence
    rows_per_person: int = 1
    constraint_moves: ConstraintMoves | None = None
    is_exact: bool = True

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
        return in_order(self._strong() if self.composition == "record" else self._cartesian())

    def _strong(self) -> Ints:
        first = second = np.zeros(1, dtype=np.int64)
        for factor in self.factors:
            one, two = ordered_pairs(factor)
            first = (first[:, None] * factor.size + one[None, :]).reshape(-1)
            second = (second[:, None] * factor.size + two[None, :]).reshape(-1)
        keep = first < second
        return np.stack([first[keep], second[keep]], axis=1)

    def _cartesian(self) -> Ints:
        parts, after = [], self.cells
        for factor in self.factors:
            before, after = self.cells // after, after // factor.size
            rest = (np.arange(before)[:, None] * factor.size * after + np.arange(after)[None, :]).reshape(-1, 1)
            parts.append(np.stack([(rest + end[None, :] * after).reshape(-1) for end in factor.edges().T], axis=1))
        return np.concatenate(parts)

    def edges(self) -> Ints:
        """Value edges, then one row (cell, ZERO) for each cell joined to the vertex that no row counts."""
        cells = np.flatnonzero(self.to_zero)
        return np.concatenate([self.value_edges(), np.stack([cells, np.full(cells.size, ZERO)], axis=1)])

    def joined(self, first: Ints, second: Ints) -> Bools:
        """For each pair of different flattened cells whether an edge joins them, without listing any."""
        if not self.has_value_edges:
            return np.zeros(first.shape, dtype=np.bool_)
        sizes = [factor.size for factor in self.factors]
        ends = np.unravel_index(first, sizes), np.unravel_index(second, sizes)
        near, moved = np.ones(first.shape, dtype=np.bool_), np.zeros(first.shape, dtype=np.int64)
        for factor, one, two in zip(self.factors, *ends, strict=True):
            near &= factor.joined(one, two) == 1
            moved += one != two
        return np.asarray(near & (moved == 1) if self.composition == "attribute" else near)

    def components(self) -> Ints:
        """A label per cell; cells whose component contains the ZERO vertex carry the label ZERO."""
        if not self.has_value_edges:
            return np.full(self.cells, ZERO, dtype=np.int64)
        labels = product_labels(factor.components() for factor in self.factors)
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
        """A hash of everything above, none of which can be written to."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return digest(self.fingerprint())

    def former_digest(self) -> str:
        """The digest from before exchanges were told; empty where there are none."""
        moves = self.constraint_moves
        if moves is None or moves.exchanges is None:
            return ""
        return replace(self, constraint_moves=replace(moves, exchanges=None)).digest()
