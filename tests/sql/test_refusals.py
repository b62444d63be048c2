"""Whatever is not a question is refused with a typed error and the nearest thing that works."""

from __future__ import annotations

import logging

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blowfishdb.errors import QueryError
from blowfishdb.model.query import Query
from blowfishdb.sql import names_of, parse, query_of, selection_of

ATTRIBUTES = ("age", "state", "day")


def question(text: str) -> Query:
    statement = parse(text)
    query = query_of(statement, ATTRIBUTES)
    selection_of(statement, names_of(statement, ATTRIBUTES), query)
    return query


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "statement is expected"),
        (";;", "statement is expected"),
        ("SELECT * FROM visits", r"Rows are never shown. What works: SELECT <attributes>, COUNT\(\*\) FROM visits"),
        ("SELECT t.* FROM t", "Rows are never shown"),
        ("SELECT age FROM t", "Rows are never shown"),
        ("SELECT age, COUNT(*) FROM t", "add GROUP BY age"),
        ("SELECT COUNT(*) FROM t GROUP BY age", "add it after SELECT"),
        ("SELECT age, COUNT(*) FROM t GROUP BY state", "'age' is selected but not grouped"),
        ("SELECT aeg, COUNT(*) FROM t GROUP BY aeg", "did you mean 'age'"),
        ("SELECT COUNT(*) FROM t WHERE aeg = 3", "did you mean 'age'"),
        ("SELECT COUNT(*) FROM t WHERE u.age = 3", "not an attribute"),
        ('SELECT COUNT(*) FROM t WHERE state = "NC"', "single quotes"),
        ("SELECT COUNT(*) FROM t WHERE age = state", "another attribute"),
        ("SELECT COUNT(*) FROM t WHERE age = NULL", "IS NULL"),
        ("SELECT COUNT(*) FROM t WHERE age = ?", "placeholders"),
        ("SELECT COUNT(*) FROM t WHERE age = :secret", "placeholders"),
        ("SELECT COUNT(*) FROM t WHERE state LIKE 'N%'", "IN"),
        ("SELECT COUNT(*) FROM t WHERE age IN (SELECT 1)", "never a query"),
        ("SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1)", "subqueries"),
        ("SELECT COUNT(*) FROM t WHERE age > (SELECT 1)", "not a plain value"),
        ("SELECT COUNT(*) FROM t WHERE age > 1 / 2", "not a plain value"),
        ("SELECT COUNT(*) FROM t WHERE age + 1 > 2", "not an attribute"),
        ("SELECT COUNT(*) FROM t WHERE pg_sleep(10)", "cannot be a condition"),
        ("SELECT COUNT(*) FROM t WHERE state", "compare it"),
        ("SELECT COUNT(*) FROM t WHERE age > 1e999999999", "out of range"),
        ("SELECT COUNT(*) FROM t WHERE age > " + "9" * 5000, "at most 40 characters"),
        ("SELECT COUNT(*) FROM t WHERE state = '" + "x" * 5000 + "'", "at most 1,000 characters"),
        ("SELECT COUNT(DISTINCT age, sex) FROM t", "GROUP BY the attribute"),
        ("SELECT AVG(COALESCE(age, 0)) FROM t", "AVG leaves NULL out"),
        ("SELECT COUNT(*) FROM t WHERE state IS TRUE", "IS is followed by NULL or NOT NULL, or by TRUE"),
        ("SELECT COUNT(*) FROM t WHERE day >= NOW() - INTERVAL '7 days'", "write the day"),
        ("SELECT age, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM t) FROM t GROUP BY age", "total of all groups is SUM"),
        ("SELECT n FROM (SELECT age, COUNT(*) AS n FROM t GROUP BY age)", "all of its columns in their order"),
        ("SELECT v.age, u.n FROM (SELECT age, COUNT(*) AS n FROM t GROUP BY age) v", "'u.n' is no column of the query"),
        ("SELECT MIN(age) FROM t", "QUANTILES"),
        ("SELECT MAX(age) FROM t", "QUANTILES"),
        ("SELECT SUM(DISTINCT age) FROM t", "take an attribute"),
        ("SELECT COUNT(*) / (COUNT(*) + 1) FROM t", "may be 0; a quotient is over a count or a sum"),
        ("SELECT COUNT(*) / AVG(age) FROM t", "a quotient is over a count or a sum"),
        ("SELECT COUNT(*) - 1 / 0 FROM t", "divided by 0"),
        ("SELECT SUM(age) / 0 FROM t", "divided by 0"),
        ("SELECT SUM(CASE WHEN age > 1 THEN 2 ELSE 0 END) FROM t", "gives 1 or an attribute"),
        ("SELECT SUM(CASE WHEN age > 1 THEN 1 ELSE 2 END) FROM t", "ELSE 0"),
        ("SELECT SUM(CASE WHEN age > 1 THEN 1 WHEN age > 2 THEN 1 END) FROM t", "one WHEN"),
        ("SELECT AVG(CASE WHEN age > 1 THEN age ELSE 0 END) FROM t", "leave ELSE 0 out"),
        ("SELECT COUNT(CASE WHEN age > 1 THEN 1 ELSE 0 END) FROM t", "leave ELSE out"),
        ("SELECT SUM(CASE WHEN age > 1 THEN NULL END) FROM t", "a number or an attribute"),
        ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age DESC) FROM t", "rising order"),
        ("SELECT COUNT(*) - age FROM t", "not known here"),
        ("SELECT COUNT(*) + QUANTILES(age, 0.1, 0.9) FROM t", "arithmetic takes one"),
        ("SELECT state, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY age) FROM t GROUP BY state", "are grouped"),
        ("SELECT state, CDF(age), COUNT(*) FROM t GROUP BY state", "of its own"),
        ("SELECT state, CDF(state) FROM t GROUP BY state", "grouped already"),
        ("SELECT state, CDF(bin(age, 5)) FROM t GROUP BY state", "declared values"),
        ("SELECT CDF(age, state) FROM t", "CDF takes one attribute"),
        ("SELECT COUNT(*) FROM t GROUP BY ROLLUP (age)", "only plain groups|ROLLUP"),
        ("SELECT " + "age, " * 17 + "COUNT(*) FROM t GROUP BY " + ", ".join(["age"] * 17), "at most 16 groups"),
        ("SELECT bin_edges(age, 0), COUNT(*) FROM t GROUP BY 1", "two or more edges"),
        ("SELECT bin_edges(age, 0, NULL), COUNT(*) FROM t GROUP BY 1", "edges are values"),
        ("SELECT bin(age, 'x'), COUNT(*) FROM t GROUP BY 1", "the width is a number"),
        ("SELECT COUNT(*) FROM t OPTIONS (alpha = 5 beta = 1)", "separated by commas"),
        ("SELECT COUNT(*) FROM t OPTIONS (alpha = 5, per_query = maybe)", "TRUE"),
        ("SELECT COUNT(*) FROM t AS u(a, b)", "one name"),
        ("SELECT COUNT((SELECT 1)) FROM t", "COUNT takes"),
        ("SELECT SUM(age + day) FROM t", "two columns"),
        ("SELECT QUANTILES(age, 2) FROM t", "between 0 and 1"),
        ("SELECT COUNT(*) OVER () FROM t", "CDF"),
        ("SELECT MONTH(day), COUNT(*) FROM t GROUP BY 1", "DATE_TRUNC"),
        ("SELECT bin(age), COUNT(*) FROM t GROUP BY 1", "a width"),
        ("SELECT bin(age, 'x'), COUNT(*) FROM t GROUP BY 1", "a number"),
        ("SELECT age, COUNT(*) FROM t GROUP BY 2", "names no attribute"),
        ("SELECT age, COUNT(*) FROM t GROUP BY ROLLUP (age)", "marginals"),
        ("SELECT COUNT(*) FROM t; DROP TABLE t", "One statement at a time"),
        ("DROP TABLE t", "not 'DROP'"),
        ("COPY t TO '/tmp/x'", "not 'COPY'"),
        ("EXPLAIN ANALYZE SELECT COUNT(*) FROM t", "never runs anything"),
        ("EXPLAIN EXPLAIN SELECT COUNT(*) FROM t", "not 'EXPLAIN'"),
        ("WITH x AS (SELECT 1) SELECT COUNT(*) FROM x", "needs a name|FROM"),
        ("WITH x AS (SELECT 1) SELECT COUNT(*) FROM t", "nothing is selected from 'x'"),
        ("SELECT COUNT(*) FROM t UNION SELECT 1", "UNION"),
        ("SELECT COUNT(*) FROM t, u", "declared by the curator"),
        ("SELECT COUNT(*) FROM t JOIN u USING (id)", "declared by the curator"),
        ("SELECT COUNT(*) FROM (SELECT age FROM t LIMIT 3)", "the outer query"),
        ("SELECT COUNT(*) FROM (SELECT age FROM t UNION SELECT 1)", "the outer query"),
        ("SELECT AVG(n) FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state)", "the outer query"),
        ("SELECT COUNT(*) FROM (SELECT age / 10 FROM t)", "needs a name"),
        ("SELECT state, COUNT(*) FROM (SELECT age FROM t) GROUP BY state", "no column of the query"),
        ("WITH RECURSIVE a AS (SELECT age FROM t) SELECT COUNT(*) FROM a", "the outer query"),
        ("SELECT COUNT(*) FROM (SELECT age FROM t JOIN u USING (id))", "curator"),
        (
            "SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state ORDER BY n DESC LIMIT 3) WHERE n < 400",
            "come before WHERE",
        ),
        (
            "SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state ORDER BY state LIMIT 3) OFFSET 1",
            "come before WHERE",
        ),
        (
            "SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state LIMIT 2) ORDER BY n DESC",
            "come before WHERE",
        ),
        (
            "SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state OFFSET 2) WHERE n < 400",
            "come before WHERE",
        ),
        (
            "SELECT * FROM (SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state LIMIT 3)) WHERE n < 400",
            "come before WHERE",
        ),
        ("SELECT * FROM (SELECT n FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state))", r"selects \*"),
        ("SELECT * EXCLUDE (n) FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state)", "write out the columns"),
        ("SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state) WHERE COUNT(*) > 3", "by their aliases"),
        (
            "SELECT * FROM (SELECT state, COUNT(*) AS n FROM t GROUP BY state) AS s WHERE u.n > 3",
            "'u.n' is no column .* is called s",
        ),
        (
            "SELECT * FROM (SELECT state AS s, COUNT(*) AS n FROM t GROUP BY state) ORDER BY state",
            "'state' is no column",
        ),
        ("SELECT COUNT(*) FROM (SELECT age, state FROM t) AS s(state, age)", "one name"),
        ("WITH a AS (SELECT age, state FROM t) SELECT COUNT(*) FROM a AS s(state, age)", "one name"),
        ("WITH a(x) AS (SELECT age FROM t) SELECT COUNT(*) FROM a", "without names of columns"),
        ("SELECT COUNT(*) FROM (SELECT * FROM t) TABLESAMPLE (10 PERCENT)", "nothing but an alias"),
        ("WITH a AS (SELECT * FROM t) SELECT COUNT(*) FROM a TABLESAMPLE (10 PERCENT)", "nothing but an alias"),
        ("SELECT COUNT(*) FROM (SELECT * FROM t) PIVOT (SUM(age) FOR state IN ('NC', 'VA'))", "nothing but an alias"),
        ("SELECT COUNT(*) FROM t.people TABLESAMPLE (10 PERCENT)", "nothing but an alias"),
        ("SELECT COUNT(*) FROM t.people AS p(a)", "one name"),
        ("SELECT COUNT(*) FROM t@v1", "one name"),
        ("WITH a AS (SELECT * FROM t) SELECT COUNT(*) FROM a@v1", "one name"),
        ("SELECT SUM(age) FROM (SELECT * REPLACE (age * 2 AS age) FROM t)", "write out the columns"),
        ("SELECT COUNT(*) FROM (SELECT t.* EXCLUDE (age) FROM t) WHERE age > 3", "write out the columns"),
        ("SELECT SUM(years) FROM (SELECT * RENAME (age AS years) FROM t)", "write out the columns"),
        ("SELECT COUNT(* EXCLUDE (age)) FROM t", "write out the columns"),
        (
            "WITH u AS (SELECT * FROM t), t AS (SELECT * FROM t WHERE age > 3) SELECT COUNT(*) FROM u",
            "nothing is selected from 't'",
        ),
        ("WITH a AS (SELECT * FROM t), a AS (SELECT * FROM t WHERE age > 3) SELECT COUNT(*) FROM a", "same name"),
        ("SELECT COUNT(*) FROM (SELECT 1 AS x)", "FROM is missing"),
        ("SELECT COUNT(*) FROM (SELECT AS STRUCT age FROM t)", "the outer query"),
        ("SELECT COUNT(*) FROM (SELECT * FROM t) AS s WHERE u.age > 3", "'u.age' is no column .* is called s"),
        ("SELECT COUNT(*) FROM (SELECT * FROM t) WHERE t.age > 3", "'t.age' is no column .* has no alias"),
        ("SELECT COUNT(*) FROM (SELECT UNNEST([1, 2]) AS x FROM t)", "not used: leave it out"),
        ("SELECT COUNT(*) FROM (SELECT LIST(age) AS x FROM t)", "not used: leave it out"),
        ("SELECT COUNT(*) FROM (SELECT QUANTILES(age, 0.5) AS x FROM t)", "not used: leave it out"),
        ("SELECT COUNT(*) FROM (SELECT age, day AS age FROM t) WHERE age > 3", "two columns .* called 'age'"),
        ("SELECT COUNT(*) FROM (SELECT *, age / 10 * 10 AS age FROM t) WHERE age > 3", "two columns .* called 'age'"),
        (
            "SELECT state, COUNT(*) AS age FROM (SELECT state, age AS x FROM t) GROUP BY state HAVING x > 5",
            "choose another alias",
        ),
        (
            "SELECT age AS state, state AS age, COUNT(*) FROM (SELECT * FROM t) s GROUP BY 1, 2 ORDER BY s.age",
            "choose another alias",
        ),
        ("SELECT age, COUNT(*) FROM t GROUP BY age LIMIT 1 BY age", "LIMIT takes one number"),
        ("SELECT age, COUNT(*) FROM t GROUP BY age ORDER BY age WITH FILL", "ASC or DESC"),
        ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "name of one dataset"),
        ("SELECT COUNT(*) FROM a.t", "one name"),
        ("SELECT COUNT(*) FROM t TABLESAMPLE (10 PERCENT)", "nothing but an alias"),
        ("SELECT COUNT(*)", "FROM is missing"),
        ("SELECT DISTINCT age FROM t", "DISTINCT"),
        ("SELECT COUNT(*) FROM t HAVING COUNT(*) > 3", "choose among groups"),
        ("SELECT COUNT(*) FROM t ORDER BY 1", "choose among groups"),
        ("SELECT COUNT(*) FROM t LIMIT 3", "choose among groups"),
        ("SELECT age, COUNT(*) FROM t GROUP BY age LIMIT 'x'", "LIMIT takes"),
        ("SELECT age, COUNT(*) FROM t GROUP BY age ORDER BY 9", "names no column"),
        ("SELECT age, COUNT(*) FROM t GROUP BY age ORDER BY state", "what is selected"),
        ("SELECT age, COUNT(*) FROM t GROUP BY age HAVING age > 3", "HAVING compares"),
        ("SELECT age, COUNT(*) FROM t GROUP BY age HAVING COUNT(*) > 'x'", "HAVING compares"),
        ("SELECT age, COUNT(*) FROM t GROUP BY age HAVING NOT COUNT(*) > 3", "HAVING compares"),
        ("SELECT /*+ x */ COUNT(*) FROM t", "Hints"),
        ("SELECT COUNT(*) FROM t WHERE", "cannot be read"),
        ("SELECT 'open", "left open"),
        ("SELECT COUNT(*) FROM t OPTIONS (alpa = 3)", "did you mean 'alpha'"),
        ("SELECT COUNT(*) FROM t OPTIONS (alpha = 3,)", "missing after the last comma"),
        ("SELECT COUNT(*) FROM t OPTIONS (alpha = 3, alpha = 4)", "twice"),
        ("SELECT COUNT(*) FROM t OPTIONS (alpha 3)", "name = value"),
        ("SELECT COUNT(*) FROM t OPTIONS (alpha = 3) WHERE age = 1", "ends the statement"),
        ("SELECT COUNT(*) FROM t OPTIONS (alpha = x)", "is a number"),
        ("SELECT COUNT(*) FROM t OPTIONS (epsilon = 'nan')", "out of range"),
        ("SELECT COUNT(*) FROM t OPTIONS (mechanism = identity)", "is a text"),
        ("SELECT COUNT(*) FROM t WHERE " + " AND ".join(["age > 1"] * 300), "at most 128 conditions"),
        ("SELECT COUNT(*) FROM t WHERE " + "(" * 100 + "age > 1" + ")" * 100, "40 deep"),
        ("SELECT COUNT(*) FROM t WHERE " + "NOT " * 3000 + "age > 1", "deep"),
        ("SELECT " + "- " * 3000 + "1 FROM t", "deep"),
        ("SELECT " + "CASE WHEN " * 1000 + "1 FROM t", "deep"),
        ("SELECT COUNT(*) FROM t -- " + "x" * 30_000, "at most 20,000 characters"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        question(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(QueryError):
        parse(None)  # type: ignore[arg-type]


def test_messages_are_short_and_visible_whatever_was_written() -> None:
    with pytest.raises(QueryError) as caught:
        question('SELECT "' + "\x1b[31m" * 500 + '", COUNT(*) FROM t GROUP BY 1')
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


def test_refusals_leave_no_trace_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(QueryError):
        question("EXPLAIN DELETE FROM t WHERE name = 'somebody'")
    assert caplog.text == ""


SALAD = """SELECT FROM WHERE GROUP BY COUNT(*) COUNT ( ) * , ; age state "age" t 'x' 1 -1 1e9 = < >= <> AND OR NOT IN
    BETWEEN IS NULL OPTIONS (alpha = 50) EXPLAIN bin(age, 5) CDF(age) CASE WHEN THEN ELSE END CAST AS DATE :: JOIN
    UNION WITH -- /* */ . [ ] { } $ @ ? : || :p ILIKE ANY ALL OVER PARTITION INTERVAL ARRAY STRUCT LATERAL VALUES
    EXISTS DISTINCT LIMIT é \u202e \x00"""
WORDS = st.sampled_from(SALAD.split())


@given(st.lists(WORDS, max_size=30).map(" ".join))
@example("SELECT COUNT ( * ) FROM t WHERE age IN ( )")
def test_word_salad_is_a_question_or_a_query_error(text: str) -> None:
    try:
        assert isinstance(question(text), Query)
    except QueryError as refusal:
        assert str(refusal)


@given(st.lists(WORDS, max_size=12).map(" ".join))
def test_salad_after_where_is_a_question_or_a_query_error(text: str) -> None:
    try:
        assert isinstance(question(f"SELECT age, COUNT(*) FROM t WHERE {text} GROUP BY age"), Query)
    except QueryError as refusal:
        assert str(refusal)


@given(st.text(max_size=200))
def test_any_text_is_a_question_or_a_query_error(text: str) -> None:
    try:
        assert isinstance(question(text), Query)
    except QueryError as refusal:
        assert str(refusal)
