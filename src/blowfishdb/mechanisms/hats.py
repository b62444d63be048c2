"""Hats: tuned rows for running counts and all ranges, in whole numbers, and fast least squares of buckets under hats.

The tables are in `hats.json` and `lines.json`, written by `python -m benchmarks tune-hats` (docs/proofs/optimized.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from scipy.linalg import cholesky_banded, solve_triangular
from scipy.linalg.lapack import dtbtrs
from scipy.sparse import csr_array, vstack

from blowfishdb.mechanisms.axis import GRID, LEAST_CELL, CoarseCorrection, Estimator, OrderedAxis
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints, distinct
from blowfishdb.model.workload import AllRanges, Identity, Prefix, Rows, Sparse, Stacked
from blowfishdb.plan.plan import Measurement

NEAR_END = (0, 1, 2, 4)
"""Widths and heights of a level's hats are given for these hats from either end and the middle one, others follow."""
CONTROLS = 2 * len(NEAR_END) + 1
HEIGHT, LINE_HEIGHT = 128, 4096
"""Whole-number steps of a hat and of a broken line from nothing to its top; moves make each step cost time."""
TOPS = 64
"""Tops of rows are one of this many fractions of the loss: each different weight costs the sampler a table."""
MOST_WEIGHTS = 256
"""Cells use no more than this many different weights, for the same reason."""
BEYOND = 1.25
"""How far beyond its sizes a table is used."""
LEAST_SHARE = 1e-9
"""Rows over a cell have at least this share of the loss where they are stretched."""
NEAR = 1.1
"""Sizes up to this factor from one that has broken lines take these."""
AXIS_WEIGHTS, AXIS_HEIGHT = 32, 1024
"""Cells of an axis of a product use few weights: products have as many as their product. Rows are finer instead."""


@dataclass(frozen=True, eq=False)
class HatLevel:
    """Overlapping hats over the whole axis: how many, how far the ends lie beyond it, and their widths and heights.

    `ends` are logarithms; `widths` and `heights` too, for CONTROLS hats. `swing` is by how much the widths and heights
    change with the distance to the next hat of the wider level above.
    """

    count: int
    ends: Floats
    widths: Floats
    heights: Floats
    swing: Floats

    @classmethod
    def of(cls, numbers: Sequence[float]) -> HatLevel:
        """A level from the numbers of a table."""
        count, *rest = numbers
        ends, widths, heights, swing = np.split(np.array(rest), np.cumsum([2, CONTROLS, CONTROLS]))
        return cls(int(count), ends, widths, heights, swing)

    def between(self, other: HatLevel, part: float) -> HatLevel:
        """The level that is `part` of the way to another one."""
        pairs = [(getattr(self, name), getattr(other, name)) for name in ("ends", "widths", "heights", "swing")]
        count = round(self.count ** (1 - part) * other.count**part)
        return HatLevel(max(1, count), *((1 - part) * here + part * there for here, there in pairs))

    def knots(self, cells: int, wider: Floats | None) -> tuple[Floats, Floats]:
        """Where each hat begins, has its top and ends (the knots of its neighbours), and the height of each."""
        half = (self.count - 1) / 2
        near = np.minimum(NEAR_END, half)
        at = np.concatenate([near, [half], self.count - 1 - near[::-1]])
        place = np.arange(self.count)
        widths, heights = np.interp(place, at, self.widths), np.interp(place, at, self.heights)
        knots = self._placed(np.exp(widths), cells)
        if wider is not None:
            for _ in range(2):
                phase = np.cos(2 * np.pi * np.interp(knots[1:-1], wider, np.arange(wider.size)))
                knots = self._placed(np.exp(widths + self.swing[0] * phase), cells)
            heights = heights + self.swing[1] * phase
        return knots, np.exp(heights)

    def _placed(self, widths: Floats, cells: int) -> Floats:
        gaps = np.concatenate([widths[:1], (widths[:-1] + widths[1:]) / 2, widths[-1:]])
        knots = np.concatenate([[0.0], np.cumsum(gaps)])
        first, last = np.expm1(self.ends) * gaps[[0, -1]]
        return np.asarray((knots - first) / (knots[-1] - last - first) * cells)


