"""Quantiles chosen by the exponential mechanism: which mechanism runs, what is counted, and what is promised."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.quote import MOST_LEVELS, quantiles_at, quantiles_within
from blowfishdb.engine.answer import Answer, worked_out
from blowfishdb.engine.charge import decode, edge_losses, prepare
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query
from blowfishdb.engine.measure import choose_quantiles
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.program import QuantilesRelease
from blowfishdb.engine.release import PartsRelease, PlanRelease, Release, divided
from blowfishdb.engine.request import Number, accuracy_target, make_request
from blowfishdb.errors import AccuracyError, Declined, DigestMismatch, QueryError, TooLarge
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.numbers import Ints
from blowfishdb.model.query import Query, query
from blowfishdb.plan.program import EXPONENTIAL_QUANTILES
from tests.engine.held import Rows

DOMAIN = bf.domain(
    {
        "x": bf.integers(0, 4999, null="cell"),
        "long": bf.integers(0, 99_999, null=0),
        "age": bf.integers(0, 99, null=0),
        "sex": bf.categorical(["f", "m"], null="f", outside="f"),
    }
)
RANDOM = np.random.default_rng(3)
SEX = RANDOM.integers(0, 2, 6000)
X = np.minimum(RANDOM.gamma(3, 300, 6000).astype(np.int64) + 500 * SEX, 4999)
CODES = {"x": X, "sex": SEX, "long": 17 * X, "age": X // 50}
QUARTILES = ("0.25", "0.5", "0.75")


def handle(policy: bf.Policy | None = None, accounting: str = "sum") -> DatasetHandle:
    return DatasetHandle("t", DOMAIN, policy or bf.Policy(), "a", 1, 1, 1, Rows({}), accounting)


def release(asked: Query, policy: bf.Policy | None = None, **target: Number) -> Release:
    place = handle(policy)
    return prepare(place, make_request(place, asked, accuracy_target(**target)))  # type: ignore[arg-type]


def counts(of: Release) -> Ints:
    assert of.compiled is not None
    return counted(of.compiled)


def counted(compiled: Compiled) -> Ints:
    cells = compiled.cells
    flat = cells.cell_of({name: CODES[name] for name in cells.attributes})
    return np.bincount(flat[flat >= 0], minlength=cells.graph.cells).astype(np.int64)


def answer(asked: Query, policy: bf.Policy | None = None, **target: Number) -> Answer:
    ready = release(asked, policy, **target)
    released = decode(ready.payload(counts(ready), handle(policy)))
    assert isinstance(released, Answer)
    return released


@pytest.mark.parametrize("presence", ["public", "secret", "only"])
def test_many_values_are_chosen_from_by_rank(presence: str) -> None:
    policy = bf.Policy(presence=presence)  # type: ignore[arg-type]
    asked = query("quantiles", "x", levels=QUARTILES)
    found = answer(asked, policy, epsilon=1)
    assert (found.mechanism, found.epsilon) == (EXPONENTIAL_QUANTILES, 1)
    compiled = compile_query(DOMAIN, policy, asked)
    promised = quantiles_at(compiled.problem.graph, 5000, asked.levels, Fraction(1), 1e-6)
    for level, value in zip((0.25, 0.5, 0.75), found.values, strict=True):
        below, upto = np.sum(value > X), np.sum(value >= X)
        assert below - promised.alpha <= level * X.size <= upto + promised.alpha
        assert found.bounds.low.min() >= 0
    assert "records of its share" in found.caveat
    found.certificate.verify()
    assert Answer.from_json(found.to_json()).values.tolist() == found.values.tolist()


def test_little_noise_finds_the_quantiles_that_were_asked_in_any_order() -> None:
    found = answer(
        query("quantiles", "x", levels=["0.9", "0.1", "0.5", "0.9"]), epsilon=800, mechanism=EXPONENTIAL_QUANTILES
    )
    ranks = [np.mean(value >= X) for value in found.values]
    assert ranks == pytest.approx([0.9, 0.1, 0.5, 0.9], abs=0.01)
    assert found.values[0] == found.values[3]


def test_only_records_that_pass_the_filter_count() -> None:
    for sex in (0, 1):
        where = bf.col("sex") == ["f", "m"][sex]
        found = answer(query("quantiles", "x", where, levels=["0.5"]), epsilon=800, mechanism=EXPONENTIAL_QUANTILES)
        assert np.mean(found.values[0] >= X[sex == SEX]) == pytest.approx(0.5, abs=0.02)


def test_null_has_no_rank() -> None:
    ready = release(query("quantiles", "x", levels=["0.5"]), epsilon=800, mechanism=EXPONENTIAL_QUANTILES)
    table = np.zeros(5001, dtype=np.int64)
    table[[100, 200, 300, 5000]] = 1, 1, 1, 10**6
    assert isinstance(ready, QuantilesRelease)
    assert 190 <= ready.answer(table).values[0] <= 210


def test_neighbouring_quantiles_bound_each_other_where_the_number_of_records_is_public() -> None:
    levels = [Fraction(place, 10) for place in range(1, 10)]
    public = bf.Policy({"long": bf.full()})
    found = answer(query("quantiles", "long", levels=levels), public, epsilon=20, mechanism=EXPONENTIAL_QUANTILES)
    truth = np.quantile(17 * X, [float(level) for level in levels], method="inverted_cdf")
    assert np.all((found.bounds.low <= truth) & (truth <= found.bounds.high))
    assert found.bounds.low[4] > 0
    assert found.bounds.high[4] < 99_999
    hidden = answer(
        query("quantiles", "long", levels=levels),
        bf.Policy(presence="secret"),
        epsilon=20,
        mechanism=EXPONENTIAL_QUANTILES,
    )
    assert set(hidden.bounds.low) == {0.0}


def test_the_quote_chooses_by_predicted_ranks() -> None:
    for asked, policy, wanted in (
        (query("quantiles", "x", levels=["0.5"]), bf.Policy(), EXPONENTIAL_QUANTILES),
        (query("quantiles", "long", levels=["0.5"]), bf.Policy(presence="only"), EXPONENTIAL_QUANTILES),
        # Neighbouring values only: running counts cost next to nothing.
        (query("quantiles", "long", levels=["0.5"]), bf.Policy({"long": bf.line()}), "ordered"),
        # Few values, each of many records: a CDF bounds the values themselves.
        (query("quantiles", "age", levels=["0.5"]), bf.Policy(), "optimized"),
    ):
        ready = release(asked, policy, epsilon=1)
        preview = ready.preview(handle(policy))
        assert isinstance(preview, Preview)
        assert preview.mechanism == wanted
        assert EXPONENTIAL_QUANTILES in [offer.mechanism for offer in preview.offers]
        if wanted == EXPONENTIAL_QUANTILES and len(preview.offers) > 1:
            assert (preview.best.rmse or 0) < min(offer.rmse or 0 for offer in preview.offers[1:])
        assert "ranks" in preview.why or wanted != EXPONENTIAL_QUANTILES


def test_an_accuracy_in_ranks_is_bought_at_the_least_epsilon() -> None:
    ready = release(query("quantiles", "long", levels=["0.5"]), alpha=40)
    assert isinstance(ready, QuantilesRelease)
    assert ready.best.alpha <= 40
    assert (
        quantiles_at(ready.compiled.problem.graph, 100_000, (Fraction(1, 2),), ready.epsilon * 9 / 10, 0.05).alpha > 40
    )
    preview = ready.preview(handle())
    assert preview.offers[0].epsilon == ready.epsilon
    named = release(
        query("quantiles", "age", levels=QUARTILES),
        bf.Policy(presence="only"),
        alpha=40,
        mechanism=EXPONENTIAL_QUANTILES,
    )
    assert isinstance(named, QuantilesRelease)
    assert named.best.alpha <= 40
    assert "was asked for" in named.preview(handle()).why
    with pytest.raises(Declined):
        quantiles_within(named.compiled.problem.graph, 5, (Fraction(1, 2),), 0, 0.05)


def test_the_promise_holds() -> None:
    policy = bf.Policy(presence="only")
    ready = release(
        query("quantiles", "age", levels=QUARTILES), policy, epsilon="0.5", beta="0.2", mechanism=EXPONENTIAL_QUANTILES
    )
    assert isinstance(ready, QuantilesRelease)
    table = counts(ready)
    running = np.concatenate([[0], np.cumsum(table)])
    misses = 0
    for _ in range(70):
        (chosen,) = choose_quantiles(ready.best.plan, ready.compiled.problem.graph, ready.certificate, table)
        targets = np.array([0.25, 0.5, 0.75]) * table.sum()
        off = np.maximum(0, np.maximum(running[chosen] - targets, targets - running[chosen + 1]))
        misses += bool(np.any(off > ready.best.alpha))
    # At most one in five misses; 38 or more of 70 have chance 1e-9.
    assert misses < 38


def by_sex(*levels: str, of: str = "x") -> Query:
    return query("table", "sex", aggregates=[Aggregate("quantile", (of,), level=Fraction(level)) for level in levels])


@pytest.mark.parametrize("presence", ["public", "only"])
def test_groups_are_chosen_for_one_by_one(presence: str) -> None:
    policy = bf.Policy(presence=presence)  # type: ignore[arg-type]
    found = answer(by_sex("0.9", "0.5"), policy, epsilon=1)
    assert (found.mechanism, found.epsilon, found.kind) == (EXPONENTIAL_QUANTILES, 1, "table")
    compiled = compile_query(DOMAIN, policy, by_sex("0.5", "0.9"))
    levels = Fraction(1, 2), Fraction(9, 10)
    alpha = quantiles_at(compiled.problem.graph, 5000, levels, Fraction(1), 1e-9, 1).alpha
    for column, level in ((0, 0.9), (1, 0.5)):
        for sex, value in enumerate(found.column(column).values):
            mine = X[sex == SEX]
            assert np.sum(value > mine) - alpha <= level * mine.size <= np.sum(value >= mine) + alpha
    found.certificate.verify()
    assert worked_out(found.evidence, found.mechanism, found.epsilon) == found.certificate
    assert Answer.from_json(found.to_json()).values.tolist() == found.values.tolist()


def test_the_quote_chooses_for_groups_too() -> None:
    ready = release(by_sex("0.5"), epsilon=1)
    assert isinstance(ready, QuantilesRelease)
    preview = ready.preview(handle())
    assert "only mechanism" in preview.why
    assert list(preview.columns.values()) == [ready.best.alpha]
    # A median of groups costs what that of all records does: a record that leaves a group moves it by half a rank.
    alone = release(query("quantiles", "x", levels=["0.5"]), epsilon=1)
    assert isinstance(alone, QuantilesRelease)
    assert ready.best.plan.unit == alone.best.plan.unit == 2
    few = release(by_sex("0.5", of="age"), epsilon=1)
    assert isinstance(few, PlanRelease)
    assert EXPONENTIAL_QUANTILES in [offer.mechanism for offer in few.preview(handle()).offers]
    within = release(by_sex("0.5"), alpha=300)
    assert isinstance(within, QuantilesRelease)
    assert within.best.alpha <= 300
    mixed = [*by_sex("0.5", of="age").aggregates, Aggregate("count")]
    with pytest.raises(Declined):
        release(query("table", "sex", aggregates=mixed), epsilon=1, mechanism=EXPONENTIAL_QUANTILES)
    with pytest.raises(Declined, match="groups at once"):
        many = query("table", bf.col("long").bins(1000), aggregates=by_sex("0.5", of="age").aggregates)
        release(many, epsilon=1, mechanism=EXPONENTIAL_QUANTILES)


def test_counts_and_means_stand_beside_quantiles_of_many_values() -> None:
    columns = [Aggregate("count"), *by_sex("0.5").aggregates, Aggregate("mean", ("age",))]
    columns += [Aggregate("quantile", ("long",), level=Fraction(1, 2))]
    asked = query("table", "sex", aggregates=columns, rows=1000)
    ready = release(asked, epsilon=40)
    assert isinstance(ready, PartsRelease)
    assert [type(part) for part in ready.parts] == [PlanRelease, QuantilesRelease, QuantilesRelease]
    assert ready.epsilon == 40
    numbers = np.concatenate([counted(part.compiled) for part in ready.parts])
    found = decode(ready.payload(numbers, handle()))
    assert isinstance(found, Answer)
    assert [column.name for column in found.columns] == ["count", "median_x", "mean_age", "median_long"]
    for sex in (0, 1):
        mine = X[sex == SEX]
        near = (mine.size, np.median(mine), np.mean(mine // 50), 17 * np.median(mine))
        for column, truth in enumerate(near):
            # At this price noise beyond a hundredth of the value has chance below 1e-9.
            assert found.column(column).values[sex] == pytest.approx(truth, rel=0.05)
    assert "chosen by their ranks" in found.caveat
    preview = ready.preview(handle())
    assert list(preview.columns) == ["count", "median_x", "mean_age", "median_long"]
    ready.document()
    for mechanism in (None, "auto"):
        for target in ({"alpha": 500}, {"epsilon": 40}):
            assert isinstance(release(asked, mechanism=mechanism, **target), PartsRelease)  # type: ignore[arg-type]
    with pytest.raises(Declined, match="it answers counts"):
        release(asked, epsilon=40, mechanism="dawa")


def test_what_it_does_not_serve_is_declined() -> None:
    exact = bf.Policy({"x": bf.public(), "age": bf.public()})
    for asked, policy in (
        (query("histogram", "x"), bf.Policy()),
        (query("quantiles", "age", levels=["0.5"]), exact),
        (query("quantiles", "x", levels=[Fraction(n, 100) for n in range(1, MOST_LEVELS + 2)]), bf.Policy()),
        (query("quantiles", "x", bf.col("x").is_null(), levels=["0.5"]), bf.Policy()),
    ):
        with pytest.raises(Declined):
            release(asked, policy, epsilon=1, mechanism=EXPONENTIAL_QUANTILES)
    with pytest.raises(AccuracyError, match="at most 1000"):
        release(query("quantiles", "x", levels=["0.5"]), epsilon=10**6, mechanism=EXPONENTIAL_QUANTILES)
    assert isinstance(release(query("quantiles", "age", levels=["0.5"]), exact, epsilon=1), PlanRelease)
    many = query("quantiles", "age", levels=[Fraction(n, 100) for n in range(1, MOST_LEVELS + 2)])
    assert isinstance(release(many, epsilon=1), PlanRelease)
    either = (bf.col("sex") == "f") | (bf.col("x") > 9)
    with pytest.raises(QueryError, match="joined with AND"):
        release(query("table", aggregates=[Aggregate("quantile", ("age",), either, Fraction(1, 2))]), epsilon=1)


def test_groups_of_more_values_than_are_planned_for_are_chosen_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered, which is quicker than 2^21 cells. No CDF is quoted, and none that is named is planned."""
    monkeypatch.setattr("blowfishdb.engine.program.MOST_CELLS", 6000)
    monkeypatch.setattr("blowfishdb.engine.program.quotes_for", lambda *_: pytest.fail("a plan for too many cells"))
    place = handle()
    medians = query("table", "sex", None, aggregates=(Aggregate("quantile", ("x",), level=Fraction(1, 2)),))
    made = prepare(place, make_request(place, medians, accuracy_target(epsilon=1)))
    assert isinstance(made, QuantilesRelease)
    assert "too many" in made.preview(place).declined["optimized"]
    with pytest.raises(TooLarge, match="Leave the mechanism out"):
        prepare(place, make_request(place, medians, accuracy_target(epsilon=1, mechanism="joint")))


