from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.errors import CannotCertify, Declined
from blowfishdb.mechanisms import edge_transform, kronecker
from blowfishdb.mechanisms.edge_transform import (
    EdgeStrategy,
    LineTree,
    candidate_sizes,
    on_lines,
    on_single_edges,
    unit_steps,
)
from blowfishdb.mechanisms.products import as_boxes
from blowfishdb.mechanisms.strategy import ForestStrategy
from blowfishdb.model.graphs import EdgeGraph
from blowfishdb.model.workload import AllRanges, Identity, Kronecker, Prefix, Sparse, Stacked, all_marginals, total
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Problem
from tests.effort import effort
from tests.mechanisms.product_checks import (
    check_prediction,
    grid,
    policy,
    product_problems,
    random_boxes,
    rmse,
    window,
)


def check_edge_strategy(strategy: EdgeStrategy, problem: Problem) -> None:
    """The decoder reproduces the workload on every edge, and the certificate is the largest column norm."""
    plan = strategy.plan(Fraction(1))
    edges = problem.graph.edges()
    np.testing.assert_array_equal(plan.edges, edges)
    rows = np.concatenate([problem.workload.dense(), np.zeros((problem.workload.shape[0], 1), dtype=np.int64)], axis=1)
    strategy_rows, decoder = plan.strategy.toarray(), plan.decoder.toarray()
    np.testing.assert_array_equal(decoder @ strategy_rows, rows[:, edges[:, 0]] - rows[:, edges[:, 1]])
    loss = int((plan.weights @ np.abs(strategy_rows)).max(initial=0))
    assert strategy.loss == loss == certify(plan, problem.graph).epsilon
    variances = np.random.default_rng(1).uniform(1, 2, plan.weights.size)
    np.testing.assert_allclose(strategy.answer_variances(variances), decoder**2 @ variances)
    np.testing.assert_allclose(strategy.total_variance(variances), (decoder**2 @ variances).sum())
    np.testing.assert_array_equal(strategy.coefficients(np.arange(len(rows)), variances), decoder)
    noise = np.eye(plan.weights.size)
    np.testing.assert_array_equal(strategy.decode(noise, np.zeros((0, len(noise))), variances), decoder)


@effort(80)
@given(product_problems(most=5))
def test_every_listable_policy_is_served(problem):
    try:
        strategy = edge_transform.propose(problem)
    except Declined:
        assert problem.graph.edges().shape[0] == 0
        return
    if isinstance(strategy, EdgeStrategy):
        check_edge_strategy(strategy, problem)
    for made in (on_single_edges(problem), on_lines(problem)):
        if made is not None:
            check_edge_strategy(made, problem)


@effort(60)
@given(st.integers(1, 40), st.data())
def test_prefixes_are_signed_sums_of_blocks(length, data):
    fans = data.draw(st.lists(st.integers(2, 5), max_size=3))
    tree = LineTree(length, tuple(int(size) for size in np.cumprod([1, *fans])))
    costs = np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=len(tree.sizes), max_size=len(tree.sizes))))
    blocks = np.zeros((int(tree.counts.sum()), length), dtype=np.int64)
    for edge, own in enumerate(tree.blocks_of):
        blocks[own, edge] = 1
    found = tree.prefixes(costs).toarray()
    np.testing.assert_array_equal(found @ blocks, np.tri(length + 1, length, -1, dtype=np.int64))


def test_subtraction_is_used_where_it_is_cheaper():
    written = LineTree(64, (1, 8)).prefixes(np.ones(2)).toarray()
    assert np.abs(written[15]).sum() == 3
    assert np.abs(written[12]).sum() == 5


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 2**32))
def test_routes_add_up_to_their_edge(rows, columns, seed):
    cells = rows * columns
    edges = np.random.default_rng(seed).integers(0, cells, (7, 2))
    steps = unit_steps(edges, (rows, columns)).toarray()
    number = np.arange(cells).reshape(rows, columns)
    first = np.concatenate([number[:-1].reshape(-1), number[:, :-1].T.reshape(-1)])
    second = np.concatenate([number[1:].reshape(-1), number[:, 1:].T.reshape(-1)])
    units = np.zeros((cells, first.size), dtype=np.int64)
    units[first, np.arange(first.size)], units[second, np.arange(first.size)] = 1, -1
    moved = np.zeros((cells, 7), dtype=np.int64)
    np.add.at(moved, (edges[:, 0], np.arange(7)), 1)
    np.add.at(moved, (edges[:, 1], np.arange(7)), -1)
    np.testing.assert_array_equal(units @ steps, moved)


