"""Fast least squares for buckets under hats: narrow hats form a banded system, the few wide ones a small dense one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky_banded, solve_triangular
from scipy.linalg.lapack import dtbtrs
from scipy.sparse import csr_array

from blowfishdb.mechanisms.axis import CoarseCorrection
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints

FEW_COLUMNS = 64
"""Up to this many columns LAPACK is faster; beyond, its order of memory costs more than a loop over whole rows."""


@dataclass(frozen=True, eq=False)
class System:
    """The lower Cholesky factor of D + H V H' with the narrow hats first, each of which overlaps its neighbours alone.

    Their block has the factor `band` (its diagonal and the entries below it); `cross` is that factor's inverse times
    their overlap with the other rows, and `rest` the factor of what is left for those. `spread` is V.
    """

    spread: Floats
    band: Floats
    cross: Floats
    rest: Floats

    def solve(self, narrow: Floats, wide: Floats) -> tuple[Floats, Floats]:
        """The inverse of the whole system times the columns."""
        halfway = _forward(self.band, narrow)
        wide = _lower(self.rest, wide - self.cross.T @ halfway)
        wide = np.asarray(solve_triangular(self.rest, wide, lower=True, trans=1, check_finite=False))
        return _banded(self.band, halfway - self.cross @ wide, "T"), wide


@dataclass(frozen=True, eq=False)
class HatSolver(CoarseCorrection):
    """The same estimate as CoarseCorrection; also variances of ranges that cover parts of cells."""

    @cached_property
    def narrow(self) -> csr_array:
        """The rows of the first group: hats of the smallest spacing, in the order of the cells."""
        starts = self.coarse.indices[self.coarse.indptr[:-1]]
        falls = np.flatnonzero(np.diff(starts) < 0)
        count = int(falls[0]) + 1 if falls.size else int(starts.size)
        return csr_array(self.coarse[:count], dtype=np.float64)

    @cached_property
    def wide(self) -> csr_array:
        """The other hats and the free totals."""
        return csr_array(self._rows[self.narrow.shape[0] :])

    @cached_property
    def _last_system(self) -> dict[bytes, System]:
        return {}

    def system(self, variances: Floats) -> System:
        """The factors for the given variances of the noisy rows; both variances and estimates ask for the same."""
        key = variances.tobytes()
        if key not in self._last_system:
            self._last_system.clear()
            self._last_system[key] = self._factors(variances)
        return self._last_system[key]

    def _factors(self, variances: Floats) -> System:
        spread, noise = self._spreads(variances)
        rows = self.narrow.shape[0]
        weighted = csr_array(self.narrow.multiply(spread[None, :]))
        overlap = csr_array(weighted @ self.narrow.T)
        band = np.zeros((2, rows))
        band[0] = overlap.diagonal() + noise[:rows]
        band[1, :-1] = overlap.diagonal(-1)
        band = cholesky_banded(band, lower=True, check_finite=False) if rows else band
        cross = _forward(band, (weighted @ self.wide.T).toarray())
        left = np.asarray((self.wide.multiply(spread[None, :]) @ self.wide.T).toarray())
        left[np.diag_indices_from(left)] += noise[rows:]
        return System(spread, band, cross, np.asarray(np.linalg.cholesky(left - cross.T @ cross), dtype=np.float64))

    def estimate(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The best linear unbiased estimate of every cell."""
        cells, missed = self._first_look(measured, exact)
        system = self.system(variances)
        rows = self.narrow.shape[0]
        narrow, wide = system.solve(missed[:rows], missed[rows:])
        step = self.narrow.T @ narrow + self.wide.T @ wide
        return np.asarray(cells + system.spread.reshape(-1, *(1,) * (measured.ndim - 1)) * step)

    def range_variances(self, low: Ints, high: Ints, variances: Floats) -> Floats:
        """The variance of the estimated sum of each range of whole cells."""
        none = np.zeros(low.size)
        return self.partial_variances((low, none), (high, none), variances)

    def partial_variances(self, low: tuple[Ints, Floats], high: tuple[Ints, Floats], variances: Floats) -> Floats:
        """The same for ranges whose ends, a cell and the part of it before the end, may lie within cells."""
        system = self.system(variances)
        narrow = _forward(system.band, self._narrow_sums(system.spread, low, high))
        wide = np.zeros((self.wide.shape[1] + 1, self.wide.shape[0]))
        np.cumsum((self.wide.toarray() * system.spread).T, axis=0, out=wide[1:])
        seen = _between(wide, *high) - _between(wide, *low)
        rest = _lower(system.rest, seen.T - system.cross.T @ narrow)
        known = np.einsum("ij,ij->j", narrow, narrow) + np.einsum("ij,ij->j", rest, rest)
        return np.asarray(np.maximum(_alone(system.spread, low, high) - known, 0.0))

    def _narrow_sums(self, spread: Floats, low: tuple[Ints, Floats], high: tuple[Ints, Floats]) -> Floats:
        """For each narrow hat (rows) and range (columns) the hat's sum over the range, weighted by variance.

        A hat that ends before a place has passed it whole; at most two hats lie across a place.
        """
        matrix = self.narrow
        rows = matrix.shape[0]
        entries = matrix.data * spread[matrix.indices]
        running = np.concatenate([[0.0], np.cumsum(entries)])
        first, last = matrix.indices[matrix.indptr[:-1]], matrix.indices[matrix.indptr[1:] - 1]
        mass = np.diff(running[matrix.indptr])
        start, stop = (np.searchsorted(last, cell).astype(np.int32) for cell, _ in (low, high))
        hats = np.arange(rows, dtype=np.int32)[:, None]
        sums = ((hats >= start) & (hats < stop)) * mass[:, None]
        for passed, (cell, part), sign in ((stop, high, 1.0), (start, low, -1.0)):
            for hat in (passed, passed + 1):
                query = np.flatnonzero(hat < rows)
                query = query[first[hat[query]] <= cell[query]]
                at = hat[query]
                place = matrix.indptr[at] + cell[query] - first[at]
                share = running[place] - running[matrix.indptr[at]] + part[query] * entries[place]
                sums[at, query] += sign * share
        return np.asarray(sums)


