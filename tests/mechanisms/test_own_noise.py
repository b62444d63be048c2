"""Least squares vary no more than the cells' own measurements do, and those are read off the plan."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.mechanisms import edge_transform, hierarchy, identity, kronecker, optimized
from blowfishdb.mechanisms.cell_noise import own_variances
from blowfishdb.mechanisms.strategy import Strategy, squared
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats
from blowfishdb.model.workload import Identity, Intervals, Rows
from blowfishdb.plan.plan import Problem
from tests.mechanisms.spatial_cases import full, random_boxes

CELLS = 60


def line(theta: int) -> CellGraph:
    reach = np.minimum(np.arange(CELLS) + theta, CELLS - 1)
    return CellGraph((WindowGraph(reach, np.empty(0, dtype=np.int64)),), "record", np.array(False), "public")


def ranges() -> Rows:
    low, high = np.triu_indices(CELLS + 1, 1)
    return Intervals(CELLS, low, high)


def both(strategy: Strategy) -> tuple[Floats, Floats]:
    """The variances of all ranges, and what the cells' own measurements make of them."""
    plan = strategy.plan(Fraction(5))
    variances = 2.0 * (5.0 / plan.weights) ** 2
    own = own_variances(strategy, plan, variances)
    return strategy.answer_variances(variances), np.asarray(squared(ranges()).dot(own))


@pytest.mark.parametrize("theta", [4, 20, 59])
@pytest.mark.parametrize("propose", [optimized.propose, hierarchy.propose], ids=["optimized", "hierarchy"])
def test_least_squares_vary_no_more(propose: Callable[[Problem], Strategy], theta: int) -> None:
    found, bound = both(propose(Problem(line(theta), ranges())))
    assert np.all(found <= bound * (1 + 1e-9))
    assert np.any(found < bound / 2)


def test_separate_cells_vary_exactly_so() -> None:
    found, bound = both(identity.propose(Problem(line(4), ranges())))
    assert found == pytest.approx(bound)


def test_cells_that_nothing_hides_have_no_noise() -> None:
    reach = np.append(np.minimum(np.arange(CELLS - 1) + 1, CELLS - 2), CELLS - 1)
    graph = CellGraph((WindowGraph(reach, np.empty(0, dtype=np.int64)),), "record", np.array(False), "public")
    strategy = identity.propose(Problem(graph, Identity(CELLS)))
    plan = strategy.plan(Fraction(5))
    own = own_variances(strategy, plan, np.full(plan.weights.size, 50.0))
    assert own.tolist() == [50.0] * (CELLS - 1) + [0.0]


def test_noise_on_edges_belongs_to_no_cell() -> None:
    strategy = edge_transform.propose(Problem(line(1), Identity(CELLS)))
    plan = strategy.plan(Fraction(5))
    assert np.all(np.isinf(own_variances(strategy, plan, np.ones(plan.weights.size))))


def test_cells_of_a_table_with_an_exact_total_vary_no_more() -> None:
    strategy = kronecker.propose(Problem(full((5, 7)), Identity(35)))
    plan = strategy.plan(Fraction(5))
    own = own_variances(strategy, plan, np.full(35, 50.0))
    coefficients = strategy.coefficients(np.arange(35), np.full(35, 50.0))
    weights = np.random.default_rng(0).normal(1.0, 1.0, (200, 35))
    found, bound = 50.0 * np.sum((weights @ coefficients) ** 2, axis=1), weights**2 @ own
    assert np.all(found <= bound * (1 + 1e-9))
    assert np.any(found < 0.9 * bound)


def test_tables_measured_in_blocks_too_have_no_cells_of_their_own() -> None:
    strategy = kronecker.propose(Problem(full((64, 64)), random_boxes((64, 64), 200)))
    plan = strategy.plan(Fraction(5))
    assert np.all(np.isinf(own_variances(strategy, plan, np.ones(plan.weights.size))))
