"""A certificate carried to another noise level is the one that computing the loss again would give."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blowfishdb.errors import DigestMismatch, PlanError
from blowfishdb.model.workload import Identity
from blowfishdb.plan.certificate import certify, rescaled, worst_edge
from blowfishdb.plan.plan import Measurement, Plan
from tests.plan.cases import axis_cases, graph_cases, plans


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


@given(st.data())
def test_what_costs_nothing_stays_as_it_is(data):
    graph = data.draw(graph_cases(axis_cases)).graph
    plan = data.draw(plans(graph))
    free = replace(certify(plan, graph), epsilon=Fraction(0))
    assert rescaled(plan, free, Fraction(1)) == (plan, free)


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