@dataclass(frozen=True, eq=False)
class TunedHats:
    """Levels of hats, the finest first, with their shares of the loss as heights; and the RMSE at loss 1 a cell."""

    levels: tuple[HatLevel, ...]
    rmse: float

    def shares(self, cells: int) -> tuple[Floats, csr_array]:
        """The share of the loss of each cell, and of each hat on every cell: over a cell they sum to 1."""
        rows, wider = [], None
        for level in reversed(self.levels):
            knots, heights = level.knots(cells, wider)
            rows.append(_hats(knots, heights, cells))
            wider = knots
        hats = vstack(rows[::-1], format="csr")
        alone = 1.0 / (1.0 + np.asarray(hats.sum(axis=0)))
        return alone, csr_array(hats.multiply(alone))

    def build(self, axis: OrderedAxis, shares: Floats) -> CoarseCorrection:
        """The rows in whole numbers that rise once and fall once; the cells have what the rows leave of the loss."""
        del shares
        entries, weights = _whole_rows(self.shares(axis.cells)[1].toarray(), HEIGHT)
        left = GRID - weights @ entries
        return CoarseCorrection(axis, few_values(np.maximum(LEAST_CELL, left)), csr_array(entries), weights)


@dataclass(frozen=True, eq=False)
class TunedLines:
    """Rows as broken lines over an axis of `size` cells, and the RMSE at loss 1 a cell.

    A row of `lines` has the places where it begins and ends and, at equal steps between them, its share of the loss.
    """

    size: int
    lines: Floats
    rmse: float

    def shares(self, cells: int) -> Floats:
        """The share of the loss of each row on every cell of an axis of a like size."""
        middle = (np.arange(cells) + 0.5) * (self.size / cells)
        steps = np.linspace(0.0, 1.0, self.lines.shape[1] - 2)
        rows = [
            np.interp(middle, first + steps * (last - first), values, left=0.0, right=0.0)
            for first, last, *values in self.lines
        ]
        return np.array(rows)

    def build(self, axis: OrderedAxis, shares: Floats) -> CoarseCorrection:
        """The rows in whole numbers that rise once and fall once; the cells have what the rows leave of the loss.

        Cells that are left nearly the same share one weight, and the rows over each are stretched a little to leave it
        that.
        """
        del shares
        lines = self.shares(axis.cells)
        rest = 1.0 - lines.sum(axis=0)
        alike = np.empty(rest.size, dtype=np.int64)
        alike[np.argsort(rest, kind="stable")] = np.arange(rest.size) * min(MOST_WEIGHTS, rest.size) // rest.size
        common = (np.bincount(alike, rest) / np.bincount(alike))[alike]
        entries, weights = _whole_rows(lines * ((1.0 - common) / np.maximum(1.0 - rest, LEAST_SHARE)), LINE_HEIGHT)
        left = np.maximum(LEAST_CELL, GRID - weights @ entries)
        least = np.full(alike.max() + 1, GRID)
        np.minimum.at(least, alike, left)
        least = np.sort(least)
        used = least[np.searchsorted(least, left, side="right") - 1]
        return CoarseCorrection(axis, used, csr_array(entries), weights)


