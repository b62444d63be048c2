"""The worst edge of each kind of measurement: intervals, products, listed edges, noise on edges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csc_array, csr_array, kron, vstack

from blowfishdb.errors import CannotCertify, InfiniteLoss, PlanError, TooLarge
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import (
    ZERO,
    AxisGraph,
    CellGraph,
    Exchanges,
    Factor,
    GridGraph,
    WindowGraph,
    axis_graphs,
    factor_shape,
)
from blowfishdb.model.numbers import Ints, Numbers, check_sum, total_weight
from blowfishdb.model.workload import AllRanges, Intervals, Kronecker, Rows, Sparse, Stacked, as_intervals
from blowfishdb.plan.plan import EdgePlan, KroneckerMeasurement, Measurement, Plan


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


TABLE_CELLS = 1024
"""Up to this many cells the table of all C(u, v) is smaller than the compiler's start-up time."""


LONG_EDGES = 200_000
"""Up to this many edges of a long axis without windows are compared one by one."""


def cover(intervals: Intervals, weights: Ints) -> Ints:
    """D(u): the total weight of the intervals over each cell."""
    total_weight(weights)
    steps = np.zeros(intervals.shape[1] + 1, dtype=np.int64)
    np.add.at(steps, intervals.low, weights)
    np.subtract.at(steps, intervals.high, weights)
    return np.cumsum(steps[:-1])


def shared_cover(intervals: Intervals, weights: Ints, cell: int) -> Ints:
    """C(., cell): for each cell the total weight of the intervals over it and over `cell`."""
    over = (intervals.low <= cell) & (cell < intervals.high)
    return cover(Intervals(intervals.shape[1], intervals.low[over], intervals.high[over]), weights[over])


def overlap_table(intervals: Intervals, weights: Ints) -> Ints:
    """C(u, v) for all pairs, D(u) on the diagonal: sums over the starts up to one cell and the ends after the other."""
    upper = np.triu(np.cumsum(_ending_after(intervals, weights), axis=0))
    return upper + np.triu(upper, k=1).T


def worst_axis_edge(intervals: Intervals, weights: Ints, graph: AxisGraph) -> WorstEdge:
    """The worst edge of an axis, exact; for graphs without windows and with very many edges, a sound bound."""
    if graph.size <= TABLE_CELLS and isinstance(graph, WindowGraph):
        return _worst_in_table(intervals, weights, graph)
    if graph.size <= TABLE_CELLS:
        edges = graph.edges()
        return worst_of(_table_losses([overlap_table(intervals, weights)], edges), edges)
    if isinstance(graph, WindowGraph):
        return _worst_window_edge(intervals, weights, graph)
    if graph.edge_count == 0:
        return NO_EDGE
    if graph.edge_count <= LONG_EDGES:
        try:
            edges = graph.edges()
            return worst_of(column_losses(sparse_columns(intervals), weights, edges), edges)
        except TooLarge:
            pass
    return WorstEdge(2 * int(cover(intervals, weights).max()), None, tight=False)


def _worst_in_table(intervals: Intervals, weights: Ints, graph: WindowGraph) -> WorstEdge:
    """The worst edge, the first of those that lose as much, from C(u, .) of one cell u after another; lists no edge."""
    over = cover(intervals, weights)
    apart = _apart(intervals, weights, over, graph)
    if apart is not None:
        return apart
    starting, is_universal = _ending_after(intervals, weights), graph.is_universal
    worst, shared, most = NO_EDGE, np.zeros(graph.size, dtype=np.int64), int(over.max())
    least = _some_loss(intervals, weights, over, graph)
    for cell in range(graph.size):
        shared += starting[cell]
        highest = int(over[cell]) + most
        if highest < least or (worst.edge is not None and highest <= worst.loss):
            continue  # even without shared rows no edge from here loses more
        last = graph.size if is_universal[cell] else int(graph.reach[cell]) + 1
        joined: slice | Ints
        for joined in (slice(cell + 1, last), graph.universal[graph.universal >= max(last, cell + 1)]):
            losses = over[joined] - 2 * shared[joined]
            if losses.size and (worst.edge is None or int(over[cell] + losses.max()) > worst.loss):
                place = int(losses.argmax())
                other = cell + 1 + place if isinstance(joined, slice) else int(joined[place])
                worst = WorstEdge(int(over[cell] + losses[place]), (cell, other))
    return worst


