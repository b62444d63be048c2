"""Product measurements and rows that rise and fall once: the bound covers every edge, and a smaller one would not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.errors import PlanError
from blowfishdb.model.graphs import CellGraph, GridGraph, JointEdges, WindowGraph
from blowfishdb.model.workload import Identity, Kronecker, Sparse
from blowfishdb.plan import certificate
from blowfishdb.plan import loss as level_sets
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.loss import weighted_intervals, worst_product_edge
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan
from tests.effort import effort
from tests.plan.reference import reference_loss

NONE = np.array([], dtype=np.int64)


def window(cells: int, theta: int) -> WindowGraph:
    return WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), NONE)


@st.composite
def graphs(draw: st.DrawFn) -> CellGraph:
    shape = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    places = tuple(np.arange(size) for size in shape)
    joint = GridGraph(
        places, places, draw(st.integers(1, 3)), draw(st.sampled_from(["l1", "l2", "linf"])), (NONE, NONE)
    )
    apart = tuple(window(size, draw(st.integers(0, size))) for size in shape)
    cell = st.integers(0, shape[0] * shape[1] - 1)
    listed = JointEdges(shape[0] * shape[1], np.array(draw(st.lists(st.tuples(cell, cell), max_size=6))), shape)
    factors = draw(st.sampled_from([(joint,), (listed,), apart]))
    return CellGraph(factors, draw(st.sampled_from(["record", "attribute"])), np.array([False]), "public")


@st.composite
def factors_over(draw: st.DrawFn, cells: int) -> Measurement:
    if draw(st.booleans()):
        return Measurement(Identity(cells), np.array([draw(st.integers(1, 5))]))
    entries = draw(st.lists(st.integers(-2, 3), min_size=3 * cells, max_size=3 * cells))
    rows = Sparse(csr_array(np.array(entries, dtype=np.int64).reshape(3, cells)))
    return Measurement(rows, np.array(draw(st.lists(st.integers(1, 4), min_size=3, max_size=3))))


def listed_loss(parts: list[KroneckerMeasurement], graph: CellGraph) -> int:
    """The greatest loss over all neighbouring tables: one record on either end of an edge."""
    edges = graph.value_edges()
    rows = np.concatenate([np.kron(p.factors[0].rows.dense(), p.factors[1].rows.dense()) for p in parts])
    weights = np.concatenate([part.weights for part in parts])
    return int((weights @ np.abs(rows[:, edges[:, 0]] - rows[:, edges[:, 1]])).max(initial=0))


@effort(40)
@given(graphs(), st.data())
def test_the_sum_of_several_products_covers_every_edge(graph: CellGraph, data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 3))
    parts = [KroneckerMeasurement(tuple(data.draw(factors_over(size)) for size in graph.shape)) for _ in range(count)]
    found = worst_product_edge(parts, graph)
    assert listed_loss(parts, graph) <= found.loss <= sum(worst_product_edge([part], graph).loss for part in parts)
    if found.tight:
        assert found.loss == 0


def test_one_moving_attribute_pays_once_and_unlisted_edges_get_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row and column marginals: a move along one axis changes only one of them, so their losses must not be added."""
    one, cells = (Measurement(Sparse(csr_array(np.ones((1, 4), dtype=np.int64))), np.array([1]))), Identity(4)
    each = Measurement(cells, np.array([1]))
    parts = (KroneckerMeasurement((one, each)), KroneckerMeasurement((each, one)))
    for composition, loss in (("attribute", 2), ("record", 4)):
        graph = CellGraph((window(4, 1), window(4, 1)), composition, np.array([False]), "public")
        assert worst_product_edge(parts, graph).loss == loss == listed_loss(list(parts), graph)
        monkeypatch.setattr(certificate, "LISTED_EDGES", 0)
        assert certify(Plan(Fraction(1), parts), graph).epsilon == loss
        monkeypatch.undo()
    still = CellGraph((window(4, 0), window(4, 0)), "record", np.array([False]), "public")
    assert worst_product_edge(parts, still).loss == 0


