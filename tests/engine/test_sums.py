"""Sums and means under every kind of policy, also of a x + b and of products: priced by the worst hidden move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.columns import ColumnTails
from blowfishdb.accuracy.intervals import Assessment
from blowfishdb.accuracy.quote import quote
from blowfishdb.audit.definitions import Record, holds
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.infer import Interval, ratio
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target, read_query, write_query
from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.domain import Domain
from blowfishdb.model.predicate import Predicate
from blowfishdb.model.query import Query, query
from blowfishdb.noise.distribution import pmf
from blowfishdb.plan.plan import Plan
from blowfishdb.session.table import declared_ends
from blowfishdb.sql import parse, query_of
from tests.engine.hidden_moves import dearest_move

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
@pytest.mark.sampled(4)
def test_the_price_is_the_worst_hidden_move(kind: str, name: str, where: Predicate | None) -> None:
    policy = POLICIES[name]
    compiled = compile_query(DOMAIN, policy, query(kind, "x", where))  # type: ignore[arg-type]
    best = quotes_for(compiled, accuracy_target(epsilon=1)).best
    plan = best.plan
    assert isinstance(plan, Plan)
    applied = policy.applied(DOMAIN)
    worst = dearest_move(applied, policy, plan, lambda record: row_of(applied, where, record, plan, compiled))
    assert best.certificate.epsilon == Fraction(worst) / plan.unit == 1
    halved = Fraction(worst) / plan.with_unit(plan.unit / 2).unit
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


HOURS = bf.domain({"hours": bf.integers(1, 99, null=40), "sex": bf.categorical(["f", "m"], null="f", outside="f")})
PROMISED = query("mean", "hours", WOMEN, rows=500)


def test_a_mean_keeps_its_promise_at_the_quoted_epsilon_and_not_at_less() -> None:
    """The worst data there is, a mean that is just alpha below the largest value, for 40 000 draws of both rows."""
    compiled = compile_query(HOURS, bf.Policy(), PROMISED)
    best = quotes_for(compiled, accuracy_target(alpha=1, beta="0.05")).best
    draws, rng = 40_000, np.random.default_rng(7)
    measure = compiled.measure
    assert measure is not None
    ends = (measure.numerators[[0, -1]] - measure.offset).tolist()
    true = ends[1] - 1.01

    def failures(share: float) -> int:
        keep = np.exp(-share / best.candidate.scales(best.epsilon)[0])
        total, count = (rng.geometric(1 - keep, (2, 2, draws)) * np.array([1, -1])[:, None]).sum(axis=1).astype(float)
        sums, counts = 500 * true + total, 500 + count / measure.spread
        mean = ratio(Interval(sums, sums, sums), Interval(counts, counts, counts), ends, None).value
        return int(np.count_nonzero(np.abs(mean - true) > 1))

    # 6.5 standard deviations beyond what a promise that holds allows: a probability below 10^-9.
    most = 0.05 * draws + 6.5 * np.sqrt(0.05 * 0.95 * draws)
    assert failures(1.0) <= most
    assert failures(0.8) > most
    box = quote(compiled.problem, 500 / (2 + 1 / 49), 0.05, {"direct": MECHANISMS["direct"]}).best
    assert best.epsilon < Fraction(6, 10) * box.epsilon
    assert compiled.shown(best.alpha) == 1


@pytest.mark.parametrize(("low", "high", "records"), [(-1, 1, 2), (-2, 3, 2), (-3, 3, 3), (0, 1, 4)])
@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
def test_the_tail_of_a_mean_is_at_most_what_is_proven_for_every_sum(
    low: int, high: int, records: int, scale: float
) -> None:
    """Both variables listed, for all sums that so many records may have, and counts that come out below 1."""
    policy = bf.Policy(presence="only")
    domain = bf.domain({"x": bf.integers(low, high, null=0)})
    compiled = compile_query(domain, policy, query("mean", "x", rows=records))
    candidate = quotes_for(compiled, accuracy_target(epsilon=1)).best.candidate
    tails = Assessment(candidate, compiled.guarantee("per-query")).exact_tails
    assert isinstance(tails, ColumnTails)
    measure = compiled.measure
    assert measure is not None
    first, last = (measure.numerators[[0, -1]] - measure.offset).tolist()
    reach = np.arange(-40, 41)
    chances = np.outer(pmf(scale, reach), pmf(scale, reach))
    for total in range(first * records, last * records + 1):
        counted = np.maximum(records + reach / measure.spread, 1.0)
        mean = np.clip((total + reach)[:, None] / counted, first, last)
        for alpha in range(1, 2 * records * measure.spread):
            beyond = np.abs(mean - total / records) > alpha / records + 1e-12
            assert float(chances[beyond].sum()) <= tails.beyond(0, scale, alpha) * (1 + 1e-12)


def test_a_mean_by_another_mechanism_keeps_both_of_its_rows_within_half() -> None:
    compiled = compile_query(HOURS, bf.Policy(), PROMISED)
    mechanisms = {"identity": MECHANISMS["identity"]}
    named = quotes_for(compiled, accuracy_target(alpha=1, mechanism="identity")).best
    assert named.epsilon == quote(compiled.problem, 250.0, 0.05, mechanisms).best.epsilon
    one = compile_query(HOURS, bf.Policy(), replace(PROMISED, rows=1))
    box = quote(one.problem, 0.5, 0.05, {"direct": MECHANISMS["direct"]}).best
    assert quotes_for(one, accuracy_target(alpha=1)).best.epsilon == box.epsilon
    assert quotes_for(one, accuracy_target(alpha=1, per_query=True)).best.epsilon == box.epsilon


PRICES = bf.domain(
    {
        "flag": bf.categorical(["A", "R"], null="A", outside="A"),
        "price": bf.integers(1, 9, null=1),
        "discount": bf.bins(0, "0.3", width="0.1"),
        "tax": bf.integers(0, 2, null=0),
    }
)


def asked(text: str) -> Query:
    return query_of(parse(f"SELECT {text} FROM t"), PRICES)


@pytest.mark.parametrize(
    ("text", "names", "value"),
    [
        ("SUM(price * (1 - discount)) AS s", ("price", "discount"), lambda p, d: p * (1 - d)),
        ("SUM(price / 2 * (discount - 1)) AS s", ("price", "discount"), lambda p, d: p / 2 * (d - 1)),
        ("SUM(-(3 - 2 * price) * discount * 10) AS s", ("price", "discount"), lambda p, d: (2 * p - 3) * d * 10),
        ("SUM((1 + 2) * price * (discount + 0.5)) AS s", ("price", "discount"), lambda p, d: 3 * p * (d + 0.5)),
    ],
)
def test_the_sum_is_that_of_the_expression(text: str, names: tuple[str, ...], value: Callable[[Any, Any], Any]) -> None:
    statement = asked(text)
    assert statement.aggregates[0].factors == names
    compiled = compile_query(PRICES, bf.Policy(), statement)
    shape = compiled.cells.graph.shape
    counts = np.random.default_rng(3).integers(0, 50, shape)
    prices, discounts = np.arange(1, 10), np.array([0.05, 0.15, 0.25])
    plain = counts[:9, :3] if compiled.cells.axes == names else counts[:3, :9].T
    wanted = (plain * value(prices[:, None], discounts[None, :])).sum()
    assert compiled.table is not None
    block = compiled.table.blocks[0]
    assert block.rows.dot(counts.reshape(-1)) / block.scale == pytest.approx([wanted])


def test_three_factors_of_a_report_are_one_release_and_come_back_from_storage() -> None:
    report = (
        "SELECT flag, SUM(price) AS base, SUM(price * (1 - discount)) AS disc, SUM(price * (1 - discount) * (1 + tax)) "
        "AS charge, AVG(price) AS mean, AVG(2 * price) AS twice, COUNT(*) AS n FROM t GROUP BY flag"
    )
    statement = query_of(parse(report), PRICES)
    assert read_query(write_query(statement)) == statement
    compiled = compile_query(PRICES, bf.Policy(presence="secret"), statement)
    assert compiled.table is not None
    counts = np.full(compiled.cells.graph.cells, 1000)
    best = quotes_for(compiled, accuracy_target(epsilon=50)).best
    answer = PlanRelease(compiled, best).answer(counts)
    mean, twice = (answer.column(place).values[0] for place in (3, 4))
    # With a hundred thousand records in each group the noise moves neither mean by a tenth (probability below 10^-20).
    assert abs(mean - 5) < 0.1
    assert abs(twice - 10) < 0.2


def test_constants_scale_the_price() -> None:
    def price(text: str) -> Fraction:
        compiled = compile_query(PRICES, bf.Policy(), asked(text))
        tolerated = [replace(part, tolerance=Fraction(50)) for part in compiled.query.aggregates]
        again = compile_query(PRICES, bf.Policy(), query("table", aggregates=tolerated))
        return quotes_for(again, accuracy_target(alpha=50)).best.epsilon

    assert 9 < price("SUM(10 * price) AS s") / price("SUM(price) AS s, COUNT(*) AS n") < 21


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SUM(price + discount)", "two columns"),
        ("SUM(price / discount)", "divided by numbers"),
        ("SUM(price / 0)", "divided by numbers"),
        ("SUM(3)", "COUNT"),
        ("SUM(0 * price)", "nothing to add up"),
        ("SUM(price * price)", "different attributes"),
        ("SUM(10000000000 * price)", "nine digits"),
    ],
)
def test_other_arithmetic_is_refused(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        asked(text)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(QueryError, match="only sums and means"):
        Aggregate("stddev", ("price",), affine=((Fraction(2), Fraction(0)),))
    with pytest.raises(QueryError, match="two numbers for each"):
        Aggregate("sum", ("price",), affine=((Fraction(2), Fraction(0)),) * 2)
    fine = Aggregate("sum", ("price",), affine=((Fraction(1, 999_999_937), Fraction(10**9 - 1, 999_999_929)),))
    with pytest.raises(TooLarge, match="finest unit"):
        compile_query(PRICES, bf.Policy(), query("table", aggregates=[fine]))
    assert declared_ends(PRICES, ("price",), ((Fraction(-2), Fraction(1)),)) == (-17, -1)
