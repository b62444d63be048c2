"""The directions along one axis that least squares treats alike: those of a coarse level, and all the rest as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.mechanisms.products.axis_levels import CoarseLevel
from blowfishdb.mechanisms.products.axis_rows import AxisRows, DenseRows
from blowfishdb.model.arrays import Floats, Ints


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
        return np.concatenate([(rows.squares() - seen.sum(axis=1))[:, None], seen], axis=1)

    def with_rows(self, rows: AxisRows, others: Ints) -> Floats:
        """Rows by others by modes: their inner products within every mode."""
        seen = rows.times(self.vectors)[:, None, :] * (others @ self.vectors)[None, :, :]
        whole = rows.times(others.T.astype(np.float64))
        return np.concatenate([(whole - seen.sum(axis=2))[:, :, None], seen], axis=2)

    def between(self, one: Ints, other: Ints) -> Floats:
        """The same for two written out sets of rows."""
        return self.with_rows(DenseRows(one.astype(np.float64)), other)
