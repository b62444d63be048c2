"""Statements become the questions that the Python face asks; their tables have the columns that were named."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sqlglot

import blowfishdb as bf
from blowfishdb.engine.request import TargetOptions, target_options
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.model.conditions import value_of
from blowfishdb.model.predicate import Axis, Comparison, Either, IsNull, IsOutside, Member, Negation, atoms, col
from blowfishdb.model.query import Query
from blowfishdb.sources.base import Join
from blowfishdb.sql import (
    ResultColumn,
    merged,
    names_of,
    parse,
    query_of,
    result_columns,
    selection_of,
    without_joins,
    write_options,
)

ATTRIBUTES = ("age", "state", "Cost", "day", 'odd "name', "Größe")


def question(text: str) -> Query:
    return query_of(parse(text), ATTRIBUTES)


def where(condition: str) -> object:
    return question(f"SELECT COUNT(*) FROM t WHERE {condition}").where


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT COUNT(*) FROM t", Query("count")),
        ("SELECT age, COUNT(*) FROM t GROUP BY age", Query("histogram", (Axis("age"),))),
        ("select AGE, count(*) as n from T group by Age;", Query("histogram", (Axis("age"),))),
        (
            "SELECT state, bin(age, 10), COUNT(*) FROM t GROUP BY state, bin(age, 10)",
            Query("histogram", (Axis("state"), Axis("age", width=10))),
        ),
        (
            "SELECT bin(age, 2.5) b, COUNT(*) FROM t GROUP BY b",
            Query("histogram", (Axis("age", width=Fraction(5, 2)),)),
        ),
        ("SELECT COUNT(*), state FROM t GROUP BY 2", Query("histogram", (Axis("state"),))),
        (
            "SELECT bin_edges(age, 0, 18, 65), COUNT(*) FROM t GROUP BY ALL",
            Query("histogram", (Axis("age", edges=(0, 18, 65)),)),
        ),
        (
            "SELECT DATE_TRUNC('month', day), COUNT(*) FROM t GROUP BY 1",
            Query("histogram", (Axis("day", unit="month"),)),
        ),
        ("SELECT SUM(Cost) FROM t", Query("sum", (Axis("Cost"),))),
        ("SELECT AVG(cost) FROM t", Query("mean", (Axis("Cost"),))),
        ("SELECT CDF(age) FROM t", Query("cdf", (Axis("age"),))),
        ("SELECT CDF(bin(age, 5)) FROM t", Query("cdf", (Axis("age", width=5),))),
        ("SELECT MEDIAN(age) FROM t", Query("quantiles", (Axis("age"),), levels=(Fraction(1, 2),))),
        (
            "SELECT QUANTILES(age, .1, 0.25) FROM t",
            Query("quantiles", (Axis("age"),), levels=(Fraction(1, 10), Fraction(1, 4))),
        ),
        ('SELECT "odd ""name", COUNT(*) FROM "t x" GROUP BY 1', Query("histogram", (Axis('odd "name'),))),
        ("SELECT Größe, COUNT(*) FROM t /* why */ GROUP BY Größe -- end", Query("histogram", (Axis("Größe"),))),
    ],
)
def test_a_statement_asks_the_same_as_python(text: str, expected: Query) -> None:
    assert question(text) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("age >= 18", col("age") >= 18),
        ("18 <= age", col("age") >= 18),
        ("t.age < -1.5", col("age") < Fraction(-3, 2)),
        ("state = 'NC'", col("state") == "NC"),
        ("state <> 'N''C'", Negation(Comparison("state", "==", "N'C"))),
        ("state IN ('NC', 'VA')", Member("state", ("NC", "VA"))),
        ("state NOT IN ('NC')", Negation(Member("state", ("NC",)))),
        ("age BETWEEN 18 AND 65", col("age").between(18, 65)),
        ("age IS NULL", IsNull("age")),
        ("age IS NOT NULL", Negation(IsNull("age"))),
        ("OUTSIDE(state)", IsOutside("state")),
        ("day > DATE '2024-02-29'", col("day") > "2024-02-29"),
        ("state = TRUE", Comparison("state", "==", True)),
        ("NOT (age < 3 OR age > 9)", ~((col("age") < 3) | (col("age") > 9))),
        ("age < 3 OR age > 9 AND state = 'a'", (col("age") < 3) | ((col("age") > 9) & (col("state") == "a"))),
    ],
)
def test_conditions(written: str, expected: object) -> None:
    assert where(written) == expected


@pytest.mark.parametrize(
    ("nested", "plain"),
    [
        (
            "SELECT COUNT(*) FROM (SELECT age AS day, day AS age FROM "
            "(SELECT age, day FROM t WHERE age > 3)) WHERE day < 9",
            "SELECT COUNT(*) FROM t WHERE age > 3 AND age < 9",
        ),
        (
            "WITH t AS (SELECT * FROM t WHERE age > 3), u AS (SELECT * FROM t) "
            "SELECT COUNT(*) FROM u AS v WHERE v.age < 9",
            "SELECT COUNT(*) FROM t WHERE age > 3 AND age < 9",
        ),
        (
            "SELECT state AS s, COUNT(*) AS n FROM (SELECT state FROM t) GROUP BY s HAVING n > 5 ORDER BY n DESC",
            "SELECT state, COUNT(*) AS n FROM t GROUP BY state HAVING n > 5 ORDER BY n DESC",
        ),
        (
            "SELECT a AS b, b AS a, COUNT(*) FROM (SELECT state AS a, age AS b FROM t) GROUP BY 1, 2 ORDER BY a",
            "SELECT state, age, COUNT(*) FROM t GROUP BY 1, 2 ORDER BY age",
        ),
        (
            "SELECT age AS state, x AS age, COUNT(*) FROM (SELECT age, state AS x FROM t) GROUP BY state, x",
            "SELECT age, state, COUNT(*) FROM t GROUP BY age, state",
        ),
        (
            "SELECT state, SUM(x) AS x FROM (SELECT state, cost AS x FROM t) GROUP BY state "
            "HAVING SUM(x) > 9 ORDER BY x",
            "SELECT state, SUM(cost) AS x FROM t GROUP BY state HAVING SUM(cost) > 9 ORDER BY x",
        ),
        (
            "SELECT state, COUNT(*) FROM (SELECT *, DATE_TRUNC('month', day) AS month, bin(age, 5) AS a FROM t) "
            "GROUP BY 1",
            "SELECT state, COUNT(*) FROM t GROUP BY state",
        ),
        (
            "SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state) AS s WHERE s.n > 5 ORDER BY s.n LIMIT 2",
            "SELECT state, COUNT(*) AS n FROM t GROUP BY state HAVING n > 5 ORDER BY n LIMIT 2",
        ),
        (
            "SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state ORDER BY n OFFSET 2) LIMIT 3",
            "SELECT state, COUNT(*) AS n FROM t GROUP BY state ORDER BY n LIMIT 3 OFFSET 2",
        ),
    ],
)
def test_a_statement_over_a_query_asks_the_same_as_one_over_the_dataset(nested: str, plain: str) -> None:
    assert question(nested) == question(plain)
    one, two = (
        selection_of(statement, names_of(statement, ATTRIBUTES), query_of(statement, ATTRIBUTES))
        for statement in (parse(nested), parse(plain))
    )
    assert one == two


def test_long_runs_of_conditions_stay_shallow() -> None:
    run = question("SELECT COUNT(*) FROM t WHERE " + " OR ".join(f"age = {n}" for n in range(120))).where
    assert [atom.value for atom in atoms(run) if isinstance(atom, Comparison)] == list(range(120))
    depth, layer = 0, [run]
    while layer:
        layer = [part for node in layer if isinstance(node, Either) for part in (node.first, node.second)]
        depth += 1
    assert depth <= 10


def test_explain_and_options() -> None:
    statement = parse("EXPLAIN SELECT COUNT(*) FROM t OPTIONS (within = 50, confidence = 0.95)")
    assert statement.explain
    assert statement.options == TargetOptions(alpha=Fraction(50), beta=Fraction(1, 20))
    other = parse("SELECT COUNT(*) FROM t OPTIONS (epsilon = 0.1, mechanism = 'identity', per_query = TRUE)")
    assert not other.explain
    assert other.options == TargetOptions(epsilon=Fraction(1, 10), mechanism="identity", per_query=True)


@pytest.mark.parametrize(
    "wanted",
    [
        TargetOptions(alpha=Fraction(50), beta=Fraction(1, 20)),
        TargetOptions(epsilon=Fraction(1, 3), mechanism="dawa"),
        TargetOptions(alpha=Fraction(1, 10**15), per_query=True),
        TargetOptions(epsilon=Fraction(1, 2), mechanism="it's", per_query=False),
    ],
)
def test_options_are_written_as_they_are_read(wanted: TargetOptions) -> None:
    select = 'SELECT "odd ""name", COUNT(*) -- why\nFROM t WHERE state = \'a;b\' GROUP BY 1'
    statement = parse(f"  EXPLAIN /* expensive? */ {select} {write_options(wanted)};")
    assert statement.text == select
    again = parse(f"{statement.text} {write_options(statement.options)}")
    assert (again.explain, again.options, again.text) == (False, wanted, select)


def test_nothing_said_is_no_option() -> None:
    assert write_options(TargetOptions()) == ""


def test_a_column_called_options_is_no_option() -> None:
    statement = parse('SELECT "options", COUNT(*) FROM t GROUP BY "options"')
    assert query_of(statement, ["options"]).axes == (Axis("options"),)


def test_keywords_add_to_options_and_must_not_contradict_them() -> None:
    written = parse("SELECT COUNT(*) FROM t OPTIONS (alpha = 50)").options
    both = TargetOptions(alpha=Fraction(50), beta=Fraction(1, 10))
    assert merged(written, target_options(confidence=0.9)) == both
    assert merged(written, target_options(accuracy="50", beta="1/10")) == both
    with pytest.raises(AccuracyError, match="alpha is 50 in OPTIONS and 60 outside"):
        merged(written, target_options(alpha=60))
    with pytest.raises(AccuracyError, match="give one of them"):
        target_options(alpha=60, accuracy=60)


def test_case_matters_where_names_differ_by_case_alone() -> None:
    with pytest.raises(QueryError, match="no attribute 'AGE'"):
        query_of(parse("SELECT COUNT(*) FROM t WHERE AGE > 3"), ["age", "Age"])
    with pytest.raises(QueryError, match="no attribute 'AGE'"):
        query_of(parse('SELECT COUNT(*) FROM t WHERE "AGE" > 3'), ["age"])


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


def test_a_column_of_a_joined_table_is_meant_before_an_attribute_of_the_same_name() -> None:
    join = Join("p", "patient", "id", {"age": "weight", "state": "age"})
    statement = parse("SELECT COUNT(*) FROM t JOIN p ON patient = p.id WHERE p.age > 3")
    assert query_of(without_joins(statement, [join]), ATTRIBUTES).where == (col("state") > 3)
