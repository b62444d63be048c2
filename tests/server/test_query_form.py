"""What the controls of a page ask is what the engine gets, and the code that the page offers asks the same."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.engine.request import write_query
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.model.domain import domain
from blowfishdb.server.pages.controls import figure
from blowfishdb.server.pages.explore import runnable_query
from blowfishdb.server.pages.query_draft import (
    FORMS,
    AccuracyDraft,
    AxisDraft,
    FilterChoice,
    QueryDraft,
    QuestionDraft,
    Template,
    build_query,
    literal,
    read_question,
    snippet,
    steps_of,
    usual_step,
    with_template,
)
from blowfishdb.server.pages.sign_in import local_path
from blowfishdb.session import Session
from tests.session.places import configuration

DOMAIN = domain(
    {
        "age": bf.integers(0, 99, null=0),
        "ward": bf.categorical(["A1", "A2", "A3"], null="A1", outside="A1"),
        "cost": bf.bins(0, 500, width="0.5", null=0),
        "day": bf.dates("2025-01-01", "2025-12-31", null="2025-01-01"),
    }
)
AGE = AxisDraft("age", "5")
DRAFTS = [
    QueryDraft("clinic", "histogram", (AGE,)),
    QueryDraft(
        "clinic", "histogram", (AxisDraft("day", "month"),), (FilterChoice("ward", "among", values=("A1", "A3")),)
    ),
    QueryDraft(
        "clinic", "histogram", (AxisDraft("cost", "2.5"),), (FilterChoice("ward", "not among", values=("A2",)),)
    ),
    QueryDraft("clinic", "cdf", (AxisDraft("cost"),), (FilterChoice("age", "between", "18", "65"),)),
    QueryDraft("clinic", "cdf", (AxisDraft("age"),), (FilterChoice("day", "between", "2025-02-01", ""),)),
    QueryDraft("clinic", "heat", (AGE, AxisDraft("ward"))),
    QueryDraft(
        "clinic",
        "cdf",
        (AGE,),
        (FilterChoice("ward", "among", values=("A2",)), FilterChoice("ward", "not among", values=("A1", "A3"))),
    ),
    QueryDraft("clinic", "ranges", (AGE,)),
    QueryDraft("clinic", "ranges", (AxisDraft("age"),), spans="10 to 20\n30..45\n"),
    QueryDraft("clinic", "marginals", (AGE, AxisDraft("ward"), AxisDraft("day", "quarter"))),
    QueryDraft("clinic", "number", function="count"),
    QueryDraft("clinic", "number", (AGE, AxisDraft("ward")), function="count"),
    QueryDraft("clinic", "number", of="cost", function="mean"),
    QueryDraft("clinic", "number", filters=(FilterChoice("ward", "among", values=("A1",)),), of="age", function="sum"),
    QueryDraft("clinic", "number", of="cost", function="stddev"),
    QueryDraft("clinic", "number", (AxisDraft("ward"),), of="cost", function="mean"),
    QueryDraft("clinic", "quantiles", of="cost", levels="2.5, 50 97.5"),
    QueryDraft("clinic", "quantiles", (AxisDraft("ward"),), of="cost", levels="50", function="stddev"),
    QueryDraft("clinic", "shares", (AxisDraft("ward"),)),
    QueryDraft("clinic", "shares", (AxisDraft("ward"), AxisDraft("day", "quarter"))),
    QueryDraft("clinic", "top", (AxisDraft("ward"),), most="2"),
    QueryDraft("clinic", "compare", (AxisDraft("ward"),), of="cost", first=("A1",), second=("A2", "A3")),
    QueryDraft("clinic", "compare", (AxisDraft("age"), AxisDraft("ward")), function="count", cut="40"),
    QueryDraft("clinic", "compare", (AxisDraft("day"),), of="age", function="sum", cut="2025-07-01"),
    QueryDraft("clinic", "compare", (AxisDraft("cost"),), of="age", cut="99.5"),
    QueryDraft("clinic", "histogram", (AGE,), (FilterChoice("age", "between"), FilterChoice("ward", "among"))),
]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder: Path = tmp_path_factory.mktemp("asking")
    (folder / "rows.csv").write_text("age,ward,cost,day\n20,A1,3.5,2025-03-01\n")
    config = configuration(folder)
    with bf.curate(config, by="cora") as keeper:
        keeper.add(bf.Dataset("clinic", source="rows.csv", domain=dict(DOMAIN.attributes), epsilon="1"))
    return bf.connect(config, analyst="ana")


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_code_asks_what_the_page_asks(db: Session, draft: QueryDraft) -> None:
    wanted = build_query(draft, db["clinic"])
    lines = snippet(draft, AccuracyDraft(), DOMAIN, "http://127.0.0.1").splitlines()
    (line,) = [line for line in lines if line.startswith("question = ")]
    names = {"bf": bf, "db": db, "datetime": datetime, "Fraction": Fraction}
    found = eval(line.removeprefix("question = "), names)
    assert write_query(found.query) == write_query(wanted.query), "the same request, so that it is charged once"
    assert found.selection == wanted.selection


def test_a_blank_filter_lets_everything_pass(db: Session) -> None:
    assert build_query(DRAFTS[-1], db["clinic"]).query == build_query(DRAFTS[0], db["clinic"]).query


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        (QueryDraft("clinic", "heat", (AGE,)), "two attributes"),
        (QueryDraft("clinic", "histogram"), "choose an attribute"),
        (QueryDraft("clinic", "histogram", (AGE,), (FilterChoice("age", "between", "many", ""),)), "no number"),
        (QueryDraft("clinic", "histogram", (AGE,), (FilterChoice("day", "between", "today", ""),)), "not a date"),
        (QueryDraft("clinic", "ranges", (AGE,), spans="ten"), "not a range"),
        (QueryDraft("clinic", "histogram", (AxisDraft("age", "1e999999999"),)), "not a number"),
        (QueryDraft("clinic", "histogram", (AxisDraft("age", "NaN"),)), "not a number"),
        (QueryDraft("clinic", "number"), "no attribute here has any"),
        (QueryDraft("clinic", "quantiles", of="age", levels="50, 100"), "between 0 and 100"),
        (QueryDraft("clinic", "quantiles", of="age", levels=" "), "between 0 and 100"),
        (QueryDraft("clinic", "top", (AGE,), most="0"), "1 to 1,000"),
        (QueryDraft("clinic", "top", (AGE,), most="all"), "1 to 1,000"),
        (QueryDraft("clinic", "compare", (AxisDraft("ward"),), of="age", first=("A1",)), "values of both"),
        (QueryDraft("clinic", "compare", (AxisDraft("ward"),), of="age", first=("A1",), second=("A1",)), "the same"),
        (QueryDraft("clinic", "compare", (AGE,), of="cost"), "at which value of age"),
        (QueryDraft("clinic", "sql"), "dataset itself"),
    ],
)
def test_odd_input_is_refused_with_advice(db: Session, draft: QueryDraft, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        build_query(draft, db["clinic"])


def test_a_statement_says_its_accuracy_itself_where_it_does(db: Session) -> None:
    sql = "SELECT ward, COUNT(*) FROM clinic GROUP BY ward"
    draft = QuestionDraft(QueryDraft("clinic", "sql"), AccuracyDraft(alpha="70"), sql)
    plain = runnable_query(db, draft, "")
    own = runnable_query(db, replace(draft, sql=f"{sql} OPTIONS (epsilon = 0.25)"), "")
    assert float(plain.preview().accuracy_target.alpha or 0) == 70
    assert own.preview().accuracy_target.alpha is None
    assert float(own.preview().epsilon) == 0.25
    with pytest.raises(AccuracyError):
        runnable_query(db, replace(draft, accuracy=AccuracyDraft(alpha="a lot")), "").preview()


def test_steps_are_round_and_easy_to_read() -> None:
    assert list(steps_of(DOMAIN["age"])) == ["", "2", "5", "10", "20", "25", "50"]
    assert usual_step(DOMAIN["age"]) == "5"
    assert usual_step(DOMAIN["ward"]) == ""
    assert usual_step(DOMAIN["day"]) == "month"
    assert set(steps_of(DOMAIN["day"])) == {"", "week", "month", "quarter", "year"}
    assert usual_step(DOMAIN["cost"]) == "25"


def test_literals_have_the_type_of_their_attribute() -> None:
    assert literal(DOMAIN["age"], " 18 ") == 18
    assert literal(DOMAIN["ward"], "A1") == "A1"
    assert literal(DOMAIN["day"], "2025-03-01") == datetime.date(2025, 3, 1)
    assert str(literal(DOMAIN["cost"], "2.5")) == "2.5"


@pytest.mark.parametrize("wanted", ["//example.org", "https://example.org", "/\\example.org", "/a\nb", "", "example"])
def test_signing_in_never_leads_to_another_site(wanted: str) -> None:
    assert local_path(wanted) == "/"
    assert local_path("/history?of=1+clinic") == "/history?of=1+clinic"


def test_what_is_left_buys_what_it_says(db: Session) -> None:
    draft = QuestionDraft(QueryDraft("clinic", "histogram", (AGE,)), AccuracyDraft(alpha="1"))
    expensive = runnable_query(db, draft, "")
    assert expensive.preview().epsilon > 1
    within = expensive.within(Fraction(1, 3))
    assert within is not None and within.alpha is not None
    again = runnable_query(db, replace(draft, accuracy=AccuracyDraft(alpha=str(within.alpha))), "").preview()
    assert again.epsilon <= Fraction(1, 3)
    assert expensive.within(Fraction(1, 10_000)) is None, "less than any price"


def test_curators_see_what_is_left_exactly() -> None:
    assert figure(Fraction(22_625, 10_000)) == "2.2625", "2.263 would promise more than there is"
    assert figure(Fraction(0)) == "0"
    assert figure(None) == "–"
    assert figure(77_850.0) == "77,850"


@pytest.mark.parametrize("draft", DRAFTS)
def test_an_address_holds_the_whole_question(draft: QueryDraft) -> None:
    question = QuestionDraft(draft, AccuracyDraft("budget", epsilon="0.07", fresh=True))
    text = question.text()
    assert read_question(text, lambda _: DOMAIN) == question
    assert "null" not in text, "only what is not the usual"


@pytest.mark.parametrize(
    "part",
    [
        {"template": "no such"},
        {"function": "max"},
        {"of": "ward"},
        {"of": "nobody"},
        {"levels": 50},
        {"chosen": []},
        {"chosen": [{"attribute": "age"}, {"attribute": "age"}]},
        {"template": "compare", "chosen": [{"attribute": "ward"}], "first": ["Z9"]},
        {"template": "cdf", "chosen": [{"attribute": "ward"}]},
        {"accuracy": {"by": "luck"}},
        {"most": None},
        {"nonsense": 1},
    ],
)
def test_an_address_that_makes_no_sense_is_left_aside(part: dict[str, object]) -> None:
    sound = {"dataset": "clinic", "template": "histogram", "chosen": [{"attribute": "age"}]}
    assert read_question(json.dumps(sound), lambda _: DOMAIN) is not None
    assert read_question(json.dumps(sound | part), lambda _: DOMAIN) is None


@pytest.mark.parametrize("template", [one for one in FORMS if one != "sql"])
def test_every_template_begins_with_a_question_that_can_be_asked(db: Session, template: Template) -> None:
    for draft in DRAFTS:
        usual = replace(with_template(draft, template, DOMAIN), filters=())
        assert build_query(usual, db["clinic"]).dataset == "clinic"
        assert read_question(QuestionDraft(usual).text(), lambda _: DOMAIN) == QuestionDraft(usual)
