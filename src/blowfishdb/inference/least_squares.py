"""The cells that fit noisy rows best: weighted least squares for any rows, exact rows met, smallest when free."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from blowfishdb.errors import InvalidInput, NotConverged
from blowfishdb.inference.dense_system import dense_system, row_weights
from blowfishdb.inference.exact_rows import ExactRows, exact_rows
from blowfishdb.model.arrays import Floats
from blowfishdb.model.rows import Rows

DENSE_WORK = 2**27
"""Queries x cells x the smaller of the two, up to which a system is factorised."""

TOLERANCE = 1e-13
"""Relative size of the gradient at which LSMR stops."""

GRADIENT_LEFT = 1e-8
"""Share of the first gradient that may be left at the solution."""

ITERATION_LIMIT = 10_000
LIMIT_REACHED = 7
"""What LSMR answers when it stops without having converged."""


def least_squares(
    rows: Rows, answers: Floats, weights: Floats, exact: Rows | None = None, exact_answers: Floats | None = None
) -> Floats:
    """The cells x with the least sum of weight (q x - answer)^2 among those that meet the exact rows.

    Weights are inverse variances. Where several x fit equally well the one of least Euclidean norm is returned. A
    matrix of answers is solved column by column. Small systems are factorised, large ones solved by iteration.
    """
    known = None if exact is None else exact_rows(exact)
    measured, settled = checked_answers(rows, answers, known, exact_answers)
    if rows.shape[0] * rows.shape[1] * min(rows.shape) <= DENSE_WORK:
        return dense_system(rows, weights, known).solve(measured, settled)
    return iterated(rows, measured, weights, known, settled)


def checked_answers(
    rows: Rows, answers: Floats, known: ExactRows | None, exact_answers: Floats | None
) -> tuple[Floats, Floats | None]:
    """Answers as float64, one for each row (and exact row), finite, both vectors or both matrices."""
    measured = np.asarray(answers, dtype=np.float64)
    if (known is None) != (exact_answers is None):
        raise InvalidInput("exact rows and their answers come together")
    settled = None if exact_answers is None else np.asarray(exact_answers, dtype=np.float64)
    if measured.ndim not in (1, 2) or measured.shape[0] != rows.shape[0]:
        raise InvalidInput(f"{rows.shape[0]} answers are expected, not shape {measured.shape}")
    if known is not None and settled is not None and settled.shape != (known.rows.shape[0], *measured.shape[1:]):
        raise InvalidInput(f"{known.rows.shape[0]} exact answers are expected, not shape {settled.shape}")
    if not np.all(np.isfinite(measured)) or (settled is not None and not np.all(np.isfinite(settled))):
        raise InvalidInput("answers are finite numbers")
    return measured, settled


def iterated(
    rows: Rows, answers: Floats, weights: Floats, known: ExactRows | None, exact_answers: Floats | None
) -> Floats:
    """The same solution by LSMR, which only multiplies by the rows; started at 0 it ends at the smallest minimiser."""
    if answers.ndim == 2:
        columns = [
            iterated(rows, answers[:, k], weights, known, None if exact_answers is None else exact_answers[:, k])
            for k in range(answers.shape[1])
        ]
        return np.stack(columns, axis=1) if columns else np.empty((rows.shape[1], 0))
    roots = np.sqrt(row_weights(rows, weights))

    def forward(cells: Floats) -> Floats:
        free = cells if known is None else known.leave_alone(cells)
        return np.asarray(roots * rows.dot(free))

    def backward(residual: Floats) -> Floats:
        cells = rows.transpose_dot(roots * residual)
        return cells if known is None else known.leave_alone(cells)

    operator = LinearOperator(rows.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    if known is None or exact_answers is None:
        start = np.zeros(rows.shape[1])
    else:
        start = known.meet(exact_answers)
    target = roots * (answers - rows.dot(start))
    step, reason, _, misfit, _, size, *_ = lsmr(
        operator, target, atol=TOLERANCE, btol=TOLERANCE, conlim=0.0, maxiter=ITERATION_LIMIT
    )
    cells: Floats = start + (step if known is None else known.leave_alone(step))
    # LSMR trusts its own recurrences; the gradient at the very point that is returned decides.
    left_over = np.linalg.norm(backward(roots * (answers - rows.dot(cells))))
    allowed = max(GRADIENT_LEFT * np.linalg.norm(backward(target)), 100 * TOLERANCE * size * misfit)
    if reason == LIMIT_REACHED or not left_over <= allowed:
        raise NotConverged("least squares", ITERATION_LIMIT)
    return cells
