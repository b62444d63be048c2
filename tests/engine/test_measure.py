"""What is measured is the certified plan with the charged noise, and a test that would notice a scale off by 10 %."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chi2

from blowfishdb.engine.measure import measure
from blowfishdb.errors import DigestMismatch, InvalidInput
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import Identity, Kronecker, Prefix, total
from blowfishdb.noise.distribution import pmf
from blowfishdb.plan.certificate import CertifiedPlan, CertifiedPlans, calibrate, certify
from blowfishdb.plan.plan import EdgePlan, KroneckerMeasurement, Measurement, Plan

CELLS = 60_000
# The chance of a false alarm; 30,000 draws whose scale is 10 % off pass it with a chance below 1e-12.
ALARM = 1e-9
COUNTS = np.arange(CELLS, dtype=np.int64) % 7


def line(cells: int) -> CellGraph:
    reach = np.minimum(np.arange(cells) + 1, cells - 1)
    return CellGraph((WindowGraph(reach, np.array([], dtype=np.int64)),), "record", np.array(False), "public")


def identity_plan(unit: Fraction, cells: int = CELLS) -> Plan:
    weights = np.where(np.arange(cells) % 2 == 0, 1, 3)
    return Plan(unit, (Measurement(Identity(cells), weights),), exact=total(cells))


def misfit(noise: np.ndarray, scale: float) -> float:
    """The p-value of a chi-square test that the noise is discrete Laplace of this scale."""
    middle = np.arange(-6, 7)
    expected = pmf(scale, middle)
    observed = np.array([(noise == k).sum() for k in middle])
    expected, observed = np.append(expected, 1 - expected.sum()), np.append(observed, noise.size - observed.sum())
    statistic = float(np.sum((observed - noise.size * expected) ** 2 / (noise.size * expected)))
    return float(chi2.sf(statistic, middle.size))


def test_the_noise_has_the_scales_of_the_plan() -> None:
    plan, proof = calibrate(identity_plan(Fraction(1)), line(CELLS), Fraction(4, 3))
    assert plan.unit == 3
    measured = measure(CertifiedPlans(line(CELLS)).as_charged(plan, proof), COUNTS)
    noise = measured.noisy - COUNTS
    even, odd = noise[::2], noise[1::2]
    assert misfit(even, 3.0) > ALARM
    assert misfit(odd, 1.0) > ALARM
    assert misfit(even, 3.3) < ALARM
    assert misfit(odd, 1.1) < ALARM
    assert measured.exact.tolist() == [COUNTS.sum()]


def test_a_certificate_for_another_noise_level_is_refused() -> None:
    plan = identity_plan(Fraction(3))
    with pytest.raises(DigestMismatch):
        CertifiedPlans(line(CELLS)).as_charged(plan.with_unit(Fraction(2)), certify(plan, line(CELLS)))


def test_products_are_measured_axis_by_axis() -> None:
    axes = tuple(Measurement(rows, np.array(1)) for rows in (Prefix(4), Identity(5)))
    plan = Plan(Fraction(1, 100), (KroneckerMeasurement(axes),))
    plane = CellGraph((line(4).factors[0], line(5).factors[0]), "record", np.array(False), "public")
    counts = np.arange(20, dtype=np.int64)
    measured = measure(CertifiedPlan(plan, plane), counts)
    assert np.array_equal(measured.noisy, Kronecker((Prefix(4), Identity(5))).dot(counts))


def test_edge_plans_give_their_answers_and_nothing_else() -> None:
    graph = line(6)
    edges = graph.edges()
    decoder = csr_array(np.eye(6, 5, dtype=np.int64))
    plan = EdgePlan(Fraction(1, 500), Prefix(6), edges, csr_array(np.eye(5, dtype=np.int64)), decoder, np.ones(5, int))
    counts = np.array([3, 1, 4, 1, 5, 9])
    measured = measure(CertifiedPlan(plan, graph), counts)
    assert np.array_equal(measured.noisy, np.cumsum(counts))
    assert measured.exact.size == 0


def test_counts_of_the_wrong_shape_are_refused_without_quoting_them() -> None:
    plan = identity_plan(Fraction(3), 5)
    certified = CertifiedPlan(plan, line(5))
    for bad in (np.array([987654321, 1]), np.array([987654321.5] * 5)):
        with pytest.raises(InvalidInput) as refused:
            measure(certified, bad)
        assert "987654321" not in str(refused.value)


def test_plans_that_are_certified_one_after_the_other_are_never_taken_for_each_other() -> None:
    plans, policy = CertifiedPlans(line(CELLS), most=2), line(CELLS)
    rows = Measurement(Identity(CELLS), np.ones(CELLS, dtype=np.int64))
    units = [Fraction(unit) for unit in (3, 4, 5, 3, 4)]
    for plan in [Plan(unit, (rows,)) for unit in units]:
        certified = plans.as_charged(plan, certify(plan, policy))
        assert certified.plan.digest() == plan.digest()
        assert certified.certificate == certify(plan, policy)
