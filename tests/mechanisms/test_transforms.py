"""dawa-transform and matching-transform end to end: every policy within its allowances, honest about their noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.engine.measure import measure, run_program
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware import DataAware, Finding
from blowfishdb.mechanisms.data_aware.buckets import MOST_MIXED, best_merged_plan
from blowfishdb.mechanisms.data_aware.dawa import DawaTransform
from blowfishdb.mechanisms.data_aware.matching_transform import MatchingTransform
from blowfishdb.mechanisms.data_aware.partition import GATE_RULE, gate_stage
from blowfishdb.mechanisms.ordered_hierarchy import is_line
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.graphs import CellGraph, EdgeGraph, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix, Rows, Sparse
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import merge_counts, merge_graph

NO_UNIVERSAL = np.empty(0, dtype=np.int64)
LINE, FIRST, MATCHING = DawaTransform(), DawaTransform(sums_first=False), MatchingTransform()


def threshold(cells: int, theta: int) -> CellGraph:
    window = WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), NO_UNIVERSAL)
    return CellGraph((window,), "record", np.zeros(cells, dtype=np.bool_), "public")


def presence_only(cells: int) -> CellGraph:
    return CellGraph((WindowGraph(np.arange(cells), NO_UNIVERSAL),), "record", np.array(False), "only")


def ring(cells: int) -> CellGraph:
    ends = np.stack([np.arange(cells), (np.arange(cells) + 1) % cells], axis=1)
    return CellGraph((EdgeGraph(cells, ends),), "record", np.array(False), "public")


def two_axes() -> CellGraph:
    factors = tuple(WindowGraph(np.minimum(np.arange(size) + 1, size - 1), NO_UNIVERSAL) for size in (6, 8))
    return CellGraph(factors, "attribute", np.array(False), "public")


def leaving(cells: int) -> CellGraph:
    return CellGraph(threshold(cells, 1).factors, "record", np.ones(cells, dtype=np.bool_), "public")


def two_runs(cells: int) -> CellGraph:
    reach = np.minimum(np.arange(cells) + 1, cells - 1)
    reach[cells // 3] = cells // 3
    return CellGraph((WindowGraph(reach, NO_UNIVERSAL),), "record", np.array(False), "public")


def released(mechanism: DataAware, problem: Problem, counts: Ints, epsilon: Fraction = Fraction(1, 2)) -> Finding:
    program = mechanism.program(problem, epsilon)
    assert program.epsilon == epsilon
    return run_program(program, program.digest(), mechanism.script(problem, program), problem.graph, counts)


def test_both_are_offered_under_their_names() -> None:
    for name in ("dawa-transform", "matching-transform"):
        assert DATA_AWARE[name].name == name


@pytest.mark.parametrize("mechanism", [LINE, FIRST, MATCHING], ids=["dawa", "dawa, buckets first", "matching"])
@pytest.mark.parametrize(
    "graph",
    [threshold(48, 1), threshold(48, 5), presence_only(48), ring(48), two_axes(), leaving(48), two_runs(48)],
    ids=["line", "threshold", "presence", "ring", "two axes", "leaving", "two runs"],
)
@pytest.mark.parametrize(
    "workload",
    [Identity(48), Prefix(48), AllRanges(48), Sparse(np.eye(48, dtype=np.int64)[:7] * 3)],
    ids=["cells", "prefixes", "ranges", "rows"],
)
@pytest.mark.sampled(4)
def test_every_policy_and_workload_is_served_within_the_allowances(
    mechanism: DataAware, graph: CellGraph, workload: Rows
) -> None:
    counts = np.repeat([500, 20, 300, 0], 12)
    found = released(mechanism, Problem(graph, workload), counts, Fraction(20))
    assert found.answers == pytest.approx(workload.dot(found.cells))
    assert found.variances.shape == found.answers.shape
    assert float(np.abs(found.cells - counts).mean()) < 40


def test_only_steps_along_one_axis_without_an_exit_are_a_line() -> None:
    assert is_line(threshold(9, 1))
    assert is_line(two_runs(9))
    for graph in (threshold(9, 2), presence_only(9), ring(9), two_axes(), leaving(9)):
        assert not is_line(graph)
    universal_vertex = CellGraph((WindowGraph(np.arange(4), np.array([3])),), "record", np.array(False), "public")
    assert not is_line(universal_vertex)


def test_a_line_is_measured_once_with_all_of_epsilon() -> None:
    problem = Problem(threshold(64, 1), Identity(64))
    assert [each.stage for each in LINE.program(problem, Fraction(1)).allowances] == ["sums"]
    asked = next(LINE.script(problem, LINE.program(problem, Fraction(1, 3))))
    assert asked.stage.epsilon(problem.graph) == Fraction(1, 3)
    other = Problem(threshold(64, 2), Identity(64))
    assert [each.stage for each in LINE.program(other, Fraction(1)).allowances] == ["gate", "partition", "buckets"]


def test_uneven_tables_under_a_threshold_keep_their_cells_and_nearly_all_of_epsilon() -> None:
    counts = np.random.default_rng(0).integers(0, 10**5, 2048)
    problem = Problem(threshold(2048, 9), Identity(2048))
    gate = gate_stage(problem, GATE_RULE.share / 10, Fraction(1, 10))
    assert gate.unevenness(counts) - gate.threshold > 16 * gate.unit  # it errs once in 10^7
    found = released(LINE, problem, counts, Fraction(1, 10))
    assert found.buckets[-1] == 2047
    assert float(np.sqrt(found.variances.mean())) < 1.05 * 2**1.5 / 0.1


def test_totals_of_separate_runs_are_exact() -> None:
    counts = np.arange(30)
    found = released(LINE, Problem(two_runs(30), Identity(30)), counts, Fraction(1, 10))
    assert found.cells[:11].sum() == pytest.approx(counts[:11].sum())
    assert found.cells[11:].sum() == pytest.approx(counts[11:].sum())
    assert np.all(np.diff(found.buckets) >= 0)
    assert found.buckets[11] > found.buckets[10]


@pytest.mark.parametrize("workload", [Identity(512), Prefix(512), Intervals(512, np.arange(0, 500), np.arange(7, 507))])
def test_on_even_stretches_the_stated_noise_covers_the_error(workload: Rows) -> None:
    counts = np.repeat([0, 400, 31, 0], 128)
    missed, count = 0, 0
    for _ in range(12):
        found = released(LINE, Problem(threshold(512, 1), workload), counts, Fraction(1, 10))
        missed += int(np.sum(np.abs(found.answers - workload.dot(counts)) > 2.2 * np.sqrt(found.variances) + 1))
        count += found.answers.size
    assert missed < 0.05 * count


@pytest.mark.parametrize("graph", [ring(24), threshold(24, 1)], ids=["ring", "line"])
@pytest.mark.sampled(2)
def test_stated_variances_of_buckets_are_those_of_the_noise(graph: CellGraph) -> None:
    counts, of_cells, workload = np.repeat([60, 0, 90, 0, 7, 7], 4), np.repeat(np.arange(6), 4), Prefix(24)
    plan = best_merged_plan(graph, of_cells, Fraction(1))
    certified = CertifiedPlan(plan.plan, merge_graph(graph, of_cells))
    assert certified.certificate.epsilon == 1
    merged = merge_counts(counts, of_cells)
    cells = np.stack([plan.cells(measure(certified, merged)) for _ in range(2000)])
    for rows in (workload, Identity(24)):
        observed = np.var([rows.dot(each - counts) for each in cells], axis=0)
        stated = plan.answer_variances(rows)
        # A single Laplace variable, the worst case, leaves this range with chance 1e-10. Half as much noise again is
        # rejected: the least of the observed shares has a spread of 0.04, and 1.57 is 15 times that above 1.
        assert np.all((observed <= 1.45 * stated + 1e-9) & (observed >= 0.7 * stated - 1e-9))
        assert not np.all(observed >= 0.7 * 1.5**2 * stated - 1e-9)


def test_a_tree_policy_gets_its_transform_and_a_full_one_the_plain_counts() -> None:
    of_cells = np.arange(40) // 2
    assert best_merged_plan(threshold(40, 1), of_cells, Fraction(1)).strategy.mechanism != "identity"
    assert best_merged_plan(presence_only(40), of_cells, Fraction(1)).strategy.mechanism == "identity"


def test_rounds_of_matching_make_larger_buckets_of_like_cells_far_apart() -> None:
    counts = np.tile([0, 10_000, 50_000, 90_000], 16)
    found = released(MatchingTransform(caution=Fraction(0)), Problem(ring(64), Identity(64)), counts, Fraction(1))
    sizes = np.bincount(found.buckets)
    assert int(sizes.max()) <= 8
    assert float(sizes.mean()) > 3
    for bucket in range(sizes.size):
        assert np.ptp(counts[found.buckets == bucket]) == 0


def test_what_makes_no_sense_is_declined() -> None:
    free = CellGraph((WindowGraph(np.arange(5), NO_UNIVERSAL),), "record", np.array(False), "public")
    for mechanism in (LINE, MATCHING):
        with pytest.raises(Declined, match="no move is hidden"):
            mechanism.program(Problem(free, Identity(5)), Fraction(1))
    with pytest.raises(Declined, match="single cell"):
        MATCHING.program(Problem(leaving(1), Identity(1)), Fraction(1))
    many = MOST_MIXED + 1
    with pytest.raises(Declined, match="other than cells"):
        MATCHING.program(Problem(threshold(many, 1), Prefix(many)), Fraction(1))
