"""Small least-squares systems, factorised once: solutions for many answers, and the covariance of any query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from blowfishdb.errors import InvalidInput, PlanError, TooLarge
from blowfishdb.inference.exact_rows import ExactRows, exact_rows
from blowfishdb.model.arrays import Floats
from blowfishdb.model.rows import Rows

CELL_LIMIT = 4096
"""Cells up to which a system is factorised."""

SVD_LIMIT = 2**32
"""Queries x cells x the smaller of the two, up to which a system that leaves something open is factorised."""

SAFE_CONDITION = 1e10
"""Bound on the condition number of the normal equations up to which they are as good as any other way."""

RANK_TOLERANCE = 1e-12
"""Singular values up to this share of the whole matrix are held to be zero."""

UNDETERMINED = 1e-7
"""Relative size of the part of a query that no measurement sees, above which the query has no variance."""

BLOCK = 2**22
"""Numbers held at once while the normal equations are formed."""


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """half x half' is the pseudo-inverse of the normal equations on what the exact rows leave open.

    `span` holds orthonormal rows for all that measurements see, or None when they see everything that is open.
    """

    rows: Rows
    weights: Floats
    known: ExactRows | None
    half: Floats
    span: Floats | None

    def solve(self, answers: Floats, exact_answers: Floats | None) -> Floats:
        """The best-fitting cells; of several the smallest."""
        columns = answers.reshape(answers.shape[0], -1)
        if self.known is None or exact_answers is None:
            cells = np.zeros((self.rows.shape[1], columns.shape[1]))
        else:
            cells = self.known.meet(exact_answers.reshape(exact_answers.shape[0], -1))
        # The second round works on the residual and removes the rounding that normal equations suffer from.
        for _ in range(2):
            pull = self.rows.transpose_dot(self.weights[:, None] * (columns - self.rows.dot(cells)))
            cells = cells + self.half @ (self.half.T @ _open_part(self.known, pull))
        return cells.reshape(-1, *answers.shape[1:])

    def half_covariance(self, queries: Rows) -> Floats:
        """A matrix H such that H H' is the covariance of the queries' answers; refused if one is not determined."""
        asked = _open_part(self.known, queries.dense().T.astype(np.float64)).T
        if self.span is not None:
            unseen = np.linalg.norm(asked - (asked @ self.span.T) @ self.span, axis=1)
            lost = np.flatnonzero(unseen > UNDETERMINED * (1.0 + np.linalg.norm(asked, axis=1)))
            if lost.size:
                raise PlanError(f"the measurements do not determine query {int(lost[0])} and {lost.size - 1} others")
        return asked @ self.half


def dense_system(rows: Rows, weights: Floats, known: ExactRows | None = None) -> DenseSystem:
    """Factorises the weighted rows (inverse variances), with the exact rows' directions taken out."""
    if rows.shape[1] > CELL_LIMIT:
        raise TooLarge("cells of a system to factorise", rows.shape[1], CELL_LIMIT, "Use fewer cells.")
    checked = row_weights(rows, weights)
    half = _half_by_cholesky(rows, checked, known)
    if half is not None:
        return DenseSystem(rows, checked, known, half, None)
    half, span = _half_by_svd(rows, checked, known)
    return DenseSystem(rows, checked, known, half, span)


def row_weights(rows: Rows, weights: Floats) -> Floats:
    """One positive finite weight per row."""
    spread = np.broadcast_to(np.asarray(weights, dtype=np.float64), (rows.shape[0],))
    if not np.all(np.isfinite(spread)) or np.any(spread <= 0.0):
        raise InvalidInput("weights are positive and finite; rows known exactly are given as exact rows")
    return spread


def answer_variances(rows: Rows, variances: Floats, queries: Rows, exact: Rows | None = None) -> Floats:
    """The variance of each query's least-squares answer from independent rows of the given variances."""
    known = None if exact is None else exact_rows(exact)
    spread = row_weights(rows, variances)
    return np.asarray((dense_system(rows, 1.0 / spread, known).half_covariance(queries) ** 2).sum(axis=1))


def _open_part(known: ExactRows | None, columns: Floats) -> Floats:
    return columns if known is None else known.leave_alone(columns)


def _half_by_cholesky(rows: Rows, weights: Floats, known: ExactRows | None) -> Floats | None:
    """The inverse of the Cholesky factor, or None where the equations are singular or nearly so.

    The directions that exact rows settle are filled with a multiple of their projector: they are orthogonal to all
    that is open, so the inverse on the open part does not change.
    """
    cells = rows.shape[1]
    gram = _gram(rows, weights)
    if known is not None:
        filling = float(np.trace(gram)) / cells
        gram = known.leave_alone(known.leave_alone(gram).T)
        gram += filling * (np.eye(cells) - known.leave_alone(np.eye(cells)))
    try:
        factor = cholesky(gram, lower=True)
    except LinAlgError:
        return None
    half = np.asarray(solve_triangular(factor, np.eye(cells), lower=True).T)
    # A bound, not an estimate: cheap estimators miss some singular directions of small whole-number matrices.
    condition = float(np.linalg.norm(gram)) * float(np.linalg.norm(half)) ** 2
    return half if condition <= SAFE_CONDITION else None


def _gram(rows: Rows, weights: Floats) -> Floats:
    """The weighted normal equations, a few columns at a time."""
    queries, cells = rows.shape
    width = max(1, BLOCK // max(1, queries))
    gram = np.empty((cells, cells))
    for start in range(0, cells, width):
        units = np.eye(cells, min(width, cells - start), -start)
        gram[:, start : start + width] = rows.transpose_dot(weights[:, None] * rows.dot(units))
    return (gram + gram.T) / 2


def _half_by_svd(rows: Rows, weights: Floats, known: ExactRows | None) -> tuple[Floats, Floats]:
    """Right singular vectors over singular values, zeros left out; and those vectors."""
    queries, cells = rows.shape
    work = queries * cells * min(queries, cells)
    if work > SVD_LIMIT:
        raise TooLarge("work to factorise a singular system", work, SVD_LIMIT, "Use fewer cells or rows.")
    matrix: Floats = np.sqrt(weights)[:, None] * rows.dense().astype(np.float64)
    size = float(np.linalg.norm(matrix))
    _, singular, right = np.linalg.svd(_open_part(known, matrix.T).T, full_matrices=False)
    keep = singular > RANK_TOLERANCE * size
    return right[keep].T / singular[keep], right[keep]
