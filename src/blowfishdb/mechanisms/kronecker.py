"""Kronecker: products of cells and smooth blocks or tuned hats along every axis; on two axes blocks may weigh alone.

Running counts on two short axes are measured by strips and blocks, whose tuned tables are in `strips.json`, written by
`python -m benchmarks tune-strips` (docs/proofs/kronecker.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from importlib import resources

import numpy as np
from scipy.sparse import csr_array, diags_array, kron, vstack

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.hats import HatAxis, few_values, hats_for
from blowfishdb.mechanisms.product_weights import Choices, choose_axes, choose_table, with_wide_rows
from blowfishdb.mechanisms.products import (
    CHUNK,
    AxisChoice,
    AxisModes,
    AxisRows,
    Corrections,
    Levels,
    ProductPart,
    ProductRows,
    along_axes,
    covariance_table,
    gram_table,
    product_parts,
    summed_by_query,
    summed_over_queries,
)
from blowfishdb.mechanisms.strategy import CellStrategy, single_cell_variances, squared
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Kronecker, Prefix, Sparse
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem

NAME = "kronecker"
AXIS_CELLS = 2048
"""Least squares is dense along each axis."""
ROWS = 2**25
WORTH = 0.999
"""A table whose expected squared error is a larger part of the best product's is not worth leaving it for."""


def propose(problem: Problem) -> KroneckerStrategy | LevelTableStrategy | StripStrategy:
    """Serves products (boxes, cells, marginals, and unions of them) over two or more axes."""
    shape = problem.graph.shape
    if len(shape) < 2:
        raise Declined(NAME, "it needs at least two axes")
    if max(shape) > AXIS_CELLS:
        raise Declined(NAME, f"an axis has {max(shape):,} cells, more than {AXIS_CELLS:,}")
    if problem.graph.value_edge_bound == 0 and not problem.graph.to_zero.any():
        raise Declined(NAME, "the policy has no edges: every answer is exact")
    parts = product_parts(problem.workload, shape)
    if parts is None:
        raise Declined(NAME, "the queries are not products of one row per axis")
    strips = strip_strategy(problem)
    if strips is not None:
        return strips
    hats = _hat_axes(problem)
    if hats is not None:
        return KroneckerStrategy(problem, parts, (), hats)
    choices = Choices.of(problem.graph)
    product = choose_axes(parts, choices)
    table = choose_table(parts, choices, product)
    if table is not None:
        table = with_wide_rows(parts, choices, table)
    if table is not None and table.ratio <= WORTH:
        return LevelTableStrategy(problem, parts, choices.totals, table.axes, table.weights, table.wide)
    rows = math.prod(axis.measurement.rows.shape[0] for axis in product)
    if rows > ROWS:
        raise Declined(NAME, f"it would measure {rows:,} rows, more than {ROWS:,}")
    return KroneckerStrategy(problem, parts, choices.totals, product)


MOST_HATS = 3
"""So many axes may have hats: sums of weights over more would not stay exact."""


def _hat_axes(problem: Problem) -> tuple[AxisChoice | HatAxis, ...] | None:
    """Tuned hats for running counts and cells on the other axes, where one record comes or goes; None for all else.

    Then the loss is the largest column norm, a product over the axes, and so is the summed variance: each axis may be
    optimised alone.
    """
    workload, graph = problem.workload, problem.graph
    if not isinstance(workload, Kronecker) or graph.has_value_edges:
        return None
    axes: list[AxisChoice | HatAxis] = []
    for rows in workload.factors:
        hats = hats_for(rows, moves=False) if isinstance(rows, Prefix) else None
        if hats is None and not isinstance(rows, Identity):
            return None
        axes.append(AxisChoice(rows.shape[1], None, 0.0) if hats is None else HatAxis.of(hats, rows.shape[1]))
    return tuple(axes) if 0 < sum(isinstance(axis, HatAxis) for axis in axes) <= MOST_HATS else None


@dataclass(frozen=True, eq=False)
class ProductStrategy(CellStrategy):
    """Queries that are products; `totals` are rows per axis whose products are exact, if any."""

    problem: Problem
    parts: tuple[ProductPart, ...]
    totals: tuple[Ints, ...]

    mechanism = NAME
    has_fixed_coefficients = True

    @property
    def _exact(self) -> Kronecker | None:
        """The exact totals as rows."""
        return Kronecker(tuple(Sparse(csr_array(rows)) for rows in self.totals)) if self.totals else None

    def _rows_of(self, queries: Ints) -> Iterator[list[AxisRows]]:
        """For each of the given answers its row on every axis."""
        ends = np.cumsum([part.count for part in self.parts])
        for query, place in zip(queries, np.searchsorted(ends, queries, side="right"), strict=True):
            part = self.parts[place]
            (row,) = part.rows_of(np.array([query - (ends[place] - part.count)]))
            yield [rows.chosen(np.array([at])) for rows, at in zip(part.rows, row, strict=True)]


