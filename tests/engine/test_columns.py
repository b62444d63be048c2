"""Tables of means and shares: what is promised beforehand holds in the worst case, and costs less than the box."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.candidates import ColumnsGuarantee
from blowfishdb.accuracy.columns import ColumnTails, column_alphas, columns_of
from blowfishdb.accuracy.intervals import Assessment
from blowfishdb.accuracy.quote import Quote, quote
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.infer import Interval, ratio
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.numbers import Floats
from blowfishdb.model.query import query
from blowfishdb.noise.distribution import pmf
from blowfishdb.sql import parse, query_of
from tests.sql.corpus import VISITS

WARDS = ("a", "b", "c", "d")
HOURS = bf.domain({"hours": bf.integers(1, 99, null=40), "ward": bf.categorical(WARDS, null="a", outside="a")})
COUNT = Aggregate("count", tolerance=Fraction(40))
MEAN = Aggregate("mean", ("hours",), tolerance=Fraction(1))
SHARE = Aggregate("share", times=100, tolerance=Fraction(2))
RECORDS = 5000


def table(*parts: Aggregate, records: int | None = RECORDS) -> Compiled:
    return compile_query(
        HOURS, bf.Policy(presence="secret"), query("table", "ward", None, aggregates=parts, rows=records)
    )


def best_of(compiled: Compiled, **target: object) -> Quote:
    return quotes_for(compiled, accuracy_target(**{"alpha": 1, **target})).best  # type: ignore[arg-type]


def box_of(compiled: Compiled) -> Quote:
    """What the box of all rows asks for the same tolerances."""
    assert compiled.table is not None
    return quote(compiled.problem, compiled.table.alpha, 0.05, {"joint": MECHANISMS["joint"]}).best


@pytest.mark.parametrize(
    ("parts", "most"), [((MEAN,), 58), ((SHARE,), 63), ((MEAN, replace(COUNT, tolerance=Fraction(200))), 65)]
)
def test_means_and_shares_of_groups_cost_less_than_the_box(parts: tuple[Aggregate, ...], most: int) -> None:
    compiled = table(*parts)
    assert best_of(compiled).epsilon < Fraction(most, 100) * box_of(compiled).epsilon
    assert best_of(compiled, per_query=True).epsilon < best_of(compiled).epsilon


@pytest.mark.parametrize("low", [-1, 0])
@pytest.mark.parametrize("records", [2, 3])
@pytest.mark.parametrize("scale", [0.7, 4.0])
def test_the_tail_of_a_quotient_is_at_most_what_is_proven_whatever_the_data(
    low: int, records: int, scale: float
) -> None:
    """Both variables listed, for all sums that so many records may have; the count's rows weigh more than the sum's."""
    domain = bf.domain({"x": bf.integers(low, 2, null=0), "ward": bf.categorical(["a", "b"], null="a", outside="a")})
    aggregates = [
        Aggregate("count", tolerance=Fraction(1, 3)),
        Aggregate("mean", ("x",), tolerance=Fraction(1)),
        Aggregate("share", of=("ward",), name="whole", tolerance=Fraction(1, 2)),
        Aggregate("share", tolerance=Fraction(1, 2)),
    ]
    asked = query("table", "ward", None, aggregates=aggregates, rows=records)
    compiled = compile_query(domain, bf.Policy(presence="only"), asked)
    candidate = best_of(compiled).candidate
    tails = Assessment(candidate, compiled.guarantee("simultaneous")).exact_tails
    assert isinstance(tails, ColumnTails)
    assert compiled.table is not None
    assert [one.column for one in tails.columns.quotients] == [1, 3]
    reach = np.arange(-120, 121)
    chances = np.outer(pmf(scale, reach), pmf(scale, reach))
    for place, one in enumerate(tails.columns.quotients):
        first, second = (compiled.table.blocks[block] for block in one.blocks)
        ends = (0, 1) if one.column == 3 else (first.ends[0] - first.offset, first.ends[1] - first.offset)
        assert one.column == 3 or first.multiplier < second.multiplier
        counted = np.maximum(records + reach / second.multiplier, 1.0)
        for total in range(ends[0] * records, ends[1] * records + 1):
            value = np.clip((total + reach / first.multiplier)[:, None] / counted, *ends)
            for far in np.linspace(0.1, 1.9, 10):
                beyond = float(chances[np.abs(value - total / records) > far + 1e-12].sum())
                assert beyond <= tails.beyond(place, scale, far * records) * (1 + 1e-12)


DRAWS = 20_000
MOST = 0.05 * DRAWS + 6.5 * np.sqrt(0.05 * 0.95 * DRAWS)
"""6.5 standard deviations beyond what a promise that holds allows: a probability below 10^-9."""


def noise(best: Quote, share: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draws of the noise of a plan's rows, or of a share of it."""
    keep = np.exp(-share / best.candidate.scales(best.epsilon)[0])
    drawn = rng.geometric(1 - keep, (2, *shape))
    return np.asarray(drawn[0] - drawn[1], dtype=np.float64)


def test_means_of_groups_keep_their_promise_together_and_not_at_less() -> None:
    """Every group has the worst mean there is, just alpha below the largest value."""
    compiled = table(MEAN)
    best, rng = best_of(compiled), np.random.default_rng(11)
    assert compiled.table is not None
    roles = compiled.table.places[0]
    sums, counts = compiled.table.blocks[roles["sum"]], compiled.table.blocks[roles["count"]]
    ends = (sums.ends[0] - sums.offset, sums.ends[1] - sums.offset)
    true = ends[1] - 1.01

    def failures(share: float) -> int:
        shape = (len(WARDS), DRAWS)
        total = RECORDS * true + noise(best, share, shape, rng) / sums.multiplier
        count = RECORDS + noise(best, share, shape, rng) / counts.multiplier
        mean = ratio(Interval(total, total, total), Interval(count, count, count), ends, None).value
        return int(np.count_nonzero(np.any(np.abs(mean - true) > 1, axis=0)))

    assert failures(1.0) <= MOST
    assert failures(0.8) > MOST


