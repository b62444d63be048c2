"""Small least-squares systems, factorised once: solutions for many answers, and the covariance of any query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import InvalidInput, PlanError, TooLarge
from blowfishdb.inference.exact_rows import ExactRows, exact_rows
from blowfishdb.model.arrays import Floats
from blowfishdb.model.rows import Rows

SOLVE_LIMIT = 2**27
"""Queries x cells x the smaller of the two, up to which factorising is quicker than iterating."""

COVARIANCE_LIMIT = 2**32
"""The same product, up to which variances may be asked for."""

RANK_TOLERANCE = 1e-12
"""Singular values up to this share of the whole matrix are held to be zero."""

UNDETERMINED = 1e-7
"""Relative size of the part of a query that no measurement sees, above which the query has no variance."""


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """left x diag(singular) x right is the weighted matrix restricted to what the exact rows leave open."""

    rows: Rows
    roots: Floats
    known: ExactRows | None
    left: Floats
    singular: Floats
    right: Floats

    def solve(self, answers: Floats, exact_answers: Floats | None) -> Floats:
        """The best-fitting cells; of several the smallest."""
        roots = self.roots.reshape(-1, *(1,) * (answers.ndim - 1))
        scale = self.singular.reshape(-1, *(1,) * (answers.ndim - 1))
        if self.known is None or exact_answers is None:
            return self.right.T @ ((self.left.T @ (roots * answers)) / scale)
        start = self.known.meet(exact_answers)
        return start + self.right.T @ ((self.left.T @ (roots * (answers - self.rows.dot(start)))) / scale)

    def half_covariance(self, queries: Rows) -> Floats:
        """A matrix H such that H H' is the covariance of the queries' answers; refused where one is not determined."""
        seen = queries.dot(self.right.T)
        if self.known is None:
            open_part = queries.dense().astype(np.float64)
        else:
            open_part = self.known.leave_alone(queries.dense().T.astype(np.float64)).T
        unseen = np.linalg.norm(open_part - seen @ self.right, axis=1)
        lost = np.flatnonzero(unseen > UNDETERMINED * (1.0 + np.linalg.norm(open_part, axis=1)))
        if lost.size:
            raise PlanError(f"the measurements do not determine query {int(lost[0])} (and {lost.size - 1} others)")
        return np.asarray(seen / self.singular)


def work(rows: Rows) -> int:
    """A measure of the time that factorising takes."""
    queries, cells = rows.shape
    return queries * cells * min(queries, cells)


def fits_densely(rows: Rows) -> bool:
    """Whether factorising is the quicker way."""
    return work(rows) <= SOLVE_LIMIT


def root_weights(rows: Rows, weights: Floats) -> Floats:
    """The square root of one positive finite weight per row."""
    spread = np.broadcast_to(np.asarray(weights, dtype=np.float64), (rows.shape[0],))
    if not np.all(np.isfinite(spread)) or np.any(spread <= 0.0):
        raise InvalidInput("weights are positive and finite; rows known exactly are given as exact rows")
    return np.sqrt(spread)


def dense_system(rows: Rows, weights: Floats, known: ExactRows | None = None) -> DenseSystem:
    """Factorises the weighted rows (inverse variances), with the exact rows' directions taken out."""
    if work(rows) > COVARIANCE_LIMIT:
        raise TooLarge("work to factorise a system", work(rows), COVARIANCE_LIMIT, "Use fewer cells or rows.")
    roots = root_weights(rows, weights)
    matrix = rows.dense().astype(np.float64)
    size = float(np.linalg.norm(roots[:, None] * matrix))
    if known is not None:
        matrix = known.leave_alone(matrix.T).T
    left, singular, right = np.linalg.svd(roots[:, None] * matrix, full_matrices=False)
    keep = singular > RANK_TOLERANCE * size
    return DenseSystem(rows, roots, known, left[:, keep], singular[keep], right[keep])


def answer_covariance(rows: Rows, variances: Floats, queries: Rows, exact: Rows | None = None) -> Floats:
    """The covariance matrix of the queries' least-squares answers from independent rows of the given variances."""
    half = _half(rows, variances, queries, exact)
    return half @ half.T


def answer_variances(rows: Rows, variances: Floats, queries: Rows, exact: Rows | None = None) -> Floats:
    """The variance of each query's least-squares answer from independent rows of the given variances."""
    return np.asarray((_half(rows, variances, queries, exact) ** 2).sum(axis=1))


def _half(rows: Rows, variances: Floats, queries: Rows, exact: Rows | None) -> Floats:
    known = None if exact is None else exact_rows(exact)
    return dense_system(rows, 1.0 / np.asarray(variances, dtype=np.float64), known).half_covariance(queries)
