"""Products over several axes: rows along each axis, queries read as products of one row per axis, and their weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.mechanisms.strategy import spread_choice
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import AxisGraph, WindowGraph
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.workload import (
    AllRanges,
    Identity,
    Intervals,
    Kronecker,
    Rectangles,
    Rows,
    Sparse,
    Stacked,
    as_intervals,
    sums_before,
)
from blowfishdb.plan.plan import Measurement

LISTED_EDGES = 2_000_000
SHARP_AXIS, LONG_AXIS = 64, 512
"""Plain blocks are tried on short axes only: smooth ones win on others. On long axes fewer sizes are tried."""


@dataclass(frozen=True, eq=False)
class CoarseLevel:
    """Non-negative whole rows that sum to `height` on every cell; height 1 means plain blocks."""

    blocks: Ints
    height: int

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and orthonormal eigenvectors of the level's Gram matrix over the cells, zero ones left out."""
        scaled = self.blocks / self.height
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        nonzero = values > 1e-9 * values[-1]
        return values[nonzero], scaled.T @ (vectors[:, nonzero] / np.sqrt(values[nonzero]))

    def total_variances(self, energies: Floats, trace: float, shares: Floats) -> Floats:
        """tr(G X^-1) for X = (1 - share)^2 I + share^2 level'level, for each share of the coarse level.

        G enters through its trace and its energies v'Gv along the eigenvectors of the level.
        """
        fine = (1 - shares) ** 2
        coarse = energies / (fine[:, None] + shares[:, None] ** 2 * self.spectrum[0])
        return np.asarray((trace - energies.sum()) / fine + coarse.sum(axis=1))

    def edge_share(self, graph: AxisGraph) -> float:
        """The largest part of the level's weight that one edge moves: half the L1 distance of two columns."""
        if isinstance(graph, WindowGraph) and graph.universal.size == 0:
            # Memberships only drift apart along the order, so the longest edge of each cell is its worst.
            first, second = np.arange(graph.size), graph.reach
        elif graph.edge_count > LISTED_EDGES:
            return 1.0
        else:
            first, second = graph.edges().T
        if first.size == 0:
            return 0.0
        return max(
            float(np.abs(self.blocks[:, first[at]] - self.blocks[:, second[at]]).sum(axis=0).max())
            for at in np.array_split(np.arange(first.size), 1 + first.size // 20_000)
        ) / (2 * self.height)


def smooth_level(cells: int, size: int, height: int) -> CoarseLevel:
    """Blocks of `size` cells whose borders are ramps of `height` steps: a short move changes them little.

    Block i is ramp i minus ramp i + 1, both rising by one a cell from 0 to `height`, so no entry is negative.
    """
    reach = (cells + height) // size + 2
    borders = np.floor((cells + size * (2 * np.arange(-reach, reach + 1) + 1)) / 2).astype(np.int64)
    start = borders - (height - 1) // 2 - 1
    ramps = np.clip(np.arange(cells)[None, :] - start[:, None], 0, height)
    blocks = ramps[:-1] - ramps[1:]
    return CoarseLevel(blocks[blocks.any(axis=1)], height)


def component_level(labels: Ints) -> CoarseLevel:
    """One block per component of the axis: no move changes any of them."""
    return CoarseLevel((labels[None, :] == np.arange(int(labels.max()) + 1)[:, None]).astype(np.int64), 1)


def candidate_levels(cells: int, labels: Ints) -> list[CoarseLevel]:
    """A short list of coarse levels worth trying on an axis with these components."""
    low, high = max(2.0, cells**0.35), max(2.0, cells**0.75)
    ratio = 1.15 if cells <= LONG_AXIS else 1.5
    steps = max(2, round(np.log(high / low) / np.log(ratio)) + 1)
    sizes = np.unique(np.round(np.geomspace(low, high, steps)).astype(int))
    levels = [smooth_level(cells, cells, 1)]
    if labels.max() > 0:
        levels.append(component_level(labels))
    for size in sizes[sizes < cells].tolist():
        sharp = [1] if cells <= SHARP_AXIS else []
        levels += [smooth_level(cells, size, height) for height in (*sharp, size, 3 * size // 2, 2 * size)]
    return levels


@dataclass(frozen=True, eq=False)
class AxisChoice:
    """The cells of an axis with share 1 - share of its weight, and a coarse level with the rest (None: nothing).

    Weights are whole: a coarse row weighs `grain`, and the weight of the cells is rounded accordingly.
    """

    cells: int
    level: CoarseLevel | None
    share: float
    grain: int = 64

    @cached_property
    def weights(self) -> tuple[int, int]:
        """Whole weights of each cell row and of each coarse row."""
        if self.level is None:
            return 1, 0
        ratio = (1 - self.share) * self.level.height / self.share
        return max(1, round(self.grain * ratio)), self.grain

    @cached_property
    def measurement(self) -> Measurement:
        fine, coarse = self.weights
        if self.level is None:
            return Measurement(Identity(self.cells), np.array([fine]))
        parts: tuple[Rows, ...] = (Identity(self.cells), Sparse(csr_array(self.level.blocks)))
        counts = [self.cells, self.level.blocks.shape[0]]
        return Measurement(Stacked(parts), np.repeat([fine, coarse], counts))

    @property
    def measures_cells_alone(self) -> bool:
        return self.level is None

    @property
    def level_starts(self) -> Ints:
        """Where the rows of each level begin: all rows of a level have the same weight."""
        return np.array([0] if self.level is None else [0, self.cells])

    @cached_property
    def covariance(self) -> Floats:
        """(A' W^2 A)^-1: the least-squares covariance of the cells when row i has variance 1 / weight_i^2."""
        fine, coarse = self.weights
        if self.level is None:
            return np.eye(self.cells) / fine**2
        rows = self.level.blocks * (coarse / fine)
        inner = np.linalg.solve(np.eye(rows.shape[0]) + rows @ rows.T, rows)
        return np.asarray((np.eye(self.cells) - rows.T @ inner) / fine**2)

    @cached_property
    def estimator(self) -> Floats:
        """Cells by rows: the least-squares estimate of the cells from the measured rows."""
        fine, coarse = self.weights
        cells = self.covariance * fine**2
        if self.level is None:
            return cells
        return np.hstack([cells, self.covariance @ self.level.blocks.T * coarse**2])


ROWS = 2**21
ENTRIES = 2**24


def axis_rows(rows: Rows) -> AxisRows | None:
    """The rows in a form that computes fast; None when there are too many."""
    if rows.shape[0] > ROWS:
        return None
    spans = rows.intervals() if isinstance(rows, AllRanges) else as_intervals(rows)
    if spans is not None:
        return AxisRows(spans)
    return AxisRows(rows.dense().astype(np.float64)) if rows.shape[0] * rows.shape[1] <= ENTRIES else None


@dataclass(frozen=True, eq=False)
class AxisRows:
    """Rows over the cells of one axis: runs of cells, whose sums are differences of running sums, or written out."""

    rows: Intervals | Floats

    @property
    def count(self) -> int:
        return int(self.rows.shape[0])

    def chosen(self, places: Ints) -> AxisRows:
        """The rows at the given places."""
        if isinstance(self.rows, Intervals):
            return AxisRows(Intervals(self.rows.cells, self.rows.low[places], self.rows.high[places]))
        return AxisRows(self.rows[places])

    def times(self, matrix: Floats) -> Floats:
        """Every row times a matrix over the cells."""
        return self.rows.dot(matrix)

    def quadratic(self, matrix: Floats) -> Floats:
        """row M row' for each row and a symmetric matrix M."""
        if not isinstance(self.rows, Intervals):
            return np.asarray(np.einsum("ij,ij->i", self.rows @ matrix, self.rows))
        sums = sums_before(sums_before(matrix).T).T
        low, high = self.rows.low, self.rows.high
        return np.asarray(sums[high, high] + sums[low, low] - 2 * sums[low, high])

    @cached_property
    def squares(self) -> Floats:
        """The sum of squared entries of each row."""
        if isinstance(self.rows, Intervals):
            return (self.rows.high - self.rows.low).astype(np.float64)
        return np.asarray((self.rows**2).sum(axis=1))

    def energies(self, weights: Floats) -> Callable[[Floats], Floats]:
        """What gives, for each column v of a matrix, the weighted sum over the rows of (row v)^2."""
        if not isinstance(self.rows, Intervals) or 8 * self.count <= self.rows.cells**2:
            return lambda vectors: np.asarray(weights @ self.times(vectors) ** 2)
        # Entry (a, b) of the Gram matrix, a <= b, is the weight of the runs that begin at or before a and end after b.
        ends = self.rows.cells + 1
        pairs = np.bincount(self.rows.low * ends + self.rows.high, weights, ends**2).reshape(ends, ends)
        upper = np.triu(np.cumsum(np.cumsum(pairs, axis=0)[:, ::-1], axis=1)[:-1, ::-1][:, 1:])
        gram = upper + np.triu(upper, 1).T
        return lambda vectors: np.asarray(np.einsum("ij,ij->j", vectors, gram @ vectors))


@dataclass(frozen=True, eq=False)
class AxisModes:
    """Mode 0 is everything that the coarse level does not see; the others are its eigenvectors (level None: no others).

    The Gram matrix of the cells is 1 on every mode, that of the level (rows divided by their height) its eigenvalue.
    """

    cells: int
    level: CoarseLevel | None

    @cached_property
    def level_rows(self) -> list[Ints]:
        """The rows of the cells, then those of the coarse level."""
        cells = np.eye(self.cells, dtype=np.int64)
        return [cells] if self.level is None else [cells, self.level.blocks]

    @cached_property
    def vectors(self) -> Floats:
        """Cells by modes, mode 0 left out."""
        return np.zeros((self.cells, 0)) if self.level is None else self.level.spectrum[1]

    @cached_property
    def grams(self) -> Floats:
        """The value of each level's Gram matrix on every mode: a row for the cells, then one for the coarse level."""
        cells = np.ones(1 + self.vectors.shape[1])
        if self.level is None:
            return cells[None, :]
        return np.stack([cells, np.append(0.0, self.level.spectrum[0])])

    def energies(self, rows: AxisRows) -> Floats:
        """Rows by modes: the squared length of each row within every mode."""
        seen = rows.times(self.vectors) ** 2
        return np.concatenate([(rows.squares - seen.sum(axis=1))[:, None], seen], axis=1)

    def with_rows(self, rows: AxisRows, others: Ints) -> Floats:
        """Rows by others by modes: their inner products within every mode."""
        seen = rows.times(self.vectors)[:, None, :] * (others @ self.vectors)[None, :, :]
        whole = rows.times(others.T.astype(np.float64))
        return np.concatenate([(whole - seen.sum(axis=2))[:, :, None], seen], axis=2)


def along_axes(maps: Sequence[Floats | Ints | None], values: Floats, shape: Sequence[int] | None = None) -> Floats:
    """The Kronecker product of the maps times a vector or a matrix of columns; None leaves an axis of `shape` alone."""
    rest = values.shape[1:]
    sizes = [each.shape[1] for each in maps if each is not None] if shape is None else shape
    return np.ascontiguousarray(mapped(values.reshape(*sizes, *rest), maps)).reshape(-1, *rest)


def mapped(table: Floats, maps: Sequence[Floats | Ints | None]) -> Floats:
    """The table with each of its first axes mapped by its own matrix, or left alone."""
    for axis, each in enumerate(maps):
        if each is not None:
            table = np.moveaxis(np.tensordot(each, table, axes=(1, axis)), 0, axis)
    return table


def summed_by_query(table: Floats, factors: Sequence[Floats], index: Ints | None) -> Floats:
    """For each query the sum over all modes of table times the factors; index None: every combination of rows."""
    if index is None:
        return along_axes(factors, table.reshape(-1))
    first = np.tensordot(factors[0][index[:, 0]], table, axes=(1, 0))
    for axis in range(1, len(factors)):
        first = np.einsum("ql,ql...->q...", factors[axis][index[:, axis]], first)
    return np.asarray(first)


def summed_over_queries(factors: Sequence[Floats], index: Ints | None) -> Floats:
    """For each combination of modes the sum over the queries of the factors."""
    if index is None:
        table = np.ones(())
        for factor in factors:
            table = np.multiply.outer(table, factor.sum(axis=0))
        return table
    table = factors[0][index[:, 0]]
    for axis in range(1, len(factors) - 1):
        table = np.einsum("q...,ql->q...l", table, factors[axis][index[:, axis]])
    return np.asarray(np.tensordot(table, factors[-1][index[:, -1]], axes=(0, 0)))


@dataclass(frozen=True, eq=False)
class ProductPart:
    """Queries that are products over the axes of rows from `rows[axis]`.

    `index[q, axis]` names the row of query q on each axis; None stands for every combination, in row-major order.
    """

    rows: tuple[AxisRows, ...]
    index: Ints | None

    @property
    def count(self) -> int:
        if self.index is not None:
            return int(self.index.shape[0])
        return math.prod(axis.count for axis in self.rows)

    def rows_of(self, queries: Ints) -> Ints:
        """The row on each axis of the given queries."""
        if self.index is not None:
            return self.index[queries]
        places = np.unravel_index(queries, tuple(axis.count for axis in self.rows))
        return np.stack(places, axis=1).astype(np.int64)

    def sample(self, most: int, listed: bool) -> ProductPart:
        """An even choice of at most `most` queries; of rows per axis for all combinations that need not be listed."""
        if self.index is None and not listed:
            return ProductPart(tuple(axis.chosen(spread_choice(axis.count, most)) for axis in self.rows), None)
        index, rows = self.rows_of(spread_choice(self.count, most)).copy(), []
        for axis, along in enumerate(self.rows):
            used, index[:, axis] = np.unique(index[:, axis], return_inverse=True)
            rows.append(along.chosen(used))
        return ProductPart(tuple(rows), index)

    def shares(self, values: Sequence[Floats], axis: int) -> Floats:
        """For each row of one axis, the summed product over its queries of the other axes' values."""
        others = [k for k in range(len(self.rows)) if k != axis]
        if self.index is None:
            rest = math.prod(float(values[k].sum()) for k in others)
            return np.full(self.rows[axis].count, rest)
        product = np.ones(self.count)
        for k in others:
            product = product * values[k][self.index[:, k]]
        return np.asarray(
            np.bincount(self.index[:, axis], weights=product, minlength=self.rows[axis].count), dtype=np.float64
        )


def product_parts(workload: Rows, shape: tuple[int, ...]) -> tuple[ProductPart, ...] | None:
    """The workload over cells of the given shape as products, in its own order; None where it is not."""
    if isinstance(workload, Stacked):
        parts = [product_parts(part, shape) for part in workload.parts]
        if any(part is None for part in parts):
            return None
        return tuple(one for part in parts if part is not None for one in part)
    if isinstance(workload, Identity):
        workload = Kronecker(tuple(Identity(size) for size in shape))
    if isinstance(workload, Rectangles) and workload.grid == shape:
        return _from_boxes(workload)
    if isinstance(workload, Kronecker) and tuple(f.shape[1] for f in workload.factors) == shape:
        rows = [axis_rows(factor) for factor in workload.factors]
        known = tuple(axis for axis in rows if axis is not None)
        return (ProductPart(known, None),) if len(known) == len(rows) else None
    return None


def _from_boxes(boxes: Rectangles) -> tuple[ProductPart, ...]:
    rows, index = [], []
    for axis, size in enumerate(boxes.grid):
        keys, places = np.unique(boxes.low[:, axis] * (size + 1) + boxes.high[:, axis], return_inverse=True)
        rows.append(AxisRows(Intervals(size, keys // (size + 1), keys % (size + 1))))
        index.append(places.reshape(-1))
    return (ProductPart(tuple(rows), np.stack(index, axis=1)),)


def as_boxes(workload: Rows, shape: tuple[int, ...]) -> Rectangles | None:
    """The workload as axis-parallel boxes, in its own order; None where some row is not a box."""
    if isinstance(workload, Rectangles):
        return workload if workload.grid == shape else None
    lows, highs = [], []
    for part in product_parts(workload, shape) or ():
        index, spans = part.rows_of(np.arange(part.count)), [axis.rows for axis in part.rows]
        runs = [(span, places) for span, places in zip(spans, index.T, strict=True) if isinstance(span, Intervals)]
        if len(runs) < len(spans):
            return None
        lows.append(np.stack([span.low[places] for span, places in runs], axis=1))
        highs.append(np.stack([span.high[places] for span, places in runs], axis=1))
    return Rectangles(shape, np.concatenate(lows), np.concatenate(highs)) if lows else None


CHUNK = 2**22


@dataclass(frozen=True, eq=False)
class ProductRows:
    """All products of one row per axis, each measured with the same weight; None: exact."""

    rows: tuple[Ints, ...]
    weight: int | None

    @property
    def count(self) -> int:
        return math.prod(len(rows) for rows in self.rows)


Crossed = list[tuple[Floats, ...]]
"""For each group and axis: queries' rows by the group's rows by modes."""


@dataclass(frozen=True, eq=False)
class Corrections:
    """Groups of product rows R in order. With S the covariance before, they add S R'(V + R S R')^-1 (h - R x) to x.

    S is a table over pairs of modes, and so is every other quadratic form here. V is 1 / weight^2.
    """

    axes: tuple[AxisModes, ...]
    groups: tuple[ProductRows, ...]

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups)

    @cached_property
    def is_noisy(self) -> Bools:
        """Which rows are measured, and not exact."""
        measured = np.array([group.weight is not None for group in self.groups], dtype=np.bool_)
        return np.repeat(measured, [group.count for group in self.groups])

    def system(self, table: Floats) -> Floats:
        """V + R S R' for weights as they are and S the given table."""
        variances = [0.0 if group.weight is None else float(group.weight) ** -2 for group in self.groups]
        return self.between(table) + np.diag(np.repeat(variances, [group.count for group in self.groups]))

    def between(self, table: Floats) -> Floats:
        """R T R' for the quadratic form T with the given table."""
        groups = [ProductPart(tuple(AxisRows(rows.astype(np.float64)) for rows in g.rows), None) for g in self.groups]
        indices = [group.rows_of(np.arange(group.count)) for group in groups]
        seen = [self.seen(table, self.crossed(g.rows), index) for g, index in zip(groups, indices, strict=True)]
        return np.concatenate(seen, axis=1)

    def crossed(self, rows: Sequence[AxisRows]) -> Crossed:
        """What queries with the given rows on each axis share with every row, mode by mode."""
        return [
            tuple(
                axis.with_rows(queries, each) for axis, queries, each in zip(self.axes, rows, group.rows, strict=True)
            )
            for group in self.groups
        ]

    def seen(self, table: Floats, crossed: Crossed, index: Ints) -> Floats:
        """R T q for each query q, given as its row on each axis: corrections by queries."""
        groups = []
        for first, second in crossed:
            step = max(1, CHUNK // (first.shape[1] * max(second.shape[1], table.shape[1])))
            pieces = [np.empty((0, first.shape[1] * second.shape[1]))]
            for start in range(0, len(index), step):
                query, other = index[start : start + step].T
                half = first[query] @ table
                pieces.append(np.matmul(half, second[other].transpose(0, 2, 1)).reshape(len(query), -1))
            groups.append(np.concatenate(pieces))
        return np.concatenate(groups, axis=1).T

    def squares(self, one: Floats, other: Floats, crossed: Crossed) -> Floats:
        """The sum over all combinations of the queries' rows of (R T q)(R T' q)', T and T' given by their tables."""
        blocks = []
        for first in crossed:
            line = []
            for second in crossed:
                left, right = (
                    np.einsum("qam,qAM->amAM", a, b, optimize=True) for a, b in zip(first, second, strict=True)
                )
                half = np.einsum("mn,amAM,MN->aAnN", one, left, other, optimize=True)
                both = np.einsum("aAnN,bnBN->abAB", half, right, optimize=True)
                line.append(both.reshape(both.shape[0] * both.shape[1], -1))
            blocks.append(line)
        return np.block(blocks)

    def measure(self, cells: Floats) -> Floats:
        """R times a vector or a matrix of columns."""
        return np.concatenate([along_axes(group.rows, cells) for group in self.groups])

    def give_back(self, values: Floats) -> Floats:
        """R' times a vector or a matrix of columns."""
        starts = np.cumsum([group.count for group in self.groups])[:-1]
        pieces = zip(self.groups, np.split(values, starts), strict=True)
        return np.asarray(sum(along_axes([rows.T for rows in group.rows], piece) for group, piece in pieces))


Levels = tuple[int, ...]
"""For each axis 0 (its cells) or 1 (its coarse level)."""


def gram_table(axes: Sequence[AxisModes], levels: Levels) -> Floats:
    """The value of the Gram matrix of these levels' rows on every combination of modes."""
    table = np.ones(())
    for axis, chosen in zip(axes, levels, strict=True):
        height = axis.level.height if chosen and axis.level is not None else 1
        table = np.multiply.outer(table, axis.grams[chosen] * float(height) ** 2)
    return table


def covariance_table(axes: Sequence[AxisModes], weights: dict[Levels, int]) -> Floats:
    """1 over the precision of every combination of modes when a row of weight w has variance 1 / w^2."""
    return np.asarray(1.0 / sum(float(weight) ** 2 * gram_table(axes, levels) for levels, weight in weights.items()))


SHARPNESS = (20.0, 400.0)
"""Exponents of the norm that stands for the largest of several losses: smooth while searching, then nearly exact."""
STEPS = 60


def improved_weights(
    start: Sequence[float] | Floats, gains: Floats, sizes: Floats, losses: Floats, sharpness: float
) -> tuple[float, list[float]]:
    """The log error reached from a start, and the logarithms of the weights there."""
    constants, bounds = (gains, sizes, losses, sharpness), [(-12.0, 2.0)] * len(start)
    from scipy.optimize import minimize  # takes a while to load, and many questions do without

    minimum = minimize(_log_error, start, constants, "L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": STEPS})
    return float(minimum.fun), [float(value) for value in minimum.x]


def _log_error(logs: Floats, gains: Floats, sizes: Floats, losses: Floats, sharpness: float) -> tuple[float, Floats]:
    weights = np.exp(logs)
    precision = gains @ weights**2
    spread = float((sizes / precision).sum())
    each = losses @ weights
    top = float(each.max())
    powers = (each / top) ** sharpness
    loss = top * powers.sum() ** (1 / sharpness)
    slope = ((each / top) ** (sharpness - 1) @ losses) * powers.sum() ** (1 / sharpness - 1)
    gradient = -(sizes / precision**2) @ gains * 2 * weights / spread + 2 * slope / loss
    return math.log(spread) + 2 * math.log(loss), weights * gradient
