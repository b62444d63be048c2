"""DAWA end to end: every policy within its allowances, honest noise, buckets where they pay and cells where not."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import pytest

from blowfishdb.engine.measure import run_program
from blowfishdb.errors import Declined, PlanError
from blowfishdb.mechanisms.data_aware import Finding
from blowfishdb.mechanisms.data_aware.buckets import BucketPlan, Buckets, plan_buckets
from blowfishdb.mechanisms.data_aware.dawa import Dawa
from blowfishdb.mechanisms.data_aware.partition import (
    GATE_RULE,
    GateRule,
    L1Refinement,
    asks_long_ranges,
    noise_level,
    uneven_limit,
)
from blowfishdb.mechanisms.strategy import row_variances
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Kronecker, Prefix, Rows, Sparse, Stacked
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import merge_graph

EPSILON = Fraction(1, 10)
NO_UNIVERSAL = np.empty(0, dtype=np.int64)


def full(cells: int, presence: Literal["public", "secret", "only"] = "only") -> CellGraph:
    return CellGraph((WindowGraph(np.full(cells, cells - 1), NO_UNIVERSAL),), "record", np.array(False), presence)


def released(problem: Problem, counts: Ints, epsilon: Fraction = EPSILON) -> Finding:
    mechanism = Dawa()
    program = mechanism.program(problem, epsilon)
    assert program.epsilon == epsilon
    return run_program(program, program.digest(), mechanism.script(problem, program), problem.graph, counts)


def ranges(cells: int, count: int = 300, seed: int = 0) -> Intervals:
    ends = np.sort(np.random.default_rng(seed).integers(0, cells, (count, 2)), axis=1)
    return Intervals(cells, ends[:, 0], ends[:, 1] + 1)


def test_it_is_offered_under_its_name() -> None:
    assert isinstance(DATA_AWARE["dawa"], Dawa)
    assert DATA_AWARE["dawa"].name == "dawa"


def test_even_stretches_become_few_buckets_and_good_answers() -> None:
    counts = np.repeat([0, 900, 40, 0], 1024)
    workload = ranges(4096)
    errors = []
    for _ in range(5):
        found = released(Problem(full(4096), workload), counts)
        # Every second release has one cut of three buckets more than needed, every second of these two, and so on.
        assert found.buckets[-1] < 150
        errors.append(float(np.abs(found.answers - workload.dot(counts)).mean()))
        assert np.allclose(found.answers, workload.dot(found.cells))
    # An error is 15 on average and falls off like exp(-error / 10); noise on every cell would give 400.
    assert np.mean(errors) < 100


def test_uneven_tables_keep_their_cells_and_nearly_all_of_epsilon() -> None:
    counts = np.random.default_rng(0).integers(0, 10**6, 4096)
    found = released(Problem(full(4096), ranges(4096)), counts)
    assert found.buckets[-1] == 4095
    assert float(np.sqrt(found.variances.mean())) < 155


def line(cells: int) -> CellGraph:
    window = WindowGraph(np.minimum(np.arange(cells) + 1, cells - 1), NO_UNIVERSAL)
    return CellGraph((window,), "record", np.array(False), "public")


def with_universal(cells: int) -> CellGraph:
    reach = np.full(cells, cells - 2)
    reach[-1] = cells - 1
    return CellGraph((WindowGraph(reach, np.array([cells - 1])),), "record", np.array(False), "public")


def two_axes() -> CellGraph:
    factors = tuple(WindowGraph(np.full(size, size - 1), NO_UNIVERSAL) for size in (6, 10))
    return CellGraph(factors, "record", np.array(False), "public")


@pytest.mark.parametrize(
    "graph",
    [full(60), full(60, "public"), full(60, "secret"), line(60), with_universal(60), two_axes()],
    ids=["only", "public", "secret", "line", "universal vertex", "two axes"],
)
@pytest.mark.parametrize("rough", [False, True])
def test_every_policy_is_served_within_its_allowances(graph: CellGraph, rough: bool) -> None:
    counts = np.tile([0, 9000], 30) if rough else np.repeat([0, 5000], 30)
    found = released(Problem(graph, Prefix(60)), counts, Fraction(1))
    assert found.cells.shape == (60,)
    assert np.allclose(found.answers, np.cumsum(found.cells))
    assert np.abs(found.answers - np.cumsum(counts)).max() < 500


def test_where_nothing_is_hidden_it_declines() -> None:
    alone = CellGraph((WindowGraph(np.arange(8), NO_UNIVERSAL),), "record", np.array(False), "public")
    with pytest.raises(Declined):
        Dawa().program(Problem(alone, Identity(8)), EPSILON)


def test_buckets_that_no_move_leaves_are_exact() -> None:
    blocks = CellGraph((WindowGraph(np.repeat([15, 31], 16), NO_UNIVERSAL),), "record", np.array(False), "public")
    counts = np.repeat([3, 70], 16)
    found = released(Problem(blocks, Intervals(32, np.array([0]), np.array([16]))), counts)
    if found.buckets[-1] == 1:
        assert found.answers.tolist() == [48]
        assert found.variances.tolist() == [0]


WORKLOADS: list[Rows] = [
    ranges(40, 25),
    AllRanges(40),
    Stacked((Identity(40), Prefix(40))),
    Kronecker((Prefix(5), Identity(8))),
    Sparse(np.random.default_rng(5).integers(0, 3, (7, 40))),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda rows: type(rows).__name__)
@pytest.mark.parametrize("presence", ["only", "public"])
def test_variances_are_those_of_the_answers(workload: Rows, presence: Literal["only", "public"]) -> None:
    buckets = Buckets(40, np.array([0, 1, 2, 9, 10, 22, 23, 24, 33, 39]))
    graph = merge_graph(full(40, presence), buckets.of_cells)
    planned = plan_buckets(graph, buckets, workload, EPSILON)
    assert np.allclose(dense_variances(buckets, planned, workload), planned.answer_variances)


def dense_variances(buckets: Buckets, planned: BucketPlan, workload: Rows) -> Floats:
    """The variances of the answers from the whole linear map from noise to answers."""
    rows = planned.plan.weights.size
    exact = np.zeros(0 if planned.plan.exact is None else planned.plan.exact.shape[0], dtype=np.int64)
    large = 10**6
    columns = [planned.totals(large * np.eye(rows, dtype=np.int64)[k], exact) / large for k in range(rows)]
    answers = np.stack([workload.dot(buckets.spread(column)) for column in columns], axis=1)
    return np.asarray(answers**2 @ row_variances(planned.plan))


@pytest.mark.parametrize("starts", [[], [1, 2], [0, 5, 5], [0, 40]])
def test_senseless_buckets_are_refused(starts: list[int]) -> None:
    with pytest.raises(PlanError):
        Buckets(40, np.array(starts, dtype=np.int64))


def test_the_gate_knows_the_policy_and_the_workload() -> None:
    assert noise_level(full(64)) == 1
    assert noise_level(full(64, "secret")) == noise_level(two_axes()) == noise_level(with_universal(60)) == 2
    assert 1.8 < noise_level(full(64, "public")) < 2
    assert noise_level(line(64)) < 0.6
    long, short = Problem(full(64), AllRanges(64)), Problem(full(64), Identity(64))
    mixed = Problem(full(64), Stacked((Intervals(64, np.zeros(3, int), np.full(3, 60)), Intervals(64, [0], [1]))))
    rule = GateRule(Fraction(1, 50), 16, 80.0, uneven_for_ranges=0.4, uneven_for_cells=0.2, short=16)
    assert [uneven_limit(problem, rule) for problem in (long, mixed, short)] == pytest.approx([0.4, 0.3, 0.2])
    assert uneven_limit(long) == GATE_RULE.uneven_for_ranges
    assert uneven_limit(short) == pytest.approx(GATE_RULE.uneven_for_cells)


def test_long_ranges_over_many_cells_have_stages_of_their_own() -> None:
    short = Intervals(1024, np.arange(100), np.arange(100) + 16)
    apart = Sparse(np.tile([1, 0], (2, 512)))
    workloads = [ranges(1024), Prefix(1024), AllRanges(1024), Identity(1024), short, apart]
    problems = [*(Problem(full(1024), rows) for rows in workloads), Problem(full(512), AllRanges(512))]
    assert [asks_long_ranges(problem) for problem in problems] == [True, True, True, False, False, False, False]
    for bias, expected in ((Fraction(0), True), (Fraction(1, 20), False)):
        mechanism = Dawa("dawa", bias)
        script = mechanism.script(problems[0], mechanism.program(problems[0], EPSILON))
        assert next(script).stage.running is expected  # type: ignore[union-attr]
        stage = script.send(np.zeros(1, dtype=np.int64)).stage
        assert isinstance(stage, L1Refinement)
        assert stage.for_ranges is expected


def test_the_split_is_a_parameter() -> None:
    problem = Problem(full(64), Identity(64))
    program = Dawa(select_share=Fraction(1, 4)).program(problem, EPSILON)
    assert [allowance.epsilon / EPSILON for allowance in program.allowances] == [
        GATE_RULE.share,
        Fraction(1, 4),
        Fraction(3, 4) - GATE_RULE.share,
    ]
    with pytest.raises(PlanError):
        Dawa(select_share=Fraction(1))
