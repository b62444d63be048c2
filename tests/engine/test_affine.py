"""Sums and means of a x + b, and of products of such: SUM(price * (1 - discount))."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import read_query, write_query
from blowfishdb.engine.target import accuracy_target
from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.query import Query, query
from blowfishdb.session.sizes import declared_ends
from blowfishdb.sql import parse, query_of

DOMAIN = bf.domain(
    {
        "flag": bf.categorical(["A", "R"], null="A", outside="A"),
        "price": bf.integers(1, 9, null=1),
        "discount": bf.bins(0, "0.3", width="0.1"),
        "tax": bf.integers(0, 2, null=0),
    }
)


def asked(text: str) -> Query:
    return query_of(parse(f"SELECT {text} FROM t"), DOMAIN)


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
    compiled = compile_query(DOMAIN, bf.Policy(), statement)
    shape = compiled.cells.graph.shape
    counts = np.random.default_rng(3).integers(0, 50, shape)
    prices, discounts = np.arange(1, 10), np.array([0.05, 0.15, 0.25])
    plain = counts[:9, :3] if compiled.cells.axes == names else counts[:3, :9].T
    wanted = (plain * value(prices[:, None], discounts[None, :])).sum()
    assert compiled.table is not None
    (block,) = compiled.table.blocks
    assert block.rows.dot(counts.reshape(-1)) / block.scale == pytest.approx([wanted])


def test_three_factors_of_a_report_are_one_release_and_come_back_from_storage() -> None:
    report = (
        "SELECT flag, SUM(price) AS base, SUM(price * (1 - discount)) AS disc, SUM(price * (1 - discount) * (1 + tax)) "
        "AS charge, AVG(price) AS mean, AVG(2 * price) AS twice, COUNT(*) AS n FROM t GROUP BY flag"
    )
    statement = query_of(parse(report), DOMAIN)
    assert read_query(write_query(statement)) == statement
    compiled = compile_query(DOMAIN, bf.Policy(presence="secret"), statement)
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
        compiled = compile_query(DOMAIN, bf.Policy(), asked(text))
        tolerated = [replace(part, tolerance=Fraction(50)) for part in compiled.query.aggregates]
        again = compile_query(DOMAIN, bf.Policy(), query("table", aggregates=tolerated))
        return quotes_for(again, accuracy_target(alpha=50)).best.epsilon

    assert 9 < price("SUM(10 * price) AS s") / price("SUM(price) AS s, COUNT(*) AS n") < 21


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SUM(price + discount)", "two columns"),
        ("SUM(price / discount)", "divided by numbers"),
        ("SUM(price / 0)", "divided by numbers"),
        ("SUM(3)", "COUNT"),
        ("SUM(0 * price)", "adds nothing up"),
        ("SUM(price * price)", "different attributes"),
        ("SUM(10000000000 * price)", "nine digits"),
    ],
)
def test_other_arithmetic_is_refused(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        asked(text)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(QueryError, match="sums and means alone"):
        Aggregate("stddev", ("price",), affine=((Fraction(2), Fraction(0)),))
    with pytest.raises(QueryError, match="two numbers for each"):
        Aggregate("sum", ("price",), affine=((Fraction(2), Fraction(0)),) * 2)
    fine = Aggregate("sum", ("price",), affine=((Fraction(1, 999_999_937), Fraction(10**9 - 1, 999_999_929)),))
    with pytest.raises(TooLarge, match="finest unit"):
        compile_query(DOMAIN, bf.Policy(), query("table", aggregates=[fine]))
    assert declared_ends(DOMAIN, ("price",), ((Fraction(-2), Fraction(1)),)) == (-17, -1)
