"""DAWA on two axes: within its allowances under every policy, honest noise, and buckets that follow the data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.engine.measure import run_program
from blowfishdb.errors import AllowanceExceeded
from blowfishdb.mechanisms.data_aware import Script
from blowfishdb.mechanisms.data_aware.dawa import (
    GRID,
    Dawa,
    best_weights,
    block_measurement,
    block_weights,
    predicted_error,
)
from blowfishdb.mechanisms.data_aware.partition import l1_refinement
from blowfishdb.mechanisms.data_aware.regions import (
    HilbertCurve,
    NodeViews,
    block_tree,
    box_cover,
    cover_variances,
    least_squares,
)
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.workload import Identity, Kronecker, Prefix, Rows, Sparse
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import StageRequest
from tests.mechanisms.spatial_cases import clustered, full, policies, random_boxes, run, window
from tests.mechanisms.test_hilbert import random_blocks

SHAPE = (12, 9)


@pytest.mark.parametrize("policy", policies(SHAPE))
def test_every_policy_is_served_for_exactly_its_epsilon(policy: str) -> None:
    """Stages that would cost more than their allowances are stopped, so a finding is the proof."""
    problem = Problem(policies(SHAPE)[policy], random_boxes(SHAPE, 30))
    assert Dawa().program(problem, Fraction(1, 3)).epsilon == Fraction(1, 3)
    found = run(Dawa(), problem, Fraction(1, 3), clustered(SHAPE, 5000))
    assert np.allclose(found.answers, problem.workload.dot(found.cells))


@pytest.mark.parametrize(
    "workload", [Identity(108), Kronecker((Prefix(12), Identity(9))), Sparse(np.eye(108, dtype=np.int64)[::3] * 2)]
)
def test_other_workloads_than_boxes_just_work(workload: Rows) -> None:
    problem = Problem(full(SHAPE, "only"), workload)
    found = run(Dawa(), problem, Fraction(20), np.full(108, 50, dtype=np.int64))
    assert np.allclose(found.answers, problem.workload.dot(np.full(108, 50)), atol=60)
    assert np.all(found.variances > 0)


def test_the_partition_may_not_use_the_allowance_of_the_counts() -> None:
    problem = Problem(full(SHAPE, "only"), random_boxes(SHAPE, 5))
    program = Dawa().program(problem, Fraction(1))

    def greedy() -> Script:
        yield StageRequest("partition", l1_refinement(108, problem.graph, Fraction(1, 2)))
        raise AssertionError("this stage must not run")

    with pytest.raises(AllowanceExceeded):
        run_program(program, program.digest(), greedy(), problem.graph, clustered(SHAPE, 100))


def test_variances_are_those_of_the_noise() -> None:
    problem = Problem(full(SHAPE, "only"), random_boxes(SHAPE, 40))
    counts = np.full(108, 40, dtype=np.int64)
    truth = problem.workload.dot(counts)
    asked = np.flatnonzero(truth > 0)
    ratios = []
    for _ in range(100):
        found = run(Dawa(), problem, Fraction(1, 2), counts)
        ratios.append(np.mean((found.answers - truth)[asked] ** 2 / found.variances[asked]))
    assert 0.6 < np.mean(ratios) < 1.5


def test_full_corners_are_cut_finer_than_empty_ones() -> None:
    counts = np.zeros((32, 32), dtype=np.int64)
    counts[:8, :8] = np.random.default_rng(1).integers(0, 4000, (8, 8))
    problem = Problem(full((32, 32), "only"), random_boxes((32, 32), 10))
    buckets = run(Dawa(), problem, Fraction(1), counts.reshape(-1)).buckets.reshape(32, 32)
    assert np.unique(buckets[:8, :8]).size > 40
    assert np.unique(buckets[16:, 16:]).size < 60


def test_components_that_the_policy_shows_come_exactly() -> None:
    """Rows of the grid are public: two buckets of the same row are never told apart exactly, whole rows may be."""
    rows = CellGraph((window(4, 0), window(8, 8)), "record", np.array(False), "public")
    problem = Problem(rows, random_boxes((4, 8), 10))
    assert run(Dawa(), problem, Fraction(1), clustered((4, 8), 900)).cells.shape == (32,)


def test_variances_on_the_curve_equal_the_dense_covariance() -> None:
    curve, boxes = HilbertCurve((9, 7)), random_boxes((9, 7), 25)
    for seed in range(5):
        tree = block_tree(curve, random_blocks(63, seed))
        weights = block_weights(tree, 1, 0.2)
        nodes = np.flatnonzero(weights)
        views = NodeViews.none(tree.nodes).add(nodes, np.zeros(nodes.size), (GRID / weights[nodes]) ** 2)
        rows = block_measurement(tree, weights).rows.dense() * (weights[nodes] / GRID)[:, None]
        covariance = np.linalg.inv(rows.T @ rows)
        share = np.stack([np.bincount(tree.labels, row, tree.leaves.size) for row in boxes.dense()])
        share /= tree.areas[tree.leaves]
        dense = np.einsum("ij,jk,ik->i", share, covariance, share)
        cover = box_cover(tree, boxes)
        found = cover_variances(cover, 25, least_squares(tree, views))
        assert np.allclose(found, dense)
        assert np.isclose(predicted_error(tree, weights, cover, 25), dense.mean())


def test_weights_along_each_path_add_up_and_the_best_are_chosen() -> None:
    tree = block_tree(HilbertCurve((64, 64)), np.arange(4096))
    cover = box_cover(tree, random_boxes((64, 64), 60))
    for stride, share in ((1, 0.0), (1, 0.2), (2, 0.25)):
        norms = block_measurement(tree, block_weights(tree, stride, share))
        assert np.all(np.abs(norms.rows.column_norms(norms.weights) - GRID) <= 5)
    best, plain = best_weights(tree, cover, 60), block_weights(tree, 1, 0.0)
    assert predicted_error(tree, best, cover, 60) < 0.8 * predicted_error(tree, plain, cover, 60)
