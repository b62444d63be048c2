"""Cells and coarse levels of two axes with a weight for every combination, and rows that correct their estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.mechanisms.products import (
    AxisModes,
    AxisRows,
    ProductPart,
    along_axes,
    component_level,
    summed_by_query,
    summed_over_queries,
)
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Kronecker, Sparse
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem

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

    def measured_variances(self, values: Sequence[float]) -> Floats:
        """One value for each row from one for each group."""
        return np.repeat(np.asarray(values, dtype=np.float64), [group.count for group in self.groups])

    def system(self, table: Floats) -> Floats:
        """V + R S R' for weights as they are and S the given table."""
        own = [0.0 if group.weight is None else float(group.weight) ** -2 for group in self.groups]
        return self.between(table) + np.diag(self.measured_variances(own))

    def between(self, table: Floats) -> Floats:
        """R T R' for the quadratic form T with the given table."""
        blocks = []
        for one in self.groups:
            line = []
            for other in self.groups:
                first, second = (axis.between(a, b) for axis, a, b in zip(self.axes, one.rows, other.rows, strict=True))
                both = np.einsum("aAn,bBn->abAB", np.tensordot(first, table, axes=(2, 0)), second, optimize=True)
                line.append(both.reshape(one.count, other.count))
            blocks.append(line)
        return np.block(blocks)

    def crossed(self, rows: Sequence[AxisRows]) -> Crossed:
        """What queries with the given rows on each axis share with every row, mode by mode."""
        return [
            tuple(axis.with_rows(own, each) for axis, own, each in zip(self.axes, rows, group.rows, strict=True))
            for group in self.groups
        ]

    def seen(self, table: Floats, crossed: Crossed, index: Ints) -> Floats:
        """R T q for each query q, given as its row on each axis: corrections by queries."""
        groups = []
        for first, second in crossed:
            step = max(1, CHUNK // (first.shape[1] * max(second.shape[1], table.shape[1])))
            pieces = [np.empty((0, first.shape[1] * second.shape[1]))]
            for start in range(0, len(index), step):
                own, other = index[start : start + step].T
                half = first[own] @ table
                pieces.append(np.matmul(half, second[other].transpose(0, 2, 1)).reshape(len(own), -1))
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


@dataclass(frozen=True, eq=False)
class LevelTableStrategy:
    """Measures the products of rows of the levels in `weights`, each with its whole weight a row.

    All grams share the modes of the axes, so least squares is one number per combination of modes. `wide` are products
    of other coarse rows, which correct the estimate afterwards, as do the exact totals of products of `components`
    (labels per axis); of either there should be few.
    """

    problem: Problem
    parts: tuple[ProductPart, ...]
    axes: tuple[AxisModes, ...]
    weights: dict[Levels, int]
    components: tuple[Ints, ...] | None
    wide: ProductRows | None = None

    @property
    def mechanism(self) -> str:
        return "kronecker"

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
        parts = [self._measurement(levels) for levels in self.weights]
        if self.wide is not None and self.wide.weight is not None:
            weights = [np.array([self.wide.weight]), np.array([1])]
            factors = [Measurement(Sparse(csr_array(r)), w) for r, w in zip(self.wide.rows, weights, strict=True)]
            parts.append(KroneckerMeasurement(tuple(factors)))
        return Plan(unit, tuple(parts), exact)

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

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        return np.asarray(self.problem.workload.dot(self.estimate_cells(measured, exact, variances)))

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
        ends = np.cumsum([part.count for part in self.parts])
        home = np.searchsorted(ends, queries, side="right")
        rows = np.empty((self.problem.graph.cells, queries.size))
        for column, (query, place) in enumerate(zip(queries, home, strict=True)):
            part = self.parts[place]
            (row,) = part.rows_of(np.array([query - (ends[place] - part.count)]))
            own = [
                part.rows[axis].chosen(np.array([at])).times(np.eye(self.axes[axis].cells))[0]
                for axis, at in enumerate(row)
            ]
            rows[:, column] = reduce(lambda a, b: np.multiply.outer(a, b).reshape(-1), own)
        pulled = self._spread(rows)
        taken: Floats = np.empty((0, queries.size))
        if self._corrections.groups:
            taken = self._solved(self._corrections.measure(pulled))
            pulled = pulled - self._spread(self._corrections.give_back(taken))
        measured = [self._along(levels, pulled) * float(w) ** 2 for levels, w in self.weights.items()]
        return np.concatenate([*measured, taken[self._exact_count :]]).T

    def _measurement(self, levels: Levels) -> KroneckerMeasurement:
        factors = []
        for place, (axis, chosen) in enumerate(zip(self.axes, levels, strict=True)):
            rows = Sparse(csr_array(axis.level.blocks)) if chosen and axis.level is not None else Identity(axis.cells)
            factors.append(Measurement(rows, np.array([1 if place else self.weights[levels]])))
        return KroneckerMeasurement(tuple(factors))

    def _along(self, levels: Levels, values: Floats, transposed: bool = False) -> Floats:
        """The rows of a combination of levels, or their transpose, times columns; cells are left as they are."""
        rows = [axis.level_rows[chosen] for axis, chosen in zip(self.axes, levels, strict=True)]
        maps = [own.T if transposed else own for own in rows]
        block = values.reshape(*(own.shape[1] for own in maps), *values.shape[1:])
        for axis, chosen in enumerate(levels):
            if chosen:
                block = np.moveaxis(np.tensordot(maps[axis], block, axes=(1, axis)), 0, axis)
        return block.reshape(-1, *values.shape[1:])

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
        spread = sum(float(weight) ** 4 * float(own) * gram_table(self.axes, levels) for (levels, weight), own in each)
        return np.asarray(self._covariance_table**2 * spread)

    def _spread(self, values: Floats) -> Floats:
        """The least-squares covariance times columns: mode 0 for all of them, then by how much other modes differ."""
        table, (first, second) = self._covariance_table, [axis.vectors for axis in self.axes]
        rest = values.reshape(len(first), len(second), -1)
        rows = np.tensordot(first.T, rest, axes=(1, 0))
        columns = np.einsum("abc,bm->amc", rest, second, optimize=True)
        both = np.einsum("abc,bm->amc", rows, second, optimize=True)
        own = table[1:, 1:] - table[1:, :1] - table[:1, 1:] + table[0, 0]
        along = rows * (table[1:, 0] - table[0, 0])[:, None, None]
        along += np.einsum("amc,bm->abc", both * own[:, :, None], second, optimize=True)
        product = rest * table[0, 0] + np.tensordot(first, along, axes=(1, 0))
        product += np.einsum("amc,bm->abc", columns * (table[0, 1:] - table[0, 0])[:, None], second, optimize=True)
        return np.asarray(product).reshape(values.shape)

    @cached_property
    def _totals(self) -> list[Ints]:
        return [component_level(labels).blocks for labels in self.components or ()]

    @cached_property
    def _corrections(self) -> Corrections:
        """The exact totals, then the wide rows."""
        exact = [] if self.components is None else [ProductRows(tuple(self._totals), None)]
        return Corrections(self.axes, (*exact, *([] if self.wide is None else [self.wide])))

    @cached_property
    def _system(self) -> Floats:
        return self._corrections.system(self._covariance_table)

    def _solved(self, values: Floats) -> Floats:
        return np.asarray(np.linalg.solve(self._system, values), dtype=np.float64)

    @property
    def _exact_count(self) -> int:
        return sum(group.count for group in self._corrections.groups if group.weight is None)

    def _noise_of_corrections(self, variances: Floats) -> Floats:
        """The variance of each correcting row for the given noise: 0 for exact totals."""
        own = [0.0 if group.weight is None else float(variances[-1]) for group in self._corrections.groups]
        return self._corrections.measured_variances(own)

    def _part_variances(self, part: ProductPart, table: Floats, noise: Floats) -> Floats:
        """H(q - R'b) + b'Vb: H the table as a quadratic form, b = (V + R S R')^-1 R S q what corrections take over."""
        energies, corrections = self._own(part.rows), self._corrections
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
        plain = float(np.sum(table * summed_over_queries(self._own(part.rows), None)))
        if not self._corrections.groups:
            return plain
        crossed, own = self._corrections.crossed(part.rows), self._covariance_table
        inverse = np.linalg.inv(self._system)
        taken = inverse @ self._corrections.squares(own, own, crossed) @ inverse
        form = self._corrections.between(table) + np.diag(noise)
        mixed = self._corrections.squares(own, table, crossed)
        return plain + float(np.sum(taken * form) - 2 * np.sum(inverse * mixed))

    def _own(self, rows: tuple[AxisRows, ...]) -> list[Floats]:
        return [axis.energies(own) for axis, own in zip(self.axes, rows, strict=True)]
