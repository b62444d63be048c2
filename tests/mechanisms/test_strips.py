import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.tune_strips import even, log_error, prefix_gram
from blowfishdb.mechanisms import kronecker
from blowfishdb.mechanisms.hats import AXIS_HEIGHT, AXIS_WEIGHTS, TOPS, HatAxis, hats_for
from blowfishdb.mechanisms.kronecker import GRID, KroneckerStrategy, StripStrategy, _products, _table, strip_axis
from blowfishdb.mechanisms.products import AxisChoice, product_parts
from blowfishdb.model.workload import AllRanges, Identity, Kronecker, Prefix
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Measurement, Problem
from papers.baselines.noise import one_record
from tests.mechanisms.product_checks import check_cells_strategy, check_prediction, grid, policy, rmse

PEER = 20.0
"""RMSE of the authors' HDMM for running counts on 64 x 64 cells at epsilon 1."""


def running_counts(*shape: int) -> Problem:
    return Problem(one_record(*shape), Kronecker(tuple(Prefix(size) for size in shape)))


def small_strips(*shape: int) -> tuple[StripStrategy, Problem]:
    """The shares of 32 cells on fewer."""
    first, second = (strip_axis(32).stretched(size) for size in shape)
    problem = running_counts(*shape)
    return StripStrategy(problem, tuple(_products(first, second))), problem


def test_strips_are_decoded_without_bias_and_cost_what_the_certificate_says():
    strategy, problem = small_strips(7, 9)
    check_cells_strategy(strategy, problem, 1)
    plan = strategy.plan(Fraction(1))
    np.testing.assert_array_equal(strategy.own_variances(plan.weights.astype(float)), plan.weights[: plan.cells])


def test_strips_have_the_error_that_they_predict():
    check_prediction(*small_strips(4, 5), Fraction(1), 3)


def test_wrong_cells_are_seen():
    """Cells that take the loss of the strips a second time cost more; a decoder that forgets them is biased."""
    strategy, problem = small_strips(7, 9)
    plan = strategy.plan(Fraction(1))
    doubled = replace(plan, parts=(Measurement(Identity(plan.cells), plan.parts[0].weights * 2), *plan.parts[1:]))
    assert calibrate(doubled, problem.graph, Fraction(1))[0].unit > calibrate(plan, problem.graph, Fraction(1))[0].unit
    with pytest.raises(AssertionError):
        check_cells_strategy(replace(strategy, products=strategy.products[:2][::-1]), running_counts(9, 7), 1)


@pytest.mark.parametrize("shape", [(32, 32), (26, 80), (64, 64)])
def test_rows_and_cells_use_up_the_loss(shape):
    strategy = kronecker.propose(running_counts(*shape))
    assert isinstance(strategy, StripStrategy)
    norms = sum(part.rows.column_norms(part.weights) for part in strategy.plan(Fraction(1)).parts)
    assert norms.max() <= GRID
    assert norms.min() >= 0.99 * GRID


def test_running_counts_on_two_axes_leave_the_peer_behind():
    assert rmse(kronecker.propose(running_counts(64, 64)), running_counts(64, 64)) < 0.99 * PEER


@pytest.mark.parametrize("shape", [(26, 26), (40, 56), (30, 70), (80, 80)])
def test_strips_beat_products_of_hats(shape):
    problem = running_counts(*shape)
    hats = kronecker._hat_axes(problem)
    if hats is None:  # short axes have no hats
        return
    product = KroneckerStrategy(problem, product_parts(problem.workload, shape), (), hats)
    assert rmse(kronecker.propose(problem), problem) < rmse(product, problem)


def test_the_table_is_where_the_search_ended():
    for size, axis in _table().items():
        numbers = np.concatenate([axis.cells, axis.strips.ravel(), axis.blocks.ravel()])
        error = math.sqrt(2 * math.exp(log_error(numbers, size, len(axis.strips))[0])) / size
        assert error == pytest.approx(
            rmse(kronecker.propose(running_counts(size, size)), running_counts(size, size)), rel=0.01
        )


def test_the_gradient_of_the_search():
    start = 0.9 * even(6, 2) * np.exp(0.1 * np.sin(np.arange(even(6, 2).size)))
    error, slope = log_error(start, 6, 2)
    for place in range(start.size):
        moved = start + 1e-6 * (np.arange(start.size) == place)
        assert (log_error(moved, 6, 2)[0] - error) / 1e-6 == pytest.approx(slope[place], abs=1e-5)
    assert log_error(9.0 * start, 6, 2)[0] == 1e3
    assert prefix_gram(3).tolist() == [[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]]


def test_products_of_hats_are_decoded_without_bias():
    axes = (HatAxis.of(hats_for(Prefix(40), moves=False), 8), AxisChoice(3, None, 0.0))
    problem = Problem(one_record(8, 3), Kronecker((Prefix(8), Identity(3))))
    check_cells_strategy(KroneckerStrategy(problem, product_parts(problem.workload, (8, 3)), (), axes), problem, 1)


@pytest.mark.parametrize("cells", [33, 64, 300])
def test_hats_of_an_axis_use_up_the_loss_with_few_weights(cells):
    axis = HatAxis.of(hats_for(Prefix(cells), moves=False), cells)
    norms = axis.measurement.rows.column_norms(axis.weights)
    assert norms.max() <= TOPS * AXIS_HEIGHT
    assert norms.min() >= 0.99 * TOPS * AXIS_HEIGHT
    assert np.unique(axis.cell_weights).size <= AXIS_WEIGHTS


def test_hats_beside_cells_gain_what_they_gain_alone():
    """Cells on the other axis leave the error as it is."""
    strategy = kronecker.propose(problem := Problem(one_record(64, 7), Kronecker((Prefix(64), Identity(7)))))
    assert rmse(strategy, problem) == pytest.approx(hats_for(Prefix(64), moves=False).rmse, rel=0.01)


def test_other_policies_and_queries_have_neither():
    moves = policy([grid((32, 32))])
    for problem in (
        Problem(one_record(32, 32), Kronecker((AllRanges(32), AllRanges(32)))),
        Problem(moves, Kronecker((Prefix(32), Prefix(32)))),
        running_counts(8, 8),
        Problem(one_record(32, 32), Kronecker((Prefix(32), AllRanges(32)))),
    ):
        strategy = kronecker.propose(problem)
        assert not isinstance(strategy, StripStrategy)
        assert not any(isinstance(axis, HatAxis) for axis in strategy.axes)
    assert kronecker._hat_axes(running_counts(64, 64, 64, 64)) is None
    assert isinstance(kronecker.propose(running_counts(32, 300)).axes[1], HatAxis)
