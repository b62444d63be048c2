"""Greedy weights: the recurrences equal the dense formula, and the weighted tree reads what they promise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.mechanisms.axis import EstimatingStrategy, TreeCorrection
from blowfishdb.mechanisms.data_aware.buckets import (
    SHARES,
    Buckets,
    GreedyTree,
    PartialRanges,
    greedy_weights,
    one_run,
    plan_buckets,
    weighted_tree,
)
from blowfishdb.mechanisms.hats import HatSolver
from blowfishdb.mechanisms.optimized import SmoothShape, level_plans
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats
from blowfishdb.model.workload import Intervals, Prefix


def random_ranges(count: int, queries: int, seed: int) -> PartialRanges:
    generator = np.random.default_rng(seed)
    first, last = np.sort(generator.integers(0, count, (queries, 2)), axis=1).T
    left, right = 1 - 0.9 * generator.random((2, queries)) * generator.integers(0, 2, (2, queries))
    return PartialRanges(first, last, left, np.where(first == last, 0.0, right))


def dense_workload(count: int, ranges: PartialRanges) -> Floats:
    workload = np.zeros((ranges.first.size, count))
    for row, (first, last) in enumerate(zip(ranges.first, ranges.last, strict=True)):
        workload[row, first + 1 : last] = 1.0
        workload[row, last] = ranges.right[row]
        workload[row, first] = ranges.left[row]
    return workload


def dense_strategy(count: int, tree: GreedyTree) -> Floats:
    rows = []
    for height, weights in enumerate(tree.weights):
        for node, weight in enumerate(weights):
            row = np.zeros(count)
            row[node << height : (node + 1) << height] = weight
            rows.append(row)
    return np.array(rows)


@given(st.integers(1, 64), st.integers(1, 40), st.integers(0, 1000))
def test_the_recurrences_equal_the_dense_formula(count: int, queries: int, seed: int) -> None:
    ranges = random_ranges(count, queries, seed)
    tree = greedy_weights(count, ranges)
    strategy, workload = dense_strategy(count, tree), dense_workload(count, ranges)
    assert np.allclose(strategy.sum(axis=0), 1.0)
    dense = float(np.trace(workload.T @ workload @ np.linalg.inv(strategy.T @ strategy)))
    assert tree.error == pytest.approx(dense, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_root_takes_the_share_that_minimises_the_error(seed: int) -> None:
    ranges = random_ranges(2, 9, seed)
    gram = dense_workload(2, ranges).T @ dense_workload(2, ranges)

    def error(share: float) -> float:
        return float(np.trace(gram @ np.linalg.inv((1 - share) ** 2 * np.eye(2) + share**2 * np.ones((2, 2)))))

    assert float(greedy_weights(2, ranges).weights[1][0]) == pytest.approx(min(SHARES, key=error))


def test_queries_in_one_corner_draw_the_weight_there() -> None:
    """Where everybody asks about the first buckets, greedy weights beat shares that are the same everywhere."""
    cells = 512
    window = WindowGraph(np.arange(cells), np.empty(0, dtype=np.int64))
    graph = CellGraph((window,), "record", np.zeros(cells, dtype=np.bool_), "only")
    ends = np.sort(np.random.default_rng(0).integers(0, 24, (200, 2)), axis=1)
    workload = Intervals(cells, np.append(ends[:, 0], 24), np.append(ends[:, 1] + 1, cells))
    planned = plan_buckets(graph, Buckets(cells, np.arange(cells)), workload, Fraction(1))
    assert isinstance(planned.strategy, EstimatingStrategy)
    assert isinstance(planned.strategy.estimator, TreeCorrection)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 33])
def test_the_weighted_tree_is_least_squares(count: int) -> None:
    tree = weighted_tree(one_run(count), greedy_weights(count, random_ranges(count, 20, count)))
    rows = np.concatenate([part.rows.dense() for part in tree.parts]).astype(np.float64)
    weights = np.concatenate([part.weights for part in tree.parts]) / 2**24
    variances = 2 / weights**2
    measured = np.random.default_rng(1).normal(size=weights.size)
    precise = rows / variances[:, None]
    expected = np.linalg.solve(precise.T @ rows, precise.T @ measured)
    assert np.allclose(tree.estimate(measured, np.empty(0), variances), expected)


@pytest.mark.parametrize("presence", ["only", "public"])
@pytest.mark.parametrize("cells", [2, 40, 700])
def test_the_fast_solver_equals_the_dense_one(presence: str, cells: int) -> None:
    axis = one_run(cells)
    free = presence == "public"
    if free:
        axis = type(axis)(cells, axis.spans, ~axis.free, axis.runs, axis.reach, axis.universal, ~axis.leaves)
    best = level_plans(Prefix(cells), cells, free=free)[0]
    dense = SmoothShape(best.sizes).build(axis, best.shares)
    fast = HatSolver(axis, dense.cell_weights, dense.coarse, dense.coarse_weights)
    generator = np.random.default_rng(0)
    rows = sum(part.weights.size for part in dense.parts)
    variances = 1 + generator.random(rows)
    exact = np.full(int(free), 3.0)
    for shape in ((rows,), (rows, 2)):
        measured = generator.normal(size=shape)
        known = exact if len(shape) == 1 else np.stack([exact, exact], axis=1)
        assert np.allclose(fast.estimate(measured, known, variances), dense.estimate(measured, known, variances))
    low, high = np.sort(generator.integers(0, cells + 1, (2, 50)), axis=0)
    assert np.allclose(fast.range_variances(low, high, variances), dense.range_variances(low, high, variances))