def _some_loss(intervals: Intervals, weights: Ints, over: Ints, graph: WindowGraph) -> int:
    """What some edge loses, the worst one of a cell under the most weight; 0 where that has none along the order."""
    cell = int(over.argmax())
    losses = over + over[cell] - 2 * shared_cover(intervals, weights, cell)
    losses[cell] = 0
    return int(losses[int(np.searchsorted(graph.reach, cell)) : int(graph.reach[cell]) + 1].max())


def _ending_after(intervals: Intervals, weights: Ints) -> Ints:
    """For each cell u, and each v from u on, the weight of the intervals that start at u and end after v."""
    size = intervals.shape[1]
    total_weight(weights)
    corner = np.zeros((size, size + 1), dtype=np.int64)
    full = intervals.high > intervals.low
    np.add.at(corner, (intervals.low[full], intervals.high[full]), weights[full])
    backwards = corner[:, ::-1]
    return np.cumsum(backwards, axis=1, out=backwards)[:, -2::-1]


def _worst_window_edge(intervals: Intervals, weights: Ints, graph: WindowGraph) -> WorstEdge:
    """The worst window edge by one sweep along the axis, and the worst edge of every universal vertex."""
    over = cover(intervals, weights)
    if np.any(intervals.low):
        worst = _apart(intervals, weights, over, graph) or _swept(intervals, weights, over, graph)
    else:
        worst = _nested(over, graph)
    for vertex in graph.universal.tolist():
        losses = over + over[vertex] - 2 * shared_cover(intervals, weights, vertex)
        losses[vertex] = -1
        other = int(losses.argmax())
        worst = larger(worst, WorstEdge(int(losses[other]), (min(other, vertex), max(other, vertex))))
    return worst


def _nested(over: Ints, graph: WindowGraph) -> WorstEdge:
    """The worst window edge where all intervals begin at the first cell, the one that a sweep meets first.

    What covers a cell covers all before it: a move to it loses what the first cell that reaches it has more.
    """
    start = np.searchsorted(graph.reach, np.arange(graph.size))
    losses = np.where(start < np.arange(graph.size), over[start] - over, -1)
    cell = int(losses.argmax())
    return WorstEdge(int(losses[cell]), (int(start[cell]), cell)) if losses[cell] >= 0 else NO_EDGE


def _apart(intervals: Intervals, weights: Ints, over: Ints, graph: WindowGraph) -> WorstEdge | None:
    """The worst window edge where two cells under the most weight share none of it, the first in any order.

    What covers both the first of these cells and a later one covers all between them, so that if any of them pairs up
    with a cell that the first one reaches, the first one does.
    """
    first = int(over.argmax())
    reached = slice(first + 1, int(graph.reach[first]) + 1)
    alike = np.flatnonzero(over[reached] == over[first])
    if alike.size == 0:
        return None
    free = alike[shared_cover(intervals, weights, first)[reached][alike] == 0]
    return WorstEdge(2 * int(over[first]), (first, first + 1 + int(free[0]))) if free.size else None


def _swept(intervals: Intervals, weights: Ints, over: Ints, graph: WindowGraph) -> WorstEdge:
    """The worst window edge, by one sweep along the axis."""
    from blowfishdb.plan.kernels import sweep

    shared = intervals.high - intervals.low > 1  # an interval of one cell covers no pair: it counts in D alone
    low, high = intervals.low[shared], intervals.high[shared]
    orders = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
    # Copies are writable, so that the kernel is compiled for one kind of array only.
    arrays = (np.array(part) for part in (over, graph.reach, low, high, weights[shared], *orders))
    best, cell = (int(number) for number in sweep(*arrays))
    if cell < 0:
        return NO_EDGE
    start = int(np.searchsorted(graph.reach, cell))
    losses = over[start:cell] + over[cell] - 2 * shared_cover(intervals, weights, cell)[start:cell]
    return WorstEdge(best, (start + int(losses.argmax()), cell))


MOST_LEVELS = 8_000_000
"""Rows whose heights add up to more than this are not taken apart."""


def weighted_intervals(rows: Rows, weights: Ints) -> tuple[Intervals, Ints] | None:
    """Intervals and weights that lose on every edge exactly what the rows lose, or None when rows are of another kind.

    A row q >= 0 is the sum over k >= 1 of its level sets {q >= k}. They are nested, so |q_u - q_v| is the sum of
    the level sets' differences; and they are intervals exactly when q never rises again after it has fallen.
    """
    intervals = as_intervals(rows)
    if intervals is not None:
        return intervals, weights
    if not isinstance(rows, Sparse):
        return None
    return _level_sets(rows.matrix, weights)


