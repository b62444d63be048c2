from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import kronecker
from blowfishdb.mechanisms.kronecker import KroneckerStrategy
from blowfishdb.mechanisms.product_weights import Choices
from blowfishdb.mechanisms.products import (
    AxisChoice,
    AxisRows,
    axis_rows,
    candidate_levels,
    component_level,
    product_parts,
    smooth_level,
)
from blowfishdb.model.workload import AllRanges, Intervals, Kronecker, Prefix, Rectangles, Sparse, all_marginals
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import calibrate, certify
from blowfishdb.plan.loss import worst_product_edge
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem
from tests.effort import effort
from tests.mechanisms.product_checks import (
    axis_graphs,
    brute_loss,
    check_cells_strategy,
    check_prediction,
    grid,
    policy,
    product_graphs,
    product_problems,
    random_boxes,
    window,
)


@effort(60)
@given(product_problems(), st.integers(0, 2**32))
def test_linear_algebra_on_two_axes(problem, seed):
    try:
        strategy = kronecker.propose(problem)
    except Declined:
        assert problem.graph.edges().shape[0] == 0
        return
    check_cells_strategy(strategy, problem, seed)


@effort(10)
@given(product_problems(axes=3, most=3), st.integers(0, 2**32))
def test_linear_algebra_on_three_axes(problem, seed):
    assume(problem.graph.edges().shape[0])
    check_cells_strategy(kronecker.propose(problem), problem, seed)


@effort(40)
@given(product_graphs(2, 6), st.data())
def test_any_choice_of_levels_is_decoded_without_bias(graph, data):
    choices = []
    for size in graph.shape:
        levels = [smooth_level(size, step, height) for step in (1, 2, 3) for height in (1, 2, 5)]
        level = data.draw(st.sampled_from([None, *levels]))
        choices.append(AxisChoice(size, level, data.draw(st.floats(0.05, 0.95)) if level else 0.0))
    problem = Problem(graph, random_boxes(graph.shape, 6, 3))
    parts = product_parts(problem.workload, graph.shape)
    check_cells_strategy(KroneckerStrategy(problem, parts, Choices.of(graph).totals, tuple(choices)), problem, 1)


@effort(60)
@given(st.data())
def test_product_bound_covers_every_edge_of_smooth_levels(data):
    """docs/proofs/kronecker.md: min(ab, cd) >= min(a, c) min(b, d), so the bound holds beyond 0/1 rows."""
    shape = (data.draw(st.integers(2, 6)), data.draw(st.integers(2, 6)))
    graph = policy(
        [data.draw(axis_graphs(size)) for size in shape], data.draw(st.sampled_from(["record", "attribute"]))
    )
    factors = []
    for size in shape:
        level = smooth_level(size, data.draw(st.integers(1, size)), data.draw(st.integers(1, 6)))
        choice = AxisChoice(size, level, data.draw(st.floats(0.05, 0.95)))
        factors.append(choice.measurement)
    part = KroneckerMeasurement(tuple(factors))
    brute = brute_loss(Plan(Fraction(1), (part,)), graph)
    bound = worst_product_edge([part], graph)
    assert brute <= bound.loss
    if bound.tight:
        assert brute == bound.loss


@effort(40)
@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from(["record", "attribute"]))
def test_product_bound_covers_rows_with_negative_entries(seed, size, composition):
    """Only level columns matter: with entries of opposite sign nothing is shared, and signs multiply."""
    rng = np.random.default_rng(seed)
    factors = []
    for _ in range(2):
        signs = rng.choice([-1, 1], size=(4, size)) * np.array([[1], [1], [2], [3]])
        factors.append(Measurement(Sparse(csr_array(signs)), rng.integers(1, 5, 4)))
    part = KroneckerMeasurement(tuple(factors))
    graph = policy([window(size, 1), window(size, 2)], composition)
    bound = worst_product_edge([part], graph).loss
    assert brute_loss(Plan(Fraction(1), (part,)), graph) <= bound <= 2 * max_norm(part)


def max_norm(part: KroneckerMeasurement) -> int:
    return int(np.prod([factor.rows.column_norms(factor.weights).max() for factor in part.factors]))


def test_a_halved_unit_doubles_the_certified_loss():
    problem = Problem(policy([window(6, 1)] * 2), random_boxes((6, 6), 8, 0))
    plan, certificate = calibrate(kronecker.propose(problem).plan(Fraction(1)), problem.graph, Fraction(1, 3))
    assert certificate.epsilon == Fraction(1, 3)
    assert certify(plan.with_unit(plan.unit / 2), problem.graph).epsilon == Fraction(2, 3)


@effort(60)
@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 20), st.data())
def test_smooth_levels_share_every_cell_out(cells, size, height, data):
    level = smooth_level(cells, size, height)
    assert level.blocks.min() >= 0
    assert np.all(level.blocks.sum(axis=0) == height)
    graph = data.draw(axis_graphs(cells))
    first, second = graph.edges().T
    gaps = np.abs(level.blocks[:, first] - level.blocks[:, second]).sum(axis=0)
    assert level.edge_share(graph) == pytest.approx(gaps.max(initial=0) / (2 * height))


