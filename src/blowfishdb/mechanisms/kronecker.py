"""Kronecker: products of cells and smooth blocks along every axis, with product weights or, on two axes, their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.product_choice import Choices, axis_components, choose_axes, choose_table, with_wide_rows
from blowfishdb.mechanisms.product_levels import LevelTableStrategy
from blowfishdb.mechanisms.products import (
    AxisChoice,
    AxisRows,
    ProductPart,
    along_axes,
    component_level,
    product_parts,
    summed_by_query,
)
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Kronecker, Sparse
from blowfishdb.plan.plan import KroneckerMeasurement, Plan, Problem

NAME = "kronecker"
AXIS_CELLS = 2048
"""Least squares is dense along each axis."""
ROWS = 2**25
WORTH = 0.999
"""A table whose expected squared error is a larger part of the best product's is not worth leaving it for."""


def propose(problem: Problem) -> KroneckerStrategy | LevelTableStrategy:
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
    choices = Choices.of(problem.graph)
    product = choose_axes(parts, choices)
    exact = _exact_components(problem.graph)
    table = choose_table(parts, problem.graph, choices, product)
    if table is not None:
        table = with_wide_rows(parts, choices, table, exact)
    if table is None or table.ratio > WORTH:
        return kronecker_strategy(problem, parts, product)
    return LevelTableStrategy(problem, parts, table.axes, table.weights, exact, table.wide)


def kronecker_strategy(
    problem: Problem, parts: tuple[ProductPart, ...], axes: tuple[AxisChoice, ...]
) -> KroneckerStrategy:
    """The strategy with the given rows on each axis; component totals are exact where no record can leave."""
    rows = math.prod(axis.measurement.rows.shape[0] for axis in axes)
    if rows > ROWS:
        raise Declined(NAME, f"it would measure {rows:,} rows, more than {ROWS:,}")
    return KroneckerStrategy(problem, parts, axes, _exact_components(problem.graph))


def _exact_components(graph: CellGraph) -> tuple[Ints, ...] | None:
    """Component labels of each axis where no record can leave its component; None where one can."""
    is_closed = graph.has_value_edges and not graph.to_zero.any()
    return tuple(axis_components(graph)) if is_closed else None


@dataclass(frozen=True, eq=False)
class KroneckerStrategy:
    """One measurement on each axis; `components` are labels per axis whose products have exact totals."""

    problem: Problem
    parts: tuple[ProductPart, ...]
    axes: tuple[AxisChoice, ...]
    components: tuple[Ints, ...] | None

    @property
    def mechanism(self) -> str:
        return NAME

    @property
    def direct(self) -> None:
        return None

    @property
    def has_fixed_coefficients(self) -> bool:
        """The answers combine the noise in one way, whatever its variances."""
        return True

    def plan(self, unit: Fraction) -> Plan:
        exact = None
        if self.components is not None:
            exact = Kronecker(tuple(Sparse(csr_array(totals)) for totals in self._totals))
        return Plan(unit, (KroneckerMeasurement(tuple(axis.measurement for axis in self.axes)),), exact)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Least-squares counts of all cells that meet the exact totals; takes vectors or column matrices."""
        del variances
        cells = along_axes([axis.estimator for axis in self.axes], measured)
        if self.components is None:
            return cells
        return cells + along_axes(self._lifts, exact - along_axes(self._totals, cells))

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        return np.asarray(self.problem.workload.dot(self.estimate_cells(measured, exact, variances)))

    def answer_variances(self, variances: Floats) -> Floats:
        """Exact: all products of rows of the same levels have the same variance, so squares are summed by level."""
        table = self._by_level(variances)
        # An answer that the exact totals fix has variance 0 up to rounding.
        return np.concatenate([np.maximum(self._part_variances(part, table), 0.0) for part in self.parts])

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers; products of rows are never listed."""
        table = self._by_level(variances)
        return float(sum(self._part_variances(part, table, in_all=True).sum() for part in self.parts))

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        ends = np.cumsum([part.count for part in self.parts])
        home = np.searchsorted(ends, queries, side="right")
        rows = []
        for query, place in zip(queries, home, strict=True):
            part = self.parts[place]
            (row,) = part.rows_of(np.array([query - (ends[place] - part.count)]))
            direct, met = zip(
                *(self._terms(axis, part.rows[axis].chosen(np.array([at]))) for axis, at in enumerate(row)), strict=True
            )
            rows.append(_outer([one[0] for one in direct]) - _outer([one[0] for one in met]))
        return np.array(rows)

    @cached_property
    def _totals(self) -> list[Ints]:
        return [component_level(labels).blocks for labels in self.components or ()]

    @cached_property
    def _lifts(self) -> list[Floats]:
        """How a gap in the exact totals is shared out to the cells: S E' (E S E')^-1 on each axis."""
        spread = [axis.covariance @ totals.T for axis, totals in zip(self.axes, self._totals, strict=True)]
        return [
            np.asarray(np.linalg.solve(totals @ s, s.T).T, dtype=np.float64)
            for s, totals in zip(spread, self._totals, strict=True)
        ]

    def _terms(self, axis: int, rows: AxisRows) -> tuple[Floats, Floats]:
        """Coefficients on one axis' measured rows: of the plain estimate, and of what the exact totals take back."""
        estimator = self.axes[axis].estimator
        plain = rows.times(estimator)
        if self.components is None:
            return plain, np.zeros_like(plain)
        return plain, rows.times(self._lifts[axis]) @ (self._totals[axis] @ estimator)

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


def _outer(factors: Sequence[Floats]) -> Floats:
    return reduce(lambda a, b: np.multiply.outer(a, b).reshape(-1), factors)
