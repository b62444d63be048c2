"""Replaces the products of coarse rows in a table by products of other coarse rows, where that lowers the error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from blowfishdb.mechanisms.products.axis_levels import CoarseLevel, component_level, smooth_level
from blowfishdb.mechanisms.products.axis_modes import AxisModes
from blowfishdb.mechanisms.products.axis_rows import AxisRows
from blowfishdb.mechanisms.products.choice import Choices
from blowfishdb.mechanisms.products.corrections import Corrections, ProductRows
from blowfishdb.mechanisms.products.level_table import Levels, covariance_table
from blowfishdb.mechanisms.products.mode_sums import summed_by_query
from blowfishdb.mechanisms.products.queries import ProductPart
from blowfishdb.mechanisms.products.table_choice import LevelTable
from blowfishdb.model.arrays import Floats, Ints

QUERIES = 500
MOST_ROWS = 400
MIXED_SIZES = (0.9, 1.15)
"""Spacings that are tried for the mixed products; no move spares these, so their ramps are short."""

SIZES, RAMPS = (0.75, 1.0, 1.25, 1.6), (1.0, 1.5, 2.0)
"""Spacings that are tried for the wide rows, and heights of their ramps as parts of the spacing."""

SCALES = (0.8, 1.2, 1.45)
"""How the weights of the mixed products are scaled in the end."""

SHARES = np.geomspace(0.3, 3.0, 10)
"""Column norms of the wide rows that are tried, as parts of that of the products of coarse rows which they replace."""

WORTH = 0.995

Found = tuple[float, LevelTable]


def with_wide_rows(
    parts: Sequence[ProductPart], choices: Choices, table: LevelTable, components: tuple[Ints, ...] | None
) -> LevelTable:
    """The table as it is, or with wide rows for its products of coarse rows; tables without mixed products stay."""
    levels = [axis.level for axis in table.axes if axis.level is not None]
    if not {(0, 1), (1, 0), (1, 1)} <= table.weights.keys():
        return table
    totals = None if components is None else tuple(component_level(labels).blocks for labels in components)
    search = _Search(choices, [_Sample.of(part) for part in parts], totals)
    norm = table.weights[1, 1] * math.prod(level.height for level in levels)
    known = search.error(table)
    if known <= 0.0:
        return table
    resized = [[_resized(axis, size, ramp) for axis in table.axes] for size, ramp in itertools.product(SIZES, RAMPS)]
    tried = [wide for wide in (levels, *resized) if math.prod(len(level.blocks) for level in wide) <= MOST_ROWS]
    if not tried:
        return table
    bare = min((_mixed(table, size) for size in MIXED_SIZES), key=lambda one: search.widened(one, tried[0], norm)[0])
    best, levels = min(((search.widened(bare, wide, norm), wide) for wide in tried), key=lambda one: _error(one[0]))
    for scale in SCALES:
        whole = {at: round(weight * (scale if any(at) else 1.0)) for at, weight in bare.weights.items()}
        best = min(best, search.widened(replace(bare, weights=whole), levels, norm), key=_error)
    error, chosen = best
    return replace(chosen, ratio=table.ratio * error / known) if error < WORTH * known else table


def _error(found: Found) -> float:
    return found[0]


def _mixed(table: LevelTable, size: float) -> LevelTable:
    """The table without products of coarse rows, the mixed ones with another spacing and the same column norms."""
    axes = tuple(AxisModes(axis.cells, _resized(axis, size, 1.0)) for axis in table.axes)
    weights = {(0, 0): float(table.weights[0, 0])}
    for at, place in (((1, 0), 0), ((0, 1), 1)):
        heights = [level.height for level in (table.axes[place].level, axes[place].level) if level is not None]
        weights[at] = table.weights[at] * heights[0] / heights[1]
    return replace(table, axes=axes, weights={at: max(1, round(weight)) for at, weight in weights.items()})


def _resized(axis: AxisModes, size: float, ramp: float) -> CoarseLevel:
    """Blocks with another spacing: the fullest row of a level sums to its spacing times its height."""
    level = axis.level_rows[-1]
    spacing = int(level.sum(axis=1).max()) / int(level.sum(axis=0).max())
    new = max(1, round(size * spacing))
    return smooth_level(axis.cells, new, max(1, round(ramp * new)))


@dataclass(frozen=True, eq=False)
class _Sample:
    """Some queries of a part, each of which stands for `shown` queries."""

    rows: tuple[AxisRows, ...]
    index: Ints
    shown: float

    @staticmethod
    def of(part: ProductPart) -> _Sample:
        rows, index = part.listed(QUERIES)
        return _Sample(rows, index, part.count / max(len(index), 1))


@dataclass(frozen=True, eq=False)
class _Search:
    """Expected errors of tables over the sampled queries, at loss 1."""

    choices: Choices
    samples: Sequence[_Sample]
    totals: tuple[Ints, ...] | None

    def error(self, table: LevelTable) -> float:
        """Without wide rows."""
        groups = () if self.totals is None else (ProductRows(self.totals, None),)
        plain, system, squares = self._terms(table, groups)
        taken = float(np.sum(np.linalg.inv(system) * squares)) if groups else 0.0
        return (plain - taken) * float(self._losses(table).max()) ** 2

    def widened(self, bare: LevelTable, wide: Sequence[CoarseLevel], norm: float) -> tuple[float, LevelTable]:
        """The least error with the given wide levels over their weight, and that table."""
        height = math.prod(level.height for level in wide)
        rows = tuple(level.blocks for level in wide)
        exact = [] if self.totals is None else [ProductRows(self.totals, None)]
        plain, system, squares = self._terms(bare, (*exact, ProductRows(rows, 1)))
        base, lost = self._losses(bare), self._lost(wide)
        measured = np.arange(len(system)) >= sum(group.count for group in exact)
        best, best_weight = math.inf, 1
        for weight in sorted({max(1, round(share * norm / height)) for share in SHARES}):
            own = system + np.diag(np.where(measured, weight**-2.0 - 1.0, 0.0))
            error = plain - float(np.sum(np.linalg.inv(own) * squares))
            error *= float((base + weight * height * lost).max()) ** 2
            best, best_weight = min((best, best_weight), (error, weight))
        return best, replace(bare, wide=ProductRows(rows, best_weight))

    def _terms(self, table: LevelTable, groups: tuple[ProductRows, ...]) -> tuple[float, Floats, Floats]:
        """The summed variance without corrections, their system, and the summed squares of what they see."""
        own = covariance_table(table.axes, table.weights)
        corrections = Corrections(table.axes, groups)
        plain, squares = 0.0, np.zeros((corrections.count,) * 2)
        for sample in self.samples:
            energies = [axis.energies(rows) for axis, rows in zip(table.axes, sample.rows, strict=True)]
            plain += sample.shown * float(summed_by_query(own, energies, sample.index).sum())
            if groups:
                seen = corrections.seen(own, corrections.crossed(sample.rows), sample.index)
                squares += sample.shown * (seen @ seen.T)
        return plain, corrections.system(own) if groups else squares, squares

    def _losses(self, table: LevelTable) -> Floats:
        """What each way loses of the table, and what leaving does where a record can."""
        each = [self._loss(table, levels) * weight for levels, weight in table.weights.items()]
        return np.asarray(np.sum(each, axis=0))

    def _loss(self, table: LevelTable, levels: Levels) -> Floats:
        chosen = [axis.level if at else None for axis, at in zip(table.axes, levels, strict=True)]
        return self._lost(chosen) * math.prod(1 if level is None else level.height for level in chosen)

    def _lost(self, levels: Sequence[CoarseLevel | None]) -> Floats:
        """For rows of columns with norm 1: the loss of each way, then that of leaving."""
        kept = np.prod([1 - self.choices.moved(axis, level) for axis, level in enumerate(levels)], axis=0)
        return np.append(2 * (1 - kept), 1.0 if self.choices.leaves else 0.0)
