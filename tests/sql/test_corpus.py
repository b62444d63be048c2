"""What people ask: most statements of the corpus are answered, each as stated, the others refused with advice."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import compile_query, with_tolerances
from blowfishdb.engine.postprocess import select_rows
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import QueryError
from blowfishdb.model.domain import Domain
from blowfishdb.present.chart_terminal import drawing
from blowfishdb.sql import names_of, parse, query_of, result_columns, selection_of, write_statement
from tests.sql.corpus import ADULT, ADULT_QUESTIONS, REFUSALS, VISIT_QUESTIONS, VISITS, lines

CASES = [
    *((VISITS, given, text) for given, text in lines(VISIT_QUESTIONS)),
    *((ADULT, given, text) for given, text in lines(ADULT_QUESTIONS)),
]


def answered(domain: Domain, text: str, policy: bf.Policy | None = None) -> Answer:
    """The answer to a statement over made-up counts."""
    statement = parse(text)
    query = with_tolerances(query_of(statement, domain), None)
    compiled = compile_query(domain, policy or bf.Policy(), query)
    counts = np.random.default_rng(1).integers(0, 3, compiled.problem.graph.cells)
    answer = PlanRelease(compiled, quotes_for(compiled, accuracy_target(epsilon=1)).best).answer(counts)
    return select_rows(answer, selection_of(statement, names_of(statement, domain), query))


@pytest.mark.parametrize(("domain", "given", "text"), CASES, ids=[text for _, _, text in CASES])
def test_each_statement_is_the_question_it_looks_like(domain: Domain, given: str, text: str) -> None:
    statement = parse(text)
    tree = repr(statement.select)
    query = query_of(statement, domain)
    assert query.kind == given
    result_columns(statement, domain, query)
    assert selection_of(statement, names_of(statement, domain), query) is not None
    # Whoever asks with the same text shares what was parsed, and nobody changes it.
    assert parse(text) is statement
    assert repr(statement.select) == tree


def test_most_questions_are_written_as_statements_that_read_back() -> None:
    """What is written reads back to the same query, or it is not written."""
    unwritten = []
    for domain, _, text in CASES:
        query = query_of(parse(text), domain)
        statement = write_statement("visits", query, domain)
        if statement is None:
            unwritten.append(text)
        else:
            assert query_of(parse(statement), domain) == query
    assert len(unwritten) <= 0.1 * len(CASES), unwritten
    marginals = replace(
        query_of(parse("SELECT age, COUNT(*) FROM adult GROUP BY age"), ADULT), kind="marginals", ways=1
    )
    assert write_statement("adult", marginals, ADULT) is None


def test_the_share_that_is_answered() -> None:
    refused = lines(REFUSALS)
    assert len(CASES) + len(refused) >= 150
    assert len(CASES) >= 0.8 * (len(CASES) + len(refused))


@pytest.mark.parametrize(("said", "text"), lines(REFUSALS), ids=[text for _, text in lines(REFUSALS)])
def test_the_others_are_refused_with_the_nearest_thing(said: str, text: str) -> None:
    with pytest.raises(QueryError, match=said):
        answered(VISITS, text)


SAMPLE = [
    ("SELECT ward, COUNT(*), SUM(nights), AVG(nights), STDDEV(nights) FROM visits GROUP BY ward", 5, 4),
    ("SELECT sex, QUANTILES(nights, 0.25, 0.5, 0.75) AS q FROM visits GROUP BY sex", 4, 2),
    ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2", 2, 2),
    (
        "SELECT ward, sex, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY ward) AS p FROM visits GROUP BY ward, sex",
        3,
        8,
    ),
    ("SELECT sex, CDF(nights) FROM visits GROUP BY sex", 3, 28),
    ("SELECT CASE WHEN nights = 0 THEN 'out' ELSE 'in' END AS kind, COUNT(*) FROM visits GROUP BY kind", 2, 2),
    ("SELECT EXTRACT(QUARTER FROM day) AS q, COUNT(*) FILTER (WHERE sex = 'f') AS w FROM visits GROUP BY q", 2, 4),
    ("SELECT SUM(nights * insured) FROM visits", None, None),
]


@pytest.mark.parametrize(("text", "columns", "rows"), SAMPLE)
def test_a_sample_is_released(text: str, columns: int | None, rows: int | None) -> None:
    if columns is None:
        with pytest.raises(QueryError, match="bounded number"):
            answered(VISITS, text)
        return
    answer = answered(VISITS, text)
    shown = answer.rows()
    assert len(shown) == rows
    names = [name for name in shown[0] if not name.endswith(("_low", "_high")) and name not in ("low", "high", "raw")]
    assert len([name for name in names if not name.startswith("pointwise")]) == columns
    assert str(answer)
    assert answer.note()
    assert np.all(answer.bounds.low <= answer.bounds.high)


def test_order_and_limit_show_the_largest_published_groups() -> None:
    whole = answered(VISITS, "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    text = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC, ward LIMIT 2"
    cut = answered(VISITS, text)
    assert cut.values.tolist() == sorted(cut.values.tolist(), reverse=True)
    assert cut.row_count == 2 < whole.row_count
    assert "truly belongs in the list (95 %)" in cut.consistent.note


def test_having_lists_by_published_numbers_and_says_what_that_means() -> None:
    text = "SELECT ward, COUNT(*) AS n, AVG(age) FROM visits GROUP BY ward HAVING COUNT(*) > 1000000 OR AVG(age) > 100"
    answer = answered(VISITS, text)
    assert answer.row_count == 0
    assert "every group whose true n is above" in answer.consistent.note
    assert answer.rows() == []
    assert str(answer)


def test_the_same_answer_sorted_by_an_attribute_keeps_its_declared_order() -> None:
    text = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY ward DESC"
    assert [row["ward"] for row in answered(VISITS, text).rows()] == ["B2", "B1", "A2", "A1"]


def test_the_name_of_the_one_group_that_was_chosen_is_shown() -> None:
    answer = answered(VISITS, "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1")
    console = Console(width=100, file=io.StringIO())
    console.print(drawing(answer))
    (row,) = answer.rows()
    assert isinstance(console.file, io.StringIO)
    assert row["ward"] in console.file.getvalue()


@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ("HAVING COUNT(*) > 100 ORDER BY n DESC", "where n > 100, by n (largest first)"),
        ("HAVING n >= 20 AND (n < 50 OR n > 90) LIMIT 5", "where n >= 20 and (n < 50 or n > 90), the first 5"),
        ("ORDER BY ward, n LIMIT 2 OFFSET 1", "by ward, n, the next 2 after 1"),
    ],
)
def test_the_rows_that_are_shown_have_words_for_a_title(clauses: str, words: str) -> None:
    statement = parse(f"SELECT ward, COUNT(*) AS n, AVG(cost) FROM visits GROUP BY ward {clauses}")
    query = query_of(statement, VISITS)
    assert selection_of(statement, names_of(statement, VISITS), query).words == words
