"""Hierarchy: any policy on one axis, the classical error, and fan-outs chosen by variance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import ordered_hierarchy
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Prefix
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Problem
from tests.effort import effort
from tests.mechanisms.one_dim import axis_problem, certified_error, check_strategy, problems, threshold


@effort(60)
@given(problems())
def test_any_axis(problem):
    check_strategy(ordered_hierarchy.propose_hierarchy(problem))


def test_a_cell_is_counted_once_on_each_level_and_a_move_changes_two_nodes_on_each():
    for presence, loss in (("only", 1), ("public", 2)):
        strategy = ordered_hierarchy.propose_hierarchy(threshold(64, 63, presence))
        levels = len(strategy.estimator.parts)
        weights = np.concatenate([part.weights for part in strategy.estimator.parts])
        _, certificate = certified_error(strategy)
        assert np.all(weights == weights[0])
        assert certificate.is_tight
        cost = certify(strategy.plan(Fraction(1)), strategy.problem.graph).epsilon
        assert cost == loss * levels * int(weights[0])


def test_the_fan_out_follows_the_workload():
    sizes = {}
    for workload in (Identity(4096), Prefix(4096), AllRanges(4096)):
        strategy = ordered_hierarchy.propose_hierarchy(threshold(4096, 1, "only", workload))
        sizes[type(workload)] = len(strategy.estimator.parts)
    assert sizes[Identity] < sizes[AllRanges]


def test_components_have_their_own_trees_and_free_totals():
    reach = np.array([2, 2, 2, 5, 5, 5, 6])
    problem = axis_problem(reach, np.empty(0, dtype=np.int64), np.zeros(7, dtype=np.bool_), "public")
    strategy = ordered_hierarchy.propose_hierarchy(problem)
    exact = strategy.plan(Fraction(1)).exact
    assert exact is not None
    np.testing.assert_array_equal(exact.dense().sum(axis=1), [3, 3, 1])


def test_declines_what_has_no_order_or_needs_no_noise():
    window = WindowGraph(np.array([1, 1]), np.empty(0, dtype=np.int64))
    two = CellGraph((window, window), "record", np.zeros(4, dtype=np.bool_), "public")
    with pytest.raises(Declined, match="order"):
        ordered_hierarchy.propose_hierarchy(Problem(two, Identity(4)))
    with pytest.raises(Declined, match="exactly"):
        ordered_hierarchy.propose_hierarchy(threshold(5, 0))
