"""Plans: what makes no sense or tells hidden moves exactly is refused, digests differ, noise levels rescale."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blowfishdb.errors import DigestMismatch, InfiniteLoss, PlanError
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.workload import Identity, Prefix, Sparse, total
from blowfishdb.plan.certificate import certify, rescaled, worst_edge
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem
from tests.effort import effort
from tests.plan.cases import axis_cases, graph_cases, grid_cases, plans
from tests.plan.test_certificate import line

CELLS = Measurement(Identity(4), np.array(1))


def test_bad_plans_are_refused() -> None:
    for bad in (
        lambda: Measurement(Identity(4), np.array([1, 1, 0, 1])),
        lambda: Measurement(Identity(4), np.array(-2)),
        lambda: KroneckerMeasurement(()),
        lambda: Plan(Fraction(0), (CELLS,)),
        lambda: Plan(Fraction(-1), (CELLS,)),
        lambda: Plan(0.5, (CELLS,)),  # type: ignore[arg-type]
        lambda: Plan(Fraction(1), ()),
        lambda: Plan(Fraction(1), (CELLS, Measurement(Identity(5), np.array(1)))),
        lambda: Problem(line(4), Identity(5)),
    ):
        with pytest.raises(PlanError):
            bad()


def test_a_measurement_without_rows_is_refused() -> None:
    from blowfishdb.model.workload import Intervals

    none = np.array([], dtype=np.int64)
    with pytest.raises(PlanError):
        Measurement(Intervals(4, none, none), none)
    with pytest.raises(PlanError):
        Problem(line(4), Intervals(4, none, none))


def test_digests_cover_rows_weights_unit_and_exact_rows() -> None:
    plans = [
        Plan(Fraction(1), (CELLS,)),
        Plan(Fraction(2), (CELLS,)),
        Plan(Fraction(1), (Measurement(Identity(4), np.array(2)),)),
        Plan(Fraction(1), (Measurement(Prefix(4), np.array(1)),)),
        Plan(Fraction(1), (CELLS,), exact=total(4)),
        Plan(Fraction(1), (), exact=total(4)),
        Plan(Fraction(1), (KroneckerMeasurement((Measurement(Identity(2), np.array(1)),) * 2),)),
    ]
    assert len({plan.digest() for plan in plans}) == len(plans)
    assert plans[0].digest() == Plan(Fraction(1), (Measurement(Identity(4), np.ones(4, dtype=np.int64)),)).digest()
    assert Problem(line(4), Identity(4)).digest() != Problem(line(4), Prefix(4)).digest()


@pytest.mark.no_cover
@effort(120)
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


@effort(40)
@given(st.data(), st.fractions(min_value=Fraction(1, 1000), max_value=1000))
def test_equals_a_new_certificate(data, epsilon):
    graph = data.draw(graph_cases(axis_cases)).graph
    plan = data.draw(plans(graph))
    assume(worst_edge(plan, graph).loss > 0)
    scaled, certificate = rescaled(plan, certify(plan, graph), epsilon)
    assert certificate == certify(scaled, graph)
    assert certificate.epsilon == epsilon
    with pytest.raises(DigestMismatch):
        replace(certificate, epsilon=epsilon / 2).verify(scaled, graph)


@effort(40)
@given(st.data())
def test_what_costs_nothing_stays_as_it_is(data):
    graph = data.draw(graph_cases(axis_cases)).graph
    plan = data.draw(plans(graph))
    free = replace(certify(plan, graph), epsilon=Fraction(0))
    assert rescaled(plan, free, Fraction(1)) == (plan, free)


@effort(40)
@given(st.data())
def test_refuses_the_certificate_of_another_plan_and_other_epsilons(data):
    graph = data.draw(graph_cases(axis_cases)).graph
    one, two = (
        Plan(Fraction(1), (Measurement(Identity(graph.cells), np.full(graph.cells, weight)),)) for weight in (1, 2)
    )
    with pytest.raises(DigestMismatch):
        rescaled(two, certify(one, graph), Fraction(1))
    with pytest.raises(DigestMismatch):
        rescaled(one.with_unit(Fraction(2)), certify(one, graph), Fraction(1))
    for epsilon in (Fraction(0), Fraction(-1), 0.5):
        with pytest.raises(PlanError):
            rescaled(one, certify(one, graph), epsilon)
