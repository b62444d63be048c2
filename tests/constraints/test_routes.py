"""Every way to measure counts under public constraints costs what the constraints demand, or is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.errors import BlowfishError, CannotCertify, InfiniteLoss, PolicyError, TooLarge
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model import constraint_graph
from blowfishdb.model.cells import compile_cells, compile_points
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import CellGraph, ConstraintMoves, WindowGraph
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis, Predicate, col
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Kronecker, Prefix, Sparse
from blowfishdb.plan import certificate, loss
from blowfishdb.plan.certificate import calibrate, certify, rescaled
from blowfishdb.plan.plan import EdgePlan, KroneckerMeasurement, Measurement, Plan, Problem
from blowfishdb.plan.program import SelectionNoise, merge_graph
from tests.constraints import brute

ONE = Fraction(1)
SMALL = bf.domain({"x": bf.integers(0, 2, null=0), "y": bf.integers(0, 1, null=0)})
LINE = bf.domain({"v": bf.integers(0, 4, null=0)})
SETTINGS: list[tuple[Domain, list[str], list[str], Predicate | None]] = [
    (SMALL, ["marginal(y)"], ["x"], None),
    (SMALL, ["marginal(y)"], ["x", "y"], None),
    (SMALL, ["marginal(y)"], ["x"], col("y") == 1),
    (SMALL, ["count(x < 1)", "marginal(y)"], ["x", "y"], None),
    (SMALL, ["count(x < 1 and y = 0)"], ["x", "y"], None),
    (LINE, ["range(v, 0, 1)"], ["v"], None),
    (LINE, ["range(v, 0, 1)", "range(v, 3, 3)"], ["v"], None),
    (LINE, ["range(v, 0, 2)", "range(v, 2, 3)"], ["v"], None),
    (LINE, ["count(v in (0, 2, 4))"], ["v"], col("v") < 4),
]


def identity(cells: int) -> Plan:
    return Plan(ONE, (Measurement(Identity(cells), np.array(1)),))


def graph_of(domain: Domain, *constraints: object, axes: list[str], policy: Policy | None = None) -> CellGraph:
    declared = Policy(constraints=constraints) if policy is None else policy  # type: ignore[arg-type]
    return compile_cells(domain, declared, axes).graph


@pytest.mark.no_cover
@pytest.mark.parametrize("presence", ["public", "secret"])
@pytest.mark.parametrize("setting", range(len(SETTINGS)))
@pytest.mark.sampled(4)
def test_plans_of_every_mechanism_are_certified_at_least_at_their_loss(setting: int, presence: str) -> None:
    domain, constraints, axes, where = SETTINGS[setting]
    families = {name: bf.line() for name in domain}
    policy = Policy(families, constraints=constraints, presence=presence)  # type: ignore[arg-type]
    cells = compile_cells(domain, policy, axes, where)
    assert cells.graph.constraint_moves is not None
    size, served = cells.graph.cells, 0
    for workload in (Identity(size), Prefix(size), AllRanges(size)):
        for mechanism in MECHANISMS.values():
            try:
                plan = mechanism(Problem(cells.graph, workload)).plan(ONE)
                certificate = certify(plan, cells.graph)
            except BlowfishError:
                continue
            served += 1
            if isinstance(plan, EdgePlan):
                continue
            rows = [
                Kronecker(tuple(f.rows for f in part.factors)) if isinstance(part, KroneckerMeasurement) else part.rows
                for part in plan.parts
            ]
            dense = np.concatenate([np.empty((0, size), dtype=np.int64), *(part.dense() for part in rows)])
            found = brute.columns(domain, policy, cells, dense)
            assert certificate.epsilon * plan.unit >= brute.true_loss(
                domain, policy, policy.constraints, found, plan.weights, 4
            )
            if plan.exact is not None:
                found = brute.columns(domain, policy, cells, plan.exact.dense())
                ones = np.ones(found.shape[1], dtype=np.int64)
                assert brute.true_loss(domain, policy, policy.constraints, found, ones, 4) == 0
    assert served >= 3


def test_a_certificate_that_forgets_the_constraints_is_below_the_truth() -> None:
    policy = Policy(constraints=["marginal(y)"])
    cells = compile_cells(SMALL, policy, ["x"])
    found = brute.columns(SMALL, policy, cells, Identity(3).dense())
    real = brute.true_loss(SMALL, policy, policy.constraints, found, np.ones(3, dtype=np.int64), 4)
    assert certify(identity(3), cells.graph).epsilon == real == 4
    assert certify(identity(3), compile_cells(SMALL, Policy(), ["x"]).graph).epsilon == 2 < real


def test_calibrated_and_rescaled_plans_include_the_constraints() -> None:
    graph = graph_of(SMALL, "marginal(y)", axes=["x"])
    plan, certificate = calibrate(identity(3), graph, Fraction(1, 2))
    assert (plan.unit, certificate.epsilon) == (8, Fraction(1, 2))
    assert "2 records change together" in certificate.constraint_note and "atoms" in certificate.constraint_note
    again, proof = rescaled(plan, certificate, Fraction(1, 4))
    proof.verify(again, graph)
    assert again.unit == 16 and proof.constraint_note == certificate.constraint_note
    assert (
        "Graver bound"
        in certify(identity(3), graph_of(SMALL, "marginal(y)", "count(x < 1)", axes=["x"])).constraint_note
    )


def test_what_the_constraints_tell_is_exact_and_free_and_nothing_else_is() -> None:
    told = graph_of(SMALL, "marginal(y)", axes=["y"])
    exact = Plan(ONE, (), Identity(2))
    proof = certify(exact, told)
    assert proof.epsilon == 0 and "follow from what is public" in proof.constraint_note
    assert (
        certify(
            Plan(ONE, (), Sparse(np.ones((1, 3), dtype=np.int64))), graph_of(SMALL, "marginal(y)", axes=["x"])
        ).epsilon
        == 0
    )
    # Blocks of a partition are exact without constraints; under one that an edge changes, a record may leave its block.
    blocks = Policy({"x": bf.partition(cuts=[1])})
    rows = Plan(ONE, (), Sparse(np.array([[1, 0, 0], [0, 1, 1]])))
    assert certify(rows, graph_of(SMALL, axes=["x"], policy=blocks)).epsilon == 0
    bound = Policy({"x": bf.partition(cuts=[1])}, constraints=["marginal(y)"])
    with pytest.raises(InfiniteLoss):
        certify(rows, graph_of(SMALL, axes=["x"], policy=bound))
    with pytest.raises(InfiniteLoss):
        certify(exact, graph_of(SMALL, "count(x < 1)", axes=["y"]))
    with pytest.raises(InfiniteLoss):
        certify(exact, graph_of(SMALL, axes=["y"], policy=Policy(presence="secret", constraints=["rows"])))


def test_groups_too_large_to_list_are_bounded_by_their_column_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(SMALL, "marginal(y)", axes=["x", "y"])
    plan = Plan(ONE, (Measurement(Sparse(np.array([[3, 1, 0, 0, 1, 0], [0, 0, 2, 0, 0, 1]])), np.array([1, 2])),))
    exact = certify(plan, graph)
    monkeypatch.setattr(certificate, "LISTED_PAIRS", 0)
    bound = certify(plan, graph)
    assert exact.epsilon <= bound.epsilon <= 2 * exact.epsilon
    assert not bound.is_tight
    leaving = compile_cells(LINE, Policy(constraints=["range(v, 0, 0)"]), ["v"], col("v").isin([0, 1])).graph
    assert certify(identity(2), leaving).epsilon == 1
    monkeypatch.setattr(certificate, "LISTED_PAIRS", 10**6)
    assert certify(identity(2), leaving).epsilon == 1
    monkeypatch.setattr(loss, "ENTRIES", 0)
    assert certify(plan, graph).epsilon == bound.epsilon


def test_long_axes_are_swept_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    age = bf.domain({"v": bf.integers(0, 39, null=0)})
    graphs = [
        graph_of(age, "count(v < 7)", "count(v < 20)", axes=["v"]),
        compile_cells(age, Policy(constraints=["count(v < 7)"]), ["v"], col("v") < 30).graph,
    ]
    for graph in graphs:
        size = graph.cells
        weights = np.arange(1, 4)
        spans = Intervals(size, np.array([0, 3, 5]), np.array([6, 25, size]))
        plan = Plan(ONE, (Measurement(Prefix(size), np.array(2)), Measurement(spans, weights)))
        exact = certify(plan, graph)
        monkeypatch.setattr(certificate, "LISTED_PAIRS", 0)
        assert certify(plan, graph) == exact
        monkeypatch.setattr(certificate, "SWEPT_GROUPS", 0)
        assert certify(plan, graph).epsilon >= exact.epsilon
        monkeypatch.undo()
    odd = graph_of(age, "count(v in (1, 5))", axes=["v"])
    listed = certify(identity(40), odd).epsilon
    monkeypatch.setattr(certificate, "LISTED_PAIRS", 0)
    assert certify(identity(40), odd).epsilon >= listed


def test_edge_noise_is_paid_for_every_move() -> None:
    graph = graph_of(SMALL, "marginal(y)", axes=["x", "y"])
    plan = MECHANISMS["edge-transform"](Problem(graph, Identity(6))).plan(ONE)
    assert isinstance(plan, EdgePlan)
    single = CellGraph(graph.factors, "record", graph.outside, "public")
    assert certify(plan, graph).epsilon == 2 * certify(plan, single).epsilon > 0
    apart = compile_cells(SMALL, Policy({"x": bf.line()}), ["x"]).graph
    short = MECHANISMS["edge-transform"](Problem(apart, Prefix(3))).plan(ONE)
    if isinstance(short, EdgePlan):
        with pytest.raises(CannotCertify):
            certify(short, graph_of(SMALL, "marginal(y)", axes=["x"]))


def test_a_selection_costs_as_much_for_every_record_that_changes() -> None:
    noise = SelectionNoise(ONE, np.array([1]), np.array([1]), np.array([4]), one_sided=True)
    plain = noise.epsilon(graph_of(SMALL, axes=["x"], policy=Policy()))
    assert noise.epsilon(graph_of(SMALL, "marginal(y)", axes=["x"])) == 2 * plain
    assert noise.epsilon(graph_of(SMALL, "marginal(y)", "count(x < 1)", axes=["x"])) == 4 * plain
    assert noise.epsilon(graph_of(SMALL, axes=["x"], policy=Policy(presence="only", constraints=["rows"]))) == plain


def test_buckets_of_cells_keep_the_constraints() -> None:
    graph = graph_of(SMALL, "marginal(y)", axes=["x", "y"])
    merged = merge_graph(graph, np.array([0, 1, 0, 1, 2, 1]))
    assert merged.constraint_moves is not None and merged.constraint_moves.groups == 1
    assert certify(identity(3), merged).epsilon == 2
    crossed = merge_graph(graph, np.array([0, 0, 1, 1, 2, 2]))
    assert certify(identity(3), crossed).epsilon == 4
    assert merged.digest() != CellGraph(merged.factors, "record", merged.outside, "public", 2).digest()


def test_points_move_as_far_as_they_like_when_constraints_bind() -> None:
    axes = (Axis("v"),)
    near = Policy({"v": bf.line()})
    bound = Policy({"v": bf.line()}, constraints=["range(v, 0, 1)", "range(v, 3, 3)"])
    free, tied = compile_points(LINE, near, axes).graph, compile_points(LINE, bound, axes).graph
    assert (free.rows_per_person, tied.rows_per_person) == (1, 3)
    assert isinstance(tied.factors[0], WindowGraph) and int(tied.factors[0].reach[0]) == 4
    assert tied.digest() != free.digest() and not tied.can_vanish
    assert compile_points(LINE, bound, axes, col("v") < 3).graph.can_vanish
    only = Policy(presence="only", constraints=["rows"])
    assert compile_points(LINE, only, axes).graph.presence == "secret"
    unbound = Policy({"v": bf.partition(cuts=[2])}, constraints=["range(v, 0, 1)"])
    assert compile_points(LINE, unbound, axes).graph.rows_per_person == 1


@pytest.mark.nightly
def test_very_many_atoms_are_counted_and_priced() -> None:
    wide = bf.domain(
        {"a": bf.integers(0, 399, null=0), "b": bf.integers(0, 299, null=0), "c": bf.integers(0, 3, null=0)}
    )
    constraints = ["marginal(a, b)"]
    assert certify(identity(4), graph_of(wide, *constraints, axes=["c"])).epsilon == 2 * 120_000
    by_a = graph_of(wide, *constraints, axes=["a", "c"])
    assert by_a.constraint_moves is not None and by_a.constraint_moves.groups == 400
    assert certify(identity(1600), by_a).epsilon == 2 * 120_000
    everything = graph_of(wide, *constraints, axes=["a", "b", "c"])
    assert everything.constraint_moves is not None and everything.constraint_moves.groups == 120_000
    assert certify(identity(480_000), everything).epsilon == 2 * 120_000
    capped = graph_of(wide, *constraints, "rows = 5", axes=["c"])
    assert certify(identity(4), capped).epsilon == 10
    vast = bf.domain(
        {"a": bf.integers(0, 2**40, null=0), "b": bf.integers(0, 2**40, null=0), "c": bf.integers(0, 3, null=0)}
    )
    with pytest.raises(TooLarge):
        certify(identity(4), graph_of(vast, *constraints, axes=["c"]))
    assert certify(identity(4), graph_of(vast, *constraints, "rows = 1000", axes=["c"])).epsilon == 2000


def test_groups_that_would_list_too_many_cells_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = certify(identity(6), graph_of(SMALL, "marginal(y)", axes=["x", "y"])).epsilon
    monkeypatch.setattr(constraint_graph, "MOST_MEMBERS", 2)
    assert certify(identity(6), graph_of(SMALL, "marginal(y)", axes=["x", "y"])).epsilon >= exact


def test_values_are_checked_when_made() -> None:
    starts, members, zero = np.array([0, 2]), np.array([0, 1]), np.array([False])
    good = ConstraintMoves("atoms", starts, members, zero, np.array([3]), 3)
    axis = WindowGraph(np.array([1, 1]), np.empty(0, dtype=np.int64))
    assert CellGraph((axis,), "record", np.array(False), "public", 3, good).constraint_moves is good
    for make in (
        lambda: ConstraintMoves("atoms", np.array([0, 3]), members, zero, np.array([3]), 3),
        lambda: ConstraintMoves("atoms", starts, members, zero, np.array([3, 1]), 3),
        lambda: ConstraintMoves("atoms", starts, members, zero, np.array([0]), 3),
        lambda: ConstraintMoves("atoms", starts, members, zero, np.array([3]), 0),
        lambda: CellGraph((axis,), "record", np.array(False), "public", 1, good),
        lambda: CellGraph((axis,), "record", np.array(False), "secret", 3, good),
    ):
        with pytest.raises(PolicyError):
            make()
