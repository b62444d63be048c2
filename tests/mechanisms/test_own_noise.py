"""Least squares vary no more than the cells' own measurements, and intervals by variances hold for tiny noise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.accuracy.intervals import noise_widths
from blowfishdb.mechanisms import edge_transform, identity, kronecker, optimized, ordered_hierarchy
from blowfishdb.mechanisms.data_aware import DataAware
from blowfishdb.mechanisms.data_aware.dawa import DawaTransform
from blowfishdb.mechanisms.data_aware.kdtree import CellBased
from blowfishdb.mechanisms.strategy import Strategy, squared
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats
from blowfishdb.model.workload import Identity, Intervals, Rows
from blowfishdb.noise.distribution import pmf, variance
from blowfishdb.plan.plan import Problem
from tests.mechanisms.spatial_cases import full, random_boxes, run, window

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
    own = strategy.own_variances(variances)
    return strategy.answer_variances(variances), np.asarray(squared(ranges()).dot(own))


@pytest.mark.parametrize("theta", [4, 20, 59])
@pytest.mark.parametrize(
    "propose", [optimized.propose, ordered_hierarchy.propose_hierarchy], ids=["optimized", "hierarchy"]
)
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
    own = strategy.own_variances(np.full(plan.weights.size, 50.0))
    assert own.tolist() == [50.0] * (CELLS - 1) + [0.0]


def test_noise_on_edges_belongs_to_no_cell() -> None:
    strategy = edge_transform.propose(Problem(line(1), Identity(CELLS)))
    plan = strategy.plan(Fraction(5))
    assert np.all(np.isinf(strategy.own_variances(np.ones(plan.weights.size))))


def test_cells_of_a_table_with_an_exact_total_vary_no_more() -> None:
    strategy = kronecker.propose(Problem(full((5, 7)), Identity(35)))
    own = strategy.own_variances(np.full(35, 50.0))
    coefficients = strategy.coefficients(np.arange(35), np.full(35, 50.0))
    weights = np.random.default_rng(0).normal(1.0, 1.0, (200, 35))
    found, bound = 50.0 * np.sum((weights @ coefficients) ** 2, axis=1), weights**2 @ own
    assert np.all(found <= bound * (1 + 1e-9))
    assert np.any(found < 0.9 * bound)


def test_tables_measured_in_blocks_too_have_no_cells_of_their_own() -> None:
    strategy = kronecker.propose(Problem(full((64, 64)), random_boxes((64, 64), 200)))
    plan = strategy.plan(Fraction(5))
    assert np.all(np.isinf(strategy.own_variances(np.ones(plan.weights.size))))


FEW_CELLS, BETA = 16, 0.05
LINE = CellGraph((window(FEW_CELLS, 1),), "record", np.array(False), "public")


@pytest.mark.parametrize(
    ("mechanism", "graph", "epsilon", "scale", "terms"),
    [(DawaTransform(), LINE, 4, 1 / 4, 2), (CellBased(), full((FEW_CELLS,)), 7, 2 / 7, 1)],
    ids=["sums", "cells"],
)
def test_an_interval_holds_a_step_of_one_where_that_is_likely(
    mechanism: DataAware, graph: CellGraph, epsilon: int, scale: float, terms: int
) -> None:
    law = pmf(scale, np.arange(-60, 61))
    moved = 1.0 - float(law[60] if terms == 1 else law @ law)
    assert moved > BETA, "more often than beta a cell is off by one or more"
    found = run(mechanism, Problem(graph, Identity(FEW_CELLS)), Fraction(epsilon), np.full(FEW_CELLS, 100))
    assert np.all(noise_widths(found.variances, BETA).per_answer[1:-1] >= 1.0)
    discrete = np.array([terms * float(variance(scale))])
    assert noise_widths(discrete, BETA).per_answer[0] < 1.0, "the variance of whole-number noise is not enough"
