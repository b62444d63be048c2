"""Strips and blocks for running counts on two short axes: tuned tables, the whole-number rows, and least squares.

The tables are in `strips.json`, written by `python -m benchmarks tune-strips` (docs/proofs/kronecker.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources

import numpy as np
from scipy.sparse import csr_array, diags_array, kron, vstack

from blowfishdb.mechanisms.hats import few_values
from blowfishdb.mechanisms.strategy import CellStrategy, single_cell_variances, squared
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Kronecker, Prefix, Sparse
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem

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


def strip_strategy(name: str, problem: Problem) -> StripStrategy | None:
    """The strategy for running counts on two axes where one record comes or goes; None for all else."""
    workload = problem.workload
    if problem.graph.has_value_edges or not isinstance(workload, Kronecker) or len(workload.factors) != 2:
        return None
    axes = [strip_axis(rows.cells) for rows in workload.factors if isinstance(rows, Prefix)]
    if len(axes) != 2 or axes[0] is None or axes[1] is None:
        return None
    strategy = StripStrategy(name, problem, tuple(_products(axes[0], axes[1])))
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

    mechanism: str
    problem: Problem
    products: tuple[KroneckerMeasurement, ...]

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