@effort(30)
@given(st.integers(2, 20), st.data())
def test_total_variances_match_dense_algebra(cells, data):
    level = data.draw(st.sampled_from(candidate_levels(cells, np.arange(cells) * 2 // cells)))
    rows = data.draw(
        st.sampled_from([Prefix(cells), AllRanges(cells), Sparse(csr_array(np.tri(cells, dtype=int) * 2))])
    )
    counts = np.random.default_rng(1).uniform(0.5, 2, rows.shape[0])
    gram = rows.dense().T @ (counts[:, None] * rows.dense())
    energies = axis_rows(rows).energies(counts)(level.spectrum[1])
    shares = np.array([0.1, 0.5, 0.9])
    for share, found in zip(shares, level.total_variances(energies, float(np.trace(gram)), shares), strict=True):
        scaled = level.blocks / level.height
        precision = (1 - share) ** 2 * np.eye(cells) + share**2 * scaled.T @ scaled
        assert found == pytest.approx(np.trace(gram @ np.linalg.inv(precision)))


@effort(30)
@given(st.integers(1, 9), st.integers(0, 2**32))
def test_runs_compute_what_written_out_rows_do(cells, seed):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, cells + 1, (2, rng.integers(1, 20))), axis=0)
    rows = Intervals(cells, ends[0], ends[1])
    runs, dense = axis_rows(rows), AxisRows(rows.dense().astype(float))
    matrix, counts = rng.normal(size=(cells, 4)), rng.uniform(size=rows.shape[0])
    np.testing.assert_allclose(runs.times(matrix), dense.times(matrix), atol=1e-9)
    np.testing.assert_allclose(runs.quadratic(matrix @ matrix.T), dense.quadratic(matrix @ matrix.T), atol=1e-9)
    np.testing.assert_allclose(runs.squares, dense.squares)
    np.testing.assert_allclose(runs.energies(counts)(matrix), dense.energies(counts)(matrix), atol=1e-9)
    places = np.array([0, rows.shape[0] - 1])
    np.testing.assert_allclose(runs.chosen(places).times(matrix), dense.chosen(places).times(matrix), atol=1e-9)


def test_component_blocks_never_move():
    level = component_level(np.array([0, 0, 1, 1, 2]))
    assert level.edge_share(window(5, 0)) == 0.0
    assert level.blocks.sum() == 5


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(5)])
def test_predicted_error_is_what_noise_gives(epsilon):
    """At epsilon 5 the noise is far from continuous, and the prediction still holds."""
    problem = Problem(policy([window(6, 2), window(5, 5)]), random_boxes((6, 5), 8, 4))
    check_prediction(kronecker.propose(problem), problem, epsilon, seed=5)


def test_the_public_total_is_met_and_has_no_error():
    whole = Rectangles((4, 4), np.array([[0, 0], [0, 0]]), np.array([[4, 4], [2, 4]]))
    graph = policy([window(4, 1)] * 2)
    strategy = kronecker.propose(Problem(graph, whole))
    plan, _ = calibrate(strategy.plan(Fraction(1)), graph, Fraction(1))
    spread = strategy.answer_variances(variance(float(plan.unit) / plan.weights))
    assert spread[0] == pytest.approx(0, abs=1e-9)
    assert spread[1] > 0.01


def rmse(problem: Problem) -> float:
    strategy = kronecker.propose(problem)
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1))
    spread = strategy.total_variance(variance(float(plan.unit) / plan.weights))
    return float(np.sqrt(spread / problem.workload.shape[0]))


def test_thresholds_beat_differential_privacy_under_record_composition():
    boxes = random_boxes((32, 32), 300, 6)
    plain = rmse(Problem(policy([window(32, 31)] * 2), boxes))
    assert rmse(Problem(policy([window(32, 1)] * 2), boxes)) < 0.9 * plain
    assert rmse(Problem(policy([window(32, 2)] * 2), boxes)) < 0.95 * plain


def test_joint_thresholds_are_served():
    boxes = random_boxes((16, 16), 100, 7)
    plain = rmse(Problem(policy([window(16, 15)] * 2), boxes))
    near = rmse(Problem(policy([grid((16, 16), 1, "l1")]), boxes))
    assert near < plain


def test_many_axes_keep_exact_sums_small():
    shape = (4, 5, 4, 3, 6, 2, 2)
    problem = Problem(policy([window(size, 1) for size in shape]), all_marginals(shape, 2))
    assert rmse(problem) > 0


def test_declines_with_a_reason():
    line = Problem(policy([window(8, 1)]), Prefix(8))
    with pytest.raises(Declined, match="two axes"):
        kronecker.propose(line)
    odd = Sparse(csr_array(np.eye(6, dtype=np.int64)[::-1]))
    with pytest.raises(Declined, match="products"):
        kronecker.propose(Problem(policy([window(2, 1), window(3, 1)]), odd))
    wide = Problem(policy([window(4096, 1), window(2, 1)]), Kronecker((Prefix(4096), Prefix(2))))
    with pytest.raises(Declined, match="4,096"):
        kronecker.propose(wide)


@effort(30)
@given(product_problems())
def test_workloads_are_read_as_products_in_their_own_order(problem):
    assume(problem.graph.cells > 1)
    parts = product_parts(problem.workload, problem.graph.shape)
    dense = []
    for part in parts:
        first, second = (rows.times(np.eye(size)) for rows, size in zip(part.rows, problem.graph.shape, strict=True))
        dense += [np.kron(first[a], second[b]) for a, b in part.rows_of(np.arange(part.count))]
    np.testing.assert_array_equal(np.array(dense), problem.workload.dense())
