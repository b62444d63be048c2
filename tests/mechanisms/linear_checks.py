"""What every strategy over cells must satisfy, checked against dense algebra."""

from fractions import Fraction

import numpy as np

from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Plan


def dense_rows(plan: Plan) -> np.ndarray:
    parts = [part.rows.dense() for part in plan.parts]
    return np.concatenate([np.zeros((0, plan.cells), dtype=np.int64), *parts])


def exact_rows(plan: Plan) -> np.ndarray:
    return plan.exact.dense() if plan.exact is not None else np.zeros((0, plan.cells), dtype=np.int64)


def brute_loss(plan: Plan, graph) -> int:
    """The greatest loss over the listed edges, at unit 1."""
    rows = np.concatenate([dense_rows(plan), np.zeros((len(plan.weights), 1), dtype=np.int64)], axis=1)
    edges = graph.edges()
    gaps = np.abs(rows[:, edges[:, 0]] - rows[:, edges[:, 1]])
    return int((plan.weights @ gaps).max(initial=0))


def check_linear(strategy, problem, rng: np.random.Generator) -> np.ndarray:
    """Unbiased, linear, with the variances it claims; returns the coefficients of all answers."""
    plan = strategy.plan(Fraction(1))
    noisy, exact = dense_rows(plan), exact_rows(plan)
    workload = problem.workload.dense()
    variances = rng.uniform(0.5, 2.0, len(noisy))
    table = rng.integers(0, 50, (problem.graph.cells, 3)).astype(float)
    answers = strategy.decode(noisy @ table, exact @ table, variances)
    np.testing.assert_allclose(answers, workload @ table, atol=1e-9)
    np.testing.assert_allclose(strategy.decode(noisy @ table[:, 0], exact @ table[:, 0], variances), answers[:, 0])
    cells = strategy.estimate_cells(noisy @ table, exact @ table, variances)
    np.testing.assert_allclose(cells, table, atol=1e-9)
    coefficients = strategy.decode(np.eye(len(noisy)), np.zeros((len(exact), len(noisy))), variances)
    everything = np.arange(len(workload))
    np.testing.assert_allclose(strategy.coefficients(everything, variances), coefficients, atol=1e-9)
    expected = coefficients**2 @ variances
    np.testing.assert_allclose(strategy.answer_variances(variances), expected, atol=1e-9)
    np.testing.assert_allclose(strategy.total_variance(variances), expected.sum(), atol=1e-9)
    assert certify(plan, problem.graph).epsilon == brute_loss(plan, problem.graph)
    return coefficients


def check_direct(strategy, coefficients: np.ndarray) -> None:
    """`direct` names the single variable of each answer exactly when all have at most one, with coefficient 1."""
    single = np.all(np.sum(coefficients != 0, axis=1) <= 1) and np.all(np.isin(coefficients, (-1, 0, 1)))
    if strategy.direct is None:
        return
    assert single
    for row, variable in zip(coefficients, strategy.direct, strict=True):
        assert np.flatnonzero(row).tolist() == ([variable] if variable >= 0 else [])


def check_terms(strategy, coefficients: np.ndarray) -> None:
    found = strategy.term_counts()
    if found is not None:
        listed = np.unique(np.sum(coefficients != 0, axis=1), return_counts=True)
        assert {int(k): int(c) for k, c in zip(*found, strict=True) if c} == {
            int(k): int(c) for k, c in zip(*listed, strict=True)
        }
        assert np.all(np.isin(coefficients, (-1, 0, 1)))
