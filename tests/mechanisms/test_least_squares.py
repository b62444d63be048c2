"""Tree and coarse-row least squares equal the dense formula, whatever the shape."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.mechanisms.axis import CoarseCorrection, EstimatingStrategy, TreeCorrection, grow, read_axis
from blowfishdb.mechanisms.optimized import hats
from tests.effort import effort
from tests.mechanisms.one_dim import dense_decoder, problems, threshold


@st.composite
def tree_strategies(draw):
    problem = draw(problems())
    axis = read_axis("tree", problem)
    cuts = draw(st.lists(st.integers(0, axis.cells - 1), max_size=4))
    blocks = np.unique(np.concatenate([axis.runs, np.array(cuts, dtype=np.int64)]))
    sizes = draw(st.sampled_from([(), (2,), (3,), (2, 4), (3, 6), (2, 4, 12)]))
    sizes = tuple(size for size in sizes if size < axis.cells)
    tree = grow(axis, blocks, sizes, roots=draw(st.booleans()), sums=draw(st.booleans()))
    return EstimatingStrategy(
        "tree", problem, TreeCorrection(tree, tree.weights(np.linspace(1.0, 0.5, len(sizes) + 3)))
    )


@st.composite
def coarse_strategies(draw):
    problem = draw(problems())
    axis = read_axis("coarse", problem)
    rows = hats(axis.cells, axis.runs, axis.run_ends, draw(st.integers(2, 5)))
    cell_weights = np.arange(1, axis.noisy.size + 1)
    if not axis.noisy.size:
        rows = rows[:0]
    weights = np.arange(3, 3 + rows.shape[0])
    return EstimatingStrategy("coarse", problem, CoarseCorrection(axis, cell_weights, rows, weights))


either = st.one_of(tree_strategies(), coarse_strategies())


def noise_variances(strategy, seed):
    count = sum(part.rows.shape[0] for part in strategy.estimator.parts)
    return np.random.default_rng(seed).uniform(0.5, 4.0, count)


@effort(150)
@given(either, st.integers(0, 10))
def test_estimates_equal_the_dense_solution(strategy, seed):
    spread = noise_variances(strategy, seed)
    noisy_map, exact_map = dense_decoder(strategy, spread)
    rng = np.random.default_rng(seed)
    measured = rng.normal(size=(spread.size, 2))
    exact = rng.normal(size=(exact_map.shape[1], 2))
    expected = noisy_map @ measured + exact_map @ exact
    np.testing.assert_allclose(strategy.estimate_cells(measured, exact, spread), expected, atol=1e-8)
    np.testing.assert_allclose(strategy.estimate_cells(measured[:, 0], exact[:, 0], spread), expected[:, 0], atol=1e-8)
    answers = strategy.problem.workload.dense() @ expected
    np.testing.assert_allclose(strategy.decode(measured, exact, spread), answers, atol=1e-7)


@effort(150)
@given(either, st.integers(0, 10))
def test_variances_and_coefficients_equal_the_dense_formula(strategy, seed):
    spread = noise_variances(strategy, seed)
    decoder = strategy.problem.workload.dense() @ dense_decoder(strategy, spread)[0]
    expected = (decoder**2) @ spread
    np.testing.assert_allclose(strategy.answer_variances(spread), expected, atol=1e-8)
    assert strategy.total_variance(spread) == pytest.approx(expected.sum(), abs=1e-6)
    some = np.arange(0, decoder.shape[0], 3)
    np.testing.assert_allclose(strategy.coefficients(some, spread), decoder[some], atol=1e-8)


@effort(20)
@given(either, st.integers(0, 10))
def test_an_estimator_that_was_used_can_go_to_another_process(strategy, seed):
    spread = noise_variances(strategy, seed)
    expected = strategy.answer_variances(spread)
    copy = pickle.loads(pickle.dumps(strategy.estimator))
    moved = EstimatingStrategy("moved", strategy.problem, copy)
    np.testing.assert_array_equal(moved.answer_variances(spread), expected)
    np.testing.assert_allclose(moved.answer_variances(2 * spread), 2 * expected, atol=1e-8)


def test_exact_rows_come_back_unchanged():
    problem = threshold(30, 4)
    axis = read_axis("tree", problem)
    tree = grow(axis, np.arange(0, 30, 4), (2,), sums=True)
    strategy = EstimatingStrategy("tree", problem, TreeCorrection(tree, tree.weights(np.ones(4))))
    spread = noise_variances(strategy, 1)
    cells = strategy.estimate_cells(np.random.default_rng(2).normal(size=spread.size), np.array([77.0]), spread)
    assert cells.sum() == pytest.approx(77.0)


def test_noise_of_vanishing_scale_is_no_trouble():
    problem = threshold(40, 40, "only")
    axis = read_axis("tree", problem)
    tree = grow(axis, axis.runs, (5,))
    strategy = EstimatingStrategy("tree", problem, TreeCorrection(tree, tree.weights(np.ones(4))))
    spread = np.zeros(48)
    counts = np.arange(40.0)
    measured = np.concatenate([part.rows.dot(counts) for part in strategy.estimator.parts])
    np.testing.assert_allclose(strategy.estimate_cells(measured, np.empty(0), spread), counts, atol=1e-9)
    assert np.all(strategy.answer_variances(spread) < 1e-18)


def test_a_million_cells_take_linear_time():
    cells = 1_000_000
    problem = threshold(cells, 1000)
    axis = read_axis("tree", problem)
    tree = grow(axis, np.arange(0, cells, 1000), (16, 256), sums=True)
    strategy = EstimatingStrategy("tree", problem, TreeCorrection(tree, tree.weights(np.ones(5))))
    spread = noise_variances(strategy, 3)
    counts = np.ones(cells)
    measured = np.concatenate([part.rows.dot(counts) for part in strategy.estimator.parts])
    np.testing.assert_allclose(strategy.estimate_cells(measured, np.array([cells]), spread), counts, atol=1e-6)
    assert 0 < strategy.total_variance(spread) / (cells * (cells + 1) / 2) < 1e3
