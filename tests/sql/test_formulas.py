"""Columns worked out of others: the range of a formula over intervals, what is divided by, and where they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.infer import Interval
from blowfishdb.engine.postprocess import Arithmetic, Computed, Total, formula_words
from blowfishdb.errors import QueryError
from blowfishdb.model.domain import Domain
from blowfishdb.sql import names_of, parse, query_of, result_columns, selection_of
from tests.sql.corpus import VISITS
from tests.sql.test_corpus import answered

PRICED = bf.domain(
    {
        "price": bf.bins(0, 10, width="0.25"),
        "rate": bf.bins("0.5", 10, width="0.25"),
        "units": bf.bins(0, 10, width=2, whole=True),
        "fee": bf.integers(2, 9),
        "change": bf.integers(-9, 9),
    }
)


def misses(inverse: Callable[[Interval, float], Interval]) -> int:
    """How many quotients of numbers in two intervals lie outside the range that is given for them."""
    draw = np.random.default_rng(5)
    ends = np.sort(draw.integers(-6, 7, (2, 2, 4000)).astype(np.float64), axis=1)
    over, under = (Interval(pair.mean(axis=0), pair[0], pair[1]) for pair in ends)
    wide = over.product(inverse(under, 0.5))
    assert np.all((wide.low <= wide.value) & (wide.value <= wide.high))
    missed = 0
    for part in np.linspace(0.0, 1.0, 7):
        one, two = (each.low + part * (each.high - each.low) for each in (over, under))
        two = np.round(2.0 * two[::-1]) / 2.0
        inside = (under.low <= two) & (two <= under.high) & (two != 0.0)
        quotient = np.where(inside, one / np.where(inside, two, 1.0), wide.low)
        missed += int(np.count_nonzero((quotient < wide.low - 1e-9) | (quotient > wide.high + 1e-9)))
    return missed


def test_a_quotient_lies_in_the_range_over_both_intervals() -> None:
    assert misses(Interval.inverse) == 0


def test_a_range_that_forgets_small_divisors_is_noticed() -> None:
    assert misses(lambda under, grain: under.inverse(4 * grain)) > 100


def numbers(answer: Answer, name: str) -> Answer:
    return answer.column([column.name for column in answer.columns].index(name))


def test_worked_out_columns_stand_where_they_are_selected_and_their_inputs_follow() -> None:
    text = "SELECT ward, SUM(cost) * 1.0 / COUNT(age) AS each, COUNT(*) AS n, SUM(cost) - 1 FROM visits GROUP BY ward"
    statement = parse(text)
    query = query_of(statement, VISITS)
    answer = answered(VISITS, text)
    assert [column.name for column in answer.columns] == ["each", "n", "sum_cost - 1", "sum_cost", "count_age"]
    places = [(column.name, column.place) for column in result_columns(statement, VISITS, query)[1:]]
    assert places == [("each", 0), ("n", 1), ("sum_cost - 1", 2)]
    total, count, each = (numbers(answer, name) for name in ("sum_cost", "count_age", "each"))
    np.testing.assert_allclose(each.values, total.values / count.values)
    assert np.all(each.bounds.low <= total.bounds.low / count.bounds.high + 1e-9)
    assert np.all(each.bounds.high >= total.bounds.high / np.maximum(count.bounds.low, 1.0) - 1e-9)
    assert "each, sum_cost - 1 are worked out" in answer.consistent.note


def test_totals_are_over_the_groups_of_the_partition() -> None:
    text = "SELECT ward, sex, SUM(cost) / SUM(SUM(cost)) OVER (PARTITION BY ward) AS p FROM visits GROUP BY ward, sex"
    share = numbers(answered(VISITS, text), "p").values.reshape(4, 2)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)


def selected(text: str, domain: Domain = VISITS) -> tuple[Computed, ...]:
    statement = parse(text)
    query = query_of(statement, domain)
    return selection_of(statement, names_of(statement, domain), query).computed


@pytest.mark.parametrize(
    ("formula", "grain"),
    [
        ("COUNT(*) / SUM(rate)", 1 / 2),
        ("COUNT(*) / SUM(1 - 4 * rate)", 1.0),
        ("COUNT(*) / SUM(rate * fee)", 1.0),
        ("COUNT(*) / SUM(rate * units)", 1 / 2),
        ("COUNT(*) / SUM(units * change)", 1.0),
        ("COUNT(*) / SUM(units / 2)", 1 / 2),
        ("COUNT(*) / (2 * COUNT(price))", 2.0),
        ("SUM(price) / SUM(fee / 3)", 1 / 3),
        ("COUNT(*) / AVG(fee)", 0.0),
        ("COUNT(*) / SUM(SUM(fee)) OVER ()", 1.0),
    ],
)
def test_what_is_divided_by_is_0_or_at_least_its_unit(formula: str, grain: float) -> None:
    (one,) = selected(f"SELECT {formula} AS q FROM t", PRICED)
    assert isinstance(one.formula, Arithmetic)
    assert one.formula.grain == pytest.approx(grain)


def test_formulas_have_words() -> None:
    (one,) = selected("SELECT sex, -SUM(cost) / SUM(SUM(cost)) OVER (PARTITION BY sex) AS p FROM visits GROUP BY sex")
    assert formula_words(one.formula) == "(0 - sum_cost) / the total of sum_cost by sex"
    assert formula_words(Total("n")) == "the total of n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "SELECT ward, SUM(cost) FROM visits GROUP BY ward HAVING SUM(cost) - 1 > 2 * COUNT(*)",
            "HAVING compares",
        ),
        ("SELECT COUNT(*) - RANK() OVER (ORDER BY COUNT(*)) FROM visits", "total of all groups"),
        ("SELECT SUM(cost) / AVG(ward) FROM visits", "no declared numbers"),
    ],
)
def test_other_arithmetic_is_refused(text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        selected(text)


@pytest.mark.parametrize("divisor", ["SUM(price)", "SUM(price * fee)", "SUM(rate - 3)", "SUM(rate * change)"])
def test_what_may_be_as_near_to_0_as_one_likes_divides_nothing(divisor: str) -> None:
    """Of values that lie anywhere in bins, unlike of their middles."""
    with pytest.raises(QueryError, match="as near to it as one likes"):
        selected(f"SELECT COUNT(*) / {divisor} AS q FROM t", PRICED)


def test_sorting_by_a_formula_needs_its_column() -> None:
    text = "SELECT ward, SUM(cost) - SUM(nights) AS d FROM visits GROUP BY ward ORDER BY SUM(cost) - SUM(nights) DESC"
    values = numbers(answered(VISITS, text), "d").values
    assert values.tolist() == sorted(values.tolist(), reverse=True)
    statement = parse(text)
    chosen = selection_of(statement, names_of(statement, VISITS), query_of(statement, VISITS))
    assert chosen.order[0].name == "d"
    assert replace(chosen, computed=()).words == "by d (largest first)"