@dataclass(frozen=True, eq=False)
class KroneckerStrategy(ProductStrategy):
    """One measurement on each axis."""

    axes: tuple[AxisChoice | HatAxis, ...]

    def plan(self, unit: Fraction) -> Plan:
        return Plan(unit, (KroneckerMeasurement(tuple(axis.measurement for axis in self.axes)),), self._exact)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Least-squares counts of all cells that meet the exact totals; takes vectors or column matrices."""
        del variances
        cells = along_axes([axis.estimator for axis in self.axes], measured)
        if not self.totals:
            return cells
        return cells + along_axes(self._lifts, exact - along_axes(self.totals, cells))

    def answer_variances(self, variances: Floats) -> Floats:
        """Exact: all products of rows of the same levels have the same variance, so squares are summed by level."""
        table = self._by_level(variances)
        # An answer that the exact totals fix has variance 0 up to rounding.
        return np.concatenate([np.maximum(self._part_variances(part, table), 0.0) for part in self.parts])

    def own_variances(self, variances: Floats) -> Floats:
        return variances if all(a.measures_cells_alone for a in self.axes) else super().own_variances(variances)

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers; products of rows are never listed."""
        table = self._by_level(variances)
        return float(sum(self._part_variances(part, table, in_all=True).sum() for part in self.parts))

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        rows = []
        for query in self._rows_of(queries):
            direct, met = zip(*(self._terms(axis, row) for axis, row in enumerate(query)), strict=True)
            rows.append(reduce(np.kron, [one[0] for one in direct]) - reduce(np.kron, [one[0] for one in met]))
        return np.array(rows)

    @cached_property
    def _lifts(self) -> list[Floats]:
        """How a gap in the exact totals is shared out to the cells: S E' (E S E')^-1 on each axis."""
        spread = [axis.covariance @ totals.T for axis, totals in zip(self.axes, self.totals, strict=True)]
        return [
            np.asarray(np.linalg.solve(totals @ s, s.T).T, dtype=np.float64)
            for s, totals in zip(spread, self.totals, strict=True)
        ]

    def _terms(self, axis: int, rows: AxisRows) -> tuple[Floats, Floats]:
        """Coefficients on one axis' measured rows: of the plain estimate, and of what the exact totals take back."""
        estimator = self.axes[axis].estimator
        plain = rows.times(estimator)
        if not self.totals:
            return plain, np.zeros_like(plain)
        return plain, rows.times(self._lifts[axis]) @ (self.totals[axis] @ estimator)

    def _by_level(self, variances: Floats) -> Floats:
        """The variance of a product of rows for every combination of levels."""
        counts = tuple(axis.measurement.rows.shape[0] for axis in self.axes)
        return np.asarray(variances).reshape(counts)[np.ix_(*(axis.level_starts for axis in self.axes))]

    def _part_variances(self, part: ProductPart, table: Floats, in_all: bool = False) -> Floats:
        """sum (c - d)^2 var with c, d products over the axes: three products of sums by level.

        `in_all` sums over the answers too, which for all combinations of rows is again one product.
        """
        sums: list[list[Floats]] = [[], [], []]
        for axis, rows in enumerate(part.rows):
            plain, met = self._terms(axis, rows)
            starts = self.axes[axis].level_starts
            for place, squares in enumerate((plain * plain, plain * met, met * met)):
                by_level = np.add.reduceat(squares, starts, axis=1)
                is_summed = in_all and part.index is None
                sums[place].append(by_level.sum(axis=0, keepdims=True) if is_summed else by_level)
        terms = [summed_by_query(table, each, part.index) for each in sums]
        return terms[0] - 2 * terms[1] + terms[2]