def _level_sets(matrix: csr_array, weights: Ints) -> tuple[Intervals, Ints] | None:
    value = matrix.data
    if int(value.min(initial=0)) < 0:
        return None
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    column = matrix.indices.astype(np.int64)
    follows = np.zeros(value.size, dtype=np.bool_)
    follows[1:] = (row[1:] == row[:-1]) & (column[1:] == column[:-1] + 1)
    before = np.where(follows, np.roll(value, 1), 0)
    stops = ~np.roll(follows, -1)
    rise, fall = np.maximum(value - before, 0), np.maximum(before - value, 0)
    if float(rise.astype(np.float64).sum()) > MOST_LEVELS:
        return None
    start_row, start = np.repeat(row, rise), np.repeat(column, rise)
    drop = np.concatenate([fall, value[stops]])
    end_row = np.repeat(np.concatenate([row, row[stops]]), drop)
    end = np.repeat(np.concatenate([column, column[stops] + 1]), drop)
    outermost_first = np.lexsort((-end, end_row))
    end = end[outermost_first]
    last_start, first_end = np.zeros(matrix.shape[0], dtype=np.int64), np.full(matrix.shape[0], matrix.shape[1] + 1)
    np.maximum.at(last_start, start_row, start)
    np.minimum.at(first_end, start_row, end)
    if np.any(last_start >= first_end):
        return None
    return Intervals(int(matrix.shape[1]), start, end), weights[start_row]


ENTRIES = 50_000_000
"""The most matrix entries that are written out to compare columns."""


def sparse_columns(rows: Rows) -> csc_array:
    """The matrix itself, by columns; refused with TooLarge where it does not fit."""
    intervals = as_intervals(rows)
    if intervals is not None:
        lengths = intervals.high - intervals.low
        _check_entries(int(lengths.sum()))
        starts = np.cumsum(lengths) - lengths
        cells = np.arange(int(lengths.sum())) - np.repeat(starts - intervals.low, lengths)
        query = np.repeat(np.arange(lengths.size), lengths)
        return csc_array((np.ones(cells.size, dtype=np.int64), (query, cells)), shape=rows.shape)
    if isinstance(rows, Sparse):
        return csc_array(rows.matrix)
    if isinstance(rows, Stacked):
        return csc_array(vstack([sparse_columns(part) for part in rows.parts], format="csc"))
    if isinstance(rows, Kronecker):
        product = sparse_columns(rows.factors[0])
        for factor in rows.factors[1:]:
            following = sparse_columns(factor)
            _check_entries(product.nnz * following.nnz)
            product = csc_array(kron(product, following, format="csc"))
        return product
    return csc_array(rows.dense())


def _check_entries(entries: int) -> None:
    if entries > ENTRIES:
        raise TooLarge("matrix entries to compare", entries, ENTRIES, "Use coarser bins.")


def column_losses(columns: csc_array, weights: Ints, edges: Ints) -> Ints:
    """For each edge (u, v) the weighted L1 distance between columns u and v, exact."""
    check_sum("weights times entries", total_weight(weights) * _largest_entry(columns))
    first, second = edges[:, 0], edges[:, 1]
    per_column = np.diff(columns.indptr)
    _check_entries(int(per_column[first].sum() + per_column[second].sum()))
    return np.asarray(abs(columns[:, first] - columns[:, second]).T @ weights, dtype=np.int64)


def listed_losses(plan: Plan, edges: Ints) -> Ints:
    """The loss of each listed edge between flattened cells."""
    return sum((_part_losses(part, edges) for part in plan.parts), np.zeros(edges.shape[0], dtype=np.int64))


def _part_losses(part: Measurement | KroneckerMeasurement, edges: Ints) -> Ints:
    factors = part.factors if isinstance(part, KroneckerMeasurement) else (part,)
    alone = _one_cell_each(factors[0]) if len(factors) == 1 else None
    if alone is not None:
        # No row counts both ends.
        return alone[edges[:, 0]] + alone[edges[:, 1]]
    tables = _overlap_tables(factors)
    if tables is not None:
        return _table_losses(tables, edges)
    return column_losses(sparse_columns(part.rows), part.weights, edges)


def _one_cell_each(part: Measurement) -> Ints | None:
    """The weight of the rows over each cell, where no row counts two cells."""
    intervals = as_intervals(part.rows)
    if intervals is None or int((intervals.high - intervals.low).max(initial=0)) > 1:
        return None
    return cover(intervals, part.weights)


