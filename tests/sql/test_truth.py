"""With next to no noise a statement gives what a database gives for the same text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.sql import parse, query_of
from tests.sql.corpus import VISIT_QUESTIONS, VISITS, lines

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text()
EXAMPLES = [text.strip() for text in PAGE.split("```sql\n")[1].split("```")[0].split(";\n")]
CORPUS = [text for _, text in lines(VISIT_QUESTIONS)]
EPSILON = 1000
"""Noise of scale 1/500 on a count: no number below is off by its tolerance with more than 10^-10."""
OURS = ("bin(", "bin_edges(", "QUANTILES(", "CDF(", "OPTIONS", "WIDTH_BUCKET", "APPROX_QUANTILE")
"""Words that the database does not know, or answers only about."""
IN_DUCKDB = {
    "nights / 100": "nights / 100.0",
    "SUM(cost) / NULLIF": "SUM(cost) * 1.0 / NULLIF",
    "TO_CHAR(day, 'YYYY-MM')": "strftime(day, '%Y-%m')",
    "AVG(age > 65)": "AVG(CAST(age > 65 AS INTEGER))",
    "APPROX_COUNT_DISTINCT(patient)": "COUNT(DISTINCT patient)",
    "PERCENTILE_CONT(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY nights) AS q": (
        "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY nights), PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY nights)"
    ),
}
"""How this database writes what others write so, exactly and with quotients that are not rounded."""
ROWS = """CREATE TABLE visits AS SELECT
    (ARRAY['A1', 'A2', 'B1', 'B2'])[1 + (i * i + i // 7) % 4] AS ward,
    CASE WHEN (i // 3) % 5 < 3 THEN 'f' ELSE 'm' END AS sex,
    CAST((i * 37 + i // 11) % 100 AS INTEGER) AS age,
    CAST((i * i * 13 + i) % 1000 AS INTEGER) AS cost,
    CAST((i // 5) % 14 AS INTEGER) AS nights,
    i % 3 = 0 AS insured,
    DATE '2023-01-01' + CAST((i * 17) % 731 AS INTEGER) AS day,
    i % 1500 AS patient, i AS nr FROM range(4000) AS t(i)"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[bf.Session, duckdb.DuckDBPyConnection]]:
    """A session over a table, one that counts people too, and the table itself."""
    folder = tmp_path_factory.mktemp("truth")
    with duckdb.connect(str(folder / "v.duckdb")) as connection:
        connection.execute(ROWS)
    policy = bf.Policy(unit=bf.person("patient", at_most=3, order_by="nr"))
    with bf.curate(folder / "blowfish.toml", by="cora") as curator:
        source = "duckdb:///v.duckdb#visits"
        curator.add(bf.Dataset("visits", source=source, domain=VISITS, policy=policy, epsilon=10**6))
    raw = duckdb.connect(str(folder / "v.duckdb"), read_only=True)
    # Whole numbers divide as in PostgreSQL.
    raw.execute("SET integer_division = true")
    with bf.connect(folder / "blowfish.toml", analyst="ana") as session:
        yield session, raw
    raw.close()


def is_near(ours: float, truth: object) -> bool:
    """Whether a published number is the true one, up to next to no noise."""
    is_number = isinstance(truth, int | float | Decimal) and not isinstance(truth, bool)
    return is_number and math.isclose(ours, float(str(truth)), rel_tol=2e-3, abs_tol=0.06)


def check(places: tuple[bf.Session, duckdb.DuckDBPyConnection], text: str, same: str = "") -> None:
    """Each row of the database is one of ours, and we have no others; groups of nobody are left out by databases."""
    session, raw = places
    answer = session.sql(text, epsilon=EPSILON)
    assert isinstance(answer, Answer)
    if any(word in text for word in OURS):
        return
    statement = same or text
    for theirs, in_duckdb in IN_DUCKDB.items():
        statement = statement.replace(theirs, in_duckdb)
    truths = raw.execute(statement).fetchall()
    shown = [
        (set(row.values()), [value for value in row.values() if isinstance(value, float)])
        for row in answer.rows()
        if any(isinstance(value, float) and value for value in row.values())
    ]
    assert len(shown) == len(truths)
    for truth in truths:
        # Labels of bins and of calendar periods are ours; texts are those of the table.
        numbers = len(truth) - len(query_of(parse(text), VISITS).axes)
        texts = {value for value in truth if isinstance(value, str)}
        assert any(
            texts <= row and sum(any(is_near(ours, value) for ours in published) for value in truth) >= numbers
            for row, published in shown
        ), (truth, shown[:3])


@pytest.mark.parametrize("text", EXAMPLES)
@pytest.mark.sampled(3)
def test_each_example_of_the_page_is_so(places: tuple[bf.Session, duckdb.DuckDBPyConnection], text: str) -> None:
    check(places, text)


@pytest.mark.nightly
@pytest.mark.parametrize("text", CORPUS)
def test_each_question_of_the_corpus_is_so(places: tuple[bf.Session, duckdb.DuckDBPyConnection], text: str) -> None:
    check(places, text)


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        ("SELECT COUNT(*) FROM visits WHERE age >= 65", "SELECT COUNT(*) FROM visits WHERE age > 65"),
        ("SELECT ward, AVG(cost) FROM visits GROUP BY ward", "SELECT ward, AVG(cost + 2) FROM visits GROUP BY ward"),
        ("SELECT sex, COUNT(*) FROM visits GROUP BY sex", "SELECT insured, COUNT(*) FROM visits GROUP BY insured"),
    ],
)
def test_another_question_is_noticed(
    places: tuple[bf.Session, duckdb.DuckDBPyConnection], ours: str, other: str
) -> None:
    with pytest.raises(AssertionError):
        check(places, ours, other)


def test_the_calls_at_the_head_of_the_page_run_as_they_stand(
    places: tuple[bf.Session, duckdb.DuckDBPyConnection],
) -> None:
    """One statement, a preview, and several statements that are charged together."""
    calls = PAGE.split("```python\n")[1].split("```")[0].strip().splitlines()
    answer, preview, several = (eval(call, {"db": places[0]}) for call in calls)
    assert [column.name for column in answer.columns] == ["count", "mean_cost"]
    assert preview.accuracy_target.alpha == 20
    assert [(one.kind, one.widths.simultaneous <= alpha) for one, alpha in zip(several, (50, 20), strict=True)] == [
        ("cdf", True),
        ("count", True),
    ]