@dataclass(frozen=True, eq=False)
class LevelTableStrategy(ProductStrategy):
    """Measures the products of rows of the levels in `weights`, each with its whole weight a row.

    All grams share the modes of the axes, so least squares is one number per combination of modes. `wide` are products
    of other coarse rows, which correct the estimate afterwards, as do the exact totals; of either there should be few.
    """

    axes: tuple[AxisModes, ...]
    weights: dict[Levels, int]
    wide: ProductRows | None = None

    def plan(self, unit: Fraction) -> Plan:
        parts = [self._measurement(levels) for levels in self.weights]
        if self.wide is not None and self.wide.weight is not None:
            weights = [np.array([self.wide.weight]), np.array([1])]
            factors = [Measurement(Sparse(csr_array(r)), w) for r, w in zip(self.wide.rows, weights, strict=True)]
            parts.append(KroneckerMeasurement(tuple(factors)))
        return Plan(unit, tuple(parts), self._exact)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Least-squares counts of all cells that meet the exact totals; takes vectors or column matrices."""
        del variances
        *tables, wide = np.split(measured, np.cumsum(self._sizes))
        pulled = sum(
            self._along(levels, part, transposed=True) * float(weight) ** 2
            for (levels, weight), part in zip(self.weights.items(), tables, strict=True)
        )
        cells = self._spread(np.asarray(pulled))
        if not self._corrections.groups:
            return cells
        gap = np.concatenate([exact, wide], axis=0, dtype=np.float64) - self._corrections.measure(cells)
        return np.asarray(cells + self._spread(self._corrections.give_back(self._solved(gap))))

    def answer_variances(self, variances: Floats) -> Floats:
        """Exact for any variance of each combination of levels: a sum over modes for every answer."""
        table, noise = self._noise_table(variances), self._noise_of_corrections(variances)
        return np.concatenate([np.maximum(self._part_variances(part, table, noise), 0.0) for part in self.parts])

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers; all combinations of rows are never listed."""
        table, noise = self._noise_table(variances), self._noise_of_corrections(variances)
        return float(
            sum(
                self._summed_variance(part, table, noise)
                if part.index is None
                else self._part_variances(part, table, noise).sum()
                for part in self.parts
            )
        )

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        cells = [np.eye(axis.cells) for axis in self.axes]
        products = [
            reduce(np.kron, [row.times(every)[0] for row, every in zip(query, cells, strict=True)])
            for query in self._rows_of(queries)
        ]
        rows = np.array(products).reshape(queries.size, -1).T
        pulled = self._spread(rows)
        taken: Floats = np.empty((0, queries.size))
        if self._corrections.groups:
            taken = self._solved(self._corrections.measure(pulled))
            pulled = pulled - self._spread(self._corrections.give_back(taken))
        measured = [self._along(levels, pulled) * float(w) ** 2 for levels, w in self.weights.items()]
        return np.concatenate([*measured, taken[self._corrections.is_noisy]]).T

    def _measurement(self, levels: Levels) -> KroneckerMeasurement:
        factors = []
        for place, (axis, chosen) in enumerate(zip(self.axes, levels, strict=True)):
            rows = Sparse(csr_array(axis.level.blocks)) if chosen and axis.level is not None else Identity(axis.cells)
            factors.append(Measurement(rows, np.array([1 if place else self.weights[levels]])))
        return KroneckerMeasurement(tuple(factors))

    def _along(self, levels: Levels, values: Floats, transposed: bool = False) -> Floats:
        """The rows of a combination of levels, or their transpose, times columns; cells are left as they are."""
        rows = [axis.level_rows[chosen] for axis, chosen in zip(self.axes, levels, strict=True)]
        if transposed:
            rows = [level_rows.T for level_rows in rows]
        maps = [level_rows if chosen else None for chosen, level_rows in zip(levels, rows, strict=True)]
        return along_axes(maps, values, [level_rows.shape[1] for level_rows in rows])

    @cached_property
    def _sizes(self) -> list[int]:
        return [
            math.prod(len(axis.level_rows[chosen]) for axis, chosen in zip(self.axes, levels, strict=True))
            for levels in self.weights
        ]

    @cached_property
    def _covariance_table(self) -> Floats:
        return covariance_table(self.axes, self.weights)

    def _noise_table(self, variances: Floats) -> Floats:
        """The variance of the estimate along every combination of modes for the given noise."""
        starts = np.cumsum([0, *self._sizes[:-1]])
        each = zip(self.weights.items(), np.asarray(variances)[starts], strict=True)
        spread = sum(float(weight) ** 4 * float(v) * gram_table(self.axes, levels) for (levels, weight), v in each)
        return np.asarray(self._covariance_table**2 * spread)

    def _spread(self, values: Floats) -> Floats:
        """The least-squares covariance times columns: mode 0 for all of them, then by how much other modes differ."""
        table, (first, second) = self._covariance_table, [axis.vectors for axis in self.axes]
        rest = values.reshape(len(first), len(second), -1)
        rows = np.tensordot(first.T, rest, axes=(1, 0))
        columns = np.einsum("abc,bm->amc", rest, second, optimize=True)
        both = np.einsum("abc,bm->amc", rows, second, optimize=True)
        mixed = table[1:, 1:] - table[1:, :1] - table[:1, 1:] + table[0, 0]
        along = rows * (table[1:, 0] - table[0, 0])[:, None, None]
        along += np.einsum("amc,bm->abc", both * mixed[:, :, None], second, optimize=True)
        product = rest * table[0, 0] + np.tensordot(first, along, axes=(1, 0))
        product += np.einsum("amc,bm->abc", columns * (table[0, 1:] - table[0, 0])[:, None], second, optimize=True)
        return np.asarray(product).reshape(values.shape)

    @cached_property
    def _corrections(self) -> Corrections:
        """The exact totals, then the wide rows."""
        exact = [ProductRows(self.totals, None)] if self.totals else []
        return Corrections(self.axes, (*exact, *([] if self.wide is None else [self.wide])))

    @cached_property
    def _system(self) -> Floats:
        return self._corrections.system(self._covariance_table)

    def _solved(self, values: Floats) -> Floats:
        return np.asarray(np.linalg.solve(self._system, values), dtype=np.float64)

    def _noise_of_corrections(self, variances: Floats) -> Floats:
        """The variance of each correcting row for the given noise: 0 for exact totals."""
        return np.where(self._corrections.is_noisy, variances[-1], 0.0)

    def _part_variances(self, part: ProductPart, table: Floats, noise: Floats) -> Floats:
        """H(q - R'b) + b'Vb: H the table as a quadratic form, b = (V + R S R')^-1 R S q what corrections take over."""
        energies, corrections = self._energies(part.rows), self._corrections
        crossed = corrections.crossed(part.rows)
        form = corrections.between(table) + np.diag(noise) if crossed else np.empty((0, 0))
        variances = [np.empty(0)]
        step = CHUNK // max(corrections.count, *table.shape)
        for start in range(0, part.count, step):
            index = part.rows_of(np.arange(start, min(start + step, part.count)))
            variances.append(summed_by_query(table, energies, index))
            if crossed:
                seen = corrections.seen(self._covariance_table, crossed, index)
                taken = self._solved(seen)
                noisy = corrections.seen(table, crossed, index)
                variances[-1] = variances[-1] + np.einsum("rq,rq->q", taken, form @ taken - 2 * noisy)
        return np.concatenate(variances)

    def _summed_variance(self, part: ProductPart, table: Floats, noise: Floats) -> float:
        """The same summed over all combinations of rows, of which every term is a product of sums."""
        plain = float(np.sum(table * summed_over_queries(self._energies(part.rows), None)))
        if not self._corrections.groups:
            return plain
        crossed, covariance = self._corrections.crossed(part.rows), self._covariance_table
        inverse = np.linalg.inv(self._system)
        taken = inverse @ self._corrections.squares(covariance, covariance, crossed) @ inverse
        form = self._corrections.between(table) + np.diag(noise)
        mixed = self._corrections.squares(covariance, table, crossed)
        return plain + float(np.sum(taken * form) - 2 * np.sum(inverse * mixed))

    def _energies(self, rows: tuple[AxisRows, ...]) -> list[Floats]:
        return [axis.energies(axis_rows) for axis, axis_rows in zip(self.axes, rows, strict=True)]