def test_the_column_norms_bound_what_the_sum_overstates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts that look at different cells: no edge pays for both in full, and twice the largest column shows it."""
    first, last = np.array([[3, 0]]), np.array([[0, 3]])
    each = Measurement(Identity(2), np.array([1]))
    parts = tuple(
        KroneckerMeasurement((Measurement(Sparse(csr_array(rows)), np.array([1])), each)) for rows in (first, last)
    )
    graph = CellGraph((window(2, 1), window(2, 1)), "record", np.array([False]), "public")
    assert worst_product_edge(parts, graph).loss > 6
    monkeypatch.setattr(certificate, "LISTED_EDGES", 0)
    assert certify(Plan(Fraction(1), parts), graph).epsilon == 6 == listed_loss(list(parts), graph)


def test_a_shape_that_does_not_fit_is_refused() -> None:
    graph = CellGraph((window(4, 1), window(2, 1)), "record", np.array([False]), "public")
    each = KroneckerMeasurement((Measurement(Identity(2), np.array([1])), Measurement(Identity(4), np.array([1]))))
    with pytest.raises(PlanError, match="does not fit"):
        worst_product_edge([each], graph)


@st.composite
def hills(draw, cells=9, count=4):
    """Rows that rise, then fall, some of them empty."""
    rows = []
    for _ in range(count):
        peak = draw(st.integers(0, cells))
        values = draw(st.lists(st.integers(0, 5), min_size=cells, max_size=cells))
        rows.append(sorted(values[:peak]) + sorted(values[peak:], reverse=True))
    return np.array(rows)


@effort(40)
@given(hills(), st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_level_sets_add_up_to_the_rows(matrix, weights):
    found = weighted_intervals(Sparse(matrix), np.array(weights))
    assert found is not None
    rows, spread = found
    np.testing.assert_array_equal(rows.dense().T @ spread, matrix.T @ np.array(weights))
    for u in range(9):
        for v in range(9):
            loss = int(np.abs(matrix[:, u] - matrix[:, v]) @ np.array(weights))
            assert loss == int(np.abs(rows.dense()[:, u] - rows.dense()[:, v]) @ spread)


@given(st.lists(st.integers(0, 3), min_size=24, max_size=24))
def test_only_rows_of_one_hill_are_taken_apart(values):
    matrix = np.array(values).reshape(3, 8)
    found = weighted_intervals(Sparse(matrix), np.ones(3, dtype=np.int64))
    steps = [np.sign(np.diff([0, *row, 0])) for row in matrix]
    one_hill = all(list(s[s != 0]) == sorted(s[s != 0], reverse=True) for s in steps)
    assert (found is not None) == one_hill


@given(hills(count=3), st.integers(1, 4))
def test_the_certificate_equals_the_plain_reference(matrix, theta):
    window = WindowGraph(np.minimum(np.arange(9) + theta, 8), np.empty(0, dtype=np.int64))
    graph = CellGraph((window,), "record", np.zeros(9), "public")
    plan = Plan(Fraction(1), (Measurement(Identity(9), np.array(2)), Measurement(Sparse(matrix), np.array([1, 5, 3]))))
    certificate = certify(plan, graph)
    assert certificate.epsilon == reference_loss(plan, graph)
    assert certificate.is_tight


def test_other_rows_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    one = np.ones(1, dtype=np.int64)
    assert weighted_intervals(Sparse(np.array([[0, -1, 0]])), one) is None
    assert weighted_intervals(Sparse(np.array([[2, 0, 2]])), one) is None
    assert weighted_intervals(Kronecker((Identity(2), Identity(2))), np.ones(4, dtype=np.int64)) is None
    monkeypatch.setattr(level_sets, "MOST_LEVELS", 3)
    assert weighted_intervals(Sparse(np.array([[2, 4, 2]])), one) is None


def test_without_a_list_of_edges_the_ranges_of_rows_bound_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as the worst edge of a complete graph for one row; never less, and never more than two columns."""
    graph = CellGraph((window(5, 5), window(2, 2)), "record", np.array([False]), "public")
    other = Measurement(Identity(2), np.array([1]))
    several = np.array([[0, 3, 0, 1, 0], [4, 0, 0, 0, 1], [0, 0, -2, 0, 5]])
    for rows in (np.array([[-3, -1, 0, 1, 4]]), several, several[:, ::-1]):
        part = KroneckerMeasurement((Measurement(Sparse(csr_array(rows)), np.array([1])), other))
        exact = worst_product_edge([part], graph)
        with monkeypatch.context() as patched:
            patched.setattr("blowfishdb.model.graphs.EDGE_LIMIT", 4)
            bound = worst_product_edge([part], graph)
        assert listed_loss([part], graph) <= exact.loss <= bound.loss <= 2 * int(np.abs(rows).sum(axis=0).max())
        assert not bound.tight
        assert rows.shape[0] > 1 or bound.loss == exact.loss
