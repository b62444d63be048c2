"""Plans refuse what makes no sense, and their digests tell any two of them apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.errors import PlanError
from blowfishdb.model.workload import Identity, Prefix, total
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem
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
