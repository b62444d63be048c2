"""Sums and means under every kind of policy: the price is that of the worst hidden move, counted by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.audit.definitions import Record, holds, moves, records
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.target import accuracy_target
from blowfishdb.model.domain import Domain
from blowfishdb.model.predicate import Predicate
from blowfishdb.model.query import query
from blowfishdb.plan.plan import Plan

DOMAIN = bf.domain(
    {
        "x": bf.integers(-2, 7, null=0),
        "y": bf.integers(0, 4, null=0),
        "sex": bf.categorical(["f", "m"], null="f", outside="f"),
    }
)
WOMEN = bf.col("sex") == "f"
POLICIES = {
    "full": bf.Policy(),
    "threshold": bf.Policy({"x": bf.threshold(3)}),
    "attribute": bf.Policy({"x": bf.threshold(3)}, composition="attribute"),
    "blocks": bf.Policy({"x": bf.partition(cuts=[1, 4])}),
    "joint": bf.Policy(joint=[bf.grid(["x", "y"], 4, "l1")]),
    "secret": bf.Policy({"x": bf.line()}, presence="secret"),
    "only": bf.Policy(presence="only"),
    "told": bf.Policy({"x": bf.threshold(2), "sex": bf.public()}),
    "person": bf.Policy({"x": bf.threshold(3)}, unit=bf.person("id", at_most=3, order_by="row")),
}
CASES = [(name, where) for name in POLICIES for where in (None, WOMEN)]


def row_of(domain: Domain, where: Predicate | None, record: Record, plan: Plan, compiled: Compiled) -> np.ndarray:
    """What one record adds to the measured rows."""
    if holds(where, domain, record) is not True:
        return np.zeros(plan.weights.size, dtype=np.int64)
    cell = compiled.cells.cell_of({name: np.array([code]) for name, code in record.items()})
    counts = np.bincount(cell, minlength=compiled.problem.graph.cells)
    return np.concatenate([part.rows.dot(counts) for part in plan.parts])  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["sum", "mean"])
@pytest.mark.parametrize(
    ("name", "where"), CASES, ids=[f"{name} {'all' if w is None else 'women'}" for name, w in CASES]
)
def test_the_price_is_the_worst_hidden_move(kind: str, name: str, where: Predicate | None) -> None:
    policy = POLICIES[name]
    compiled = compile_query(DOMAIN, policy, query(kind, "x", where))  # type: ignore[arg-type]
    best = quotes_for(compiled, accuracy_target(epsilon=1)).best
    plan = best.plan
    assert isinstance(plan, Plan)
    applied = policy.applied(DOMAIN)
    listed = list(records(applied))
    rows = [row_of(applied, where, record, plan, compiled) for record in listed]
    worst = 0
    for one, own in zip(listed, rows, strict=True):
        for two, other in zip(listed, rows, strict=True):
            if moves(applied, policy, one, two):
                worst = max(worst, int(np.abs(own - other) @ plan.weights))
        if policy.presence != "public":
            worst = max(worst, int(np.abs(own) @ plan.weights))
    assert best.certificate.epsilon == Fraction(worst * policy.rows_per_person) / plan.unit == 1
    halved = Fraction(worst * policy.rows_per_person) / plan.with_unit(plan.unit / 2).unit
    assert halved == 2, "half the noise costs twice as much"


@pytest.mark.parametrize(
    ("name", "where"), CASES, ids=[f"{name} {'all' if w is None else 'women'}" for name, w in CASES]
)
def test_sums_and_means_are_right_when_noise_is_small(name: str, where: Predicate | None) -> None:
    """Offsets come back exactly: with the exact count where nobody can leave, with the measured one elsewhere."""
    rng = np.random.default_rng(3)
    x, y, sex = rng.integers(-2, 8, 3000), rng.integers(0, 5, 3000), rng.integers(0, 2, 3000)
    kept = x if where is None else x[sex == 0]
    for kind, truth, slack in (("sum", kept.sum(), 2.0), ("mean", kept.mean(), 0.01)):
        compiled = compile_query(DOMAIN, POLICIES[name], query(kind, "x", where))  # type: ignore[arg-type]
        codes = {"x": x + 2, "y": y, "sex": sex}
        flat = compiled.cells.cell_of({each: codes[each] for each in compiled.cells.attributes})
        counts = np.bincount(flat[flat >= 0], minlength=compiled.problem.graph.cells).astype(np.int64)
        found = PlanRelease(compiled, quotes_for(compiled, accuracy_target(epsilon=2000)).best).answer(counts)
        assert found.raw[0] == pytest.approx(truth, abs=slack)
        assert found.bounds.low[0] <= truth <= found.bounds.high[0]


def test_the_count_of_a_mean_is_exact_only_where_nobody_can_leave() -> None:
    near = POLICIES["threshold"]
    whole = quotes_for(compile_query(DOMAIN, near, query("mean", "x")), accuracy_target(epsilon=1)).best.plan
    women = quotes_for(compile_query(DOMAIN, near, query("mean", "x", WOMEN)), accuracy_target(epsilon=1)).best.plan
    told = quotes_for(
        compile_query(DOMAIN, POLICIES["told"], query("mean", "x", WOMEN)), accuracy_target(epsilon=1)
    ).best.plan
    assert isinstance(whole, Plan)
    assert isinstance(women, Plan)
    assert isinstance(told, Plan)
    assert [plan.exact is not None for plan in (whole, women, told)] == [True, False, True]
    assert [plan.weights.size for plan in (whole, women, told)] == [1, 2, 1]
