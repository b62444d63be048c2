"""Sums, means and quantiles: exact where nothing is hidden, priced by the certificate, inside their intervals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import QueryError
from blowfishdb.model.numbers import Ints
from blowfishdb.model.query import Query, levels_of, query
from blowfishdb.plan.certificate import certify
from tests.plan.reference import reference_loss

DOMAIN = bf.domain(
    {
        "age": bf.integers(-5, 20, null=0),
        "cost": bf.bins(0, 5, width="0.5", null="cell"),
        "sex": bf.categorical(["f", "m"], null="f", outside="f"),
        "day": bf.dates("2024-01-01", "2024-01-31"),
    }
)
RANDOM = np.random.default_rng(7)
AGE = RANDOM.integers(-5, 21, 4000)
SEX = RANDOM.integers(0, 2, 4000)
COST = RANDOM.integers(0, 11, 4000)  # bin 10 stands for NULL
CODES = {"age": AGE + 5, "sex": SEX, "cost": COST}


def counts(compiled: Compiled) -> Ints:
    flat = compiled.cells.cell_of({name: CODES[name] for name in compiled.cells.attributes})
    return np.bincount(flat[flat >= 0], minlength=compiled.problem.graph.cells).astype(np.int64)


def answer(asked: Query, policy: bf.Policy | None = None, epsilon: str = "500", beta: float = 0.05) -> Answer:
    compiled = compile_query(DOMAIN, policy or bf.Policy(), asked)
    return PlanRelease(compiled, quotes_for(compiled, accuracy_target(epsilon=epsilon, beta=beta)).best).answer(
        counts(compiled)
    )


def quantiles(*levels: object, where: object = None, name: str = "age") -> Query:
    asked = query("quantiles", name, where)  # type: ignore[arg-type]
    return Query("quantiles", asked.axes, asked.where, levels=levels_of(levels))


def test_public_attributes_give_exact_statistics_for_free() -> None:
    policy = bf.Policy({"age": bf.public()})
    total = answer(query("sum", "age"), policy)
    assert (total.raw.tolist(), total.epsilon, total.widths.simultaneous) == ([float(AGE.sum())], 0, 0.0)
    mean = answer(query("mean", "age"), policy)
    assert mean.raw[0] == pytest.approx(AGE.mean())
    assert mean.bounds.low[0] == pytest.approx(mean.bounds.high[0])


@pytest.mark.parametrize("where", [None, bf.col("sex") == "m"])
def test_loud_statistics_are_the_truth(where: object) -> None:
    kept = AGE if where is None else AGE[SEX == 1]
    assert answer(query("sum", "age", where)).raw[0] == pytest.approx(kept.sum(), abs=3)  # type: ignore[arg-type]
    assert answer(query("mean", "age", where)).raw[0] == pytest.approx(kept.mean(), abs=0.01)  # type: ignore[arg-type]
    found = answer(quantiles(0.25, "0.5", Fraction(9, 10), where=where)).raw
    assert found.tolist() == np.quantile(kept, [0.25, 0.5, 0.9], method="inverted_cdf").tolist()


def test_bins_count_as_their_middle_and_null_as_nothing() -> None:
    kept = COST[COST < 10] * 0.5 + 0.25
    assert answer(query("sum", "cost")).raw[0] == pytest.approx(kept.sum(), abs=3)
    assert answer(query("mean", "cost")).raw[0] == pytest.approx(kept.mean(), abs=0.01)
    middle = answer(quantiles(0.5, name="cost"))
    assert middle.bounds.low[0] <= np.median(kept) <= middle.bounds.high[0]


@pytest.mark.parametrize("policy", [bf.Policy(), bf.Policy({"age": bf.threshold(3)}), bf.Policy(presence="secret")])
@pytest.mark.parametrize("where", [None, bf.col("sex") == "m"])
@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_the_certificate_prices_the_rows(kind: str, policy: bf.Policy, where: object) -> None:
    compiled = compile_query(DOMAIN, policy, query(kind, "age", where))  # type: ignore[arg-type]
    best = quotes_for(compiled, accuracy_target(epsilon="0.5")).best
    assert best.mechanism == "direct"
    loss = Fraction(reference_loss(best.plan, compiled.problem.graph)) / best.plan.unit  # type: ignore[arg-type]
    assert loss <= best.certificate.epsilon == Fraction(1, 2)
    assert certify(best.plan, compiled.problem.graph) == best.certificate


def test_a_sum_costs_the_longest_step_not_the_largest_value() -> None:
    """Without a filter an offset is free: theta decides. With one, a record can leave, and the largest value does."""
    policy = bf.Policy({"age": bf.threshold(3)})
    free = quotes_for(compile_query(DOMAIN, policy, query("sum", "age")), accuracy_target(epsilon=1)).best
    left = quotes_for(
        compile_query(DOMAIN, policy, query("sum", "age", bf.col("sex") == "m")), accuracy_target(epsilon=1)
    ).best
    assert (free.plan.unit, left.plan.unit) == (3, 20)


def test_alpha_is_in_the_units_of_the_attribute() -> None:
    compiled = compile_query(DOMAIN, bf.Policy(), query("sum", "cost"))
    best = quotes_for(compiled, accuracy_target(alpha="12.5")).best
    found = PlanRelease(compiled, best).answer(counts(compiled))
    assert compiled.shown(50.0) == 12.5
    # Values lie up to 1/4 from the middles of their bins, which alpha leaves out, and so does the noise of that row.
    inside = np.count_nonzero(COST < 10) / 4
    assert inside <= found.widths.simultaneous <= inside + 3 * 12.5


@pytest.mark.no_cover
@pytest.mark.parametrize("epsilon", ["0.02", pytest.param("1", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("is_filtered", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", ["sum", "mean", "quantiles"])
def test_intervals_hold_and_contain_the_value(kind: str, is_filtered: bool, epsilon: str) -> None:
    where = bf.col("sex") == "m" if is_filtered else None
    kept = AGE[SEX == 1] if is_filtered else AGE
    asked = quantiles(0.5, where=where) if kind == "quantiles" else query(kind, "age", where)  # type: ignore[arg-type]
    truth = {"sum": kept.sum(), "mean": kept.mean(), "quantiles": np.quantile(kept, 0.5, method="inverted_cdf")}[kind]
    compiled = compile_query(DOMAIN, bf.Policy(), asked)
    ready, rows = PlanRelease(compiled, quotes_for(compiled, accuracy_target(epsilon=epsilon)).best), counts(compiled)
    misses = 0
    for _ in range(110):
        found = ready.answer(rows)
        assert found.bounds.low[0] <= found.values[0] <= found.bounds.high[0]
        misses += not found.bounds.low[0] - 1e-9 <= truth <= found.bounds.high[0] + 1e-9
    # Each misses with probability at most 0.05; 24 or more of 110 have chance 1e-9. Thrice the noise misses 40 times.
    assert misses < 24


def test_a_mean_of_perhaps_nobody_may_be_anything() -> None:
    # With this beta the noisy number of people all but surely leaves 0 inside its interval.
    found = answer(query("mean", "age", bf.col("cost") >= 4.5), epsilon="0.0001", beta=1e-9)
    assert (found.bounds.low[0], found.bounds.high[0]) == (-5.0, 20.0)


@pytest.mark.parametrize(
    "asked",
    [query("sum", "sex"), query("mean", "day"), query("sum", bf.col("age").groups({"few": [3], "more": [1]}))],
)
def test_only_bounded_numbers_have_sums(asked: Query) -> None:
    with pytest.raises(QueryError):
        compile_query(DOMAIN, bf.Policy(), asked)


def test_quantiles_of_dates_are_refused_before_any_charge() -> None:
    compiled = compile_query(DOMAIN, bf.Policy(), quantiles(0.5, name="day"))
    with pytest.raises(QueryError, match="cdf"):
        PlanRelease(compiled, quotes_for(compiled, accuracy_target(epsilon=1)).best).answer(
            np.zeros(32, dtype=np.int64)
        )


@pytest.mark.parametrize("levels", [[], [0], [1], [1.5], ["x"], [True], [0.5] * 2000])
def test_levels_lie_between_0_and_1(levels: list[object]) -> None:
    with pytest.raises(QueryError):
        levels_of(levels)