def test_trees_are_ordinary_measurements():
    line = edge_transform.propose(Problem(policy([window(12, 1)]), AllRanges(12)))
    assert isinstance(line, ForestStrategy)
    assert line.mechanism == "edge-transform"
    assert certify(line.plan(Fraction(1)), line.problem.graph).epsilon == 1
    assert line.answer_variances(np.ones(11)).max() == 2
    star = EdgeGraph(5, np.array([[0, v] for v in range(1, 5)]))
    assert isinstance(edge_transform.propose(Problem(policy([star]), Identity(5))), ForestStrategy)
    gone = edge_transform.propose(Problem(policy([window(5, 1)], presence="only"), Identity(5)))
    assert isinstance(gone, ForestStrategy)


def test_cycles_publish_answers_only():
    ring = EdgeGraph(6, np.array([[v, (v + 1) % 6] for v in range(6)]))
    problem = Problem(policy([ring]), Stacked((Prefix(6), total(6))))
    strategy = edge_transform.propose(problem)
    check_edge_strategy(strategy, problem)
    spread = strategy.answer_variances(np.ones(6))
    assert spread.tolist() == [2, 2, 2, 2, 2, 0, 0]


def test_a_tampered_plan_is_refused():
    problem = Problem(policy([grid((6, 6))]), random_boxes((6, 6), 10, 1))
    plan = on_lines(problem).plan(Fraction(1))
    wrong = plan.decoder.copy()
    wrong.data[0] += 1
    with pytest.raises(CannotCertify):
        certify(replace(plan, decoder=wrong), problem.graph)
    short = replace(plan, edges=plan.edges[1:], strategy=csr_array(plan.strategy[:, 1:]))
    with pytest.raises(CannotCertify):
        certify(short, problem.graph)
    lighter = replace(plan, weights=plan.weights * 2)
    assert certify(lighter, problem.graph).epsilon == 2 * certify(plan, problem.graph).epsilon


def test_secret_presence_has_a_column_for_every_cell():
    problem = Problem(policy([window(3, 1), window(3, 1)], presence="secret"), random_boxes((3, 3), 5, 2))
    strategy = edge_transform.propose(problem)
    check_edge_strategy(strategy, problem)
    assert strategy.edges.shape[0] == 20 + 9


@pytest.mark.parametrize("make", [on_lines, on_single_edges])
def test_predicted_error_is_what_noise_gives(make):
    problem = Problem(policy([grid((12, 9))]), random_boxes((12, 9), 12, 3))
    check_prediction(make(problem), problem, Fraction(1), seed=4)


def test_the_grid_policy_beats_differential_privacy_clearly():
    boxes = random_boxes((32, 32), 200, 5)
    near, plain = Problem(policy([grid((32, 32))]), boxes), Problem(policy([window(32, 31)] * 2), boxes)
    assert rmse(edge_transform.propose(near), near) < 0.4 * rmse(kronecker.propose(plain), plain)
    twin = Problem(policy([window(32, 1)] * 2, "attribute"), boxes)
    assert rmse(edge_transform.propose(twin), twin) == rmse(edge_transform.propose(near), near)


def test_long_lines_use_blocks():
    boxes = random_boxes((2, 200), 100, 6)
    problem = Problem(policy([grid((2, 200))]), boxes)
    assert rmse(on_lines(problem), problem) < 0.9 * rmse(on_single_edges(problem), problem)
    assert (1,) in candidate_sizes(3)


def test_boxes_are_recognised():
    assert as_boxes(Identity(6), (2, 3)).dense().tolist() == np.eye(6, dtype=int).tolist()
    both = Stacked((all_marginals((2, 3), 1), Kronecker((Prefix(2), AllRanges(3)))))
    np.testing.assert_array_equal(as_boxes(both, (2, 3)).dense(), both.dense())
    odd = Sparse(csr_array(np.array([[2, 0, 0, 0, 0, 0]])))
    assert as_boxes(Stacked((both, odd)), (2, 3)) is None
    assert as_boxes(random_boxes((3, 2), 2, 1), (2, 3)) is None


def test_declines_what_could_not_be_proven_in_time():
    problem = Problem(policy([grid((64, 64))]), Kronecker((AllRanges(64), AllRanges(64))))
    with pytest.raises(Declined, match="proof"):
        edge_transform.propose(problem)