def _overlap_tables(factors: tuple[Measurement, ...]) -> list[Ints] | None:
    tables = []
    for factor in factors:
        intervals = as_intervals(factor.rows)
        if intervals is None or factor.cells > TABLE_CELLS:
            return None
        tables.append(overlap_table(intervals, factor.weights))
    check_sum("product of column norms", math.prod(int(table.max()) for table in tables))
    return tables


def _table_losses(tables: list[Ints], edges: Ints) -> Ints:
    """|A| + |B| - 2 |A and B| for the sets of 0/1 rows over the two ends: all three are products over the axes."""
    shape = tuple(len(table) for table in tables)
    first, second = np.unravel_index(edges[:, 0], shape), np.unravel_index(edges[:, 1], shape)
    over_first = over_second = over_both = np.ones(edges.shape[0], dtype=np.int64)
    for axis, table in enumerate(tables):
        over_first = over_first * table[first[axis], first[axis]]
        over_second = over_second * table[second[axis], second[axis]]
        over_both = over_both * table[first[axis], second[axis]]
    return over_first + over_second - 2 * over_both


EXCHANGED = 2**19
"""The most numbers that are added up to find the worst of the minimal changes under overlapping constraints."""


def exchange_loss(plan: Plan, exchanges: Exchanges, bound: int) -> int:
    """The greatest loss of a minimal change that keeps all constraints, exact; the bound where that is too much work.

    A change makes so many moves of each kind. Loss is a norm of the sum of their differences, so among moves of one
    kind it is greatest where all of them are the same one (proof: docs/proofs/constraints.md).
    """
    rows = int(plan.weights.size)
    if rows * exchanges.pairs.shape[0] > EXCHANGED:
        return bound
    columns = vstack([sparse_columns(part.rows) for part in plan.parts], format="csr").toarray()
    largest, most = int(np.abs(columns).max(initial=0)), int(np.abs(exchanges.elements).sum(axis=1).max(initial=2))
    check_sum("moves times weights times entries", 2 * most * largest * total_weight(plan.weights))
    # The last line stands for what does not count.
    weighed = np.vstack([(columns * plan.weights[:, None]).T, np.zeros(rows, dtype=np.int64)])
    differences = weighed[exchanges.pairs[:, 1]] - weighed[exchanges.pairs[:, 0]]
    kinds = [np.unique(kind, axis=0) for kind in np.split(differences, exchanges.starts[1:-1])]
    # One move that changes no constraint; or two of one kind, one of them reversed.
    changes = [[(kinds[0], 1)], *([(kind, 1), (kind, -1)] for kind in kinds[1:])]
    for element in exchanges.elements.tolist():
        changes.append([(kind, times) for kind, times in zip(kinds[1:], element, strict=True) if times])
    worst, work = 0, 0
    for change in changes:
        sums = np.zeros((1, rows), dtype=np.int64)
        for kind, times in change:
            work += sums.shape[0] * kind.size
            if work > EXCHANGED:
                return bound
            sums = np.unique((sums[:, None, :] + times * kind[None, :, :]).reshape(-1, rows), axis=0)
        worst = max(worst, int(np.abs(sums).sum(axis=1).max(initial=0)))
    return worst


def check_exact_rows(rows: Rows, graph: CellGraph) -> None:
    """Refuses rows that are not constant on every component, or not 0 where a record can leave or be absent."""
    labels, columns = graph.components(), sparse_columns(rows)
    columns.sum_duplicates()
    entries = columns.tocoo()
    sizes, told = np.bincount(labels - ZERO), entries.data != 0
    row, label, value = entries.row[told].astype(np.int64), labels[entries.col[told]] - ZERO, entries.data[told]
    # An entry for each cell of a component, and all of them alike: that of the first is found for every one.
    _, first, component, count = np.unique(
        row * sizes.size + label, return_index=True, return_inverse=True, return_counts=True
    )
    is_whole = np.array_equal(count, sizes[label[first]]) and np.array_equal(value[first][component], value)
    if not is_whole or not label.all():
        raise InfiniteLoss(
            "an exact row tells two values apart that the policy joins: measure it with noise, "
            "or declare the attributes it depends on public"
        )


RADII = 16
"""How finely a joint threshold is split among its axes; a finer split is tighter, every split is sound."""


