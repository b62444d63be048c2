"""From an answer of the past back to its question: as controls of the page, or as SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import QueryError
from blowfishdb.server.pages.query_draft import build_query, draft_of, edit_link, read_question
from blowfishdb.session.session import Session, stated_question
from blowfishdb.session.table import Question, Table
from blowfishdb.sql import parse
from tests.session.places import make_fixture

AGE, WARD = bf.col("age"), bf.col("ward")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with bf.connect(make_fixture(tmp_path_factory.mktemp("editing")), analyst="ana") as opened:
        yield opened


QUESTIONS: list[tuple[str, Callable[[Table], Question]]] = [
    ("number", lambda table: table.count()),
    ("histogram", lambda table: table.histogram("ward")),
    ("histogram", lambda table: table.where(AGE.between(18, 64)).histogram(AGE.bins(10))),
    ("histogram", lambda table: table.where(AGE >= 18).where(WARD == "A1").histogram("age")),
    ("histogram", lambda table: table.where(AGE <= 30).where(WARD.isin(["A1", "A2"])).histogram("age")),
    ("histogram", lambda table: table.where(~(WARD == "A1")).histogram("ward")),
    ("histogram", lambda table: table.where(~WARD.isin(["A1", "A2"])).histogram("ward")),
    ("number", lambda table: table.histogram("ward", AGE.bins(20))),
    ("cdf", lambda table: table.cdf("age")),
    ("heat", lambda table: table.histogram2d("ward", AGE.bins(20))),
    ("marginals", lambda table: table.marginals("ward", AGE.bins(20), ways=2)),
    ("ranges", lambda table: table.ranges(AGE.bins(10))),
    ("number", lambda table: table.mean("cost")),
    ("number", lambda table: table.where(AGE >= 18).sum("age")),
    ("quantiles", lambda table: table.quantiles("age", [0.25, 0.5])),
    ("sql", lambda table: table.where(AGE < 18).histogram("ward")),
    ("sql", lambda table: table.where((AGE < 18) | (WARD == "A1")).count()),
    ("sql", lambda table: table.histogram(AGE.bins(edges=[0, 18, 65, 100]))),
    ("sql", lambda table: table.aggregate(bf.Aggregate("mean", ("cost",)), bf.Aggregate("count"), by=["ward"])),
    ("sql", lambda table: table.where(AGE < 50).quantiles("age", [0.5])),
]


@pytest.mark.parametrize(("template", "ask"), QUESTIONS)
def test_controls_or_a_statement_ask_the_very_same(
    session: Session, template: str, ask: Callable[[Table], Question]
) -> None:
    table = session["visits"]
    query = ask(table).query
    draft, sql = draft_of(query, table)
    assert draft.template == template
    again = stated_question(table, parse(sql)) if sql else build_query(draft, table)
    assert again.query == query


def test_what_the_page_cannot_ask_has_no_link(session: Session) -> None:
    table = session["visits"]
    question = table.linear([[1, 0, 2]], "ward")
    with pytest.raises(QueryError, match="no controls"):
        draft_of(question.query, table)
    assert edit_link(question.release(epsilon="1/10"), session) == ""


def test_the_link_holds_question_and_accuracy(session: Session) -> None:
    table = session["visits"]

    def linked(answer: Answer) -> tuple[str, str, str]:
        (text,) = parse_qs(urlsplit(edit_link(answer, session)).query)["question"]
        question = read_question(text, lambda _: table.domain)
        assert question is not None
        accuracy = question.accuracy
        return question.query.template, accuracy.by, accuracy.alpha if accuracy.by == "accuracy" else accuracy.epsilon

    answer = table.histogram("ward").release(alpha=40)
    template, by, alpha = linked(answer)
    assert (template, by) == ("histogram", "accuracy")
    assert 0.95 * answer.widths.simultaneous <= float(alpha) <= 1.05 * answer.widths.simultaneous
    means = table.aggregate(bf.Aggregate("mean", ("cost",)), by=["ward"]).release(epsilon="1/8")
    assert linked(means) == ("sql", "budget", "0.125")
    # A dataset that is gone, and an answer that does not say what was asked, have none.
    assert edit_link(replace(answer, dataset="gone"), session) == ""
    assert edit_link(replace(answer, question=None, evidence=None), session) == ""
