"""Cells, kd-tree, quadtree, grids and the adaptive tree spend exactly their epsilon and say what their noise does."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.engine.measure import run_program
from blowfishdb.errors import AccuracyError, AllowanceExceeded, Declined, PlanError
from blowfishdb.mechanisms.data_aware import DataAware, Script
from blowfishdb.mechanisms.data_aware.kdtree import AdaptiveTree, CellBased, KdTree, kd_tree, predicted_cut
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.workload import Identity
from blowfishdb.noise.distribution import pmf
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import MeasurementStage, Program, StageRequest
from papers.baselines.spatial import AdaptiveGrid, KdThresholds, Quadtree, UniformGrid, median_cut
from papers.partitioning.cells import total_error_bound, total_error_tail
from tests.mechanisms.spatial_cases import clustered, full, policies, random_boxes, run, stage_costs, window

SHAPE = (12, 9)
THRESHOLDS = KdThresholds(records=200.0, unevenness=1e9)
EVERY: tuple[DataAware, ...] = (
    CellBased(),
    KdTree(),
    KdTree(choose=THRESHOLDS.choose),
    Quadtree(),
    UniformGrid(),
    AdaptiveGrid(),
    AdaptiveTree(),
)
IDS = ("cells", "kdtree", "kdtree thresholds", "quadtree", "ugrid", "agrid", "adaptive-tree")
COMPARED = ("kdtree thresholds", "quadtree", "ugrid", "agrid")
"""Those that exist only to be compared with."""


@pytest.mark.parametrize("policy", policies(SHAPE))
@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
@pytest.mark.sampled(3)
def test_every_stage_costs_exactly_its_allowance(mechanism: DataAware, policy: str) -> None:
    problem = Problem(policies(SHAPE)[policy], random_boxes(SHAPE, 10))
    epsilon = Fraction(3, 10)
    program = mechanism.program(problem, epsilon)
    assert program.epsilon == epsilon
    spent = stage_costs(mechanism, problem, epsilon, clustered(SHAPE, 5000))
    assert spent == [(allowance.stage, allowance.epsilon) for allowance in program.allowances]


@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
def test_a_scale_that_is_a_little_smaller_is_stopped(mechanism: DataAware) -> None:
    problem = Problem(full(SHAPE, "only"), random_boxes(SHAPE, 10))
    program = mechanism.program(problem, Fraction(1))
    script = mechanism.script(problem, program)
    asked = next(script)
    assert isinstance(asked.stage, MeasurementStage)
    plan = asked.stage.plan
    less = StageRequest(asked.name, MeasurementStage(plan.with_unit(plan.unit * Fraction(99, 100))), asked.buckets)

    def cheating() -> Script:
        yield less
        raise AssertionError("this stage must not run")

    with pytest.raises(AllowanceExceeded):
        run_program(program, program.digest(), cheating(), problem.graph, clustered(SHAPE, 100))


@pytest.mark.parametrize("presence", ["public", "only"])
@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
def test_with_hardly_any_noise_answers_are_right_where_buckets_are_even(mechanism: DataAware, presence: str) -> None:
    """Many records, evenly spread: no partition has a bias."""
    problem = Problem(full(SHAPE, presence), random_boxes(SHAPE, 50))
    counts = np.full(108, 1000, dtype=np.int64)
    found = run(mechanism, problem, Fraction(50), counts)
    assert np.allclose(found.answers, problem.workload.dot(counts), atol=30)
    assert np.allclose(found.answers, problem.workload.dot(found.cells))
    assert found.cells.shape == found.buckets.shape == (108,)


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(mechanism, id=name, marks=[pytest.mark.nightly] if name in COMPARED else [])
        for mechanism, name in zip(EVERY, IDS, strict=True)
    ],
)
def test_variances_are_those_of_the_noise(mechanism: DataAware) -> None:
    """On even data there is no bias: squared errors over stated variances average to 1."""
    problem = Problem(full(SHAPE, "only"), random_boxes(SHAPE, 40))
    counts = np.full(108, 40, dtype=np.int64)
    truth = problem.workload.dot(counts)
    asked = np.flatnonzero(truth > 0)
    ratios = []
    for _ in range(100):
        found = run(mechanism, problem, Fraction(1, 2), counts)
        ratios.append(np.mean((found.answers - truth)[asked] ** 2 / found.variances[asked]))
    assert 0.6 < np.mean(ratios) < 1.5


@pytest.mark.parametrize("mechanism", [AdaptiveTree(), KdTree()], ids=["tree", "kdtree"])
def test_full_corners_are_cut_finer_than_empty_ones(mechanism: DataAware) -> None:
    shape = (32, 32)
    counts = np.zeros(shape, dtype=np.int64)
    counts[:8, :8] = np.random.default_rng(1).integers(0, 4000, (8, 8))
    problem = Problem(full(shape, "only"), random_boxes(shape, 10))
    found = run(mechanism, problem, Fraction(1), counts.reshape(-1))
    buckets = found.buckets.reshape(shape)
    assert np.unique(buckets[:8, :8]).size == 64
    assert np.unique(buckets[16:, 16:]).size < 30


def test_three_axes_and_one_are_served_where_it_is_natural() -> None:
    for shape in ((6, 5, 4), (50,)):
        problem = Problem(full(shape), random_boxes(shape, 20))
        counts = clustered(shape, 3000)
        for mechanism in (CellBased(), KdTree(), AdaptiveTree()):
            assert run(mechanism, problem, Fraction(1), counts).answers.shape == (20,)
        for flat in (Quadtree(), UniformGrid(), AdaptiveGrid()):
            with pytest.raises(Declined, match="two axes"):
                flat.program(problem, Fraction(1))


def test_too_many_axes_are_declined() -> None:
    shape = (2,) * 11
    problem = Problem(full(shape), Identity(2**11))
    for mechanism in (KdTree(), AdaptiveTree()):
        with pytest.raises(Declined, match="axes"):
            mechanism.program(problem, Fraction(1))


def test_what_the_policy_does_not_hide_is_exact() -> None:
    """Public presence and no edge between cells: every count is exact and costs nothing."""
    alone = CellGraph((window(4, 0), window(3, 0)), "record", np.array(False), "public")
    problem = Problem(alone, Identity(12))
    counts = np.arange(12)
    for mechanism in (CellBased(), KdTree()):
        found = run(mechanism, problem, Fraction(1), counts)
        assert np.array_equal(found.cells, counts)
        assert not found.variances.any()
    with pytest.raises(Declined, match="exact"):
        Quadtree().program(problem, Fraction(1))


def test_the_public_number_of_records_is_met() -> None:
    problem = Problem(full(SHAPE), random_boxes(SHAPE, 5))
    for mechanism in (KdTree(), Quadtree(), UniformGrid(), AdaptiveGrid(), AdaptiveTree()):
        assert math.isclose(run(mechanism, problem, Fraction(1, 10), clustered(SHAPE, 700)).cells.sum(), 700)


def test_an_epsilon_that_is_not_positive_is_refused() -> None:
    problem = Problem(full(SHAPE), random_boxes(SHAPE, 5))
    with pytest.raises(PlanError):
        AdaptiveTree().program(problem, Fraction(0))


def test_the_bound_on_summed_errors_is_a_quantile() -> None:
    """beta = 100 cells at scale 20: the Gamma quantile, a sixth of the union bound of Lemma 41."""
    bound = total_error_bound(100, 20.0, 0.05)
    assert 2330 < bound < 2345
    assert total_error_tail(100, 20.0, bound) <= 0.05 < total_error_tail(100, 20.0, bound - 1)
    assert 100 * 20 * math.log(100 / 0.05) > 6 * bound


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_the_tail_of_summed_errors_equals_the_convolution(scale: float) -> None:
    one = pmf(scale, np.arange(200))
    one[1:] *= 2
    three = np.convolve(np.convolve(one, one), one)
    for bound in (0, 1, 5, 12):
        assert math.isclose(total_error_tail(3, scale, bound), three[bound + 1 :].sum(), rel_tol=1e-6, abs_tol=1e-9)


def test_bounds_that_mean_nothing_are_refused() -> None:
    for bad in (lambda: total_error_bound(3, 1.0, 0.0), lambda: total_error_tail(0, 1.0, 1)):
        with pytest.raises(AccuracyError):
            bad()


def test_cuts_are_made_where_the_counts_change() -> None:
    cells = np.zeros((16, 16))
    cells[:, 11:] = 30.0
    tree = kd_tree(cells, predicted_cut(4.0, 10_000))
    assert set(tree.low[tree.leaves][:, 1]) >= {0, 11}
    even = kd_tree(np.full((16, 16), 0.1), predicted_cut(4.0, 10_000))
    assert even.leaves.size == 1
    unseen = kd_tree(np.full((16, 16), 0.1), predicted_cut(4.0, 64))
    assert np.all(unseen.areas[unseen.leaves] == 64)


def test_one_full_cell_is_found() -> None:
    cells = np.random.default_rng(0).normal(0, 2, (32, 32))
    cells[20, 5] = 300.0
    tree = kd_tree(cells, predicted_cut(4.0, 10_000))
    assert tree.areas[tree.leaves][tree.labels.reshape(32, 32)[20, 5]] == 1


def test_thresholds_stop_the_cuts() -> None:
    cells = np.full((8, 8), 10.0)
    assert kd_tree(cells, KdThresholds(700, 1e9).choose).leaves.size == 1
    assert kd_tree(cells, KdThresholds(100, 1e9).choose).leaves.size == 8
    cells[0, 0] = 500.0
    assert kd_tree(cells, KdThresholds(1e9, 100).choose).leaves.size > 1
    assert median_cut(np.array([0.0, 0.0, 9.0])) == 2
    with pytest.raises(PlanError):
        KdThresholds(-1.0, 0.0)


def test_a_program_is_the_same_whatever_the_data() -> None:
    problem = Problem(full((256, 256), "only"), random_boxes((256, 256), 5))
    program = AdaptiveTree().program(problem, Fraction(1, 10))
    assert isinstance(program, Program)
    assert [allowance.stage for allowance in program.allowances] == [f"counts {k}" for k in (1, 2, 3, 4)]