@dataclass(frozen=True, eq=False)
class AxisCost:
    """One axis of a product: its column norms, and its rows as intervals where all of them are 0/1."""

    measurement: Measurement

    @cached_property
    def norms(self) -> Ints:
        return self.measurement.rows.column_norms(self.measurement.weights)

    @cached_property
    def intervals(self) -> Intervals | None:
        return as_intervals(self.measurement.rows)

    @property
    def largest(self) -> int:
        return int(self.norms.max())

    @property
    def is_level(self) -> bool:
        """Whether all columns have one norm: then the product formula is exact where the rows are 0/1 as well."""
        return int(self.norms.min()) == self.largest

    def worst(self, graph: AxisGraph) -> WorstEdge:
        """F_j: the worst edge of this axis alone."""
        if self.intervals is not None:
            return worst_axis_edge(self.intervals, self.measurement.weights, graph)
        columns, weights = sparse_columns(self.measurement.rows), self.measurement.weights
        try:
            edges = graph.edges()
        except TooLarge:
            # No move changes a row by more than its range; and none loses more than two columns have.
            check_sum("weights times entries", total_weight(weights) * 2 * _largest_entry(columns))
            ranges = np.asarray((columns.max(axis=1) - columns.min(axis=1)).toarray(), dtype=np.int64).reshape(-1)
            return WorstEdge(min(int(ranges @ weights), 2 * self.largest), None, tight=False)
        return worst_of(column_losses(columns, weights, edges), edges)


def worst_product_edge(parts: Sequence[KroneckerMeasurement], graph: CellGraph) -> WorstEdge:
    """The largest loss of any value edge over all parts together.

    One part: exact for level 0/1 axes or one moving attribute, otherwise a sound bound. Several parts: for each way to
    move, the sum of their bounds, which is sound because the losses of one edge add up.
    """
    ways = [_ways_of(part, graph) for part in parts]
    if len(parts) == 1:
        return max(ways[0], key=lambda worst: worst.loss)
    loss = max(sum(worst.loss for worst in way) for way in zip(*ways, strict=True))
    return WorstEdge(loss, None, tight=False) if loss else NO_EDGE


def _ways_of(part: KroneckerMeasurement, graph: CellGraph) -> list[WorstEdge]:
    """The worst loss of one part for each way to move, in an order that only the graph decides."""
    shape = tuple(factor.cells for factor in part.factors)
    if shape != graph.shape:
        raise PlanError(f"a product measurement over {shape} does not fit cells of shape {graph.shape}")
    axes = [AxisCost(factor) for factor in part.factors]
    moves, start = [], 0
    for factor in graph.factors:
        stop = start + len(factor_shape(factor))
        moves.append(_factor_moves(factor, axes[start:stop]))
        start = stop
    stay = [(NO_EDGE,) * len(options[0]) for options in moves]
    if graph.composition == "record":
        choices = [tuple(itertools.chain(*choice)) for choice in itertools.product(*moves)]
    else:
        choices = [
            tuple(itertools.chain(*stay[:index], move, *stay[index + 1 :]))
            for index, options in enumerate(moves)
            for move in options
        ]
    return [_combine(axes, choice) for choice in choices]


def _combine(axes: list[AxisCost], moved: tuple[WorstEdge, ...]) -> WorstEdge:
    """The loss when each axis makes its worst move at once (proof: docs/proofs/kronecker.md)."""
    whole = math.prod(axis.largest for axis in axes)
    staying = math.prod(axis.largest - Fraction(worst.loss, 2) for axis, worst in zip(axes, moved, strict=True))
    loss = math.ceil(2 * (whole - staying))
    movers = [worst for worst in moved if worst.loss]
    is_exact = len(movers) <= 1 or all(axis.is_level and axis.intervals is not None for axis in axes)
    if not movers or not is_exact or any(w.edge is None or not w.tight for w in movers):
        return WorstEdge(loss, None, tight=not movers)
    shape = tuple(axis.norms.size for axis in axes)
    ends = []
    for side in (0, 1):
        cell = [w.edge[side] if w.edge else int(a.norms.argmax()) for a, w in zip(axes, moved, strict=True)]
        ends.append(int(np.ravel_multi_index(cell, shape)))
    return WorstEdge(loss, (ends[0], ends[1]))


def _factor_moves(factor: Factor, axes: list[AxisCost]) -> list[tuple[WorstEdge, ...]]:
    """Each way a factor can move, as one worst edge per axis; joint thresholds share theta among their axes."""
    if not isinstance(factor, GridGraph):
        worst = tuple(axis.worst(graph) for axis, graph in zip(axes, axis_graphs(factor), strict=True))
        # Moves along each axis of a listed joint graph may be no one move.
        return [worst if len(axes) == 1 else tuple(replace(one, tight=False) for one in worst)]
    moves = []
    for radii in _shares_of_theta(factor):
        near = [axis.worst(factor.axis_within(index, radii[index])) for index, axis in enumerate(axes)]
        moves.append(tuple(replace(worst, tight=False) for worst in near))
    return moves


