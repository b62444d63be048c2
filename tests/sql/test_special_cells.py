"""CASE, periods and parts of dates in groups and conditions, with NULL and values outside in cells of their own.

Each statement is answered as a database answers it for the same rows, or refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.errors import QueryError
from blowfishdb.sql import parse, query_of, write_statement

ROWS = """CREATE TABLE visits AS SELECT
    CASE WHEN i % 11 = 0 THEN NULL ELSE i % 20 END AS age,
    (ARRAY['A1', 'A2', 'B1', NULL, 'Z'])[1 + i % 5] AS ward,
    CASE WHEN i % 7 = 0 THEN NULL ELSE i % 3 = 0 END AS flag,
    i % 5 + 1 AS nights, i % 2 AS number, i % 10 AS cost, i % 13 - 2 AS score,
    CASE WHEN i % 13 = 0 THEN NULL ELSE DATE '2023-11-01' + CAST(i % 200 AS INTEGER) END AS day,
    TIMESTAMP '2024-12-30 00:00:00' + INTERVAL (i % 90) HOUR AS moment FROM range(1000) AS t(i)"""
DOMAIN = {
    "age": bf.integers(0, 19),
    "ward": bf.categorical(["A1", "A2", "B1"]),
    "flag": bf.categorical([True, False]),
    "nights": bf.integers(1, 5, null=1),
    "number": bf.categorical([0, 1]),
    "cost": bf.bins(0, 10, width=5),
    "score": bf.integers(0, 9, outside="cell"),
    "day": bf.dates("2023-11-01", "2024-05-31"),
    "moment": bf.timestamps("2024-12-30", "2025-01-04", by="hour"),
}
Places = tuple[bf.Session, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("special")
    with duckdb.connect(str(folder / "v.duckdb")) as connection:
        connection.execute(ROWS)
    with bf.curate(folder / "blowfish.toml", by="cora") as curator:
        curator.add(bf.Dataset("visits", source="duckdb:///v.duckdb#visits", domain=DOMAIN, epsilon=10**6))
    with (
        bf.connect(folder / "blowfish.toml", analyst="ana") as session,
        duckdb.connect(str(folder / "v.duckdb"), read_only=True) as raw,
    ):
        yield session, raw


LIFE = "CASE WHEN age < 10 THEN 'minor' ELSE 'adult' END"
BANDS = "CASE WHEN age < 10 THEN 1 WHEN age IS NULL THEN 5 ELSE 2 END"


@pytest.mark.parametrize(
    "condition",
    [
        f"{LIFE} = 'adult'",
        f"{LIFE} <> 'adult'",
        f"{LIFE} <> 'minor'",
        f"NOT {LIFE} IN ('adult', 'other')",
        f"{BANDS} >= 2",
        f"{BANDS} = 5",
        f"NOT {BANDS} = 5",
        f"{BANDS} BETWEEN 1 AND 2",
        f"{BANDS} = '1'",
        "CASE WHEN age < 10 THEN 1 WHEN age >= 10 THEN 2 END <> 2",
        "CASE WHEN ward = 'A1' THEN 'one' ELSE 'other' END = 'other'",
        "CASE ward WHEN 'A1' THEN 'one' ELSE 'other' END <> 'other'",
        "IF(day < '2024-01-01', 'old', 'new') <> 'old'",
        "(age < 10) = TRUE",
        "(age < 10) = FALSE",
        "(ward = 'A1') <> TRUE",
        "(age IS NULL) = TRUE",
        "DATE_TRUNC('month', day) < TIMESTAMP '2024-03-01 00:00:00'",
        "DATE_TRUNC('month', day) <= TIMESTAMP '2024-03-01 12:30:00.5'",
        "DATE_TRUNC('month', day) >= DATE '2024-3-1'",
        "DATE_TRUNC('month', day) = '2024-03-01'",
        "DATE_TRUNC('week', day) <= '2024-03-06'",
        "STRFTIME(day, '%Y-%m') <= '2024-03'",
        "STRFTIME(day, '%Y-%m') = '2024-03'",
        "STRFTIME(day, '%Y') > '2023'",
        "STRFTIME(day, '%Y-%m-%d') < '2023-12-24'",
        "CAST(STRFTIME(day, '%Y') AS VARCHAR) = '2023'",
        "YEAR(day) BETWEEN '2023' AND '2024'",
        "YEAR(day) BETWEEN 2022 AND 2023",
        "YEAR(day) IN (2022, 2023)",
        "YEAR(day) NOT IN (2023)",
        "YEAR(day) > 2023",
        "2023 >= YEAR(day)",
        "DATE_PART('year', day) <= 2023",
        "EXTRACT(MONTH FROM day) < '3'",
        "CAST(MONTH(day) AS INTEGER) = 3",
        "3 = MONTH(day)",
        "YEAR(moment) = 2024",
        "YEAR(moment) <> 2024",
        "YEAR(CAST(moment AS DATE)) <= 2024",
        "flag IS TRUE",
        "flag IS FALSE",
        "flag IS NOT TRUE",
        "NOT (flag IS NOT FALSE AND nights > 2)",
        "1 = 1 AND flag",
        "TRUE AND (nights > 2 OR flag) AND (1=1)",
        "STRFTIME('%Y', day) = '2023'",
        "CAST(moment AS DATE) = '2024-12-31'",
        "CAST(moment AS DATE) <> '2024-12-31'",
        "moment::date <= DATE '2024-12-31'",
        "CAST(moment AS DATE) IN ('2024-12-30', '2025-01-01')",
        "NOT CAST(moment AS DATE) BETWEEN '2024-12-31' AND '2025-01-01'",
        "DATE_TRUNC('month', moment) = '2025-01-01'",
        "DATE_TRUNC('year', moment) < DATE '2024-06-30'",
        "CAST(day AS DATE) > '2024-02-29'",
        "moment < CAST('2024-12-31 13:00' AS DATE)",
    ],
)
def test_conditions_mean_what_they_mean_in_a_database(places: Places, condition: str) -> None:
    session, raw = places
    text = f"SELECT COUNT(*) FROM visits WHERE {condition}"
    (truth,) = raw.execute(text).fetchall()[0]
    assert 0 < truth < 1000
    assert session.sql(text, epsilon=1000).rows()[0]["count"] == pytest.approx(truth, abs=0.06)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {LIFE} AS g, COUNT(*) FROM visits WHERE age IS NOT NULL GROUP BY g ORDER BY g",
        f"SELECT {LIFE} AS g, COUNT(*) FROM visits WHERE nights > 2 AND age >= 3 GROUP BY g",
        f"SELECT g, COUNT(*) FROM (SELECT {LIFE} AS g FROM visits WHERE age IS NOT NULL) GROUP BY g",
        "SELECT age < 10 AS g, COUNT(*) FROM visits GROUP BY g",
        "SELECT CASE WHEN age < 10 THEN 'minor' WHEN age >= 10 THEN 'adult' END AS g, COUNT(*) FROM visits GROUP BY g",
        "SELECT CASE WHEN age IS NULL THEN 'NULL' ELSE 'known' END AS g, COUNT(*) FROM visits GROUP BY g",
        "SELECT ward IN ('A1', 'A2') AS g, COUNT(*) FROM visits WHERE ward IN ('A1', 'A2', 'B1') GROUP BY g",
        "SELECT CAST(moment AS DATE) AS g, COUNT(*) FROM visits GROUP BY g",
        "SELECT CAST(nights AS BIGINT) AS g, COUNT(*) FROM visits GROUP BY g",
        "SELECT CAST(FLOOR(nights / 2) AS INTEGER) AS g, COUNT(*) FROM visits GROUP BY g",
        "SELECT flag IS NOT TRUE AS g, COUNT(*) FROM visits GROUP BY g",
        "SELECT STRFTIME('%Y-%m', day) AS g, COUNT(*) FROM visits GROUP BY g",
        "SELECT g, n FROM (SELECT nights AS g, COUNT(*) AS n FROM visits GROUP BY nights) WHERE n > 100",
        "WITH a AS (SELECT nights AS g, COUNT(*) AS n FROM visits GROUP BY 1) SELECT a.g, a.n FROM a ORDER BY n",
    ],
)
def test_groups_mean_what_they_mean_in_a_database(places: Places, text: str) -> None:
    session, raw = places
    truths = sorted(count for _, count in raw.execute(text).fetchall())
    counts = sorted(row["count"] for row in session.sql(text, epsilon=1000).rows() if row["count"])
    assert counts == pytest.approx(truths, abs=0.06)


@pytest.mark.parametrize(
    "measure",
    [
        "SUM(flag::int)",
        "AVG(CAST(flag AS INTEGER))",
        "AVG(flag::double) FILTER (WHERE nights > 2)",
        "1 - AVG(flag::int)",
        "AVG((flag IS NOT TRUE)::int)",
        "SUM(COALESCE(age, 0))",
        "SUM(COALESCE(CASE WHEN ward = 'A1' THEN age END, 0))",
        "SUM(COALESCE(age * nights, 0)) / COUNT(*)",
    ],
)
def test_truth_values_and_missing_ones_are_added_up_as_in_a_database(places: Places, measure: str) -> None:
    session, raw = places
    text = f"SELECT {measure} AS m FROM visits"
    (truth,) = raw.execute(text).fetchall()[0]
    (row,) = session.sql(text, epsilon=1000).rows()
    assert row["m" if "m" in row else "sum"] == pytest.approx(truth, rel=2e-3, abs=0.01)


def test_a_day_may_be_written_with_the_function_of_other_databases(places: Places) -> None:
    declared = bf.domain(DOMAIN)
    asked = "SELECT {0} AS d, COUNT(*) FROM visits WHERE {0} >= {1} GROUP BY d"
    ours, theirs = (("DATE(moment)", "DATE('2024-12-31')"), ("CAST(moment AS DATE)", "DATE '2024-12-31'"))
    assert query_of(parse(asked.format(*ours)), declared) == query_of(parse(asked.format(*theirs)), declared)
    assert query_of(parse("SELECT COUNT(*) FROM visits WHERE YEAR(DATE(day)) = 2024"), declared).where is not None
    assert [
        query_of(parse(f"SELECT COUNT(*) FROM visits WHERE moment < DATE('2024-12-31{time}')"), declared)
        for time in ("", " 13:00", "T13:00:00")
    ] == [query_of(parse("SELECT COUNT(*) FROM visits WHERE moment < '2024-12-31'"), declared)] * 3


def test_many_separate_days_of_moments_are_too_many() -> None:
    declared = bf.domain({"moment": bf.timestamps("2000-01-01", "2024-01-01", by="hour")})
    days = ", ".join(f"'{year}-{month:02}-05'" for year in range(2000, 2011) for month in range(1, 13))
    with pytest.raises(QueryError, match="at most 128 separate days of moment"):
        query_of(parse(f"SELECT COUNT(*) FROM visits WHERE CAST(moment AS DATE) IN ({days})"), declared)
    with pytest.raises(QueryError, match="declared days; compare it with the first"):
        wide = bf.domain({"moment": bf.timestamps("1900-01-01", "2024-01-01", by="hour")})
        query_of(parse("SELECT COUNT(*) FROM visits WHERE CAST(moment AS DATE) = '1999-01-01'"), wide)


def test_truth_values_are_added_up_without_a_cast(places: Places) -> None:
    session, _ = places
    for call in ("SUM", "AVG"):
        plain, cast = (session.sql(f"SELECT {call}({x}) AS m FROM visits", epsilon=9) for x in ("flag", "flag::int"))
        assert plain.to_json() == cast.to_json()


@pytest.mark.parametrize(
    ("group", "measure", "condition"),
    [
        (LIFE, "COUNT(*)", "nights > 0"),
        (LIFE, "COUNT(*)", "age IS NULL OR age < 10"),
        (BANDS, "COUNT(*)", "nights > 0"),
        (BANDS, "COUNT(*)", "age IS NULL OR nights > 2"),
        (LIFE, "COUNT(age)", "nights > 0"),
        (LIFE, "AVG(age)", "nights > 0"),
        (LIFE, "SUM(nights)", "age IS NULL OR nights > 2"),
        (BANDS, "SUM(age)", "age > 0"),
        (LIFE, "COUNT(*) FILTER (WHERE age > 15 OR age IS NULL)", "nights > 0"),
        ("age IS NULL", "COUNT(*)", "nights > 0"),
        ("CASE WHEN age IS NULL THEN 'none' ELSE 'some' END", "COUNT(*)", "nights > 0"),
        ("CASE WHEN age < 10 THEN 'minor' END", "COUNT(*)", "nights > 0"),
        ("CASE WHEN ward = 'A1' THEN 'one' END", "COUNT(*)", "nights > 0"),
        ("CASE WHEN ward IN ('A1', 'A2', 'B1') THEN 'one' END", "COUNT(*)", "nights > 0"),
        ("CASE WHEN ward IS NULL OR ward = 'B1' THEN 'outside' ELSE 'A' END", "COUNT(*)", "nights > 0"),
        ("ward = 'A1'", "COUNT(*)", "nights > 0"),
        ("CASE WHEN cost < 5 THEN 'cheap' ELSE 'dear' END", "COUNT(*)", "nights > 0"),
        ("CASE WHEN cost < 5 OR cost IS NULL THEN 'cheap' ELSE 'dear' END", "AVG(nights)", "age > 3"),
        ("moment < '2025-01-01'", "COUNT(*)", "moment IS NOT NULL"),
        ("CASE WHEN moment >= '2025-01-01 06:00' THEN 'late' ELSE 'early' END", "COUNT(*)", "age IS NULL"),
        ("COALESCE(age, 7)", "COUNT(*)", "age IS NULL OR age < 8"),
        ("COALESCE(age, -1)", "AVG(nights)", "age IS NULL OR age < 8"),
        ("COALESCE(ward, 'none')", "COUNT(*)", "ward IN ('A1', 'B1') OR ward IS NULL"),
        ("COALESCE(ward, 'B1')", "COUNT(*)", "ward IN ('A1', 'B1') OR ward IS NULL"),
        ("COALESCE(nights, 3)", "COUNT(*)", "age > 3"),
        ("ward", "COUNT(*)", "COALESCE(ward, 'none') IN ('none', 'A1')"),
        ("age IS NULL", "COUNT(*)", "COALESCE(ward, 'B1') <> 'B1'"),
        ("nights", "COUNT(*)", "COALESCE(age, 5) < 7"),
        ("IF(ward = 'A1', 'one', 'other')", "COUNT(*)", "nights > 0"),
        ("ward", "COUNT(*)", "COALESCE(ward, 'none') > 'n' OR ward = 'A1'"),
        ("CASE WHEN score = 3 OR 4 = score THEN 'some' ELSE 'other' END", "COUNT(*)", "nights > 0"),
        (
            "CASE WHEN NOT score IN (1, 2) THEN 'some' ELSE 'other' END",
            "COUNT(*)",
            "age > 3",
        ),
        ("CASE WHEN NOT score IN (1, 2) THEN 'some' WHEN score < 2 THEN 'one' ELSE 'two' END", "COUNT(*)", "age > 3"),
        ("CASE WHEN (CASE WHEN ward = 'A1' THEN 1 ELSE 2 END) = 2 THEN 'two' ELSE 'one' END", "COUNT(*)", "nights > 0"),
    ],
)
def test_null_and_outside_are_in_the_group_that_a_case_gives_them(
    places: Places, group: str, measure: str, condition: str
) -> None:
    session, raw = places
    text = f"SELECT {group} AS g, {measure} FROM visits WHERE {condition} GROUP BY g"
    truths = {"null" if label is None else str(label).lower(): count for label, count in raw.execute(text).fetchall()}
    rows = [list(row.values()) for row in session.sql(text, epsilon=1000).rows()]
    assert {str(label).lower(): count for label, count, *_ in rows} == pytest.approx(truths, abs=0.06)


@pytest.mark.parametrize(
    "group",
    [
        "CASE WHEN score < 5 THEN 'low' ELSE 'high' END",
        "CASE WHEN score = 5 THEN 'five' WHEN score BETWEEN 2 AND 3 THEN 'low' END",
        "IF(5 <= score, 1, 2)",
        "score > 3",
        "CASE WHEN ward LIKE 'A%' THEN 'A' ELSE 'other' END",
        "CASE WHEN LEFT(ward, 1) = 'A' THEN 'A' ELSE 'other' END",
        "COALESCE(score, 3)",
    ],
)
def test_values_outside_stand_beside_groups_that_differ_among_them(places: Places, group: str) -> None:
    session, raw = places
    outside = "ward = 'Z'" if "ward" in group else "score NOT BETWEEN 0 AND 9"
    apart = f"CASE WHEN {outside} THEN 'outside' ELSE CAST({group} AS TEXT) END"
    listed = raw.execute(f"SELECT {apart} AS g, COUNT(*) FROM visits GROUP BY g").fetchall()
    truths = {str(label or "NULL").lower(): count for label, count in listed}
    answer = session.sql(f"SELECT {group} AS g, COUNT(*) FROM visits GROUP BY g", epsilon=1000)
    counts = {str(label).lower(): count for label, count, *_ in (row.values() for row in answer.rows())}
    assert truths["outside"] > 0
    # Groups in which there is nobody are listed as well.
    assert {label: count for label, count in counts.items() if count} == pytest.approx(truths, abs=0.06)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("CASE WHEN age < 10 THEN 'NULL' END", "gives NULL and the text 'NULL'"),
        ("CASE WHEN score < 5 THEN 'outside' ELSE 'low' END", "'outside' is the row of all values of score"),
        ("COALESCE(ward, 'outside')", "'outside' is the row of all values of ward"),
        ("CASE WHEN cost < 3 THEN 'cheap' ELSE 'dear' END", "3 is inside a bin; the nearest edges are 0 and 5"),
        ("moment < '2025-01-01 00:30'", "would cut one hour in two"),
        ("COALESCE(ward, 1)", "one value of its kind"),
        ("COALESCE(age, 'none')", "one value of its kind"),
        ("COALESCE(ward, age)", "one value of its kind"),
        ("COALESCE(ward, 'none', 'other')", "one value of its kind"),
        ("COALESCE(day, DATE '2024-01-01')", "listed values or whole numbers"),
        ("CAST(nights AS BOOLEAN)", "group by 'nights' itself"),
        ("CAST(CASE WHEN age < 5 THEN '01' WHEN age < 9 THEN '1' ELSE '2' END AS INTEGER)", "other values together"),
    ],
)
def test_groups_that_mean_something_else_are_refused(places: Places, group: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        places[0].sql(f"SELECT {group} AS g, COUNT(*) FROM visits GROUP BY g", epsilon=1)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("CASE nights WHEN 1 THEN 'a' WHEN 2 THEN 'b' END <> 'a'", "give it an ELSE"),
        ("CASE WHEN ward IN ('A1', 'A2', 'B1') THEN 1 END = 1", "give the CASE an ELSE"),
        ("CASE WHEN nights = 1 THEN 'a' ELSE 2 END = 2", "texts only, or numbers only"),
        ("IF(nights < 3, DATE '2024-01-01', DATE '2024-01-02') < '2024-1-2'", "without CAST and DATE"),
        (f"{LIFE} = 1", "a value such as 'minor', not with a number"),
        (f"{LIFE} = 'old'", "no declared value of age matches"),
        (f"{BANDS} = 'one'", "a value such as 1, not with 'one'"),
        ("(age < 10) = 'true'", "a value such as TRUE, not with 'true'"),
        ("STRFTIME(day, '%Y-%m') = '2024-3'", "a value such as '2023-11', not with '2024-3'"),
        ("STRFTIME(day, '%Y-%m') <= DATE '2024-03-01'", "a value such as '2023-11'"),
        ("STRFTIME(day, '%Y') = 2024", "a value such as '2023', not with a number"),
        ("DATE_TRUNC('month', day) = '2024-03'", "a value such as DATE '2023-11-01'"),
        ("DATE_TRUNC('month', day) = '2024-13-01'", "a value such as DATE '2023-11-01'"),
        ("DATE_TRUNC('month', day) = 3", "not with a number"),
        ("DATE_TRUNC('month', day) = TRUE", "not with TRUE"),
        ("EXTRACT(MONTH FROM day) < 'March'", "a value such as 11, not with 'March'"),
        ("CAST(MONTH(day) AS TEXT) < '3'", "may be another value"),
        ("number = '1'", "no value '1'; write 1 without quotes"),
        ("cost = 2.5", "cost: 2.5 is one point of a bin"),
        ("cost > 5", "each bin is counted as a whole: compare by < or >= with 5 or 10$"),
        ("cost <= 0", "compare by < or >= with 0 or 5$"),
        ("moment > '2025-01-01'", "each hour is counted as a whole.*with 2025-01-01T00:00 or 2025-01-01T01:00$"),
        ("CASE WHEN cost < 5 THEN 'cheap' ELSE 'dear' END = 'dear'", "compare it with their ends"),
        ("CASE WHEN score < 5 THEN 'low' ELSE 'high' END = 'high'", "may differ among the undeclared values of score"),
        ("(score < 5) = FALSE", "compare score itself"),
        ("COALESCE(score, 3) < 5", "compare score itself"),
        ("YEAR(day) = 9999", "a number such as 2024"),
        ("YEAR(CAST(day AS TIME)) = 2024", "not an attribute"),
        ("MONTH(moment) = 12", "compared by ranges"),
        ("CAST(moment AS DATE) = '2025-12-31'", "no declared value of moment matches"),
        ("DATE(moment) = 3", "a value such as DATE '2024-12-30', not with a number"),
        ("DATE(age) = '2024-12-31'", "group by 'age' itself"),
    ],
)
def test_comparisons_that_mean_something_else_are_refused(places: Places, condition: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        places[0].sql(f"SELECT COUNT(*) FROM visits WHERE {condition}", epsilon=1)


@pytest.mark.parametrize(
    ("order", "labels"),
    [
        ("g", ["young", "grown", "missing", "NULL"]),
        ("g DESC", ["NULL", "missing", "grown", "young"]),
        ("g NULLS FIRST", ["NULL", "young", "grown", "missing"]),
        ("g DESC NULLS LAST", ["missing", "grown", "young", "NULL"]),
    ],
)
def test_groups_of_a_case_are_sorted_by_its_branches(places: Places, order: str, labels: list[str]) -> None:
    case = "CASE WHEN age < 5 THEN 'young' WHEN age IS NULL THEN 'missing' WHEN age < 10 THEN 'grown' END"
    answer = places[0].sql(f"SELECT {case} AS g, COUNT(*) FROM visits GROUP BY g ORDER BY {order}", epsilon=10)
    assert [next(iter(row.values())) for row in answer.rows()] == labels


@pytest.mark.parametrize(
    ("order", "labels"),
    [
        ("ward", ["A1", "A2", "B1", "outside", "NULL"]),
        ("ward DESC", ["NULL", "outside", "B1", "A2", "A1"]),
        ("ward DESC NULLS FIRST", ["NULL", "outside", "B1", "A2", "A1"]),
        ("ward NULLS FIRST", ["NULL", "A1", "A2", "B1", "outside"]),
        ("ward DESC NULLS LAST", ["outside", "B1", "A2", "A1", "NULL"]),
    ],
)
def test_values_outside_are_sorted_behind_the_declared_ones(places: Places, order: str, labels: list[str]) -> None:
    answer = places[0].sql(f"SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY {order}", epsilon=10)
    assert [row["ward"] for row in answer.rows()] == labels


@pytest.mark.parametrize("order", ["age NULLS FIRST", "age NULLS LAST", "age DESC NULLS LAST", "age DESC NULLS FIRST"])
def test_null_stands_where_it_is_wanted(places: Places, order: str) -> None:
    session, raw = places
    text = f"SELECT age, COUNT(*) FROM visits GROUP BY age ORDER BY {order} LIMIT 3"
    ours = [row["age"] for row in session.sql(text, epsilon=1000).rows()]
    assert ours == ["NULL" if age is None else str(age) for age, _ in raw.execute(text).fetchall()]


def test_null_is_the_largest_without_a_word(places: Places) -> None:
    session, _ = places
    for order, first in (("age", "0"), ("age DESC", "NULL")):
        text = f"SELECT age, COUNT(*) FROM visits GROUP BY age ORDER BY {order} LIMIT 1"
        assert [row["age"] for row in session.sql(text, epsilon=1000).rows()] == [first]


@pytest.mark.parametrize(
    ("group", "part"),
    [
        ("LEFT(ward, 1)", "WHEN OUTSIDE(ward) THEN 'outside'"),
        (LIFE, "OR age IS NULL THEN 'adult'"),
        (BANDS, "WHEN age IS NULL THEN '5'"),
        ("CASE WHEN ward = 'A1' THEN 'one' END", "OR ward IS NULL OR OUTSIDE(ward) THEN 'NULL'"),
        (LIFE, "CASE WHEN age < 10 THEN"),
        ("CASE WHEN nights IN (2, 4) THEN 'even' ELSE 'odd' END", "nights IN (1, 3, 5)"),
        ("CASE WHEN age BETWEEN 5 AND 9 OR age > 14 THEN 1 ELSE 2 END", "age >= 5 AND age < 10 OR age >= 15 THEN"),
        ("CASE WHEN score < 3 THEN 'low' ELSE 'high' END", "score IN (0, 1, 2)"),
        ("CASE WHEN cost < 5 THEN 'cheap' ELSE 'dear' END", "WHEN cost < 5 THEN 'cheap' WHEN cost >= 5 OR"),
        ("CASE WHEN day < '2024-01-01' THEN 'old' END", "WHEN day < '2024-01-01' THEN 'old'"),
        ("EXTRACT(MONTH FROM day)", "WHEN day >= '2024-01-01' AND day < '2024-02-01' THEN '01'"),
        ("CASE WHEN moment < '2025-01-01' THEN 'old' ELSE 'new' END", "WHEN moment < '2025-01-01T00:00' THEN 'old'"),
    ],
)
def test_named_groups_are_written_as_a_statement_where_outside_is_a_cell(group: str, part: str) -> None:
    declared = bf.domain(DOMAIN)
    query = query_of(parse(f"SELECT {group} AS g, COUNT(*) FROM visits GROUP BY g"), declared)
    text = write_statement("visits", query, declared)
    assert text is not None and part in text
    assert query_of(parse(text), declared) == query
