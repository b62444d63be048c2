"""Ordered hierarchical: sound splits, equal to simulation, better than the printed error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.axis import GRID, read_axis, step_starts
from blowfishdb.mechanisms.ordered_hierarchy import propose_ordered_hierarchical
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.certificate import calibrate, certify
from blowfishdb.plan.plan import Measurement, Plan
from tests.effort import effort
from tests.mechanisms.one_dim import certified_error, check_strategy, problems, threshold


@effort(60)
@given(problems())
def test_any_axis(problem):
    try:
        strategy = propose_ordered_hierarchical(problem)
    except Declined as declined:
        assert "running sums" in declined.reason
        return
    check_strategy(strategy)


@effort(40)
@given(problems())
def test_no_window_holds_two_boundaries(problem):
    axis = read_axis("test", problem)
    starts = step_starts(axis)
    inner = starts[~np.isin(starts, axis.runs)]
    for cell in range(axis.cells):
        assert np.sum((inner > cell) & (inner <= axis.reach[cell])) <= 1


@effort(40)
@given(st.integers(8, 60), st.integers(2, 12))
def test_sums_and_levels_cost_what_they_should(cells, theta):
    if theta + 1 >= cells:
        return
    strategy = propose_ordered_hierarchical(threshold(cells, theta))
    sums, *_ = strategy.estimator.parts[::-1]
    levels = strategy.estimator.parts[:-1]
    claimed = int(sums.weights[0]) + 2 * sum(int(part.weights[0]) for part in levels)
    loss = certify(strategy.plan(Fraction(1)), strategy.problem.graph).epsilon
    assert loss <= claimed
    assert loss >= claimed - GRID * 1e-3 or theta < 3


def test_the_printed_split_costs_more_than_it_claims():
    """Scales 1/eps_S for running sums, 2h/eps for the first block and 2h/eps_H for the others: 9/8, not 1."""
    cells, theta = 12, 4
    singles = Intervals(cells, np.arange(cells), np.arange(cells) + 1)
    halves = Intervals(cells, np.arange(0, cells, 2), np.arange(0, cells, 2) + 2)
    first, later = 8, 6  # h = 2, eps = 32 and eps_H = 24 out of 32: weight eps / 2h
    weights = np.where(np.arange(cells) < theta, first, later)
    sums = Intervals(cells, np.zeros(2, dtype=np.int64), np.array([4, 8]))
    plan = Plan(
        Fraction(32),
        (
            Measurement(singles, weights),
            Measurement(halves, np.where(np.arange(6) < 2, first, later)),
            Measurement(sums, np.array([first, 8])),
        ),
    )
    certificate = certify(plan, threshold(cells, theta).graph)
    assert certificate.epsilon == Fraction(2 * first + 2 * later + 8, 32) > 1


@pytest.mark.parametrize(("cells", "theta", "fan_out"), [(32, 4, 2), (32, 8, 2), (64, 8, 8), (64, 16, 16)])
def test_better_than_the_printed_error(cells, theta, fan_out):
    total, _ = certified_error(propose_ordered_hierarchical(threshold(cells, theta)))
    sums = 4 * (cells - theta) / (cells + 1)
    nodes = 8 * (fan_out - 1) * np.log(theta) ** 3 / np.log(fan_out) ** 3 * cells / (cells + 1)
    assert total / (cells * (cells + 1) / 2) < (np.cbrt(sums) + np.cbrt(nodes)) ** 3


def test_predicted_errors_equal_simulated_ones():
    problem = threshold(40, 6)
    strategy = propose_ordered_hierarchical(problem)
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1, 2))
    rng = np.random.default_rng(7)
    stay = np.exp(-plan.weights / float(plan.unit))[:, None]
    shape = (plan.weights.size, 20_000)
    noise = rng.geometric(1 - stay, shape) - rng.geometric(1 - stay, shape)
    spread = (2 * stay / (1 - stay) ** 2)[:, 0]
    errors = strategy.decode(noise.astype(np.float64), np.zeros((1, shape[1])), spread)
    predicted = strategy.answer_variances(spread)
    seen = (errors**2).mean(axis=1)
    noisy = predicted > 1e-9
    assert np.all(np.abs(seen[noisy] / predicted[noisy] - 1) < 0.1)
    assert abs(seen.sum() / strategy.total_variance(spread) - 1) < 0.01
    wrong = strategy.total_variance(1.05 * spread)
    assert abs(seen.sum() / wrong - 1) > 0.02


def test_declines_lines_full_graphs_and_vanishing_records():
    for problem in (threshold(20, 19), threshold(20, 1), threshold(20, 3, "secret"), threshold(20, 3, "only")):
        with pytest.raises(Declined, match="running sums"):
            propose_ordered_hierarchical(problem)
