"""Least squares for noisy cells corrected by a few hundred coarse rows: one small dense system."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from blowfishdb.mechanisms.one_axis.axis import Axis
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Intervals, Sparse
from blowfishdb.model.workload.line import are_most_pairs
from blowfishdb.plan.plan import Measurement


@dataclass(frozen=True, eq=False)
class CoarseCorrection:
    """Noisy cells y with variances V, coarse rows H with variances D, free totals as rows of variance 0.

    The estimate is y + V H'(D + H V H')^-1 (h - H y), h what the coarse rows gave (Woodbury's identity).
    """

    axis: Axis
    cell_weights: Ints
    coarse: csr_array
    coarse_weights: Ints

    @cached_property
    def parts(self) -> tuple[Measurement, ...]:
        """The noisy cells, then the coarse rows; groups without rows are left out."""
        groups = ((self.axis.noisy_rows, self.cell_weights), (Sparse(self.coarse), self.coarse_weights))
        return tuple(Measurement(rows, weights) for rows, weights in groups if weights.size)

    @cached_property
    def exact(self) -> Intervals | None:
        """The free totals."""
        return self.axis.totals

    @cached_property
    def noisy(self) -> Ints:
        """The cells of the first part."""
        return self.axis.noisy

    @cached_property
    def _rows(self) -> csr_array:
        """Coarse rows, then the free totals of more than one cell."""
        return csr_array(vstack([self.coarse, self._totals[0]], format="csr"), dtype=np.float64)

    @cached_property
    def _columns(self) -> csc_array:
        return self._rows.T

    @cached_property
    def _dense_rows(self) -> Floats:
        return np.asarray(self._rows.toarray())

    @cached_property
    def _totals(self) -> tuple[csr_array, Ints, Ints]:
        """Free totals of several cells as rows; which exact rows these are; which exact rows are single cells."""
        exact = self.exact
        if exact is None:
            none = np.empty(0, dtype=np.int64)
            return csr_array((0, self.axis.cells), dtype=np.int64), none, none
        length = exact.high - exact.low
        long, single = np.flatnonzero(length > 1), np.flatnonzero(length == 1)
        lengths = length[long]
        row = np.repeat(np.arange(long.size), lengths)
        column = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths - exact.low[long], lengths)
        ones = np.ones(row.size, dtype=np.int64)
        return csr_array((ones, (row, column)), shape=(long.size, self.axis.cells)), long, single

    @cached_property
    def _last_whitened(self) -> dict[bytes, tuple[Floats, Floats]]:
        return {}

    def estimate(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The best linear unbiased estimate of every cell."""
        cells, missed = self._first_look(measured, exact)
        if not self._rows.shape[0]:
            return cells
        spread, whitener = self._whitened(variances)
        step = self._columns @ (whitener.T @ (whitener @ missed))
        step *= spread.reshape(-1, *(1,) * (measured.ndim - 1))
        cells += step
        return cells

    def _first_look(self, measured: Floats, exact: Floats) -> tuple[Floats, Floats]:
        """The cells as they were measured or are known, and by how much each row says otherwise."""
        _, long, single = self._totals
        count = self.noisy.size
        cells = np.zeros((self.axis.cells, *measured.shape[1:]))
        cells[self.noisy] = measured[:count]
        if single.size and self.exact is not None:
            cells[self.exact.low[single]] = exact[single]
        return cells, np.concatenate([measured[count:], exact[long]]) - self._rows @ cells

    def _spreads(self, variances: Floats) -> tuple[Floats, Floats]:
        """The variance of each cell and of each row, 0 where it is exact."""
        count = self.noisy.size
        spread = np.zeros(self.axis.cells)
        spread[self.noisy] = variances[:count]
        noise = np.zeros(self._rows.shape[0])
        noise[: variances.size - count] = variances[count:]
        return spread, noise

    def range_variances(self, low: Ints, high: Ints, variances: Floats) -> Floats:
        """The variance of the estimated sum of each range."""
        spread, whitener = self._whitened(variances)
        alone = np.concatenate([[0.0], np.cumsum(spread)])
        before = np.zeros((self._rows.shape[0], self.axis.cells + 1))
        np.cumsum(self._dense_rows * spread, axis=1, out=before[:, 1:])
        whitened = (whitener @ before).T.copy()
        if are_most_pairs(self.axis.cells, low.size):
            squares = np.einsum("ij,ij->i", whitened, whitened)
            left = alone - squares
            together = (whitened @ whitened.T)[low, high]
            return np.asarray(np.maximum(left[high] - left[low] + 2.0 * (together - squares[low]), 0.0))
        found = np.empty(low.size)
        for start in range(0, low.size, 4096):
            part = slice(start, start + 4096)
            change = whitened[high[part]] - whitened[low[part]]
            found[part] = alone[high[part]] - alone[low[part]] - np.einsum("ij,ij->i", change, change)
        return np.maximum(found, 0.0)

    def _whitened(self, variances: Floats) -> tuple[Floats, Floats]:
        """The variance of each cell (0 where it is exact), and K with K'K = (D + H V H')^-1; the last is remembered."""
        key = variances.tobytes()
        known = self._last_whitened.get(key)
        if known is not None:
            return known
        spread, noise = self._spreads(variances)
        system = (self._dense_rows * spread) @ self._dense_rows.T
        system[np.diag_indices_from(system)] += noise
        found = spread, np.linalg.inv(np.linalg.cholesky(system))
        self._last_whitened.clear()
        self._last_whitened[key] = found
        return found
