"""Least squares against textbook dense algebra, with exact rows, missing information and known variances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.sparse import csr_array

from blowfishdb.errors import InvalidInput, NotConverged, PlanError, TooLarge
from blowfishdb.inference import dense_system as dense_module
from blowfishdb.inference import least_squares as module
from blowfishdb.inference.dense_system import answer_variances, dense_system
from blowfishdb.inference.exact_rows import exact_rows
from blowfishdb.inference.least_squares import iterated, least_squares
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Kronecker, Prefix, Sparse, Stacked, total

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def textbook(matrix: Matrix, answers: Matrix, weights: Matrix, exact: Matrix, settled: Matrix) -> Matrix:
    """A point that meets the exact rows, plus the smallest best step inside their null space."""
    start = np.linalg.pinv(exact, rcond=1e-10) @ settled
    basis = scipy.linalg.null_space(exact, rcond=1e-10) if exact.size else np.eye(matrix.shape[1])
    roots = np.sqrt(weights)[:, None]
    open_part = roots * (matrix @ basis)
    # An absolute cut: where the exact rows settle everything, only rounding is left, and it counts as 0.
    cut = 1e-10 / max(1e-10, float(np.linalg.norm(open_part)))
    step = np.linalg.pinv(open_part, rcond=cut) @ (roots[:, 0] * (answers - matrix @ start))
    return np.asarray(start + basis @ step)


@st.composite
def systems(draw: Any) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
    cells, queries, known = draw(st.integers(1, 6)), draw(st.integers(1, 8)), draw(st.integers(0, 3))
    entries = st.integers(-2, 2)
    matrix = draw(arrays.arrays(np.int64, (queries, cells), elements=entries))
    exact = draw(arrays.arrays(np.int64, (known, cells), elements=entries))
    weights = draw(arrays.arrays(np.float64, queries, elements=st.sampled_from([0.01, 0.5, 1.0, 7.0])))
    answers = draw(arrays.arrays(np.int64, queries, elements=st.integers(-50, 50))).astype(float)
    truth = draw(arrays.arrays(np.int64, cells, elements=st.integers(0, 20)))
    return matrix, answers, weights, exact, (exact @ truth).astype(float)


@settings(max_examples=200)
@given(systems())
def test_both_ways_equal_the_textbook(system: tuple[Matrix, Matrix, Matrix, Matrix, Matrix]) -> None:
    matrix, answers, weights, exact, settled = system
    expected = textbook(*system)
    rows = Sparse(csr_array(matrix))
    known = Sparse(csr_array(exact)) if len(exact) else None
    values = settled if len(exact) else None
    found = least_squares(rows, answers, weights, known, values)
    slow = iterated(rows, answers, weights, None if known is None else exact_rows(known), values)
    scale = 1.0 + np.abs(expected).max()
    assert np.abs(found - expected).max() <= 1e-8 * scale
    assert np.abs(slow - expected).max() <= 1e-6 * scale
    if known is not None:
        assert np.abs(known.dot(found) - settled).max() <= 1e-9 * (1 + np.abs(settled).max())


def test_a_matrix_of_answers_is_solved_column_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    rows, known = Stacked((Identity(5), Prefix(5))), total(5)
    answers, settled = draw.normal(size=(10, 3)), draw.normal(size=(1, 3))
    together = least_squares(rows, answers, np.ones(10), known, settled)
    for k in range(3):
        alone = least_squares(rows, answers[:, k], np.ones(10), known, settled[:, k])
        assert np.allclose(together[:, k], alone, atol=1e-12)
    monkeypatch.setattr(module, "DENSE_WORK", 0)
    assert np.allclose(least_squares(rows, answers, np.ones(10), known, settled), together, atol=1e-9)
    assert least_squares(rows, answers[:, :0], np.ones(10)).shape == (5, 0)


def test_large_systems_are_solved_by_iteration_and_meet_disjoint_exact_rows() -> None:
    size, block = 50_000, 100
    draw = np.random.default_rng(2)
    truth = draw.integers(0, 50, size)
    start = np.arange(0, size, block)
    blocks = Intervals(size, start, start + block)
    tens = Intervals(size, np.arange(0, size, 10), np.arange(10, size + 10, 10))
    rows = Stacked((Identity(size), tens))
    weights = np.where(np.arange(rows.shape[0]) < size, 1.0, 4.0)
    noisy = rows.dot(truth) + draw.normal(size=rows.shape[0]) / np.sqrt(weights)
    cells = least_squares(rows, noisy, weights, blocks, blocks.dot(truth).astype(float))
    assert np.abs(blocks.dot(cells) - blocks.dot(truth)).max() < 1e-8
    # At the minimum the gradient has no part that the exact rows leave open.
    gradient = rows.transpose_dot(weights * (rows.dot(cells) - noisy))
    assert np.abs(exact_rows(blocks).leave_alone(gradient)).max() < 1e-7
    assert np.std(cells - truth) < np.std(noisy[:size] - truth)


def test_rows_that_the_exact_ones_settle_add_nothing() -> None:
    rows, known = Stacked((total(4), total(4))), total(4)
    expected = np.full(4, 2.5)
    assert np.allclose(least_squares(rows, np.array([3.0, 90.0]), np.ones(2), known, np.array([10.0])), expected)
    slow = iterated(rows, np.array([3.0, 90.0]), np.ones(2), exact_rows(known), np.array([10.0]))
    assert np.allclose(slow, expected)


def test_a_large_misfit_that_nothing_can_reduce_does_not_disturb_the_rest() -> None:
    settled, half_open = [1, 2, 2, 2, 1], [1, 0, 1, 1, 1]
    exact = np.array([[-2, -1, -1, -1, -1], [-1, -1, -1, -1, -1], [-1, -1, -1, -1, 0]])
    rows, known = Sparse(csr_array(np.array([settled, half_open]))), exact_rows(Sparse(csr_array(exact)))
    found = iterated(rows, np.zeros(2), np.array([0.5, 0.01]), known, np.array([-6.0, -5.0, -4.0]))
    assert np.allclose(found, [1, 5, -1, -1, 1])


def test_a_singular_direction_that_condition_estimators_miss_is_seen() -> None:
    rows = Sparse(csr_array(np.array([[-1, -1, -1, 1, -1], [-1, -1, -1, -1, -1], [-1, -2, -1, -1, -1]])))
    known = Sparse(csr_array(np.array([[0, 2, 1, 2, 2]])))
    found = least_squares(rows, np.zeros(3), np.full(3, 0.01), known, np.array([7.0]))
    assert np.allclose(found, [-3.5, 0, 0, 0, 3.5])


def test_contradicting_exact_rows_are_refused() -> None:
    twice = Stacked((total(3), total(3)))
    agreeing = least_squares(Identity(3), np.zeros(3), np.ones(3), twice, np.array([6.0, 6.0]))
    assert np.allclose(agreeing, 2.0)
    with pytest.raises(InvalidInput, match="contradict"):
        least_squares(Identity(3), np.zeros(3), np.ones(3), twice, np.array([6.0, 7.0]))
    empty = Intervals(3, np.array([1]), np.array([1]))
    with pytest.raises(InvalidInput, match="contradict"):
        least_squares(Identity(3), np.zeros(3), np.ones(3), empty, np.array([1.0]))


@pytest.mark.parametrize("weights", [np.array([1.0, 0.0]), np.array([1.0, -1.0]), np.array([1.0, np.inf])])
def test_weights_must_be_positive_and_finite(weights: Matrix) -> None:
    with pytest.raises(InvalidInput):
        least_squares(Identity(2), np.zeros(2), weights)


def test_answers_must_fit_their_rows() -> None:
    one = np.ones(2)
    for bad in (np.zeros(3), np.array([0.0, np.nan]), np.zeros((2, 1, 1))):
        with pytest.raises(InvalidInput):
            least_squares(Identity(2), bad, one)
    with pytest.raises(InvalidInput, match="together"):
        least_squares(Identity(2), one, one, total(2))
    with pytest.raises(InvalidInput, match="exact answers"):
        least_squares(Identity(2), one, one, total(2), np.zeros(2))
    with pytest.raises(InvalidInput, match="finite"):
        least_squares(Identity(2), one, one, total(2), np.array([np.nan]))


def test_no_half_finished_solution_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DENSE_WORK", 0)
    monkeypatch.setattr(module, "ITERATION_LIMIT", 3)
    answers = np.random.default_rng(3).normal(size=200)
    with pytest.raises(NotConverged):
        least_squares(Prefix(200), answers, np.ones(200))
    # Nor one that the solver itself calls finished when its gradient is not.
    monkeypatch.setattr(module, "LIMIT_REACHED", -1)
    with pytest.raises(NotConverged):
        least_squares(Prefix(200), answers, np.ones(200))


def test_limits_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooLarge):
        dense_system(Identity(10**4), np.ones(10**4))
    monkeypatch.setattr(dense_module, "SVD_LIMIT", 7)
    assert dense_system(Identity(3), np.ones(3)).span is None
    with pytest.raises(TooLarge):
        dense_system(Stacked((total(3), total(3))), np.ones(2))
    crowd = Intervals(4000, np.zeros(3000, dtype=int), np.arange(1, 3001))
    with pytest.raises(TooLarge):
        exact_rows(crowd)


@settings(max_examples=100)
@given(systems(), st.integers(0, 99))
def test_variances_are_those_of_the_solution_as_a_linear_map(system: Any, seed: int) -> None:
    matrix, _, weights, exact, _ = system
    rows = Sparse(csr_array(matrix))
    known = Sparse(csr_array(exact)) if len(exact) else None
    draw = np.random.default_rng(seed)
    # Combinations of measured and exact rows are determined by them.
    mix = draw.integers(-2, 3, (3, len(matrix))) @ matrix + draw.integers(-2, 3, (3, len(exact))) @ exact
    queries = Sparse(csr_array(mix))
    none = None if known is None else np.zeros((len(exact), len(matrix)))
    decode = queries.dot(least_squares(rows, np.eye(len(matrix)), weights, known, none))
    expected = decode**2 @ (1.0 / weights)
    found = answer_variances(rows, 1.0 / weights, queries, known)
    assert np.allclose(found, expected, atol=1e-7 * (1.0 + expected.max()))


def test_variances_in_closed_form() -> None:
    ranges = AllRanges(5)
    lengths = ranges.dot(np.ones(5))
    assert np.allclose(answer_variances(Identity(5), np.full(5, 3.0), ranges), 3.0 * lengths)
    # With the total known, a range of k of n cells and its complement share one error: v k (n - k) / n.
    known = answer_variances(Identity(5), np.full(5, 3.0), ranges, total(5))
    assert np.allclose(known, 3.0 * lengths * (5 - lengths) / 5)
    grid = Kronecker((Prefix(3), total(2)))
    assert np.allclose(answer_variances(Identity(6), np.ones(6), grid), [2.0, 4.0, 6.0])


def test_both_factorisations_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(7)
    rows, queries = Stacked((Prefix(20), Identity(20))), AllRanges(20)
    variances, answers = draw.uniform(0.1, 50.0, 40), draw.normal(size=(40, 2)) * 100

    def results() -> list[Matrix]:
        exact = total(20)
        cells = least_squares(rows, answers, 1.0 / variances, exact, np.array([[3.0, 4.0]]))
        return [answer_variances(rows, variances, queries, known) for known in (None, exact)] + [cells]

    monkeypatch.setattr(dense_module, "BLOCK", 100)
    fast = results()
    monkeypatch.setattr(dense_module, "SAFE_CONDITION", 0.0)
    for one, two in zip(fast, results(), strict=True):
        assert np.allclose(one, two, rtol=1e-9, atol=1e-9)


def test_what_is_not_measured_has_no_variance() -> None:
    with pytest.raises(PlanError, match="query 1"):
        answer_variances(total(3), np.ones(1), Stacked((total(3), Identity(3))))
    assert np.allclose(answer_variances(total(3), np.ones(1), total(3)), 1.0)


def test_predicted_variance_is_seen_and_a_wrong_one_is_not() -> None:
    draw = np.random.default_rng(4)
    rows, queries = Stacked((Identity(8), Intervals(8, np.array([0, 4]), np.array([4, 8])))), AllRanges(8)
    variances, trials = np.linspace(1.0, 3.0, 10), 40_000
    noise = draw.normal(size=(10, trials)) * np.sqrt(variances)[:, None]
    errors = queries.dot(least_squares(rows, noise, 1.0 / variances, total(8), np.zeros((1, trials))))
    predicted = answer_variances(rows, variances, queries, total(8))
    seen = predicted > 1e-9
    ratio = errors.var(axis=1)[seen] / predicted[seen]

    def accepted(ratios: Matrix) -> bool:
        # The sample variance of a normal has relative deviation sqrt(2 / trials); five of them.
        return bool(np.all(np.abs(ratios - 1.0) < 5 * np.sqrt(2 / trials)))

    assert accepted(ratio)
    assert not accepted(ratio * 1.05)
    assert np.abs(errors[~seen]).max() < 1e-9
