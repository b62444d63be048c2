"""Cells and coarse levels of several axes with a weight of its own for every combination of levels."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.mechanisms.products.axis_levels import component_level
from blowfishdb.mechanisms.products.axis_modes import AxisModes
from blowfishdb.mechanisms.products.axis_rows import AxisRows
from blowfishdb.mechanisms.products.mode_sums import along_axes, summed_by_query, summed_over_queries
from blowfishdb.mechanisms.products.queries import ProductPart
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Identity, Kronecker, Sparse
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan
from blowfishdb.plan.problem import Problem

Levels = tuple[int, ...]
"""For each axis 0 (its cells) or 1 (its coarse level)."""


@dataclass(frozen=True, eq=False)
class LevelTableStrategy:
    """Measures the products of rows of the levels in `weights`, each with its whole weight a row.

    All grams share the modes of the axes, so least squares is one number per combination of modes. `components` are
    labels per axis whose products have exact totals; there should be few of them.
    """

    problem: Problem
    parts: tuple[ProductPart, ...]
    axes: tuple[AxisModes, ...]
    weights: dict[Levels, int]
    components: tuple[Ints, ...] | None

    @property
    def mechanism(self) -> str:
        return "kronecker"

    @property
    def direct(self) -> None:
        return None

    def plan(self, unit: Fraction) -> Plan:
        exact = None
        if self.components is not None:
            exact = Kronecker(tuple(Sparse(csr_array(totals)) for totals in self._totals))
        return Plan(unit, tuple(self._measurement(levels) for levels in self.weights), exact)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Least-squares counts of all cells that meet the exact totals; takes vectors or column matrices."""
        del variances
        starts = np.cumsum(self._sizes)[:-1]
        pulled = sum(
            along_axes([rows.T for rows in self._rows[levels]], part) * float(weight) ** 2
            for (levels, weight), part in zip(self.weights.items(), np.split(measured, starts), strict=True)
        )
        cells = self._spread(np.asarray(pulled))
        if self.components is None:
            return cells
        return cells + self._lift @ (exact - self._flat_totals @ cells)

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        return np.asarray(self.problem.workload.dot(self.estimate_cells(measured, exact, variances)))

    def answer_variances(self, variances: Floats) -> Floats:
        """Exact for any variance of each combination of levels: a sum over modes for every answer."""
        table = self._noise_table(variances)
        return np.concatenate([np.maximum(self._part_variances(part, table), 0.0) for part in self.parts])

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers; all combinations of rows are never listed."""
        table = self._noise_table(variances)
        return float(
            sum(
                self._summed_variance(part, table) if part.index is None else self._part_variances(part, table).sum()
                for part in self.parts
            )
        )

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        ends = np.cumsum([part.count for part in self.parts])
        home = np.searchsorted(ends, queries, side="right")
        asked = np.empty((self.problem.graph.cells, queries.size))
        for column, (query, place) in enumerate(zip(queries, home, strict=True)):
            part = self.parts[place]
            (row,) = part.rows_of(np.array([query - (ends[place] - part.count)]))
            own = [
                part.rows[axis].chosen(np.array([at])).times(np.eye(self.axes[axis].cells))[0]
                for axis, at in enumerate(row)
            ]
            asked[:, column] = reduce(lambda a, b: np.multiply.outer(a, b).reshape(-1), own)
        pulled = self._spread(asked)
        if self.components is not None:
            pulled = pulled - self._spread(self._flat_totals.T @ (self._lift.T @ asked))
        found = [along_axes(self._rows[levels], pulled) * float(w) ** 2 for levels, w in self.weights.items()]
        return np.concatenate(found).T

    def _measurement(self, levels: Levels) -> KroneckerMeasurement:
        factors = []
        for place, (axis, chosen) in enumerate(zip(self.axes, levels, strict=True)):
            rows = Sparse(csr_array(axis.level.blocks)) if chosen and axis.level is not None else Identity(axis.cells)
            factors.append(Measurement(rows, np.array([1 if place else self.weights[levels]])))
        return KroneckerMeasurement(tuple(factors))

    @cached_property
    def _rows(self) -> dict[Levels, list[Ints]]:
        """The rows of each combination of levels on every axis."""
        own = [axis.level_rows for axis in self.axes]
        return {levels: [rows[chosen] for rows, chosen in zip(own, levels, strict=True)] for levels in self.weights}

    @cached_property
    def _sizes(self) -> list[int]:
        return [math.prod(rows.shape[0] for rows in self._rows[levels]) for levels in self.weights]

    @cached_property
    def _gram_tables(self) -> list[Floats]:
        """For each combination of levels the value of its rows' Gram matrix on every combination of modes."""
        tables = []
        for levels in self.weights:
            table = np.ones(())
            for axis, chosen in zip(self.axes, levels, strict=True):
                height = axis.level.height if chosen and axis.level is not None else 1
                table = np.multiply.outer(table, axis.grams[chosen] * float(height) ** 2)
            tables.append(table)
        return tables

    @cached_property
    def _covariance_table(self) -> Floats:
        """1 over the precision of every combination of modes when a row of weight w has variance 1 / w^2."""
        weighted = zip(self.weights.values(), self._gram_tables, strict=True)
        return np.asarray(1.0 / sum(float(weight) ** 2 * gram for weight, gram in weighted))

    def _noise_table(self, variances: Floats) -> Floats:
        """The variance of the estimate along every combination of modes for the given noise."""
        starts = np.cumsum([0, *self._sizes[:-1]])
        each = zip(self.weights.values(), self._gram_tables, np.asarray(variances)[starts], strict=True)
        spread = sum(float(weight) ** 4 * float(own) * gram for weight, gram, own in each)
        return np.asarray(self._covariance_table**2 * spread)

    def _spread(self, values: Floats) -> Floats:
        """The least-squares covariance times a vector or a matrix of columns."""
        analysis = [axis.analysis for axis in self.axes]
        table = self._covariance_table[np.ix_(*(axis.mode_of for axis in self.axes))].reshape(-1)
        seen = along_axes(analysis, values) * table.reshape(-1, *(1,) * (values.ndim - 1))
        return along_axes([each.T for each in analysis], seen)

    @cached_property
    def _totals(self) -> list[Ints]:
        return [component_level(labels).blocks for labels in self.components or ()]

    @cached_property
    def _flat_totals(self) -> Floats:
        """The exact totals as rows over all cells."""
        return np.asarray(reduce(np.kron, self._totals), dtype=np.float64)

    @cached_property
    def _lift(self) -> Floats:
        """How a gap in the exact totals is shared out to the cells: S E' (E S E')^-1."""
        spread = self._spread(self._flat_totals.T)
        return np.asarray(np.linalg.solve(self._flat_totals @ spread, spread.T).T)

    @cached_property
    def _total_rows(self) -> list[tuple[Floats, ...]]:
        """Each exact total as one row per axis; none where no total is exact."""
        if self.components is None:
            return []
        return list(itertools.product(*(list(totals.astype(np.float64)) for totals in self._totals)))

    def _between_totals(self, table: Floats) -> Floats:
        """The exact totals' products with each other, weighed by a table over the modes."""
        found = np.empty((len(self._total_rows),) * 2)
        for (i, one), (k, other) in itertools.product(enumerate(self._total_rows), repeat=2):
            seen = [_inner(axis, a, b) for axis, a, b in zip(self.axes, one, other, strict=True)]
            found[i, k] = np.sum(table * reduce(np.multiply.outer, seen))
        return found

    def _with_totals(self, part: ProductPart) -> list[list[Floats]]:
        """For each exact total and axis the products of a part's rows with it, within every mode."""
        return [
            [axis.energies(rows, own) for axis, rows, own in zip(self.axes, part.rows, total, strict=True)]
            for total in self._total_rows
        ]

    def _own(self, rows: tuple[AxisRows, ...]) -> list[Floats]:
        return [axis.energies(own) for axis, own in zip(self.axes, rows, strict=True)]

    def _part_variances(self, part: ProductPart, table: Floats) -> Floats:
        """H(q - E'b) with H the table as a quadratic form and b = (E S E')^-1 E S q what exact totals take over."""
        plain = summed_by_query(table, self._own(part.rows), part.index)
        crossed = self._with_totals(part)
        if not crossed:
            return plain
        seen = np.stack([summed_by_query(self._covariance_table, each, part.index) for each in crossed])
        noisy = np.stack([summed_by_query(table, each, part.index) for each in crossed])
        taken = np.linalg.solve(self._between_totals(self._covariance_table), seen)
        return np.asarray(plain + (taken * (self._between_totals(table) @ taken - 2 * noisy)).sum(axis=0))

    def _summed_variance(self, part: ProductPart, table: Floats) -> float:
        """The same summed over all combinations of rows: products of b with b and with E H q are products of sums."""
        plain = float(np.sum(table * summed_over_queries(self._own(part.rows), None)))
        crossed = self._with_totals(part)
        if not crossed:
            return plain
        own = self._covariance_table
        both, mixed = np.empty((2, len(crossed), len(crossed)))
        for (i, one), (k, other) in itertools.product(enumerate(crossed), repeat=2):
            squares = [a.T @ b for a, b in zip(one, other, strict=True)]
            both[i, k] = own.reshape(-1) @ along_axes(squares, own.reshape(-1))
            mixed[i, k] = own.reshape(-1) @ along_axes(squares, table.reshape(-1))
        inverse = np.linalg.inv(self._between_totals(own))
        taken = inverse @ both @ inverse
        return plain + float(np.sum(taken * self._between_totals(table)) - 2 * np.sum(inverse * mixed.T))


def _inner(axis: AxisModes, one: Floats, other: Floats) -> Floats:
    """The inner product of two vectors over the cells of an axis within every mode."""
    seen = (one @ axis.vectors) * (other @ axis.vectors)
    return np.append(one @ other - seen.sum(), seen)
