"""The demonstration's claims: transformation, budgets, tiny runs, and verdicts that can turn."""

from __future__ import annotations

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.errors import InvalidInput
from blowfishdb.model.policy import Public, Threshold
from papers import demonstration
from papers.experiment import Experiment, Row
from papers.experiments import chosen
from tests.papers.drawing import tiny_result

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("experiment", chosen(("blowfishdb",)), ids=lambda one: one.name)
def test_tiny_runs_end_with_a_verdict(experiment: Experiment) -> None:
    assert tiny_result(experiment.procedure()).pictures


def test_the_incidence_matrix_of_a_path() -> None:
    edges = np.array([[0, 1], [1, 2]])
    assert demonstration.incidence_matrix(edges, 3).tolist() == [[1.0, 0.0], [-1.0, 1.0]]


def test_whole_and_projected_policy_have_the_same_error() -> None:
    table = demonstration.table_with(5)
    assert demonstration.whole_policy(*table) == pytest.approx(demonstration.projected_policy(*table))
    assert demonstration.projected_policy(*table) == pytest.approx(np.sqrt(2) * demonstration.THETA)
    assert demonstration.engine(*table) < demonstration.projected_policy(*table)


def test_a_policy_that_joins_nothing_has_no_inverse() -> None:
    domain, _ = demonstration.table_with(3)
    public: dict[str, Threshold | Public] = {"asked": bf.threshold(2), "other": bf.public()}
    with pytest.raises(InvalidInput):
        demonstration.whole_policy(domain, bf.Policy(public, composition="attribute"))


def test_a_budget_answers_what_it_can_pay_for() -> None:
    asked: list[Row] = [
        {"attributes": "age", "epsilon": 0.4},
        {"attributes": "age hours", "epsilon": 0.4},
        {"attributes": "age", "epsilon": 0.3},
        {"attributes": "hours", "epsilon": 0.5},
    ]
    assert demonstration.answered(asked, 1.0, by_attribute=False) == 2
    assert demonstration.answered(asked, 1.0, by_attribute=True) == 3
    assert demonstration.answered(asked, 2.0, by_attribute=False) == 4
    assert demonstration.answered(asked, 0.1, by_attribute=True) == 0


@pytest.mark.parametrize(
    ("prices", "holds"),
    [
        ({1: 0.1, 10: 0.2, 4357: 0.3}, "yes"),
        ({1: 0.1, 10: 0.201, 4357: 0.2}, "yes"),
        ({1: 0.1, 10: 0.2, 100: 0.2, 4357: 0.2}, "partly"),
        ({1: 0.2, 10: 0.2, 4357: 0.2}, "partly"),
        ({1: 0.3, 4357: 0.2}, "no"),
    ],
)
def test_thresholds_are_judged_by_fall_and_saving(prices: dict[int, float], holds: str) -> None:
    rows: list[Row] = [
        {"question": kind, "theta": theta, "epsilon": price, "mechanism": "ordered"}
        for kind in ("histogram", "cumulative histogram")
        for theta, price in prices.items()
    ]
    verdict = demonstration.thresholds_judge(rows)
    assert verdict.holds == holds
    assert ("changes two counts" in verdict.why) == (holds != "yes")
    assert ("is never more expensive" in verdict.why) == (list(prices.values()) == sorted(prices.values()))


@pytest.mark.parametrize(
    ("error", "seconds", "peak", "holds"),
    [(2.0, 50.0, 50.0, "yes"), (2.0, 1.0, 1.0, "partly"), (3.0, 1.0, 1.0, "no")],
)
def test_projections_are_judged_by_error_time_and_memory(error: float, seconds: float, peak: float, holds: str) -> None:
    rows: list[Row] = [
        {"method": demonstration.STATIC, "values": 64, "error": error, "seconds": seconds, "peak_mb": peak},
        {"method": demonstration.PROJECTED, "values": 64, "error": 2.0, "seconds": 1.0, "peak_mb": 1.0},
        {"method": demonstration.ENGINE, "values": 64, "error": 1.9, "seconds": 1.0, "peak_mb": 1.0},
    ]
    verdict = demonstration.projections_judge(rows)
    assert verdict.holds == holds and ("and not at the same error" in verdict.why) == (error != 2.0)


@pytest.mark.parametrize(("near", "holds"), [(16.0, "yes"), (10.5, "partly"), (5.0, "no")])
def test_budgets_are_judged_against_the_plain_system(near: float, holds: str) -> None:
    counts = {
        demonstration.APEX: 10.0,
        demonstration.PLAIN: 11.0,
        demonstration.THRESHOLDS: near,
        demonstration.APART: 20.0,
    }
    rows: list[Row] = [
        {"system": system, "budget": budget, "answered": count}
        for system, count in counts.items()
        for budget in demonstration.BUDGETS
    ]
    assert demonstration.budgets_judge(rows, total=36).holds == holds
    assert demonstration.budgets_judge(rows, total=10).holds == "no"
