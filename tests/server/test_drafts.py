"""What users had typed, kept until it is sent: per user, for a month, without secrets; and questions in addresses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import UnknownDataset
from blowfishdb.mechanisms.table import CHOICES
from blowfishdb.model.domain import Domain
from blowfishdb.server.auth.database import Clock, open_database
from blowfishdb.server.auth.grants import Grants
from blowfishdb.server.auth.users import DRAFT_DAYS, LONGEST_DRAFT, Drafts, Users
from blowfishdb.server.pages.query_draft import (
    AccuracyDraft,
    AxisDraft,
    FilterChoice,
    QueryDraft,
    QuestionDraft,
    read_question,
)


class MovedClock:
    def __init__(self) -> None:
        self.now = 1_000_000.0


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def drafts(tmp_path: Path, clock: MovedClock) -> Drafts:
    return Drafts(open_database(f"sqlite:///{tmp_path / 'users.db'}", Clock(lambda: clock.now)))


def test_a_draft_belongs_to_one_user_and_one_form_and_outlives_the_server(tmp_path: Path, drafts: Drafts) -> None:
    drafts.keep("cora", "datasets/add", {"name": "first"})
    drafts.keep("cora", "datasets/add", {"name": "<b>visits</b>"})
    drafts.database.close()
    again = Drafts(open_database(f"sqlite:///{tmp_path / 'users.db'}"))
    assert again.of("cora", "datasets/add") == {"name": "<b>visits</b>"}
    assert again.of("carl", "datasets/add") is again.of("cora", "policies") is None
    again.drop("cora", "datasets/add")
    assert again.of("cora", "datasets/add") is None


def test_drafts_end(drafts: Drafts, clock: MovedClock) -> None:
    drafts.keep("cora", "datasets/add", {"name": "old"})
    clock.now += DRAFT_DAYS * 86_400 + 1
    drafts.keep("carl", "datasets/add", {"name": "new"})
    assert drafts.of("cora", "datasets/add") is None
    drafts.keep("carl", "datasets/add", {"name": "x" * LONGEST_DRAFT})
    assert drafts.of("carl", "datasets/add") == {"name": "new"}, "what is far too long replaces nothing"


def test_who_is_shut_out_leaves_no_draft(drafts: Drafts) -> None:
    Users(drafts.database, Grants(drafts.database)).add("carl", "curator", "a long enough passphrase")
    drafts.keep("carl", "datasets/add", {"name": "x"})
    Users(drafts.database, Grants(drafts.database)).disable("carl")
    assert drafts.of("carl", "datasets/add") is None


DOMAIN = bf.domain(
    {"age": bf.integers(0, 99), 'ward "1"': bf.categorical(["Ash", "<b>"]), "day": bf.dates("2025-01-01", "2025-12-31")}
)


def domain_of(name: str) -> Domain:
    if name != "clinic":
        raise UnknownDataset(name, ["clinic"])
    return DOMAIN


QUESTIONS = [
    QuestionDraft(QueryDraft("clinic", "histogram", (AxisDraft("age", "5"),))),
    QuestionDraft(
        QueryDraft(
            "clinic",
            "marginals",
            (AxisDraft("age", "10"), AxisDraft('ward "1"'), AxisDraft("day", "month")),
            (FilterChoice('ward "1"', "not among", values=("<b>",)), FilterChoice("age", "between", "18", "")),
        ),
        AccuracyDraft("budget", epsilon="1/3", confidence="0.99", mechanism="dawa"),
    ),
    QuestionDraft(
        QueryDraft("clinic", "ranges", (AxisDraft("age"),), spans="1 to 2\n3 to 4"), AccuracyDraft(alpha="9")
    ),
    QuestionDraft(QueryDraft("clinic", "sql"), sql="SELECT age, COUNT(*) FROM clinic GROUP BY age"),
    QuestionDraft(QueryDraft("clinic", "cdf", (AxisDraft("age"),)), AccuracyDraft(mechanism=CHOICES[0], fresh=True)),
    QuestionDraft(
        QueryDraft("clinic", "cdf", (AxisDraft("age"),)),
        AccuracyDraft(mechanism="hierarchy", parameters=(("fan_out", "3"),)),
    ),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_read_as_it_was_written(question: QuestionDraft) -> None:
    assert read_question(question.text(), domain_of) == question


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "another"},
        {"template": "drop"},
        {"chosen": []},
        {"chosen": [{"attribute": "no such", "step": ""}]},
        {"chosen": [{"attribute": "age", "step": "7"}]},
        {"chosen": [{"attribute": "age", "step": ""}] * 2},
        {"chosen": "age"},
        {"template": "cdf", "chosen": [{"attribute": 'ward "1"', "step": ""}]},
        {"filters": [{"attribute": "age", "condition": "among", "values": ["1"]}]},
        {"filters": [{"attribute": 'ward "1"', "condition": "among", "values": ["Birch"]}]},
        {"filters": [{"attribute": "age", "condition": "between", "low": 5, "values": []}]},
        {"accuracy": {"confidence": "1"}},
        {"accuracy": {"mechanism": "dawa"}},
        {"accuracy": {"parameters": [["split", "0.3"]]}},
        {"accuracy": {"mechanism": "hierarchy", "parameters": [["split", "0.3"]]}},
        {"accuracy": {"mechanism": "hierarchy", "parameters": [["fan_out"]]}},
        {"accuracy": {"alpha": ["9"]}},
        {"accuracy": {"alpha": None}},
        {"accuracy": {"fresh": "no"}},
        {"accuracy": {"fresh": None}},
        {"more": 1},
    ],
)
def test_an_address_that_makes_no_sense_is_no_question(change: dict[str, object]) -> None:
    content = json.loads(QUESTIONS[0].text()) | change
    assert read_question(json.dumps(content), domain_of) is None


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "1", '{"a": ' * 5000, "\0"])
def test_no_text_of_an_address_breaks_the_page(text: str) -> None:
    assert read_question(text, domain_of) is None


def test_a_question_that_is_too_long_for_an_address_is_left_out() -> None:
    draft = QueryDraft("clinic", "ranges", (AxisDraft("age"),), spans="1 to 2\n" * 2000)
    assert QuestionDraft(draft).text() == ""
