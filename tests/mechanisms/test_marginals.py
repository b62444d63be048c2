import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import identity, kronecker
from blowfishdb.mechanisms import marginals as mechanism
from blowfishdb.mechanisms.marginals import MarginalStrategy, free_axes, requested_marginals
from blowfishdb.model.workload import Identity, Kronecker, Prefix, all_marginals, marginals
from blowfishdb.plan.plan import Problem
from tests.effort import effort
from tests.mechanisms.product_checks import (
    check_cells_strategy,
    check_prediction,
    dense_rows,
    policy,
    product_graphs,
    random_boxes,
    rmse,
    window,
)


@st.composite
def marginal_problems(draw: st.DrawFn) -> Problem:
    axes = draw(st.integers(2, 3))
    graph = draw(product_graphs(axes, 3))
    every = [part for size in range(axes + 1) for part in itertools.combinations(range(axes), size)]
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, max_size=4))
    return Problem(graph, marginals(graph.shape, chosen))


@effort(40)
@given(marginal_problems(), st.integers(0, 2**32))
def test_linear_algebra(problem, seed):
    try:
        strategy = mechanism.propose(problem)
    except Declined as refusal:
        assert "exact" in refusal.reason
        return
    check_cells_strategy(strategy, problem, seed)


@effort(30)
@given(marginal_problems(), st.data())
def test_any_set_of_measured_marginals_is_decoded_without_bias(problem, data):
    shape = problem.graph.shape
    whole = tuple(range(len(shape)))
    others = [part for size in range(len(shape)) for part in itertools.combinations(whole, size)]
    measured = (whole, *data.draw(st.sets(st.sampled_from(others), max_size=3)))
    weights = tuple(data.draw(st.integers(1, 9)) for _ in measured)
    requested = requested_marginals(problem.workload, shape)
    strategy = MarginalStrategy(problem, requested, measured, weights, free_axes(problem.graph))
    check_cells_strategy(strategy, problem, 1)


@pytest.mark.parametrize("composition", ["record", "attribute"])
@pytest.mark.parametrize("ways", [1, 2, 3])
def test_no_worse_than_own_marginals_cells_or_one_product(composition, ways):
    shape = (10, 6, 4)
    problem = Problem(policy([window(size, size) for size in shape], composition), all_marginals(shape, ways))
    ours = rmse(mechanism.propose(problem), problem)
    own = requested_marginals(problem.workload, shape)
    equal = MarginalStrategy(problem, own, own, (1,) * len(own), free_axes(problem.graph))
    for other in (equal, identity.propose(problem), kronecker.propose(problem)):
        assert ours <= 1.001 * rmse(other, problem)


def test_one_way_marginals_share_the_loss_by_cube_roots():
    shape = (64, 8)
    problem = Problem(policy([window(64, 64), window(8, 8)]), all_marginals(shape, 1))
    strategy = mechanism.propose(problem)
    assert set(strategy.measured) == {(0,), (1,)}
    heavy, light = (strategy.weights[strategy.measured.index(axes)] for axes in ((0,), (1,)))
    assert heavy / light == pytest.approx(((64 - 1) / (8 - 1)) ** (1 / 3), rel=0.02)


def test_axes_that_no_edge_moves_are_exact():
    graph = policy([window(3, 0), window(4, 3)])
    problem = Problem(graph, marginals((3, 4), [(0,), (0, 1)]))
    strategy = mechanism.propose(problem)
    assert strategy.free == (0,)
    spread = strategy.answer_variances(np.ones(strategy.plan(Fraction(1)).weights.size))
    assert np.all(spread[:3] == 0)
    assert np.all(spread[3:] > 0)
    with pytest.raises(Declined, match="exact"):
        mechanism.propose(Problem(graph, marginals((3, 4), [(0,)])))


def test_nothing_is_exact_when_presence_is_secret():
    problem = Problem(policy([window(3, 1), window(4, 1)], presence="secret"), marginals((3, 4), [(), (0,)]))
    strategy = mechanism.propose(problem)
    assert strategy.plan(Fraction(1)).exact is None
    assert strategy.answer_variances(np.ones(strategy.plan(Fraction(1)).weights.size)).min() > 0


def test_predicted_error_is_what_noise_gives():
    problem = Problem(policy([window(4, 1), window(3, 3), window(2, 1)]), all_marginals((4, 3, 2), 2))
    check_prediction(mechanism.propose(problem), problem, Fraction(3), seed=2)


@pytest.mark.parametrize("size", [0.0, 1e-320, 1e-150])
def test_noise_that_is_next_to_none_is_decoded(size):
    """At an epsilon of thousands: the variance of such noise is 0 as a double, and one over it is no number."""
    problem = Problem(policy([window(4, 1), window(3, 3)]), all_marginals((4, 3), 2))
    strategy = mechanism.propose(problem)
    plan, table = strategy.plan(Fraction(1)), np.arange(12.0)
    rows = dense_rows(plan)
    answers = strategy.decode(rows @ table, plan.exact.dense() @ table, np.full(len(rows), size))
    np.testing.assert_allclose(answers, problem.workload.dense() @ table, atol=1e-7)


def test_many_axes_are_served():
    shape = (2,) * 10
    problem = Problem(policy([window(2, 1)] * 10), all_marginals(shape, 2))
    assert rmse(mechanism.propose(problem), problem) <= 1.001 * rmse(identity.propose(problem), problem)


def test_declines_with_a_reason():
    graph = policy([window(3, 1), window(4, 1)])
    with pytest.raises(Declined, match="not marginals"):
        mechanism.propose(Problem(graph, random_boxes((3, 4), 4, 1)))
    with pytest.raises(Declined, match="not marginals"):
        mechanism.propose(Problem(graph, Kronecker((Identity(3), Prefix(4)))))
    with pytest.raises(Declined, match="two axes"):
        mechanism.propose(Problem(policy([window(4, 1)]), Identity(4)))
