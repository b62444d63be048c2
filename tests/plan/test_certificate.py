"""The certificate equals brute force: over all edges, over all neighbouring tables, by every route it can take."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import ModuleType

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csc_array

from blowfishdb.errors import CannotCertify, DigestMismatch, PlanError, TooLarge
from blowfishdb.model.graphs import ZERO, CellGraph, CliqueGraph, EdgeGraph, WindowGraph
from blowfishdb.model.workload import Identity, Intervals, Kronecker, Prefix, Rectangles, Stacked, as_intervals, total
from blowfishdb.plan import certificate, kernels, loss
from blowfishdb.plan.certificate import Certificate, calibrate, certify, worst_edge
from blowfishdb.plan.loss import column_losses
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan
from tests.effort import effort
from tests.plan.cases import (
    NONE,
    GraphCase,
    axis_cases,
    graph_cases,
    grid_cases,
    measurements,
    plans,
    window_cases,
)
from tests.plan.reference import reference_loss

any_graph = st.one_of(graph_cases(axis_cases), graph_cases(grid_cases(), most=1))


def dense_rows(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    rows = []
    for part in plan.parts:
        rows.append(Kronecker(tuple(f.rows for f in part.factors)) if hasattr(part, "factors") else part.rows)
    return np.vstack([r.dense() for r in rows]), plan.weights


def loss_over_neighbouring_tables(plan: Plan, case: GraphCase, records: int) -> int:
    """The largest weighted L1 distance between the measured rows of two tables that differ by one hidden move."""
    matrix, weights = dense_rows(plan)
    worst = 0
    for table in itertools.product(range(case.graph.cells), repeat=records - 1):
        rest = np.bincount(np.array(table, dtype=np.int64), minlength=case.graph.cells)
        for u, v in case.edges:
            before, after = rest.copy(), rest.copy()
            before[u] += 1
            if v != ZERO:
                after[v] += 1
            worst = max(worst, int(weights @ np.abs(matrix @ before - matrix @ after)))
    return worst


def line(cells: int, theta: int = 1, outside: bool = False) -> CellGraph:
    graph = WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), NONE)
    return CellGraph((graph,), "record", np.array(outside), "public")


@pytest.mark.no_cover
@effort(160)
@given(st.data())
def test_equals_brute_force_over_all_neighbouring_tables(data: st.DataObject) -> None:
    case = data.draw(any_graph)
    plan = data.draw(plans(case.graph))
    found = certify(plan, case.graph)
    records = 2 if case.graph.cells <= 6 else 1
    assert found.epsilon * plan.unit == loss_over_neighbouring_tables(plan, case, records)
    assert found.epsilon * plan.unit == reference_loss(plan, case.graph)
    assert found.is_tight


@pytest.mark.no_cover
@effort(120)
@given(st.data())
def test_the_witness_attains_the_loss(data: st.DataObject) -> None:
    case = data.draw(any_graph)
    plan = data.draw(plans(case.graph))
    found = certify(plan, case.graph)
    if found.epsilon == 0:
        return
    matrix, weights = dense_rows(plan)
    assert found.witness in case.edges
    u, v = found.witness
    other = np.zeros(matrix.shape[0]) if v == ZERO else matrix[:, v]
    assert found.epsilon * plan.unit == int(weights @ np.abs(matrix[:, u] - other))


@pytest.mark.no_cover
@effort(160)
@given(st.data())
def test_the_compiled_sweep_equals_the_reference(data: st.DataObject) -> None:
    case = data.draw(graph_cases(window_cases(largest=12), most=1))
    size = case.graph.cells
    plan = Plan(Fraction(1), tuple(data.draw(st.lists(measurements(size, zero_one=True), min_size=1, max_size=3))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "TABLE_CELLS", 0)
        found = worst_edge(plan, case.graph)
    assert found.loss == reference_loss(plan, case.graph)
    if found.edge is not None:
        assert found.edge in case.edges
        assert worst_edge(plan, case.graph).loss == found.loss


@effort(80)
@given(st.data())
def test_the_walk_over_cells_finds_the_edge_that_a_list_of_edges_gives(data: st.DataObject) -> None:
    case = data.draw(graph_cases(window_cases(largest=12), most=1))
    (graph,), measured = case.graph.factors, data.draw(measurements(case.graph.cells, zero_one=True))
    spans = as_intervals(measured.rows)
    assume(isinstance(graph, WindowGraph) and spans is not None)
    edges = graph.edges()
    listed = loss.worst_of(loss.column_losses(loss.sparse_columns(measured.rows), measured.weights, edges), edges)
    assert loss.worst_axis_edge(spans, measured.weights, graph) == listed


@effort(80)
@given(st.data())
def test_rows_of_one_cell_each_lose_the_weights_of_both_ends(data: st.DataObject) -> None:
    cells = data.draw(st.integers(2, 9))
    low = np.array(data.draw(st.lists(st.integers(0, cells - 1), min_size=1, max_size=12)))
    high = low + np.array(data.draw(st.lists(st.integers(0, 1), min_size=low.size, max_size=low.size)))
    weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=low.size, max_size=low.size)))
    part = Measurement(Intervals(cells, low, high), weights)
    edges = np.array(list(itertools.combinations(range(cells), 2)))
    expected = column_losses(loss.sparse_columns(part.rows), weights, edges)
    assert loss.listed_losses(Plan(Fraction(1), (part,)), edges).tolist() == expected.tolist()


def test_a_row_over_two_cells_is_not_taken_for_one_of_each() -> None:
    part = Measurement(Intervals(3, np.array([0, 1]), np.array([2, 2])), np.array([3, 5]))
    assert loss.listed_losses(Plan(Fraction(1), (part,)), np.array([[0, 1], [1, 2]])).tolist() == [5, 8]


@pytest.mark.no_cover
@effort(160)
@given(st.data())
def test_two_cells_that_share_nothing_are_the_edge_that_the_sweep_finds(data: st.DataObject) -> None:
    case = data.draw(graph_cases(window_cases(largest=12), most=1))
    (graph,), size = case.graph.factors, case.graph.cells
    assume(isinstance(graph, WindowGraph))
    low = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=5)))
    high = np.minimum(low + data.draw(st.integers(1, 4)), size)
    spans, weights = Intervals(size, low, high), np.ones_like(low)
    over = loss.cover(spans, weights)
    apart = loss._apart(spans, weights, over, graph)
    assert apart is None or apart == loss._swept(spans, weights, over, graph)


@pytest.mark.no_cover
@effort(80)
@given(st.data())
def test_of_intervals_from_the_first_cell_on_the_edge_is_the_one_that_the_sweep_finds(data: st.DataObject) -> None:
    case = data.draw(graph_cases(window_cases(largest=12), most=1))
    (graph,), size = case.graph.factors, case.graph.cells
    assume(isinstance(graph, WindowGraph))
    high = np.array(data.draw(st.lists(st.integers(0, size), min_size=1, max_size=9)))
    spans, weights = Intervals(size, np.zeros_like(high), high), np.arange(1, high.size + 1)
    over = loss.cover(spans, weights)
    assert loss._nested(over, graph) == loss._swept(spans, weights, over, graph)


@effort(80)
@given(st.data())
def test_the_kernel_as_plain_python_equals_the_reference(data: st.DataObject) -> None:
    """The same source, not compiled: the test that reads every line of the kernel."""
    case = data.draw(graph_cases(window_cases(largest=9), most=1))
    plan = Plan(Fraction(1), (data.draw(measurements(case.graph.cells, zero_one=True)),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "TABLE_CELLS", 0)
        patch.setitem(sys.modules, "blowfishdb.plan.kernels", plain_kernel())
        # Else most of these cases would need no sweep.
        patch.setattr(loss, "_apart", lambda *_: None)
        assert worst_edge(plan, case.graph).loss == reference_loss(plan, case.graph)


@pytest.mark.parametrize("reach", [3, 6, 15])
def test_the_kernel_as_plain_python_finds_the_edge_in_wide_windows(reach: int) -> None:
    low, high, weights = np.array([0, 1, 2, 5, 9]), np.array([3, 7, 9, 16, 12]), np.array([3, 1, 2, 1, 4])
    spans, cells = Intervals(16, low, high), np.arange(16)
    graph, over = WindowGraph(np.minimum(cells + reach, 15), np.arange(0)), loss.cover(spans, weights)
    covers = (low <= cells[:, None]) & (cells[:, None] < high)
    pairs = [(first, last) for first in range(16) for last in range(first + 1, min(first + reach, 15) + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "blowfishdb.plan.kernels", plain_kernel())
        worst = loss._swept(spans, weights, over, graph)
    assert worst.edge in pairs
    assert worst.loss == max(int(weights[covers[first] ^ covers[last]].sum()) for first, last in pairs)


@cache
def plain_kernel() -> ModuleType:
    stub = ModuleType("numba")
    stub.njit = lambda cache: lambda function: function  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("plain_kernel", kernels.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numba", stub)
        spec.loader.exec_module(module)
    return module


@pytest.mark.no_cover
@effort(120)
@given(st.data())
def test_bounds_without_listing_are_never_below_the_truth(data: st.DataObject) -> None:
    case = data.draw(any_graph)
    plan = data.draw(plans(case.graph))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate, "LISTED_EDGES", -1)
        patch.setattr(loss, "TABLE_CELLS", 0)
        found = worst_edge(plan, case.graph)
    truth = reference_loss(plan, case.graph)
    assert found.loss == truth if found.tight else found.loss >= truth


@pytest.mark.no_cover
@effort(120)
@given(st.data())
def test_product_formula_is_exact_for_level_zero_one_axes(data: st.DataObject) -> None:
    """Strong product, 0/1 rows, level column norms: 2 [prod D - prod (D - F/2)] is attained."""
    case = data.draw(graph_cases(axis_cases, most=3).filter(lambda c: len(c.graph.shape) > 1))
    weights = [data.draw(st.integers(1, 5)) for _ in case.graph.shape]
    factors = tuple(Measurement(Identity(n), np.full(n, w)) for n, w in zip(case.graph.shape, weights, strict=True))
    plan = Plan(Fraction(1), (KroneckerMeasurement(factors),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate, "LISTED_EDGES", -1)
        found = worst_edge(plan, case.graph)
    assert found.loss == reference_loss(plan, case.graph)
    assert found.edge is None or found.edge in case.edges


@effort(60)
@given(st.data())
def test_calibrate_spends_exactly_epsilon(data: st.DataObject) -> None:
    case = data.draw(any_graph)
    plan = data.draw(plans(case.graph))
    epsilon = Fraction(data.draw(st.integers(1, 50)), data.draw(st.integers(1, 50)))
    if reference_loss(plan, case.graph) == 0:
        with pytest.raises(CannotCertify):
            calibrate(plan, case.graph, epsilon)
        return
    scaled, proof = calibrate(plan, case.graph, epsilon)
    assert proof.epsilon == epsilon == certify(scaled, case.graph).epsilon
    proof.verify(scaled, case.graph)
    thinner = scaled.with_unit(scaled.unit * Fraction(9, 10))
    assert certify(thinner, case.graph).epsilon > epsilon
    with pytest.raises(DigestMismatch):
        proof.verify(thinner, case.graph)


def test_forgetting_the_outside_cell_understates_the_loss() -> None:
    plan = Plan(Fraction(1), (Measurement(Prefix(6), np.ones(6, dtype=np.int64)),))
    assert certify(plan, line(6)).epsilon == 1
    assert certify(plan, line(6, outside=True)).epsilon == 6


def test_rows_per_person_multiply_the_loss() -> None:
    single = line(6)
    five = CellGraph(single.factors, "record", np.array(False), "public", rows_per_person=5)
    plan = Plan(Fraction(1), (Measurement(Identity(6), np.array(1)),))
    assert certify(plan, five).epsilon == 5 * certify(plan, single).epsilon == 10


def test_large_cliques_are_bounded_and_say_so() -> None:
    graph = CellGraph((CliqueGraph(np.arange(3000) % 2),), "record", np.array(False), "public")
    found = certify(Plan(Fraction(1), (Measurement(Identity(3000), np.array(7)),)), graph)
    assert (found.epsilon, found.is_tight, found.witness) == (14, False, None)
    public = CellGraph((CliqueGraph(np.arange(3000)),), "record", np.array(False), "public")
    assert certify(Plan(Fraction(1), (Measurement(Identity(3000), np.array(7)),)), public).epsilon == 0


def test_rows_too_large_to_write_out_are_bounded() -> None:
    """Prefixes over a product of two axes are no product: with the entries capped only the bound is left."""
    grid = CellGraph((line(40).factors[0], line(30).factors[0]), "record", np.array(False), "public")
    plan = Plan(Fraction(1), (Measurement(Prefix(1200), np.array(1)),))
    exact = worst_edge(plan, grid)
    assert (exact.loss, exact.tight) == (31, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "TABLE_CELLS", 0)
        patch.setattr(loss, "TABLE_CELLS", 0)
        assert worst_edge(plan, grid) == exact
        patch.setattr(loss, "ENTRIES", 1000)
        bound = worst_edge(plan, grid)
    assert (bound.loss, bound.tight, bound.edge) == (2400, False, None)


def test_unions_and_boxes_are_measured_too() -> None:
    grid = CellGraph((line(4).factors[0], line(3).factors[0]), "record", np.array(False), "public")
    boxes = Rectangles((4, 3), np.array([[0, 0], [1, 1]]), np.array([[2, 3], [3, 2]]))
    union = Stacked((Kronecker((Identity(4), total(3))), boxes))
    plan = Plan(Fraction(1), (Measurement(union, np.array([1, 2, 3, 4, 5, 6])),))
    assert worst_edge(plan, grid).loss == reference_loss(plan, grid)


def test_hubs_beyond_the_table() -> None:
    cells = 2000
    reach = np.concatenate([np.minimum(np.arange(cells - 1) + 1, cells - 2), [cells - 1]])
    graph = CellGraph((WindowGraph(reach, np.array([cells - 1])),), "record", np.array(False), "public")
    low, high = np.array([0, 10, 1500]), np.array([1990, 20, 2000])
    plan = Plan(Fraction(1), (Measurement(Intervals(cells, low, high), np.array([2, 3, 50])),))
    found = certify(plan, graph)
    assert found.epsilon == 2 + 3 + 50
    assert found.witness == (10, cells - 1)


@pytest.mark.parametrize("theta", [1, 7, 300, 5000])
def test_sweep_at_scale_agrees_with_direct_evaluation_of_its_witness(theta: int) -> None:
    cells, rng = 5000, np.random.default_rng(theta)
    low = rng.integers(0, cells, 4000)
    high = np.minimum(cells, low + 1 + rng.integers(0, 600, 4000))
    weights = rng.integers(1, 50, 4000)
    found = worst_edge(Plan(Fraction(1), (Measurement(Intervals(cells, low, high), weights),)), line(cells, theta))
    assert found.edge is not None
    u, v = found.edge
    inside_u, inside_v = (low <= u) & (u < high), (low <= v) & (v < high)
    assert found.loss == int(weights[inside_u != inside_v].sum())
    assert 0 < v - u <= theta
    for _ in range(200):
        a = int(rng.integers(0, cells - 1))
        b = min(cells - 1, a + int(rng.integers(1, theta + 1)))
        separated = ((low <= a) & (a < high)) != ((low <= b) & (b < high))
        assert int(weights[separated].sum()) <= found.loss


def test_long_axes_of_running_sums_and_without_moves() -> None:
    cells = 1500
    running = Plan(Fraction(1), (Measurement(Prefix(cells), np.ones(cells, dtype=np.int64)),))
    assert worst_edge(running, line(cells, 7)) == loss.WorstEdge(7, (0, 7))
    alone = WindowGraph(np.arange(cells), np.empty(0, dtype=np.int64))
    spans = Intervals(cells, np.array([3, 5]), np.array([9, 1200]))
    for intervals in (spans, Intervals(cells, np.array([0]), np.array([4]))):
        assert loss.worst_axis_edge(intervals, np.ones(intervals.low.size, dtype=np.int64), alone) == loss.NO_EDGE


def test_overflow_is_refused_not_wrapped() -> None:
    heavy = np.full(6, 2**58)
    with pytest.raises(TooLarge):
        certify(Plan(Fraction(1), (Measurement(Prefix(6), heavy),)), line(6))
    axes = tuple(Measurement(Identity(4), np.array(2**40)) for _ in range(2))
    with pytest.raises(TooLarge):
        KroneckerMeasurement(axes)
    edge, entries = np.array([[0, 1]]), csc_array(np.array([[2**32, 0]]))
    assert column_losses(entries, np.array([2**27]), edge).tolist() == [2**59]
    with pytest.raises(TooLarge):
        column_losses(entries, np.array([2**32]), edge)


def test_a_plan_over_other_cells_is_refused() -> None:
    with pytest.raises(PlanError):
        certify(Plan(Fraction(1), (Measurement(Identity(5), np.array(1)),)), line(6))
    grid = CellGraph((line(2).factors[0], line(6).factors[0]), "record", np.array(False), "public")
    product = KroneckerMeasurement(tuple(Measurement(Identity(n), np.array(1)) for n in (3, 4)))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PlanError):
        patch.setattr(certificate, "LISTED_EDGES", -1)
        certify(Plan(Fraction(1), (product,)), grid)


def test_epsilon_must_be_a_positive_fraction() -> None:
    plan = Plan(Fraction(1), (Measurement(Identity(6), np.array(1)),))
    for bad in (Fraction(0), Fraction(-1), 0.1):
        with pytest.raises(PlanError):
            calibrate(plan, line(6), bad)  # type: ignore[arg-type]


def test_certificates_are_plain_values() -> None:
    plan = Plan(Fraction(1), (Measurement(Identity(6), np.array(1)),))
    assert certify(plan, line(6)) == certify(plan, line(6))
    assert certify(plan, line(6)) != certify(plan, line(6, theta=2))
    assert isinstance(certify(plan, line(6)), Certificate)


def test_a_certificate_is_verified_from_what_came_with_it() -> None:
    plan = Plan(Fraction(4), (Measurement(Identity(3), np.ones(1, dtype=np.int64)),))
    graph = CellGraph((CliqueGraph(np.zeros(3, dtype=np.int64)),), "record", np.array(False), "public")
    sound = certify(plan, graph)
    sound.verify(plan, graph)
    with pytest.raises(DigestMismatch, match="nothing came"):
        sound.verify()
    replace(sound, again=lambda: certify(plan, graph)).verify()
    assert replace(sound, again=lambda: certify(plan, graph)) == sound
    with pytest.raises(DigestMismatch, match="does not belong"):
        replace(sound, again=lambda: replace(sound, epsilon=Fraction(1, 100))).verify()
    with pytest.raises(DigestMismatch, match="give the plan and the graph"):
        replace(sound, again=lambda: sound).verify(plan)


@pytest.mark.parametrize("limit", ["LONG_EDGES", "ENTRIES"])
def test_long_axes_without_windows_are_exact_up_to_many_edges(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 1,100 cells is joined to the second next: two running sums differ where a bound says twice all."""
    cells = loss.TABLE_CELLS + 76
    graph = CellGraph(
        (EdgeGraph(cells, np.stack([np.arange(cells - 2), np.arange(2, cells)], axis=1)),),
        "record",
        np.array(False),
        "public",
    )
    plan = Plan(Fraction(1), (Measurement(Prefix(cells), np.ones(1, dtype=np.int64)),))
    assert (certify(plan, graph).epsilon, certify(plan, graph).is_tight) == (2, True)
    monkeypatch.setattr(loss, limit, 1)
    assert (certify(plan, graph).epsilon, certify(plan, graph).is_tight) == (2 * cells, False)


def test_earlier_certificates_with_larger_bounds_still_hold() -> None:
    """What they say of privacy is true; what claims to be attained must be, and less than the loss is never enough."""
    plan = Plan(Fraction(1), (Measurement(Identity(6), np.array(1)),))
    graph = replace(line(6), is_exact=False)
    proof = certify(plan, graph)
    assert not proof.is_tight
    for held in (proof, replace(proof, is_tight=True), replace(proof, epsilon=2 * proof.epsilon, witness=None)):
        held.verify(plan, graph)
    for wrong in (
        replace(proof, epsilon=2 * proof.epsilon, is_tight=True),
        replace(proof, epsilon=proof.epsilon / 2),
        replace(proof, graph_digest="0" * 64),
    ):
        with pytest.raises(DigestMismatch):
            wrong.verify(plan, graph)