BEYOND = 1.25
"""How far beyond its sizes the table is used."""
LEAST_SHARE = 0.05
"""Where rows leave a cell less than this of the loss, two axes do not go together."""
STEPS, HEIGHT = 64, 128
"""Weights are so many parts of the loss on an axis, and a row has so many steps from nothing to its top."""


@dataclass(frozen=True, eq=False)
class StripAxis:
    """Shares of the loss on one axis: of each cell beside strips along the other axis, of strips' hats, of blocks'."""

    cells: Floats
    strips: Floats
    blocks: Floats

    def products(self, other: StripAxis) -> list[tuple[Floats, Floats]]:
        """The factors of the strips along the second axis, of those along the first, and of the blocks."""
        return [(np.diag(self.cells), other.strips), (self.strips, np.diag(other.cells)), (self.blocks, other.blocks)]

    def stretched(self, cells: int) -> StripAxis:
        """The same shares at the same parts of a longer or shorter axis."""
        here, there = ((np.arange(size) + 0.5) / size for size in (self.cells.size, cells))
        rows = [np.array([np.interp(there, here, row) for row in each]) for each in (self.strips, self.blocks)]
        return StripAxis(np.interp(there, here, self.cells), *rows)


def strip_axis(cells: int) -> StripAxis | None:
    """The shares of the nearest size; None where no size is near."""
    sizes = _table()
    if not min(sizes) / BEYOND <= cells <= max(sizes) * BEYOND:
        return None
    return sizes[min(sizes, key=lambda size: abs(np.log(size / cells)))].stretched(cells)


