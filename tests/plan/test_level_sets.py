"""Rows that rise and fall once lose exactly what their level sets lose."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import Identity, Kronecker, Sparse
from blowfishdb.plan import loss as level_sets
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.loss import weighted_intervals
from blowfishdb.plan.plan import Measurement, Plan
from tests.plan.reference import reference_loss


@st.composite
def hills(draw, cells=9, count=4):
    """Rows that rise, then fall, some of them empty."""
    rows = []
    for _ in range(count):
        peak = draw(st.integers(0, cells))
        values = draw(st.lists(st.integers(0, 5), min_size=cells, max_size=cells))
        rows.append(sorted(values[:peak]) + sorted(values[peak:], reverse=True))
    return np.array(rows)


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
