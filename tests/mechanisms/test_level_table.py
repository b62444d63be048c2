from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.mechanisms import kronecker
from blowfishdb.mechanisms.kronecker import KroneckerStrategy, LevelTableStrategy
from blowfishdb.mechanisms.product_weights import Choices, choose_axes, choose_table, with_wide_rows
from blowfishdb.mechanisms.products import AxisModes, ProductRows, product_parts, smooth_level
from blowfishdb.model.workload import AllRanges, Kronecker
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Problem
from tests.effort import effort
from tests.mechanisms.product_checks import (
    check_cells_strategy,
    check_prediction,
    policy,
    product_problems,
    random_boxes,
    window,
)


def drawn_table(problem: Problem, data: st.DataObject) -> LevelTableStrategy:
    """Any levels and any whole weights; the cells are always measured."""
    graph, axes = problem.graph, []
    for size in graph.shape:
        level = smooth_level(size, data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)))
        axes.append(AxisModes(size, data.draw(st.sampled_from([None, level, level]))))
    weights = {(0,) * len(axes): data.draw(st.integers(1, 9))}
    for levels in np.ndindex(*(len(axis.grams) for axis in axes)):
        if any(levels) and data.draw(st.booleans()):
            weights[levels] = data.draw(st.integers(1, 9))
    wide = None
    if data.draw(st.booleans()):
        rows = tuple(smooth_level(size, data.draw(st.integers(1, 4)), 3).blocks for size in graph.shape)
        wide = ProductRows(rows, data.draw(st.integers(1, 9)))
    parts = product_parts(problem.workload, graph.shape)
    return LevelTableStrategy(problem, parts, Choices.of(graph).totals, tuple(axes), weights, wide)


@effort(60)
@given(product_problems(), st.data())
def test_any_table_on_two_axes_agrees_with_dense_algebra(problem, data):
    check_cells_strategy(drawn_table(problem, data), problem, 3)


def squared_error(strategy, problem: Problem) -> float:
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1))
    return strategy.total_variance(variance(float(plan.unit) / plan.weights))


@pytest.mark.parametrize("theta", [3, 31])
def test_a_table_beats_the_best_product(theta):
    problem = Problem(policy([window(32, theta)] * 2), random_boxes((32, 32), 200, 1))
    parts = product_parts(problem.workload, (32, 32))
    choices = Choices.of(problem.graph)
    product = KroneckerStrategy(problem, parts, choices.totals, choose_axes(parts, choices))
    table = kronecker.propose(problem)
    assert isinstance(table, LevelTableStrategy)
    assert squared_error(table, problem) < 0.9 * squared_error(product, problem)


def test_wide_rows_help_where_cells_and_coarse_rows_are_mixed():
    """The weights are those of a table that was chosen without wide rows; with them each kind gets its own width."""
    graph = policy([window(128, 8)] * 2)
    problem = Problem(graph, random_boxes((128, 128), 200, 1))
    parts, choices = product_parts(problem.workload, graph.shape), Choices.of(graph)
    table = choose_table(parts, choices, choose_axes(parts, choices))
    wider = with_wide_rows(parts, choices, table)
    before = LevelTableStrategy(problem, parts, choices.totals, table.axes, table.weights)
    after = LevelTableStrategy(problem, parts, choices.totals, wider.axes, wider.weights, wider.wide)
    ratio = squared_error(after, problem) / squared_error(before, problem)
    assert ratio < 0.97
    assert ratio == pytest.approx(wider.ratio / table.ratio, rel=0.03)


def test_many_queries_are_judged_by_a_choice_of_them():
    boxes = Problem(policy([window(24, 4)] * 2), random_boxes((24, 24), 3000, 1))
    ranges = Problem(boxes.graph, Kronecker((AllRanges(24), AllRanges(24))))
    for problem in (boxes, ranges):
        strategy = kronecker.propose(problem)
        assert strategy.total_variance(np.ones(len(strategy.plan(Fraction(1)).weights))) > 0


def test_predicted_error_is_what_noise_gives():
    problem = Problem(policy([window(32, 3), window(6, 5)]), random_boxes((32, 6), 8, 4))
    strategy = kronecker.propose(problem)
    assert isinstance(strategy, LevelTableStrategy)
    check_prediction(strategy, problem, Fraction(2), seed=5)
