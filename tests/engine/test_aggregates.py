"""Tables of aggregates: the price is that of the worst hidden move, the numbers are right, and intervals hold."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.columns import column_alphas
from blowfishdb.accuracy.quote import accuracy_at, quote
from blowfishdb.audit.definitions import Record, holds
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, compile_query, with_tolerances
from blowfishdb.engine.infer import Interval, NoisePair, ratio
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target, read_query, write_query
from blowfishdb.errors import Declined, InfiniteLoss, QueryError, TooLarge
from blowfishdb.mechanisms import joint
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.aggregates import Aggregate, column_alpha
from blowfishdb.model.domain import Domain
from blowfishdb.model.predicate import Axis, Predicate
from blowfishdb.model.query import Query, query
from blowfishdb.model.workload import Identity, Kronecker
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import KroneckerMeasurement, Plan, Problem
from tests.engine.hidden_moves import dearest_move

DOMAIN = bf.domain(
    {
        "x": bf.integers(-2, 1, null="cell"),
        "y": bf.integers(0, 1, null=0),
        "sex": bf.categorical(["f", "m"], null="f", outside="f"),
        "ward": bf.categorical(["a", "b", "c"], null="a", outside="a"),
    }
)
WOMEN = bf.col("sex") == "f"
MEDIAN = Aggregate("quantile", ("x",), level=Fraction(1, 2))
AGGREGATES = (
    Aggregate("count"),
    Aggregate("count", ("x",)),
    Aggregate("sum", ("x",)),
    Aggregate("mean", ("x",)),
    Aggregate("stddev_pop", ("x",)),
    Aggregate("share", of=("ward",), times=100),
    Aggregate("count", where=WOMEN, name="women"),
    Aggregate("sum", ("x", "y")),
)
POLICIES = {
    "full": bf.Policy(),
    "threshold": bf.Policy({"x": bf.threshold(2)}),
    "attribute": bf.Policy({"x": bf.threshold(3)}, composition="attribute"),
    "joint": bf.Policy(joint=[bf.grid(["x", "y"], 2, "l1")]),
    "secret": bf.Policy({"x": bf.line()}, presence="secret"),
    "only": bf.Policy(presence="only"),
    "public groups": bf.Policy({"x": bf.threshold(2), "ward": bf.public()}),
    "person": bf.Policy({"x": bf.threshold(3)}, unit=bf.person("id", at_most=3, order_by="row")),
}
TABLES = {
    "all": query("table", (), None, aggregates=AGGREGATES[:5]),
    "wards": query("table", "ward", None, aggregates=AGGREGATES),
    "women by ward": query("table", "ward", WOMEN, aggregates=AGGREGATES[:5]),
    "bins of the summed": query("table", bf.col("x").bins(2), None, aggregates=AGGREGATES[:4]),
    "medians": query("table", "ward", None, aggregates=(Aggregate("mean", ("x",)), MEDIAN)),
    "either": query(
        "table",
        "ward",
        None,
        aggregates=(Aggregate("sum", ("y",), where=WOMEN | (bf.col("y") == 1)), Aggregate("count")),
    ),
}


def rows_of(domain: Domain, where: Predicate | None, record: Record, plan: Plan, compiled: Compiled) -> np.ndarray:
    """What one record adds to the measured rows."""
    if holds(where, domain, record) is not True:
        return np.zeros(plan.weights.size, dtype=np.int64)
    cell = compiled.cells.cell_of({name: np.array([code]) for name, code in record.items()})
    counts = np.bincount(cell, minlength=compiled.problem.graph.cells)
    parts = [
        Kronecker(tuple(factor.rows for factor in part.factors))
        if isinstance(part, KroneckerMeasurement)
        else part.rows
        for part in plan.parts
    ]
    return np.concatenate([rows.dot(counts) for rows in parts])


def worst_move(policy: bf.Policy, asked: Query, plan: Plan, compiled: Compiled) -> int:
    applied = policy.applied(DOMAIN)
    return dearest_move(applied, policy, plan, lambda record: rows_of(applied, asked.where, record, plan, compiled))


CASES = [
    *(("full", table) for table in TABLES),
    *((policy, "wards") for policy in POLICIES if policy != "full"),
    ("threshold", "all"),
    ("public groups", "medians"),
    ("secret", "women by ward"),
]


@pytest.mark.parametrize(("policy_name", "table"), CASES)
def test_the_price_is_the_worst_hidden_move(policy_name: str, table: str) -> None:
    policy, asked = POLICIES[policy_name], TABLES[table]
    compiled = compile_query(DOMAIN, policy, asked)
    best = quotes_for(compiled, accuracy_target(epsilon=1)).best
    plan = best.plan
    assert isinstance(plan, Plan)
    worst = worst_move(policy, asked, plan, compiled)
    loss = Fraction(worst) / plan.unit
    assert loss <= best.certificate.epsilon == 1
    if best.certificate.is_tight:
        assert loss == 1, "a certificate that says it is attained is attained"
    assert Fraction(worst) / (plan.unit / 2) == 2 * loss, "half the noise costs twice as much"


def test_a_sum_calibrated_to_half_its_sensitivity_is_seen() -> None:
    """The planted fault: the values of a sum taken as if they reached half as far."""
    policy, asked = POLICIES["full"], TABLES["wards"]
    compiled = compile_query(DOMAIN, policy, asked)
    assert compiled.table is not None
    plan = quotes_for(compiled, accuracy_target(epsilon=1)).best.plan
    assert isinstance(plan, Plan)
    wrong = plan.with_unit(plan.unit * Fraction(4, 5))
    assert Fraction(worst_move(policy, asked, wrong, compiled)) / wrong.unit > 1
    assert certify(wrong, compiled.problem.graph).epsilon > 1


def test_a_count_that_is_measured_but_not_charged_is_seen() -> None:
    """The planted fault: the count that a sum and a mean share, left out of the loss."""
    policy, asked = POLICIES["full"], TABLES["medians"]
    compiled = compile_query(DOMAIN, policy, asked)
    plan = quotes_for(compiled, accuracy_target(epsilon=1)).best.plan
    assert isinstance(plan, Plan)
    assert compiled.table is not None
    at = [block.block.power == 0 and not block.block.is_running for block in compiled.table.blocks].index(True)
    without = replace(plan, parts=plan.parts[:at] + plan.parts[at + 1 :])
    charged = certify(without, compiled.problem.graph).epsilon
    assert charged < Fraction(worst_move(policy, asked, plan, compiled)) / plan.unit


def made(compiled: Compiled, seed: int = 3, rows: int = 4000) -> np.ndarray:
    random = np.random.default_rng(seed)
    cells = compiled.problem.graph.cells
    return random.multinomial(rows, random.dirichlet(np.ones(cells))).astype(np.int64)


def truth(compiled: Compiled, counts: np.ndarray) -> list[np.ndarray]:
    """The columns that SQL would give, worked out from the cells without any of the code under test."""
    cells, shape = compiled.cells, compiled.problem.graph.shape
    at = np.unravel_index(np.arange(counts.size), shape)
    x_axis = cells.axes.index("x")
    is_plain = at[x_axis] < cells.plain[x_axis]
    x = np.where(is_plain, at[x_axis] - 2, 0)
    y = at[cells.axes.index("y")] if "y" in cells.axes else np.zeros_like(x)
    ward = at[cells.axes.index("ward")] if "ward" in cells.axes else np.zeros_like(x)
    sex = at[cells.axes.index("sex")] if "sex" in cells.axes else np.zeros_like(x)
    columns: list[list[float]] = [[] for _ in range(8)]
    for group in range(int(ward.max()) + 1):
        here = np.where(ward == group, counts, 0)
        known = here * is_plain
        size, mean = known.sum(), (known * x).sum() / known.sum()
        numbers = [
            here.sum(),
            size,
            (known * x).sum(),
            mean,
            np.sqrt((known * x**2).sum() / size - mean**2),
            100.0,
            here[sex == 0].sum(),
            (known * x * y).sum(),
        ]
        for column, number in zip(columns, numbers, strict=True):
            column.append(float(number))
    return [np.array(column) for column in columns]


@pytest.mark.parametrize("policy_name", ["full", "secret", "public groups"])
@pytest.mark.parametrize("table", ["all", "wards"])
def test_numbers_are_right_when_noise_is_small_and_intervals_hold_when_it_is_not(policy_name: str, table: str) -> None:
    compiled = compile_query(DOMAIN, POLICIES[policy_name], TABLES[table])
    counts = made(compiled)
    expected = np.concatenate(truth(compiled, counts)[: len(TABLES[table].aggregates)])
    sharp = answered(compiled, counts, 100_000)
    assert np.allclose(sharp.values, expected, atol=0.02)
    rough = answered(compiled, counts, 2)
    assert np.all(rough.bounds.low <= expected + 1e-9), "fails with probability 10^-11 at most"
    assert np.all(expected <= rough.bounds.high + 1e-9)
    assert np.all((rough.bounds.low <= rough.values) & (rough.values <= rough.bounds.high))


def answered(compiled: Compiled, counts: np.ndarray, epsilon: int, beta: str = "0.00000000001") -> Answer:
    best = quotes_for(compiled, accuracy_target(epsilon=epsilon, beta=beta)).best
    return PlanRelease(compiled, best).answer(counts)


def test_medians_of_groups_are_right_when_noise_is_small() -> None:
    compiled = compile_query(DOMAIN, POLICIES["full"], TABLES["medians"])
    counts = made(compiled, rows=9000)
    answer = answered(compiled, counts, 500)
    plane = counts.reshape(3, 5)[:, :4]
    medians = [np.searchsorted(np.cumsum(row), row.sum() / 2) - 2 for row in plane]
    assert answer.column(1).values.tolist() == medians


def test_running_counts_of_groups() -> None:
    asked = query("table", ("ward", "y"), None, aggregates=[Aggregate("running", ("y",))])
    compiled = compile_query(DOMAIN, POLICIES["full"], asked)
    counts = made(compiled)
    answer = answered(compiled, counts, 500)
    assert np.round(answer.values).reshape(3, 2).tolist() == np.cumsum(counts.reshape(3, 2), axis=1).tolist()


@pytest.mark.parametrize(
    "groups", ["x", bf.col("x").bins(2), bf.col("x").groups({"low": [-2, -1, "NULL"], "high": [0, 1]})]
)
def test_a_quantile_by_groups_of_its_own_attribute_is_refused_before_it_is_charged(groups: str | Axis) -> None:
    """Its running counts are over all values, and there would be no number for each group."""
    for aggregates in ([MEDIAN], [Aggregate("count"), MEDIAN]):
        for by in (groups, ("ward", groups)):
            with pytest.raises(QueryError, match="by groups of x itself"):
                compile_query(DOMAIN, POLICIES["full"], query("table", by, None, aggregates=aggregates))


@pytest.mark.parametrize(
    "groups",
    [
        bf.col("x").bins(2),
        bf.col("x").groups({"low": [-2, -1], "high": [0, 1]}),
        bf.col("x").groups({"d": [1], "c": [0], "b": [-1], "a": [-2]}),
        bf.col("x").groups({"a": [-2], "b": [-1], "c": [0], "d": [1, "NULL"]}),
    ],
)
def test_running_counts_beside_other_groups_than_the_values_in_order_are_refused(groups: Axis) -> None:
    """They would stand beside the names of other groups, or there would be more of them than groups."""
    for aggregates in ([Aggregate("running", ("x",))], [Aggregate("count"), Aggregate("running", ("x",))]):
        with pytest.raises(QueryError, match="over its declared values, in order"):
            compile_query(DOMAIN, POLICIES["full"], query("table", groups, None, aggregates=aggregates))


@pytest.mark.parametrize(
    "policy_name", ["full", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("public groups", "only"))]
)
def test_an_accuracy_is_kept_for_groups_of_the_promised_size(policy_name: str) -> None:
    """All columns within their tolerance in at least 1 - beta of the draws; a tenth of the tolerance is not kept."""
    aggregates = [
        Aggregate("count"),
        Aggregate("sum", ("x",), tolerance=Fraction(200)),
        Aggregate("mean", ("x",), tolerance=Fraction(1, 4)),
        Aggregate("variance_pop", ("x",), tolerance=Fraction(1, 2)),
        Aggregate("share", times=100, tolerance=Fraction(2)),
    ]
    asked = with_tolerances(query("table", "ward", None, aggregates=aggregates, rows=1000), Fraction(60))
    compiled = compile_query(DOMAIN, POLICIES[policy_name], asked)
    counts = np.full(compiled.problem.graph.cells, 1000 // 5 + 1)
    best = quotes_for(compiled, accuracy_target(alpha=60, beta="0.2")).best
    release = PlanRelease(compiled, best)
    expected = release.answer(counts).tables[0].size
    exact = answered(compiled, counts, 500_000).values
    wanted = np.repeat([60, 200, 0.25, 0.5, 2], expected)
    errors = np.array([np.abs(release.answer(counts).values - exact) for _ in range(75)])
    failures = int(np.any(errors > wanted + 1e-6, axis=1).sum())
    assert failures <= 39, "a kept promise fails 15 times in 75; more than 39 times with probability below 1e-9"
    assert np.any(errors > wanted / 20), "the noise is not smaller by an order than what was asked for"
    assert compiled.table is not None
    for wide, part in zip(column_alphas(compiled.table, compiled.table.alpha), asked.aggregates, strict=True):
        assert wide is not None
        assert wide <= float(part.tolerance or 0) * 1.001


def test_joint_costs_less_than_one_by_one() -> None:
    """Count, sum and mean of each ward: the count is measured once, and the mean is read off the other two.

    Here all are priced by the box of their rows; `test_columns.py` compares what is quoted.
    """
    together = query("table", "ward", None, rows=1000, aggregates=AGGREGATES[1:4])
    compiled = compile_query(DOMAIN, bf.Policy(), together)
    measured = {joint.NAME: MECHANISMS[joint.NAME]}
    best = accuracy_at(compiled.problem, Fraction(1), 0.05, measured).best
    table = compiled.table
    assert table is not None

    def price(part: Aggregate, alpha: float | None) -> Fraction:
        wanted = replace(part, tolerance=Fraction(alpha or 0))
        alone = compile_query(DOMAIN, bf.Policy(), replace(together, aggregates=(wanted,)))
        assert alone.table is not None
        return quote(alone.problem, alone.table.alpha, 0.05, measured).best.epsilon

    alphas = [
        column_alpha(part, {role: table.blocks[block] for role, block in roles.items()}, best.alpha, table.size)
        for part, roles in zip(table.aggregates, table.places, strict=True)
    ]
    one_by_one = sum(price(part, alpha) for part, alpha in zip(together.aggregates, alphas, strict=True))
    assert best.epsilon <= Fraction(6, 10) * one_by_one


def test_a_table_is_written_and_read_back() -> None:
    asked = query(
        "table",
        "ward",
        WOMEN,
        rows=7,
        aggregates=[*AGGREGATES, MEDIAN, Aggregate("mean", ("x",), name="m", tolerance=Fraction(1, 3))],
    )
    assert read_query(write_query(asked)) == asked


def test_an_answer_reads_back_and_its_certificate_is_worked_out_again() -> None:
    from blowfishdb.engine.answer import evidence_of

    compiled = compile_query(DOMAIN, POLICIES["full"], TABLES["wards"])
    answer = answered(compiled, made(compiled), 2)
    carried = replace(answer, evidence=evidence_of(DOMAIN, POLICIES["full"], compiled.query))
    again = Answer.from_json(carried.to_json())
    assert again.columns == answer.columns
    assert np.array_equal(again.bounds.high, answer.bounds.high)
    again.certificate.verify()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Aggregate("max", ("x",)), "one of count"),  # type: ignore[arg-type]
        (lambda: Aggregate("sum"), "1 to 4"),
        (lambda: Aggregate("mean", ("x", "x")), "different"),
        (lambda: Aggregate("quantile", ("x",)), "level"),
        (lambda: Aggregate("quantile", ("x",), level=Fraction(2)), "level"),
        (lambda: Aggregate("count", where=True), "condition"),  # type: ignore[arg-type]
        (lambda: Aggregate("count", times=100), "shares"),
        (lambda: Aggregate("share", times=0), "whole number"),
        (lambda: Aggregate("sum", ("x",), tolerance=Fraction(-1)), "at least 0"),
        (lambda: query("table", "ward"), "has aggregates"),
        (lambda: query("count", aggregates=AGGREGATES), "has aggregates"),
        (lambda: query("linear", "ward", linear=[[1]], rows=3), "takes no rows"),
        (lambda: query("table", "ward", rows=0, aggregates=AGGREGATES), "whole number"),
        (lambda: compiled_of(Aggregate("share", of=("sex",))), "not grouped"),
        (lambda: compiled_of(Aggregate("sum", ("sex",))), "not a bounded number"),
        (lambda: compiled_of(Aggregate("quantile", ("sex",), level=Fraction(1, 2))), "no order"),
        (lambda: compiled_of(Aggregate("quantile", ("x",), where=bf.col("x") > 1, level=Fraction(1, 2))), "WHERE"),
        (lambda: compiled_of(Aggregate("mean", ("x",), tolerance=Fraction(1))), "rows="),
        (
            lambda: compiled_of(
                Aggregate("count", tolerance=Fraction(0)), Aggregate("sum", ("x",), tolerance=Fraction(1))
            ),
            "above 0",
        ),
        (lambda: compiled_of(*(Aggregate("count", name=f"n{place}") for place in range(65))), "1 to 64"),
        (lambda: query("table", "ward", aggregates=AGGREGATES * 2), "another name"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: object, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        wrong()  # type: ignore[operator]


def compiled_of(*aggregates: Aggregate) -> Compiled:
    return compile_query(DOMAIN, bf.Policy(), query("table", "ward", None, aggregates=aggregates))


def test_tolerances_too_far_apart_are_refused() -> None:
    with pytest.raises(TooLarge, match="tolerances"):
        compiled_of(
            Aggregate("count", tolerance=Fraction(1, 10**9)),
            Aggregate("sum", ("x",), where=WOMEN, tolerance=Fraction(10**9)),
        )


def test_joint_serves_nothing_but_tables() -> None:
    compiled = compile_query(DOMAIN, bf.Policy(), query("histogram", "ward"))
    with pytest.raises(Declined, match="several aggregates"):
        joint.propose(Problem(compiled.problem.graph, Identity(3)))


def test_an_exact_row_that_a_move_changes_is_refused() -> None:
    compiled = compile_query(DOMAIN, POLICIES["full"], TABLES["wards"])
    plan = quotes_for(compiled, accuracy_target(epsilon=1)).best.plan
    assert isinstance(plan, Plan)
    with pytest.raises(InfiniteLoss):
        certify(replace(plan, exact=compiled.problem.workload), compiled.problem.graph)


def quotients(stated: float, truth: tuple[float, float], scale: float = 40.0) -> float:
    """How often the interval of a noisy quotient, made for `stated`, misses the true one, out of 40,000 draws."""
    random, draws, factors = np.random.default_rng(20), 40_000, np.array([1.0, 0.02])
    one, two = (
        (random.geometric(-np.expm1(-1 / scale), draws) - random.geometric(-np.expm1(-1 / scale), draws)) * factor
        for factor in factors
    )
    first, second = ((number + noise) for number, noise in zip(truth, (one, two), strict=True))
    told = ratio(
        Interval(first, first, first),
        Interval(second, second, second),
        (-50.0, 50.0),
        NoisePair(factors, np.array([scale, scale]), stated),
    )
    assert np.all((told.low <= told.value) & (told.value <= told.high))
    true = truth[0] / truth[1]
    return float(np.mean((told.low > true) | (told.high < true)))


@pytest.mark.parametrize("truth_", [(300.0, 20.0), (-900.0, 20.0), (10.0, 3.0), (40.0, 1.0)])
def test_intervals_of_quotients_hold_and_are_no_wider_than_that(truth_: tuple[float, float]) -> None:
    """At a rate of 0.05 more than 0.0568 of 40,000 draws miss with a probability below 1e-9."""
    missed = quotients(0.05, truth_)
    assert missed < 0.0568
    assert missed > 0.03 or truth_[1] < 5.0


def test_an_interval_made_for_twice_the_probability_is_seen() -> None:
    assert quotients(0.1, (300.0, 20.0)) > 0.0568


def test_means_alone_have_narrower_intervals_than_the_box_and_counts_the_same() -> None:
    """At a ratio of a half the box of sum and count is 1.5 times as wide as that of the sum."""
    mean, count = Aggregate("mean", ("y",)), Aggregate("count")
    compiled = {
        name: compile_query(DOMAIN, POLICIES["secret"], query("table", "ward", WOMEN, aggregates=parts))
        for name, parts in {"mean": (mean,), "both": (count, mean)}.items()
    }
    for name, each in compiled.items():
        counts = np.full(each.problem.graph.cells, 50_000)
        best = quotes_for(each, accuracy_target(epsilon="0.01")).best
        release = PlanRelease(each, best)
        answer = release.answer(counts)
        raw = release.widths.simultaneous
        table = each.table
        assert table is not None
        means = answer.column(len(answer.columns) - 1)
        block = table.blocks[table.places[-1]["sum"]]
        wide = raw / block.multiplier / block.scale / 100_000
        assert np.all(means.bounds.high - means.bounds.low < 2 * (1.15 if name == "both" else 1.0) * wide)
        if name == "both":
            counted = answer.column(0).bounds
            assert np.allclose(counted.high - counted.low, 2 * raw / table.blocks[table.places[0]["count"]].multiplier)


def test_a_median_beside_a_mean_leaves_it_most_of_its_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both share epsilon: the mean is a few times less accurate than alone, not hundreds of times."""
    mean, median = Aggregate("mean", ("age",)), Aggregate("quantile", ("age",), level=Fraction(1, 2))

    def promised(oldest: int, *columns: Aggregate) -> float:
        domain = bf.domain({"age": bf.integers(0, oldest, null=0)})
        compiled = compile_query(domain, bf.Policy(), query("table", (), aggregates=columns, rows=4000))
        assert compiled.table is not None
        best = quotes_for(compiled, accuracy_target(epsilon=1, mechanism=joint.NAME)).best
        return column_alphas(compiled.table, best.alpha)[0] or 0.0

    assert promised(99, mean, median) < 4 * promised(99, mean)
    # Plans are remembered, so the fault needs another question.
    monkeypatch.setattr(joint, "FINEST_RUNNING", 0)
    monkeypatch.setattr(joint, "math", SimpleNamespace(ceil=lambda number: max(1, math.ceil(number)), sqrt=math.sqrt))
    assert promised(98, mean, median) > 40 * promised(98, mean)
