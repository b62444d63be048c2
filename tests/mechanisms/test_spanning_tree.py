from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import edge_transform
from blowfishdb.mechanisms.edge_transform import best_forest, grow, listed_edges
from blowfishdb.model.graphs import EdgeGraph
from blowfishdb.model.workload import Identity, Intervals, Prefix
from blowfishdb.plan.certificate import calibrate, certify
from blowfishdb.plan.plan import Problem
from tests.effort import effort
from tests.mechanisms.product_checks import (
    brute_loss,
    check_cells_strategy,
    check_prediction,
    grid,
    policy,
    product_problems,
    window,
)


@st.composite
def connected_edges(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """A random tree, and the same tree with more edges."""
    vertices = draw(st.integers(2, 12))
    tree = np.array([[draw(st.integers(0, v - 1)), v] for v in range(1, vertices)])
    ends = st.tuples(st.integers(0, vertices - 1), st.integers(0, vertices - 1))
    more = np.array(draw(st.lists(ends, max_size=10)), dtype=np.int64).reshape(-1, 2)
    return tree, np.concatenate([tree, more[more[:, 0] != more[:, 1]]]), vertices


@effort(40)
@given(connected_edges())
def test_distances_are_those_along_the_tree(case):
    tree, edges, vertices = case
    forest = grow(vertices, tree, np.empty(0, dtype=np.int64))
    walk = EdgeGraph(vertices, tree)
    assert forest.distances(edges).tolist() == [walk.distance(int(u), int(v)) for u, v in edges]


@given(connected_edges())
def test_depth_counts_steps_to_the_root(case):
    tree, _, vertices = case
    forest = grow(vertices, tree, np.array([vertices - 1]))
    walk = EdgeGraph(vertices, tree)
    assert forest.depth.tolist() == [walk.distance(v, vertices - 1) for v in range(vertices)]


@effort(20)
@given(product_problems(most=5), st.integers(0, 2**32))
def test_linear_algebra_and_stretch(problem, seed):
    try:
        strategy = edge_transform.propose_spanning_tree(problem)
    except Declined:
        assert problem.graph.edges().shape[0] == 0
        return
    check_cells_strategy(strategy, problem, seed)
    plan = strategy.plan(Fraction(1))
    edges = listed_edges(edge_transform.SPANNING_TREE, problem)
    stretch = best_forest(problem.graph.cells, edges).distances(edges).max()
    assert stretch == brute_loss(plan, problem.graph) == certify(plan, problem.graph).epsilon


def test_thresholds_use_the_path_in_order():
    problem = Problem(policy([window(40, 3)]), Prefix(40))
    strategy = edge_transform.propose_spanning_tree(problem)
    plan = strategy.plan(Fraction(1))
    assert certify(plan, problem.graph).epsilon == 3
    assert isinstance(plan.parts[0].rows, Intervals)
    assert plan.exact.dense().tolist() == [[1] * 40]
    calibrated, certificate = calibrate(plan, problem.graph, Fraction(1, 2))
    assert certificate.epsilon == Fraction(1, 2)
    assert calibrated.unit == 6
    assert certify(calibrated.with_unit(Fraction(2)), problem.graph).epsilon == Fraction(3, 2)


def test_a_star_is_measured_leaf_by_leaf():
    star = EdgeGraph(6, np.array([[2, v] for v in (0, 1, 3, 4, 5)]))
    strategy = edge_transform.propose_spanning_tree(Problem(policy([star]), Identity(6)))
    assert certify(strategy.plan(Fraction(1)), policy([star])).epsilon == 1
    spread = strategy.answer_variances(np.ones(5))
    assert spread.tolist() == [1, 1, 5, 1, 1, 1]


def test_absence_is_the_root_when_presence_is_secret():
    strategy = edge_transform.propose_spanning_tree(Problem(policy([window(5, 1)], presence="secret"), Identity(5)))
    plan = strategy.plan(Fraction(1))
    assert plan.exact is None
    assert strategy.noisy.size == 5
    assert certify(plan, strategy.problem.graph).epsilon == 2


def test_each_component_has_its_own_exact_total():
    graph = policy([EdgeGraph(6, np.array([[0, 1], [1, 2], [4, 5]]))])
    tree = edge_transform.propose_spanning_tree(Problem(graph, Identity(6)))
    assert tree.plan(Fraction(1)).exact.shape[0] == 3


def test_the_middle_of_a_grid_is_a_better_centre_than_its_corner():
    edges = policy([grid((9, 9))]).edges()
    corner = grow(82, edges, np.array([81, 0]))
    best = best_forest(81, edges)
    assert best.distances(edges).max() <= corner.distances(edges).max()


def test_predicted_error_is_what_noise_gives():
    problem = Problem(policy([grid((4, 4))]), Identity(16))
    check_prediction(edge_transform.propose_spanning_tree(problem), problem, Fraction(2), seed=1)


def test_declines_with_a_reason():
    with pytest.raises(Declined, match="no edges"):
        edge_transform.propose_spanning_tree(Problem(policy([window(4, 0)]), Identity(4)))
    with pytest.raises(Declined, match="long ordered axis"):
        edge_transform.propose_spanning_tree(Problem(policy([window(300_000, 1)]), Prefix(300_000)))
    with pytest.raises(Declined, match="edges, more than"):
        edge_transform.propose_spanning_tree(Problem(policy([window(64, 63)] * 2), Identity(64 * 64)))
    with pytest.raises(Declined, match="cells, more than"):
        edge_transform.propose_spanning_tree(Problem(policy([window(600, 1)] * 2), Identity(360_000)))