def _forward(band: Floats, columns: Floats) -> Floats:
    """The inverse of the lower factor with the given diagonal and entries below it, times the columns."""
    if columns.ndim == 1 or columns.shape[1] <= FEW_COLUMNS:
        return _banded(band, columns, "N")
    solved, ratios = columns / band[0][:, None], band[1, :-1] / band[0, 1:]
    for row, ratio in enumerate(ratios.tolist()):
        solved[row + 1] -= ratio * solved[row]
    return np.asarray(solved)


def _banded(band: Floats, columns: Floats, transposed: str) -> Floats:
    """The inverse of the factor, or of its transpose ("T"), times the columns."""
    if not columns.size:
        return columns
    solved, _ = dtbtrs(band, columns.reshape(columns.shape[0], -1), uplo="L", trans=transposed)
    return np.asarray(solved).reshape(columns.shape)


def _lower(factor: Floats, columns: Floats) -> Floats:
    return np.asarray(solve_triangular(factor, columns, lower=True, check_finite=False))


def _alone(spread: Floats, low: tuple[Ints, Floats], high: tuple[Ints, Floats]) -> Floats:
    """The variance of each range if only the cells themselves were measured."""
    before = np.concatenate([[0.0], np.cumsum(spread)])
    padded = np.append(spread, 0.0)
    (first, skipped), (last, part) = low, high
    apart = before[last] - before[first] + padded[last] * part**2 + padded[first] * ((1 - skipped) ** 2 - 1)
    return np.where(first == last, padded[first] * (part - skipped) ** 2, apart)


def _between(sums: Floats, cell: Ints, part: Floats) -> Floats:
    after = np.minimum(cell + 1, sums.shape[0] - 1)
    return np.asarray(sums[cell] + part[:, None] * (sums[after] - sums[cell]))
