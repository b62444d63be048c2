"""NULL, values outside, rounding and windows inside aggregates mean what they mean in a database, or are refused."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import QueryError
from blowfishdb.sql import names_of, parse, query_of, selection_of, write_statement
from tests.sql.test_truth import EPSILON, is_near

DOMAIN = bf.domain(
    {
        "age": bf.integers(0, 19, null="cell"),
        "neg": bf.integers(-15, 15, null=0),
        "cost": bf.bins(0, 100, width=5, null="cell"),
        "ward": bf.categorical(["A1", "A2", "B1"], null="cell", outside="cell"),
        "dep": bf.categorical(["x", "y", "z"], null="x", outside="x"),
        "part": bf.categorical(["p", "q"], null="p", outside="cell"),
        "flag": bf.categorical([True, False], null="cell", outside="cell"),
    }
)
ROWS = """CREATE TABLE t AS SELECT
    CASE WHEN i % 7 <> 3 THEN CAST((i * 13 + i // 9) % 20 AS INTEGER) END AS age,
    CAST((i * i + i // 4) % 31 - 15 AS INTEGER) AS neg,
    CASE WHEN i % 11 <> 5 THEN 5 * ((i * 17) % 20) + 2.5 END AS cost,
    (ARRAY['A1', 'A2', 'B1', 'elsewhere', NULL])[1 + (i * i + i // 7) % 5] AS ward,
    (ARRAY['x', 'y', 'z'])[1 + (i // 5 * i) % 3] AS dep,
    (ARRAY['p', 'q', 'other'])[1 + (i * 7 + i // 10) % 3] AS part,
    (ARRAY[TRUE, FALSE, NULL])[1 + (i // 2) % 3] AS flag FROM range(1500) AS r(i)"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[bf.Session, duckdb.DuckDBPyConnection]]:
    """A session over a table with NULL and undeclared values, and the table itself."""
    folder = tmp_path_factory.mktemp("meaning")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(ROWS)
    with bf.curate(folder / "blowfish.toml", by="cora") as curator:
        curator.add(bf.Dataset("t", source="duckdb:///t.duckdb#t", domain=DOMAIN, epsilon=10**9))
    raw = duckdb.connect(str(folder / "t.duckdb"), read_only=True)
    with bf.connect(folder / "blowfish.toml", analyst="ana") as session:
        yield session, raw
    raw.close()


ANSWERED = [
    "AVG(CASE WHEN neg > 0 THEN 1 ELSE 0 END) FILTER (WHERE part = 'p')",
    "AVG(CASE WHEN age > 5 THEN 0 ELSE 1 END) FILTER (WHERE part = 'p')",
    "100 * AVG(CASE WHEN neg > 0 THEN 1 ELSE 0 END) FILTER (WHERE part = 'p')",
    "COUNT(CASE WHEN neg > 0 THEN age END)",
    "COUNT(CASE WHEN neg > 0 THEN ward END)",
    "COUNT(CASE WHEN neg > 0 THEN 'yes' END)",
    "SUM(age) / COUNT(*)",
    "SUM(age) / COUNT(age)",
    "SUM(cost) / COUNT(*)",
    "SUM(neg + 20) / COUNT(*)",
    "SUM(age * neg) / COUNT(neg)",
    "SUM(CASE WHEN neg > 3 THEN age END) / COUNT(CASE WHEN neg > 3 THEN age END)",
    "SUM(CASE WHEN neg > 3 THEN age END) / COUNT(CASE WHEN neg > 3 THEN 1 END)",
    "SUM(CASE WHEN age > 10 THEN 0 ELSE 1 END)",
    "AVG(CASE WHEN age > 10 THEN 0 ELSE 1 END)",
    "SUM(CASE WHEN age > 10 THEN 1 ELSE 0 END)",
    "AVG(CASE WHEN age > 10 THEN 1 ELSE 0 END)",
    "SUM(IF(age > 10, 0, 1))",
    "SUM(CASE WHEN age IS NULL THEN 0 ELSE 1 END)",
    "SUM(CASE WHEN NOT flag OR age < 5 THEN 0 ELSE 1 END)",
    "SUM(CASE WHEN NOT (age > 10 AND (cost < 50 OR ward = 'A1')) THEN 0 ELSE 1 END)",
    "SUM(CASE WHEN ward IN ('A1') AND NOT (flag OR age < 3) THEN 0 ELSE 1 END) FILTER (WHERE neg > 0)",
    "SUM(CAST(neg AS INTEGER)) + 1000",
    "SUM(CAST(neg AS DOUBLE) / 4) + 1000",
    "SUM(CAST(neg AS DECIMAL(10, 2))) + 1000",
    "SUM(CAST(CASE WHEN age > 3 THEN 1 ELSE 0 END AS INTEGER))",
    "SUM(CAST(age > 10 AS INTEGER))",
    "AVG(CAST(age > 10 AS INTEGER))",
    "100 * AVG(CAST(age > 10 AS INTEGER))",
    "AVG(CAST(age > 10 AS INTEGER)) FILTER (WHERE neg > 3)",
    "AVG(CAST(age BETWEEN 3 AND 9 AS INTEGER))",
    "AVG(CAST((age > 10 OR age IS NULL) AS INTEGER))",
    "AVG(CAST((age > 10 OR cost < 20) AS INTEGER))",
    "AVG(CAST(ward <> 'A1' AS INTEGER))",
    "AVG(CAST((ward IN ('A1', 'B1') AND flag) AS INTEGER))",
    "AVG(CAST(neg > 3 AS INTEGER))",
    "COUNT(ward)",
    "COUNT(part) - 1",
    "COUNT(age)",
    "COUNT(ward) / COUNT(*)",
    "1.0 * COUNT(ward) / SUM(COUNT(ward)) OVER ()",
    "1.0 * COUNT(*) FILTER (WHERE neg > 0) / NULLIF(COUNT(*), 0)",
    "SUM(AVG(age)) OVER () - AVG(age)",
]


@pytest.mark.parametrize("measure", ANSWERED)
def test_an_aggregate_is_that_of_a_database(places: tuple[bf.Session, duckdb.DuckDBPyConnection], measure: str) -> None:
    session, raw = places
    text = f"SELECT dep, {measure} AS value FROM t GROUP BY dep"
    answer = session.sql(text, epsilon=EPSILON)
    assert isinstance(answer, Answer)
    truths = dict(raw.execute(text).fetchall())
    ours = {row["dep"]: row["value"] for row in answer.rows()}
    assert ours.keys() == truths.keys()
    for group, value in ours.items():
        assert isinstance(value, float)
        assert is_near(value, truths[group]), (group, value, truths[group])
        assert abs(value - float(truths[group])) < 0.01 * max(1.0, abs(value)), (value, truths[group])


def test_a_mean_of_a_condition_is_named_to_be_looked_at(
    places: tuple[bf.Session, duckdb.DuckDBPyConnection],
) -> None:
    """It is worked out of two counts; ORDER BY and HAVING find it under its name."""
    session, raw = places
    share = "AVG(CAST(age > 10 AS INTEGER))"
    text = f"SELECT dep, {share} AS p FROM t GROUP BY dep HAVING p > 0.1 ORDER BY p DESC"
    answer = session.sql(text, epsilon=EPSILON)
    assert isinstance(answer, Answer)
    assert [row["dep"] for row in answer.rows()] == [group for group, _ in raw.execute(text).fetchall()]
    with pytest.raises(QueryError, match="select it as a column with a name"):
        session.sql(f"SELECT dep, COUNT(*) FROM t GROUP BY dep ORDER BY {share}", epsilon=1)


def test_an_outer_query_chooses_among_shares_of_all(places: tuple[bf.Session, duckdb.DuckDBPyConnection]) -> None:
    session, raw = places
    text = (
        "SELECT * FROM (SELECT dep, COUNT(*) AS n, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS p FROM t GROUP BY dep) "
        "WHERE n > 400"
    )
    answer = session.sql(text, epsilon=EPSILON)
    assert isinstance(answer, Answer)
    truths = {group: share for group, _, share in raw.execute(text).fetchall()}
    ours = {row["dep"]: row["p"] for row in answer.rows()}
    assert 0 < len(truths) < 3
    assert ours == pytest.approx(truths, abs=1e-3)


FRAME = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        ("COUNT(CASE WHEN neg > 0 THEN age * neg END)", "COUNT takes"),
        ("SUM(CASE WHEN age > 10 THEN 0 WHEN age > 5 THEN 1 ELSE 1 END)", "has one WHEN"),
        ("SUM(ROUND(neg / 10.0))", "round the answer"),
        ("AVG(ROUND(neg))", "round the answer"),
        ("SUM(neg * ROUND(age / 2))", "round the answer"),
        ("SUM(CAST(neg / 10.0 AS INTEGER))", "round the answer"),
        ("SUM(CAST(cost AS INTEGER))", "round the answer"),
        ("SUM(CAST(cost AS DECIMAL(10, 0)))", "round the answer"),
        ("SUM(CAST(1.5 AS INTEGER) * neg)", "round the answer"),
        ("SUM(CASE WHEN age > 3 THEN ROUND(neg / 10.0) ELSE 0 END)", "round the answer"),
        ("SUM(CAST(CASE WHEN age > 3 THEN cost END AS INTEGER))", "round the answer"),
        ("SUM(CAST(neg AS BOOLEAN))", "round the answer"),
        ("COUNT(*) * ROUND(2.5)", "not known here"),
        ("COUNT(*) * CAST(2.5 AS INTEGER)", "not known here"),
        ("CAST(COUNT(*) AS BOOLEAN)", "not known here"),
        ("CAST(COUNT(*) AS VARCHAR)", "not known here"),
        ("COUNT(*) - SUM(ROUND(AVG(age))) OVER ()", "not known here"),
        (f"COUNT(*) / SUM(COUNT(*)) OVER ({FRAME})", "Window functions"),
        (f"SUM(neg) / SUM(SUM(age)) OVER ({FRAME})", "Window functions"),
        (f"COUNT(*) - SUM(COUNT(*)) OVER (PARTITION BY dep {FRAME})", "Window functions"),
        ("COUNT(*) / SUM(COUNT(*)) OVER (ORDER BY dep)", "Window functions"),
        ("COUNT(*) - SUM(neg) OVER ()", "Window functions"),
        ("COUNT(*) FILTER (WHERE neg > 0) / NULLIF(COUNT(*), 188)", "second argument is 0"),
        ("COUNT(*) / NULLIF(SUM(COUNT(*)) OVER (), 188)", "second argument is 0"),
        ("SUM(neg) - NULLIF(COUNT(*), 7)", "second argument is 0"),
        ("SUM(neg * neg)", r"squares are not added up: VAR_POP\(neg\)"),
        ("AVG((neg + 1) * (neg - 1))", "squares are not added up"),
        ("APPROX_QUANTILE(age, 0.5, 100)", "QUANTILES takes"),
    ],
)
def test_what_means_something_else_is_refused(measure: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        read(f"SELECT dep, {measure} AS value FROM t GROUP BY dep")


def read(text: str) -> None:
    statement = parse(text)
    selection_of(statement, names_of(statement, DOMAIN), query_of(statement, DOMAIN))


@pytest.mark.parametrize(
    "share", ["1.0 * COUNT(*) / SUM(COUNT(*)) OVER ()", "SUM(neg) - SUM(SUM(neg)) OVER (PARTITION BY dep)"]
)
def test_a_window_after_having_is_refused(share: str) -> None:
    text = f"SELECT dep, ward, {share} AS p FROM t GROUP BY dep, ward"
    read(text)
    with pytest.raises(QueryError, match="groups that HAVING leaves"):
        read(f"{text} HAVING COUNT(*) > 200")


def test_a_window_over_each_single_group_may_follow_having() -> None:
    read(
        "SELECT dep, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY dep) AS p FROM t GROUP BY dep "
        "HAVING COUNT(*) > 200"
    )


def test_a_partition_is_by_groups_as_they_are() -> None:
    text = (
        "SELECT bin(age, {}), dep, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY bin(age, 10)) AS p FROM t GROUP BY 1, 2"
    )
    read(text.format(10))
    with pytest.raises(QueryError, match="grouped, as they are"):
        read(text.format(5))


def test_the_statement_of_a_share_names_its_binned_group() -> None:
    text = "SELECT bin(age, 10), AVG(CASE WHEN neg > 0 THEN 1 ELSE 0 END) AS p FROM t GROUP BY 1"
    query = query_of(parse(text), DOMAIN)
    again = write_statement("t", query, DOMAIN)
    assert again is not None
    assert query_of(parse(again), DOMAIN) == query


def test_many_casts_are_read_in_no_time() -> None:
    begin = process_time()
    read(f"SELECT SUM(neg{'::double' * 60}) FROM t")
    with pytest.raises(QueryError):
        read(f"SELECT SUM(cost{'::int' * 60}) FROM t")
    assert process_time() - begin < 5


@pytest.mark.parametrize("clause", ["ORDER BY n{}", "ORDER BY age{}", "HAVING COUNT(*){} > 5"])
def test_casts_beyond_what_python_follows_are_refused(clause: str) -> None:
    # Deeper ones are refused by the parser.
    with pytest.raises(QueryError):
        read(f"SELECT age, COUNT(*) AS n FROM t GROUP BY age {clause.format('::int' * 900)}")


def test_a_share_of_groups_is_the_same_beside_a_mean_of_what_is_grouped(
    places: tuple[bf.Session, duckdb.DuckDBPyConnection],
) -> None:
    """Values in no group are in no total, also where they have to be told apart for a mean."""
    session, _ = places
    share = "SELECT bin_edges(age, 5, 10, 15) AS g, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS part{} FROM t GROUP BY g"
    alone, beside = (session.sql(share.format(more), epsilon=EPSILON).rows() for more in ("", ", AVG(age) AS m"))
    assert sum(row["part"] for row in alone) == pytest.approx(1.0, abs=0.02)
    assert [row["part"] for row in beside] == pytest.approx([row["part"] for row in alone], abs=0.02)