@cache
def _table() -> Mapping[int, StripAxis]:
    text = resources.files("blowfishdb.mechanisms").joinpath("strips.json").read_text(encoding="utf-8")
    return {
        int(size): StripAxis(*(np.array(entry[name]) for name in ("cells", "strips", "blocks")))
        for size, entry in json.loads(text).items()
    }


def strip_strategy(problem: Problem) -> StripStrategy | None:
    """The strategy for running counts on two axes where one record comes or goes; None for all else."""
    workload = problem.workload
    if problem.graph.has_value_edges or not isinstance(workload, Kronecker) or len(workload.factors) != 2:
        return None
    axes = [strip_axis(rows.cells) for rows in workload.factors if isinstance(rows, Prefix)]
    if len(axes) != 2 or axes[0] is None or axes[1] is None:
        return None
    strategy = StripStrategy(problem, tuple(_products(axes[0], axes[1])))
    return strategy if strategy.left.min() >= LEAST_SHARE * GRID else None


GRID = STEPS**2 * HEIGHT**2


def _products(first: StripAxis, second: StripAxis) -> list[KroneckerMeasurement]:
    beside = [
        Measurement(Identity(axis.cells.size), np.rint(axis.cells * STEPS).astype(int)) for axis in (first, second)
    ]
    return [
        KroneckerMeasurement((_times(beside[0], HEIGHT), _rows(second.strips))),
        KroneckerMeasurement((_rows(first.strips), _times(beside[1], HEIGHT))),
        KroneckerMeasurement((_rows(first.blocks), _rows(second.blocks))),
    ]


def _times(measurement: Measurement, factor: int) -> Measurement:
    return Measurement(measurement.rows, measurement.weights * factor)


def _rows(shares: Floats) -> Measurement:
    """Rows of at most HEIGHT, and the weights with which they have these shares of STEPS x HEIGHT."""
    tops = np.ceil(shares.max(axis=1) * STEPS).astype(np.int64)
    entries = np.rint(shares / tops[:, None] * (STEPS * HEIGHT)).astype(np.int64)
    return Measurement(Sparse(csr_array(entries)), tops)


@dataclass(frozen=True, eq=False)
class StripStrategy(CellStrategy):
    """Measures products of rows, and every cell with what they leave of the loss.

    With cells y of variances V and rows H of variances D, the estimate is y + V H'(D + H V H')^-1 (h - H y), h what
    the rows gave (Woodbury's identity).
    """

    problem: Problem
    products: tuple[KroneckerMeasurement, ...]

    mechanism = NAME

    @cached_property
    def left(self) -> Ints:
        """What the rows leave of the loss in each cell."""
        return np.asarray(GRID - sum(part.rows.column_norms(part.weights) for part in self.products), dtype=np.int64)

    def plan(self, unit: Fraction) -> Plan:
        cells = Measurement(Identity(self.left.size), few_values(self.left))
        return Plan(unit, (cells, *self.products))

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Least-squares counts of all cells; takes vectors or column matrices."""
        del exact
        cells, rows = measured[: self.left.size], measured[self.left.size :]
        seen, whitener = self._whitened(variances)
        return np.asarray(cells + seen.T @ (whitener.T @ (whitener @ (rows - self._matrix @ cells))))

    def answer_variances(self, variances: Floats) -> Floats:
        workload, (seen, whitener) = self.problem.workload, self._whitened(variances)
        taken = workload.dot(np.asarray(seen.T @ whitener.T))
        alone = squared(workload).dot(variances[: self.left.size])
        return np.asarray(np.maximum(alone - np.einsum("qr,qr->q", taken, taken), 0.0))

    def own_variances(self, variances: Floats) -> Floats:
        return single_cell_variances(self.plan(Fraction(1)), variances)

    @cached_property
    def _matrix(self) -> csr_array:
        """The rows over all cells."""
        pairs = [[csr_array(factor.rows.dense()) for factor in part.factors] for part in self.products]
        return csr_array(vstack([kron(first, second) for first, second in pairs], format="csr"), dtype=np.float64)

    def _whitened(self, variances: Floats) -> tuple[csr_array, Floats]:
        """H V, and K with K'K = (D + H V H')^-1."""
        cells, rows = variances[: self.left.size], variances[self.left.size :]
        seen = csr_array(self._matrix @ diags_array(cells))
        system = np.diag(rows) + (seen @ self._matrix.T).toarray()
        return seen, np.linalg.inv(np.linalg.cholesky(system))
