"""Tables over more cells than one plan takes: several plans, one charge, and the loss of all of them is covered."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.audit.definitions import moves, records
from blowfishdb.engine import release as release_module
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PartsRelease, PlanRelease, divided
from blowfishdb.engine.request import accuracy_target
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.query import query
from blowfishdb.plan.plan import Plan
from tests.engine.test_aggregates import DOMAIN, WOMEN, rows_of

ASKED = query(
    "table",
    "ward",
    None,
    aggregates=[
        Aggregate("mean", ("x",)),
        Aggregate("count"),
        Aggregate("sum", ("y",)),
        Aggregate("count", where=WOMEN, name="women"),
    ],
)
POLICY = bf.Policy({"x": bf.threshold(2)})


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> PartsRelease:
    monkeypatch.setattr(release_module, "TOGETHER", 1)
    target = accuracy_target(epsilon=3)
    releases = []
    for table in divided(DOMAIN, POLICY, ASKED):
        compiled = compile_query(DOMAIN, POLICY, table)
        quotes = quotes_for(compiled, replace(target, epsilon=Fraction(1)))
        releases.append(PlanRelease(compiled, quotes.best, target, quotes))
    return PartsRelease(ASKED, target, tuple(releases))


def test_aggregates_that_look_at_the_same_attributes_stay_together(release: PartsRelease) -> None:
    columns = [[one.title for one in part.compiled.query.aggregates] for part in release.parts]
    assert columns == [["mean_x", "count"], ["sum_y"], ["women"]]


def test_a_small_table_is_one_plan() -> None:
    assert divided(DOMAIN, POLICY, ASKED) == (ASKED,)


def test_no_hidden_move_loses_more_than_is_charged(release: PartsRelease) -> None:
    """And the planted fault: a part that is measured but not charged is seen."""
    applied = POLICY.applied(DOMAIN)
    listed = list(records(applied))
    worst = Fraction(0)
    plans = [part.best.plan for part in release.parts]
    table = []
    for record in listed:
        row = []
        for part, plan in zip(release.parts, plans, strict=True):
            assert isinstance(plan, Plan)
            row.append(rows_of(applied, None, record, plan, part.compiled))
        table.append(row)
    for place, (one, first) in enumerate(zip(listed, table, strict=True)):
        for two, second in zip(listed[:place], table[:place], strict=True):
            loss = sum(
                (
                    Fraction(int(np.abs(a - b) @ plan.weights)) / plan.unit
                    for a, b, plan in zip(first, second, plans, strict=True)
                ),
                Fraction(0),
            )
            if loss > worst and moves(applied, POLICY, one, two):
                worst = loss
    assert worst <= release.epsilon == 3
    assert worst > release.epsilon - min(part.epsilon for part in release.parts)


def test_the_columns_come_in_the_order_of_the_query(release: PartsRelease) -> None:
    counts = [np.random.default_rng(5).integers(50, 99, part.size) for part in release.parts]
    answer = release.answer(np.concatenate(counts))
    assert [column.name for column in answer.columns] == ["mean_x", "count", "sum_y", "women"]
    assert answer.epsilon == 3
    assert [allowance.epsilon for allowance in answer.stages] == [1, 1, 1]
    again = Answer.from_json(answer.to_json())
    assert np.array_equal(again.values, answer.values)
    by_ward = counts[0].reshape(3, 5)
    assert np.all(np.abs(answer.column(1).values - by_ward.sum(axis=1)) < 60)
    assert release.document()["stages"]


def test_another_plan_has_another_digest(release: PartsRelease) -> None:
    other = replace(release, parts=release.parts[:2])
    assert other.digest != release.digest
    assert other.epsilon == 2