def test_shares_keep_their_promise_together_and_not_at_less() -> None:
    compiled = table(SHARE)
    best, rng = best_of(compiled), np.random.default_rng(12)
    assert compiled.table is not None
    roles = compiled.table.places[0]
    part, whole = compiled.table.blocks[roles["part"]], compiled.table.blocks[roles["whole"]]
    true = np.array([0.9799, 0.0067, 0.0067, 0.0067])

    def failures(share: float) -> int:
        parts = RECORDS * true[:, None] + noise(best, share, (len(WARDS), DRAWS), rng) / part.multiplier
        wholes = RECORDS + noise(best, share, (1, DRAWS), rng) / whole.multiplier
        shares = ratio(Interval(parts, parts, parts), Interval(wholes, wholes, wholes), (0.0, 1.0), None).value
        return int(np.count_nonzero(np.any(np.abs(shares - true[:, None]) > 0.02, axis=0)))

    assert failures(1.0) <= MOST
    assert failures(0.5) > MOST


def test_no_promise_is_above_its_tolerance_by_a_rounding_of_floats() -> None:
    for tolerance in range(30, 90):
        asked = replace(COUNT, tolerance=Fraction(tolerance)), replace(MEAN, tolerance=Fraction(tolerance, 30))
        plan = table(*asked).table
        assert plan is not None
        for wide, one in zip(column_alphas(plan, plan.alpha), asked, strict=True):
            assert wide is not None and wide <= float(one.tolerance or 0), tolerance


@pytest.mark.parametrize("parts", [(MEAN,), (COUNT, MEAN), (MEAN, SHARE), (COUNT, MEAN, SHARE)])
def test_the_intervals_that_are_given_are_those_that_were_promised(parts: tuple[Aggregate, ...]) -> None:
    """For groups of the promised size, and at an epsilon that was given as well."""
    for untold in (False, True):
        columns = tuple(replace(one, tolerance=None) if untold else one for one in parts)
        compiled = table(*columns)
        best = best_of(compiled, **({"alpha": None, "epsilon": "0.2"} if untold else {}))
        assert compiled.table is not None
        promised = column_alphas(compiled.table, best.alpha)
        size = compiled.problem.graph.cells
        answer = PlanRelease(compiled, best).answer(np.full(size, len(WARDS) * RECORDS // size + 1))
        for place, (one, wide) in enumerate(zip(columns, promised, strict=True)):
            bounds = answer.column(place).bounds
            assert wide is not None
            assert untold or wide <= float(one.tolerance or 0), "not above what was asked, not by a rounding of floats"
            # A count that comes out lower makes the interval a little wider.
            assert np.all((bounds.high - bounds.low) / 2 <= wide * 1.03)


def test_a_column_read_off_several_rows_holds_only_where_all_of_them_do() -> None:
    spread = Aggregate("stddev_pop", ("hours",), tolerance=Fraction(9))
    for parts, is_together in (((MEAN, spread), True), ((MEAN, COUNT), False)):
        guarantee = table(*parts).guarantee("per-query")
        assert isinstance(guarantee, ColumnsGuarantee)
        assert guarantee.together == is_together
    assert table(spread).guarantee("per-query") == "simultaneous"
    assert table(COUNT).guarantee("per-query") == "per-query"


def test_where_rows_share_their_noise_the_box_of_all_rows_is_quoted() -> None:
    median = Aggregate("quantile", ("hours",), level=Fraction(1, 2), tolerance=Fraction(400))
    compiled = table(MEAN, median)
    best, box = best_of(compiled), box_of(compiled)
    assert Fraction(9, 10) * box.epsilon < best.epsilon <= box.epsilon


def test_a_mean_over_a_single_record_is_promised_the_box() -> None:
    compiled = table(MEAN, records=1)
    assert compiled.guarantee("simultaneous") == "simultaneous"
    assert compiled.table is not None
    assert columns_of(compiled.table) is not None
    assert best_of(compiled).epsilon == box_of(compiled).epsilon


def test_an_exact_count_leaves_the_noise_of_the_sum_alone() -> None:
    asked = query("table", "ward", None, aggregates=[MEAN], rows=RECORDS)
    compiled = compile_query(HOURS, bf.Policy({"ward": bf.public()}), asked)
    assert best_of(compiled).epsilon == box_of(compiled).epsilon


@pytest.mark.parametrize("functions", ["COUNT(*), SUM(nights), AVG(nights)", "COUNT(*), AVG(nights), STDDEV(nights)"])
def test_a_report_of_three_aggregates_costs_at_most_six_tenths_of_these_one_by_one(functions: str) -> None:
    asked = replace(query_of(parse(f"SELECT ward, {functions} FROM visits GROUP BY ward"), VISITS), rows=1000)
    compiled = compile_query(VISITS, bf.Policy(), asked)
    best = best_of(compiled, alpha=None, epsilon=1)
    assert compiled.table is not None

    def price(part: Aggregate, alpha: float | None) -> Fraction:
        wanted = replace(part, tolerance=Fraction(alpha or 0))
        return best_of(compile_query(VISITS, bf.Policy(), replace(asked, aggregates=(wanted,)))).epsilon

    alphas = column_alphas(compiled.table, best.alpha)
    assert sum(map(price, asked.aggregates, alphas)) >= Fraction(10, 6)
