from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import Declined, InfiniteLoss
from blowfishdb.mechanisms import ordered_hierarchy
from blowfishdb.model.graphs import CellGraph, EdgeGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Plan, Problem
from tests.effort import effort
from tests.mechanisms.axis_problems import axis_problems
from tests.mechanisms.linear_checks import check_direct, check_linear, check_terms

NONE = np.array([], dtype=np.int64)


def threshold(cells: int, theta: int, outside=False, presence="public") -> CellGraph:
    reach = np.minimum(np.arange(cells) + theta, cells - 1)
    return CellGraph((WindowGraph(reach, NONE),), "record", np.array(outside), presence)


@effort(80)
@given(axis_problems(), st.integers(0, 2**32))
def test_linear_algebra(problem, seed):
    strategy = ordered_hierarchy.propose_ordered(problem)
    coefficients = check_linear(strategy, problem, np.random.default_rng(seed))
    check_direct(strategy, coefficients)
    check_terms(strategy, coefficients)


@pytest.mark.parametrize("theta", [1, 2, 5])
def test_a_threshold_costs_theta_and_the_total_is_exact(theta):
    problem = Problem(threshold(9, theta), Prefix(9))
    strategy = ordered_hierarchy.propose_ordered(problem)
    plan = strategy.plan(Fraction(1))
    assert certify(plan, problem.graph).epsilon == theta
    assert plan.exact is not None and plan.exact.dense().tolist() == [[1] * 9]
    assert strategy.direct.tolist() == [*range(8), -1]


def test_measuring_fewer_prefixes_at_the_same_scale_is_not_what_is_certified():
    """The certificate rejects a scale that would be right for theta - 1."""
    graph = threshold(9, 3)
    plan = ordered_hierarchy.propose_ordered(Problem(graph, Prefix(9))).plan(Fraction(2))
    assert certify(plan, graph).epsilon == Fraction(3, 2) > 1


def test_a_whole_run_is_not_exact_once_records_can_leave_it():
    graph = threshold(4, 1)
    leaving = threshold(4, 1, outside=np.array([False, False, False, True]))
    plan = ordered_hierarchy.propose_ordered(Problem(graph, Prefix(4))).plan(Fraction(1))
    assert ordered_hierarchy.propose_ordered(Problem(leaving, Prefix(4))).plan(Fraction(1)).exact is None
    with pytest.raises(InfiniteLoss):
        certify(Plan(Fraction(1), plan.parts, plan.exact), leaving)


def test_runs_left_at_one_end_are_summed_towards_it():
    right = threshold(50, 2, outside=np.arange(50) >= 48)
    left = threshold(50, 2, outside=np.arange(50) < 2)
    for graph in (left, right):
        plan = ordered_hierarchy.propose_ordered(Problem(graph, AllRanges(50))).plan(Fraction(1))
        assert certify(plan, graph).epsilon == 2
    assert certify(ordered_hierarchy.propose_ordered(Problem(left, Prefix(50))).plan(Fraction(1)), right).epsilon == 50


def test_all_ranges_of_a_line_have_bounded_error_whatever_the_size():
    for cells in (10, 1000, 10**6):
        strategy = ordered_hierarchy.propose_ordered(Problem(threshold(cells, 1), AllRanges(cells)))
        ranges = cells * (cells + 1) // 2
        variances = np.full(cells - 1, 2.0)
        assert strategy.total_variance(variances) / ranges <= 4.0
        terms, counts = strategy.term_counts()
        assert terms.tolist() == [0, 1, 2] and counts.sum() == ranges


def test_whole_numbers_stay_exact():
    problem = Problem(threshold(1000, 1), Intervals(1000, np.array([3, 0]), np.array([900, 1000])))
    strategy = ordered_hierarchy.propose_ordered(problem)
    plan = strategy.plan(Fraction(1))
    table = np.random.default_rng(3).integers(0, 10**9, 1000)
    measured, exact = plan.parts[0].rows.dot(table), plan.exact.dot(table)
    answers = strategy.decode(measured.astype(float), exact.astype(float), np.ones(999))
    assert answers.tolist() == [float(table[3:900].sum()), float(table.sum())]


def test_declines_what_has_no_order():
    with pytest.raises(Declined, match="order"):
        custom = EdgeGraph(3, np.array([[0, 2]]))
        ordered_hierarchy.propose_ordered(
            Problem(CellGraph((custom,), "record", np.array(False), "public"), Identity(3))
        )
    two = CellGraph((threshold(3, 1).factors[0], threshold(2, 1).factors[0]), "record", np.array(False), "public")
    with pytest.raises(Declined, match="order"):
        ordered_hierarchy.propose_ordered(Problem(two, Identity(6)))