def _shares_of_theta(factor: GridGraph) -> list[tuple[int, ...]]:
    """Radii per axis that together cover the ball: every pair within theta fits at least one of the shares."""
    theta, dimensions = factor.theta, len(factor.shape)
    if factor.metric == "linf" or dimensions != 2:
        return [(theta,) * dimensions]
    marks = sorted({theta * step // RADII for step in range(RADII + 1)})
    shares: list[tuple[int, ...]] = []
    for mark, following in zip(marks, [*marks[1:], theta + 1], strict=True):
        rest = theta - mark if factor.metric == "l1" else math.isqrt(theta**2 - mark**2)
        shares.append((following - 1, rest))
    return shares


CHUNK_ENTRIES = 8_000_000
NARROW = 63
"""Coefficients up to this size differ by what one byte can hold."""


def worst_noised_edge(plan: EdgePlan, graph: CellGraph) -> WorstEdge:
    """The greatest column norm of the strategy, once every edge has a column and the decoder is proven right."""
    _check_edges(plan.edges, graph)
    _check_decoder(plan)
    check_sum("weights times entries", total_weight(plan.weights) * _largest_entry(plan.strategy))
    return worst_of(np.asarray(abs(plan.strategy).T @ plan.weights, dtype=np.int64), plan.edges)


def _check_edges(edges: Ints, graph: CellGraph) -> None:
    """Every edge of the policy must be a column, in either direction; more columns do no harm."""
    needed = _edge_keys(graph.edges(), graph.cells)
    if not np.isin(needed, _edge_keys(edges, graph.cells)).all():
        raise CannotCertify("the edge plan leaves out an edge of the policy")


def _edge_keys(edges: Ints, cells: int) -> Ints:
    shifted = np.sort(edges - ZERO, axis=1)
    return np.asarray(shifted[:, 0] * (cells + 1) + shifted[:, 1])


def _check_decoder(plan: EdgePlan) -> None:
    """decoder @ strategy == workload @ P in whole numbers, checked for every answer and every edge."""
    row_sums = abs(plan.decoder).sum(axis=1)
    check_sum("entries of decoder times strategy", int(row_sums.max(initial=0)) * _largest_entry(plan.strategy))
    product = csr_array(plan.decoder @ plan.strategy)
    answers, step = plan.workload.shape[0], max(1, CHUNK_ENTRIES // max(1, plan.edges.shape[0], plan.cells))
    listed = plan.workload.intervals() if isinstance(plan.workload, AllRanges) else as_intervals(plan.workload)
    workload = plan.workload if listed is None else listed
    for start in range(0, answers, step):
        chosen = np.arange(start, min(start + step, answers))
        if not _agree(_coefficients(workload, chosen), plan.edges, product[chosen]):
            raise CannotCertify("the decoder of an edge plan does not reproduce its workload on every edge")


def _coefficients(workload: Rows, chosen: Ints) -> Numbers:
    """The chosen rows of the workload and a 0 for the ZERO vertex, in the narrowest type that holds differences."""
    if isinstance(workload, Intervals):
        cell = np.arange(workload.shape[1] + 1)
        inside = (cell >= workload.low[chosen, None]) & (cell < workload.high[chosen, None])
        return inside.astype(np.int8)
    unit = np.zeros((workload.shape[0], chosen.size), dtype=np.int64)
    unit[chosen, np.arange(chosen.size)] = 1
    rows = np.zeros((chosen.size, workload.shape[1] + 1), dtype=np.int64)
    rows[:, :-1] = workload.transpose_dot(unit).T
    return rows.astype(np.int8) if np.abs(rows).max() <= NARROW else rows


def _agree(rows: Numbers, edges: Ints, product: csr_array) -> bool:
    """Whether each row's difference along each edge is the given sparse product: equal where stored, 0 elsewhere."""
    moved = rows[:, edges[:, 0]] - rows[:, edges[:, 1]]
    answer = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
    if not np.array_equal(moved[answer, product.indices], product.data):
        return False
    moved[answer, product.indices] = 0
    return not moved.any()


def _largest_entry(matrix: csr_array | csc_array) -> int:
    return int(abs(matrix).max()) if matrix.nnz else 0