def test_a_plan_that_was_not_charged_is_not_drawn() -> None:
    ready = release(query("quantiles", "age", levels=["0.5"]), epsilon=1, mechanism=EXPONENTIAL_QUANTILES)
    assert isinstance(ready, QuantilesRelease)
    finer = replace(ready.best.plan, unit=ready.best.plan.unit / 2)
    with pytest.raises(DigestMismatch):
        choose_quantiles(finer, ready.compiled.problem.graph, ready.certificate, counts(ready))
    assert ready.digest_1() == ready.digest


def test_each_class_of_edges_is_charged_its_own_loss() -> None:
    policy = bf.Policy({"x": bf.line()}, composition="attribute", presence="secret")
    place = handle(policy, "per-edge")
    asked = query("quantiles", "x", bf.col("sex") == "f", levels=["0.5"])
    ready = prepare(place, make_request(place, asked, accuracy_target(epsilon=1, mechanism=EXPONENTIAL_QUANTILES)))
    losses = edge_losses(place, ready)
    # A median moves by half a rank for a record that comes or goes, by one for a record that moves.
    assert losses == {"presence": Fraction(1, 2), "moves x": 1, "moves sex": Fraction(1, 2)}


def test_quantiles_are_planned_apart_from_other_columns() -> None:
    count, mean = Aggregate("count"), Aggregate("mean", ("age",))
    quartiles = [Aggregate("quantile", ("age",), level=Fraction(place, 4)) for place in (1, 3)]
    median = Aggregate("quantile", ("x",), level=Fraction(1, 2))

    def planned(*columns: Aggregate) -> list[tuple[Aggregate, ...]]:
        return [part.aggregates for part in divided(DOMAIN, bf.Policy(), Query("table", aggregates=columns))]

    assert planned(count, *quartiles, mean, median) == [(count, mean), tuple(quartiles), (median,)]
    assert planned(*quartiles) == [tuple(quartiles)]
    assert planned(count, mean) == [(count, mean)]
