"""Exact rows are allowed exactly when no hidden move can change them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blowfishdb.errors import InfiniteLoss
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.workload import Identity, Sparse, total
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from tests.plan.cases import axis_cases, graph_cases, grid_cases
from tests.plan.test_certificate import line


@settings(max_examples=300)
@given(st.data())
def test_allowed_exactly_when_no_edge_changes_the_row(data: st.DataObject) -> None:
    case = data.draw(st.one_of(graph_cases(axis_cases), graph_cases(grid_cases(), most=1)))
    row = np.array(data.draw(st.lists(st.integers(0, 1), min_size=case.graph.cells, max_size=case.graph.cells)))
    changed = any(row[u] != (0 if v == ZERO else row[v]) for u, v in case.edges)
    plan = Plan(Fraction(1), (), exact=Sparse(row.reshape(1, -1)))
    if changed:
        with pytest.raises(InfiniteLoss):
            certify(plan, case.graph)
    else:
        assert certify(plan, case.graph).epsilon == 0


def test_the_total_is_exact_until_a_filter_or_absence_can_change_it() -> None:
    plan = Plan(Fraction(1), (Measurement(Identity(6), np.array(1)),), exact=total(6))
    assert certify(plan, line(6)).epsilon == 2
    with pytest.raises(InfiniteLoss):
        certify(plan, line(6, outside=True))
