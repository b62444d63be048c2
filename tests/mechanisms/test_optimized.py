"""Optimized: sound on every axis, never worse than plain plans, at or below the published figures."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.mechanisms import identity, optimized, ordered_hierarchy
from blowfishdb.mechanisms.optimized import block_energy, gram_dot, hats, ramps, window_maxima
from blowfishdb.model import workload as line
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix, as_intervals
from tests.accuracy.cases import on_threshold
from tests.effort import effort
from tests.mechanisms.one_dim import (
    axis_problem,
    certified_error,
    check_strategy,
    dense_decoder,
    problems,
    threshold,
    workloads,
)


@effort(40)
@given(problems())
def test_any_axis(problem):
    check_strategy(optimized.propose(problem))


def test_the_error_of_a_total_is_known_where_its_cells_are_hardly_measured():
    """The variances of the cells are 10^14 times that of the total: what is left of their sum has no digits."""
    everybody = Intervals(11, np.array([0]), np.array([11]))
    problem = axis_problem(np.arange(11), np.array([10]), np.ones(11, dtype=np.bool_), "public", everybody)
    strategy = optimized.propose(problem)
    rows = strategy.plan(Fraction(1)).weights.size
    spread = np.where(np.arange(rows) < 11, 2.0**49, 2.0)
    decoder = everybody.dense() @ dense_decoder(strategy, spread)[0]
    assert rows > 11
    np.testing.assert_allclose(strategy.answer_variances(spread), decoder**2 @ spread, rtol=1e-5)


@pytest.mark.parametrize(("cells", "theta", "figure"), [(32, 4, 33.4), (32, 8, 43.9), (64, 8, 56.1), (64, 16, 78.8)])
def test_average_range_error_under_thresholds(cells, theta, figure):
    total, certificate = certified_error(optimized.propose(threshold(cells, theta)))
    assert certificate.is_tight
    assert total / (cells * (cells + 1) / 2) <= figure


@pytest.mark.parametrize(
    ("theta", "figure"),
    [*(pytest.param(*case, marks=pytest.mark.nightly) for case in ((10, 70.0), (100, 290.0))), (1000, 710.0)],
)
def test_average_range_error_on_a_long_axis(theta, figure):
    total, _ = certified_error(optimized.propose(threshold(4357, theta)))
    assert total / (4357 * 4358 / 2) <= figure


def test_all_ranges_without_a_policy_beat_the_best_known_plan():
    total, _ = certified_error(optimized.propose(threshold(4096, 1, "only")))
    assert 10 * np.sqrt(total / (4096 * 4097 / 2)) <= 146.0 < 152.1


@pytest.mark.parametrize("workload", [AllRanges, Prefix, Identity])
@pytest.mark.parametrize(
    ("theta", "presence"), [(3, "public"), (12, "public"), (99, "public"), (1, "only"), (5, "secret")]
)
def test_never_worse_than_plain_plans(workload, theta, presence):
    problem = threshold(100, theta, presence, workload(100))
    best, _ = certified_error(optimized.propose(problem))
    for other in (ordered_hierarchy.propose_hierarchy(problem), identity.propose(problem)):
        assert best <= 1.001 * certified_error(other)[0]
    if presence == "public" and theta < 99:
        assert best <= 1.001 * certified_error(ordered_hierarchy.propose_ordered_hierarchical(problem))[0]


def test_running_sums_at_every_cell_win_under_line_policies():
    total, _ = certified_error(optimized.propose(threshold(300, 1)))
    assert total / (300 * 301 / 2) <= 4.01


def test_long_axes_get_trees():
    strategy = optimized.propose(threshold(50_000, 400))
    total, certificate = certified_error(strategy)
    assert certificate.is_tight
    assert total / (50_000 * 50_001 / 2) < 800


@given(st.integers(2, 30), st.integers(2, 9))
def test_hats_over_a_cell_sum_to_their_spacing_away_from_the_ends(cells, spacing):
    matrix = hats(cells, np.array([0]), np.array([cells]), spacing).toarray()
    sums = matrix.sum(axis=0)
    assert np.all(sums <= spacing)
    assert np.all(sums[spacing : max(spacing, cells - 2 * spacing)] == spacing)


def test_ramps_are_running_sums_that_fall_in_steps_of_one():
    rows = ramps(8, np.array([0, 2]), np.array([3, 4]), 3).toarray()
    np.testing.assert_array_equal(rows, [[3, 3, 3, 2, 1, 0, 0, 0], [0, 0, 3, 3, 2, 1, 0, 0]])


@given(st.integers(1, 12).flatmap(workloads), st.integers(1, 5))
def test_energies_equal_the_dense_trace(workload, size):
    cells = workload.shape[1]
    if cells % size and not isinstance(workload, AllRanges) and as_intervals(workload) is not None:
        return
    block = np.arange(cells) // size
    average = (block[:, None] == block) / np.bincount(block)[block]
    dense = workload.dense()
    assert block_energy(workload, size) == pytest.approx(np.trace(dense @ average @ dense.T))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.integers(0, 400))
def test_window_maxima(values, seed):
    array = np.array(values)
    ends = np.sort(np.random.default_rng(seed).integers(0, array.size, (2, array.size)), axis=0)
    expected = [array[a : b + 1].max() for a, b in ends.T]
    np.testing.assert_array_equal(window_maxima(array, ends[0], ends[1]), expected)


def test_given_ranges_shape_the_plan():
    short = Intervals(200, np.arange(190), np.arange(190) + 3)
    near, _ = certified_error(optimized.propose(threshold(200, 199, "public", short)))
    generic = optimized.propose(threshold(200, 199))
    plan_error = certified_error(type(generic)("x", threshold(200, 199, "public", short), generic.estimator))[0]
    assert near < plan_error


@pytest.mark.parametrize(("cells", "theta"), [(30, 29), (100, 10), (5000, 4999)])
def test_where_records_move_and_vanish_the_total_is_measured_for_nothing(cells, theta):
    """Without it plans for every range would be more expensive than those of a plain tree, which measures it too."""
    problem = threshold(cells, theta, "secret")
    ours, certificate = certified_error(optimized.propose(problem))
    plain, _ = certified_error(ordered_hierarchy.propose_hierarchy(problem))
    assert certificate.is_tight and ours < 0.97 * plain


def test_the_gram_matrix_and_the_variances_of_many_ranges_do_not_depend_on_how_they_are_found(monkeypatch):
    generator = np.random.default_rng(8)
    ends = np.sort(generator.integers(0, 31, size=(900, 2)), axis=1)
    ranges = Intervals(30, ends[:, 0], ends[:, 1])
    columns = generator.normal(size=(30, 5))
    strategy = optimized.propose(on_threshold(ranges, 4))
    variances = generator.uniform(1.0, 3.0, size=strategy.plan(Fraction(1)).weights.size)
    quick = gram_dot(ranges, columns), strategy.answer_variances(variances)
    monkeypatch.setattr(line, "PAIRS_PER_RANGE", 0)
    np.testing.assert_allclose(quick[0], gram_dot(ranges, columns))
    np.testing.assert_allclose(quick[1], strategy.answer_variances(variances), atol=1e-9)


@pytest.mark.parametrize("cells", [20_000, 32_768])
@pytest.mark.parametrize("length", [50, 1000])
def test_chosen_rows_never_keep_step_with_the_blocks(cells, length, monkeypatch):
    some = optimized.level_plans(Prefix(cells), length, free=True)
    monkeypatch.setattr(optimized, "MOST_RANGES", cells)
    every = {plan.sizes: plan.error / cells for plan in optimized.level_plans(Prefix(cells), length, free=True)}
    assert every[some[0].sizes] <= 1.02 * min(every.values())
