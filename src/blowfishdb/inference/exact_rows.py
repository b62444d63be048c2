"""Rows known without noise: a point that meets them, and the directions that leave them alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import InvalidInput, TooLarge
from blowfishdb.model.arrays import Floats
from blowfishdb.model.rows import Rows

OVERLAP_LIMIT = 2048
"""Exact rows that may share cells: their Gram matrix is inverted densely."""

CONTRADICTION = 1e-7
"""Relative misfit of exact rows above which they are held to contradict each other."""

ROUNDING = 1e-13
"""A projection that is smaller than this share of its input is rounding, and counts as zero."""


@dataclass(frozen=True, eq=False)
class ExactRows:
    """The rows, and the pseudo-inverse of their Gram matrix: a vector where rows share no cell, else a matrix."""

    rows: Rows
    inverse: Floats

    def spread(self, values: Floats) -> Floats:
        """The smallest cells whose exact rows are the given values, as nearly as possible."""
        if self.inverse.ndim == 2:
            shares = self.inverse @ values
        else:
            shares = self.inverse.reshape(-1, *(1,) * (values.ndim - 1)) * values
        return self.rows.transpose_dot(shares)

    def meet(self, values: Floats) -> Floats:
        """The smallest cells that meet the exact rows; refused when no cells do."""
        cells = self.spread(values)
        misfit = float(np.max(np.abs(self.rows.dot(cells) - values), initial=0.0))
        if not misfit <= CONTRADICTION * (1.0 + float(np.max(np.abs(values), initial=0.0))):
            raise InvalidInput("the exact rows contradict each other: no counts can meet them all")
        return cells

    def leave_alone(self, cells: Floats) -> Floats:
        """The part of the cells that every exact row sees as 0 (orthogonal projection)."""
        free = cells - self.spread(self.rows.dot(cells))
        # What rounding leaves of the settled directions goes in a second pass.
        free = free - self.spread(self.rows.dot(free))
        nothing = np.linalg.norm(free, axis=0) <= ROUNDING * np.linalg.norm(cells, axis=0)
        return np.where(nothing, 0.0, free)


def exact_rows(rows: Rows) -> ExactRows:
    """Prepares exact rows for use; a row of zeros is allowed and must have the value 0."""
    queries = rows.shape[0]
    shared = rows.column_norms(np.ones(queries, dtype=np.int64))
    if int(shared.max(initial=0)) <= 1:
        # Entries are 0, 1 or -1 and no two rows meet, so the Gram matrix is diagonal and its row sums are its diagonal.
        lengths = rows.dot(rows.transpose_dot(np.ones(queries)))
        return ExactRows(rows, np.divide(1.0, lengths, out=np.zeros(queries), where=lengths > 0))
    if queries > OVERLAP_LIMIT:
        raise TooLarge("exact rows that overlap", queries, OVERLAP_LIMIT, "Keep only rows that do not share cells.")
    gram = rows.dot(rows.transpose_dot(np.eye(queries)))
    return ExactRows(rows, np.linalg.pinv(gram, rcond=1e-12, hermitian=True))