def _whole_rows(shares: Floats, height: int) -> tuple[Ints, Ints]:
    """Rows of at most `height` that rise once and fall once, and the weights that give them about these shares."""
    tops = np.ceil(shares.max(axis=1) * TOPS).astype(np.int64)
    entries = _hills(np.rint(shares / np.maximum(tops, 1)[:, None] * (TOPS * height)).astype(np.int64))
    used = entries.any(axis=1)
    return entries[used], tops[used] * (GRID // (TOPS * height))


@dataclass(frozen=True, eq=False)
class HatAxis:
    """One axis of a product: its cells and coarse rows with whole weights.

    All columns have the norm TOPS x AXIS_HEIGHT or a little less.
    """

    cell_weights: Ints
    coarse: Ints
    coarse_weights: Ints

    @classmethod
    def of(cls, hats: TunedHats, cells: int) -> HatAxis:
        """Cells take one of few shares of the loss near their own, and the hats over a cell what it leaves."""
        alone, rows = hats.shares(cells)
        dense = rows.toarray()
        steps = np.linspace(alone.min(), alone.max(), AXIS_WEIGHTS)
        near = steps[np.argmin(np.abs(alone[:, None] - steps), axis=1)]
        covered = 1.0 - alone > 0.0
        dense *= np.where(covered, (1.0 - near) / np.where(covered, 1.0 - alone, 1.0), 0.0)
        tops = np.ceil(dense.max(axis=1) * TOPS).astype(np.int64)
        entries = np.floor(dense / np.maximum(tops, 1)[:, None] * (TOPS * AXIS_HEIGHT)).astype(np.int64)
        used = entries.any(axis=1)
        return cls(np.floor(near * (TOPS * AXIS_HEIGHT)).astype(np.int64), entries[used], tops[used])

    @cached_property
    def weights(self) -> Ints:
        """The weight of each row, cells first."""
        return np.concatenate([self.cell_weights, self.coarse_weights])

    @cached_property
    def measurement(self) -> Measurement:
        return Measurement(Stacked((Identity(self.cell_weights.size), Sparse(csr_array(self.coarse)))), self.weights)

    @property
    def measures_cells_alone(self) -> bool:
        return False

    @property
    def level_starts(self) -> Ints:
        """Every row may have a weight of its own."""
        return np.arange(self.weights.size)

    @cached_property
    def covariance(self) -> Floats:
        """(A' W^2 A)^-1: the least-squares covariance of the cells when row i has variance 1 / weight_i^2."""
        spread = 1.0 / self.cell_weights.astype(np.float64) ** 2
        seen = self.coarse * spread
        system = np.diag(1.0 / self.coarse_weights.astype(np.float64) ** 2) + seen @ self.coarse.T
        return np.asarray(np.diag(spread) - seen.T @ np.linalg.solve(system, seen))

    @cached_property
    def estimator(self) -> Floats:
        """Cells by rows: the least-squares estimate of the cells from the measured rows."""
        rows = np.vstack([np.eye(self.cell_weights.size), self.coarse])
        return np.asarray(self.covariance @ (rows * self.weights.astype(np.float64)[:, None] ** 2).T)


def few_values(weights: Ints) -> Ints:
    """The weights, rounded down to at most MOST_WEIGHTS different ones between the least and the largest."""
    if distinct(weights).size <= MOST_WEIGHTS:
        return weights
    least = int(weights.min())
    step = (int(weights.max()) - least) // MOST_WEIGHTS + 1
    return least + (weights - least) // step * step


def tuned_rows(axis: OrderedAxis, workload: Rows) -> TunedHats | TunedLines | None:
    """The tuned rows for running counts or all ranges on one span where a record may be anywhere; None for all else."""
    moves, leaves = bool(np.all(axis.reach == axis.cells - 1)), bool(np.all(axis.leaves))
    is_whole = axis.spans.size == 1 and axis.runs.size == 1 and axis.universal.size == 0
    stays = bool(np.all(axis.reach == np.arange(axis.cells)))
    if not is_whole or not ((moves and not axis.leaves.any()) or (stays and leaves)):
        return None
    sizes = _lines().get(_table_of(workload, moves) or "", {})
    near = [lines for size, lines in sizes.items() if 1 / NEAR <= axis.cells / size <= NEAR]
    return near[0] if near else hats_for(workload, moves)


def hats_for(workload: Rows, moves: bool) -> TunedHats | None:
    """The tuned hats where records move anywhere, or come and go; None for other queries and lengths."""
    table = _table_of(workload, moves)
    return None if table is None else interpolated(_tables()[table], workload.shape[1])


def _table_of(workload: Rows, moves: bool) -> str | None:
    kinds = ((Prefix, "running counts"), (AllRanges, "all ranges"))
    kind = next((name for rows, name in kinds if isinstance(workload, rows)), None)
    return None if kind is None else f"{kind}, {'moves' if moves else 'presence'}"


def interpolated(table: Mapping[int, TunedHats], cells: int) -> TunedHats | None:
    """The hats for so many cells: between the two sizes around it, or those of the nearer one where levels differ."""
    sizes = sorted(table)
    if not sizes[0] <= cells <= BEYOND * sizes[-1]:
        return None
    place = min(int(np.searchsorted(sizes, cells, side="right")) - 1, len(sizes) - 2)
    low, high = sizes[place], sizes[place + 1]
    part = float(np.log(cells / low) / np.log(high / low))
    rmse = table[low].rmse ** (1 - part) * table[high].rmse ** part
    fewer, more = table[low].levels, table[high].levels
    if len(fewer) == len(more):
        return TunedHats(tuple(a.between(b, part) for a, b in zip(fewer, more, strict=True)), rmse)
    nearer, size = (fewer, low) if part < 0.5 else (more, high)  # hats keep their widths in cells
    counts = [max(1, round(level.count * cells / size)) for level in nearer]
    return TunedHats(
        tuple(
            HatLevel(count, level.ends, level.widths, level.heights, level.swing)
            for count, level in zip(counts, nearer, strict=True)
        ),
        rmse,
    )


@cache
def _tables() -> Mapping[str, Mapping[int, TunedHats]]:
    return {
        kind: {
            int(size): TunedHats(tuple(HatLevel.of(numbers) for numbers in entry["levels"]), entry["rmse"])
            for size, entry in table.items()
        }
        for kind, table in _read("hats.json").items()
    }


@cache
def _lines() -> Mapping[str, Mapping[int, TunedLines]]:
    return {
        kind: {
            int(size): TunedLines(int(size), np.array(entry["lines"], dtype=np.float64), entry["rmse"])
            for size, entry in table.items()
        }
        for kind, table in _read("lines.json").items()
    }


def _read(name: str) -> dict[str, dict[str, Any]]:
    content: dict[str, dict[str, Any]] = json.loads(
        resources.files("blowfishdb.mechanisms").joinpath(name).read_text(encoding="utf-8")
    )
    return content


def _hats(knots: Floats, heights: Floats, cells: int) -> csr_array:
    """Triangles over the middles of the cells, each from the knot before its own to the knot after it."""
    middle = np.arange(cells) + 0.5
    inside = (middle >= knots[0]) & (middle <= knots[-1])
    place = np.clip(np.searchsorted(knots, middle, side="right") - 1, 0, knots.size - 2)
    rising = (middle - knots[place]) / (knots[place + 1] - knots[place])
    parts = []
    for row, entries in ((place - 1, 1.0 - rising), (place, rising)):
        is_hat = inside & (row >= 0) & (row < heights.size)
        row = np.clip(row, 0, heights.size - 1)
        parts.append((np.where(is_hat, heights[row] * entries, 0.0), row))
    entries, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
    return csr_array((entries, (rows, np.tile(np.arange(cells), 2))), shape=(heights.size, cells))


def _hills(rows: Ints) -> Ints:
    """The rows, lowered where they would fall and rise again: away from the top they never rise."""
    top = np.argmax(rows, axis=1)[:, None]
    cell = np.arange(rows.shape[1])
    most = rows.max(axis=1, keepdims=True, initial=0)
    right = np.minimum.accumulate(np.where(cell < top, most, rows), axis=1)
    left = np.minimum.accumulate(np.where(cell > top, most, rows)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.minimum(rows, np.where(cell < top, left, right)))


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

    # Its rows may be too many to write out.
    coefficients = Estimator.coefficients

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
