"""Edge plans: every edge has a column, the decoder is exact, and the loss is what two neighbouring tables can show."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.errors import CannotCertify, PlanError, TooLarge
from blowfishdb.model.graphs import ZERO, CellGraph, EdgeGraph
from blowfishdb.model.workload import AllRanges, Identity, Prefix, Rows, Sparse
from blowfishdb.plan.certificate import calibrate, certify
from blowfishdb.plan.plan import EdgePlan
from tests.effort import effort
from tests.plan.cases import axis_cases, graph_cases, grid_cases
from tests.plan.test_certificate import line


def incidence(edges: np.ndarray, cells: int) -> np.ndarray:
    matrix = np.zeros((cells, len(edges)), dtype=np.int64)
    for column, (u, v) in enumerate(edges):
        matrix[u, column] += 1
        if v != ZERO:
            matrix[v, column] -= 1
    return matrix


def plain_edge_plan(edges: np.ndarray, workload: Sparse, weights: np.ndarray) -> EdgePlan:
    decoder = workload.dense() @ incidence(edges, workload.shape[1])
    strategy = csr_array(np.eye(len(edges), dtype=np.int64))
    return EdgePlan(Fraction(1), workload, edges, strategy, csr_array(decoder), weights)


@pytest.mark.no_cover
@effort(80)
@given(st.data())
def test_with_one_noise_variable_per_edge_the_loss_is_the_heaviest_weight(data: st.DataObject) -> None:
    case = data.draw(st.one_of(graph_cases(axis_cases), graph_cases(grid_cases(), most=1)))
    edges, cells = case.graph.edges(), case.graph.cells
    rows = data.draw(st.lists(st.lists(st.integers(-2, 2), min_size=cells, max_size=cells), min_size=1, max_size=3))
    weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(edges), max_size=len(edges))), dtype=np.int64)
    plan = plain_edge_plan(edges, Sparse(np.array(rows, dtype=np.int64)), weights)
    assert certify(plan, case.graph).epsilon == (weights.max() if len(edges) else 0)


@effort(100)
@given(st.data())
def test_moving_along_an_edge_is_a_shift_of_the_noise_by_one_column(data: st.DataObject) -> None:
    """The proof in numbers: answers on the two tables differ by decoder @ column, so shifting the noise hides it."""
    case = data.draw(graph_cases(axis_cases, most=1).filter(lambda c: len(c.edges) > 0))
    edges, cells = case.graph.edges(), case.graph.cells
    workload = Sparse(np.tril(np.ones((cells, cells), dtype=np.int64)))
    mix = np.vstack([np.eye(len(edges), dtype=np.int64), np.ones((1, len(edges)), dtype=np.int64)])
    plain = workload.dense() @ incidence(edges, cells)
    decoder = np.hstack([plain, np.zeros((cells, 1), dtype=np.int64)])
    weights = np.array([*[2] * len(edges), 3])
    plan = EdgePlan(Fraction(1), workload, edges, csr_array(mix), csr_array(decoder), weights)
    assert certify(plan, case.graph).epsilon == 5
    for column, (u, v) in enumerate(edges):
        before, after = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
        before[u] += 1
        if v != ZERO:
            after[v] += 1
        assert np.array_equal(workload.dot(before) - workload.dot(after), decoder @ mix[:, column])
        assert int(weights @ np.abs(mix[:, column])) == 5


def test_a_missing_edge_is_refused() -> None:
    graph = line(6, theta=2)
    edges = graph.edges()
    plan = plain_edge_plan(edges[:-1], Sparse(Prefix(6).dense()), np.ones(len(edges) - 1, dtype=np.int64))
    with pytest.raises(CannotCertify, match="leaves out an edge"):
        certify(plan, graph)


def test_a_decoder_that_is_wrong_on_one_edge_is_refused() -> None:
    graph = line(6)
    good = plain_edge_plan(graph.edges(), Sparse(Prefix(6).dense()), np.ones(5, dtype=np.int64))
    scaled, proof = calibrate(good, graph, Fraction(1, 2))
    assert (scaled.unit, proof.epsilon) == (2, Fraction(1, 2))
    wrong = good.decoder.toarray()
    wrong[3, 2] += 1
    bad = EdgePlan(good.unit, good.workload, good.edges, good.strategy, csr_array(wrong), good.weights)
    with pytest.raises(CannotCertify, match="does not reproduce"):
        certify(bad, graph)


def test_shapes_and_numbers_are_checked() -> None:
    edges, one = np.array([[0, 1]]), csr_array(np.array([[1]]))
    decoder, weights = csr_array(np.array([[1], [0]])), np.array([1])
    rows = Identity(2)
    for bad in (
        lambda: EdgePlan(Fraction(0), rows, edges, one, decoder, weights),
        lambda: EdgePlan(Fraction(1), rows, edges.reshape(-1), one, decoder, weights),
        lambda: EdgePlan(Fraction(1), rows, edges, csr_array(np.ones((1, 2), dtype=np.int64)), decoder, weights),
        lambda: EdgePlan(Fraction(1), rows, edges, one, csr_array(np.array([[1]])), weights),
        lambda: EdgePlan(Fraction(1), rows, edges, one, decoder, np.array([0])),
        lambda: EdgePlan(Fraction(1), rows, edges, csr_array(np.array([[1.0]])), decoder, weights),
    ):
        with pytest.raises(PlanError):
            bad()


def test_overflow_is_refused() -> None:
    edges, rows = np.array([[0, 1]]), Identity(2)
    huge = csr_array(np.array([[2**40]]))
    plan = EdgePlan(Fraction(1), rows, edges, huge, csr_array(np.array([[2**40], [0]])), np.array([1]))
    with pytest.raises(TooLarge):
        certify(plan, line(2))


@pytest.mark.parametrize(
    "workload", [Identity(5), Prefix(5), AllRanges(5), Sparse(np.tril(np.ones((5, 5), dtype=np.int64)))]
)
def test_decoders_of_every_kind_of_workload_are_checked(workload: Rows) -> None:
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    graph = CellGraph((EdgeGraph(5, edges),), "record", np.array(False), "public")
    decoder = workload.dense() @ incidence(edges, 5)
    identity = csr_array(np.eye(4, dtype=np.int64))
    plan = EdgePlan(Fraction(1), workload, edges, identity, csr_array(decoder), np.ones(4, dtype=np.int64))
    assert certify(plan, graph).epsilon == 1
    wrong = decoder.copy()
    wrong[0, 3] += 1
    with pytest.raises(CannotCertify, match="decoder"):
        certify(replace(plan, decoder=csr_array(wrong)), graph)
