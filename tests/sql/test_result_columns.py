"""The columns of a statement's table: their order, their aliases, and the numbers that they show."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sqlglot

import blowfishdb as bf
from blowfishdb.model.conditions import value_of
from blowfishdb.sql import ResultColumn, parse, query_of, result_columns

DOMAIN = bf.domain({"age": bf.integers(0, 99), "ward": ["A1", "A2"], "cost": bf.bins(0, 500, width=1)})


@pytest.mark.parametrize(
    ("select", "columns"),
    [
        ("COUNT(*) FROM t", [("count", None, 0)]),
        ("COUNT(*) AS n, ward FROM t GROUP BY ward", [("n", None, 0), ("ward", "ward", 0)]),
        ("bin(age, 20) AS band, COUNT(*) FROM t GROUP BY 1", [("band", "age", 0), ("count", None, 0)]),
        ("SUM(cost) FROM t", [("sum_cost", None, 0)]),
        ("CDF(age) FROM t", [("age", "age", 0), ("cdf", None, 0)]),
        ("ward, CDF(age) AS c FROM t GROUP BY ward", [("ward", "ward", 0), ("age", "age", 0), ("c", None, 0)]),
        ("MEDIAN(cost) AS half FROM t", [("half", None, 0)]),
        ("QUANTILES(cost, 0.5, 0.25) AS q FROM t", [("q_q50", None, 0), ("q_q25", None, 1)]),
        (
            "AVG(cost) AS a, ward, COUNT(*), COUNT(*) FROM t GROUP BY ward ORDER BY SUM(cost)",
            [("a", None, 0), ("ward", "ward", 0), ("count", None, 1), ("count_2", None, 2)],
        ),
    ],
)
def test_columns_stand_as_they_are_selected(select: str, columns: list[tuple[str, str | None, int]]) -> None:
    statement = parse(f"SELECT {select}")
    assert list(result_columns(statement, DOMAIN, query_of(statement, DOMAIN))) == [
        ResultColumn(*one) for one in columns
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CAST(18 AS BIGINT)", 18),
        ("CAST('18' AS INTEGER)", 18),
        ("CAST(1.5 AS DOUBLE PRECISION)", Fraction(3, 2)),
        ("CAST('A1' AS VARCHAR)", "A1"),
        ("CAST(TRUE AS BOOLEAN)", True),
        ("CAST('2024-02-29' AS DATE)", "2024-02-29"),
        # What would be another value, or none.
        ("CAST(1.5 AS INTEGER)", None),
        ("CAST('A1' AS VARCHAR(1))", None),
        ("CAST(1.26 AS DECIMAL(5, 1))", None),
        ("CAST(5 AS TEXT)", None),
        ("CAST(5 AS BOOLEAN)", None),
        ("CAST(TRUE AS INTEGER)", None),
        ("CAST(age AS INTEGER)", None),
        ("CAST('a' AS JSON)", None),
    ],
)
def test_a_cast_of_a_constant_is_the_constant_where_nothing_changes(text: str, value: object) -> None:
    assert value_of(sqlglot.parse_one(text)) == value
