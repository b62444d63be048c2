"""The record of processing: its numbers are those of the ledger and of the risk meter."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING
from fractions import Fraction
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.analysis.risk import percent_words, risk
from blowfishdb.catalog.record import MOST_LISTED, record_page
from blowfishdb.model.explain import not_protected
from blowfishdb.present.words import epsilon_words
from tests.session.places import curator, make_fixture, visits


class Tables(HTMLParser):
    """The rows of each table by its caption."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag == "td":
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        if self._tag == "caption":
            self.tables[data] = self._rows
        elif self._tag == "td":
            self._rows[-1][-1] = data


def words_of(page: str) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", page))


@pytest.fixture
def released(tmp_path: Path) -> Path:
    policy = bf.Policy({"age": bf.threshold(5), "ward": bf.public()})
    make_fixture(tmp_path, visits(policy, epsilon="2", per_analyst="1"))
    for analyst, epsilon in (("ana", "0.3"), ("bob", "1/7")):
        with bf.connect(tmp_path / "blowfish.toml", analyst=analyst) as db:
            db["visits"].histogram({"ana": "age", "bob": "cost"}[analyst]).release(epsilon=Fraction(epsilon))
    return tmp_path


def test_amounts_are_those_of_the_ledger(released: Path) -> None:
    with curator(released) as by_cora:
        page = record_page(by_cora, "visits")
        account, head = by_cora.account("visits"), by_cora.ledger.head()
        entries = {entry.sequence: entry for entry in by_cora.entries("visits")}
    words, tables = words_of(page), Tables(page).tables
    assert (
        f"2 answers paid for; epsilon {epsilon_words(account.spent)} of 2 is spent" in words
        and account.spent == Fraction(31, 70)
    )
    assert f"{head.sequence} entries and is sound" in words and head.hash in page
    answers = tables["Answers"][1:]
    assert [(row[2], row[4]) for row in answers] == [("ana", "0.3"), ("bob", "1/7")]
    assert all(entries[int(row[0])].words == row[3] for row in answers)
    assert tables["Analysts"][1:] == [["ana", "0.3", "1"], ["bob", "1/7", "1"]]
    assert [row[2] for row in tables["Declarations"][1:]] == ["cora"] * 2


def test_odds_are_those_of_the_risk_meter(released: Path) -> None:
    with curator(released) as by_cora:
        page = record_page(by_cora, "visits")
        _, dataset = by_cora.in_force("visits")
    rows = [row for row in Tables(page).tables["Beliefs"] if row]
    for column, pair, *shares in rows:
        one, two = pair.split(" rather than ")
        if column in ("ward", "presence"):
            assert shares == ["not hidden", "not hidden"]
        if column == "age":
            expected = [risk(dataset, epsilon, int(one), int(two), attribute="age") for epsilon in ("0.442858", 2)]
            assert shares == [percent_words(each.posterior("0.01")[1], ROUND_CEILING) for each in expected]
    assert {row[0] for row in rows} == {"age", "ward", "cost", "presence"}
    words = words_of(page)
    assert "Not hidden, or not wholly: ward, presence." in words
    assert all(sentence in words for sentence in not_protected(dataset.domain, dataset.policy))


def test_a_fault_many_answers_and_odds_that_nobody_can_tell(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_LISTED > 100
    monkeypatch.setattr("blowfishdb.catalog.record.MOST_LISTED", 1)
    monkeypatch.setattr("blowfishdb.catalog.record.beliefs_of", lambda *arguments: ())
    with curator(released) as by_cora:
        page = record_page(by_cora, "visits")
        assert "The newest 1 are listed." in words_of(page) and len(Tables(page).tables["Answers"]) == 2
        assert "no number bounds what is learned of one record alone" in words_of(page)
        with by_cora.ledger.store.write() as cursor:
            cursor.rows("UPDATE account SET charges = 7")
        assert "is NOT SOUND" in words_of(record_page(by_cora, "visits"))


def test_before_anything_was_asked(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    with curator(tmp_path) as by_cora:
        page = record_page(by_cora, "visits")
    assert "0 answers paid for; epsilon 0 of 10 is spent, 10 is left" in words_of(page)
    assert "Answers" not in Tables(page).tables and page.count("http") == 0


def test_what_is_the_same_for_several_columns_is_said_once_and_presence_has_its_odds(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(bf.Policy(presence="secret"), epsilon="1"))
    with curator(tmp_path) as by_cora:
        page = record_page(by_cora, "visits")
    words, rows = words_of(page), Tables(page).tables["Beliefs"]
    assert words.count("any two values are hidden from each other") == 1
    # e / (e + 99), and nothing is released yet.
    assert rows[-1] == ["presence", "in the table rather than not in it", "1.0 %", "2.7 %"]
    assert "with at most 1.0 % after all that was released so far, and with at most 2.7 % after the whole" in words
    assert page.count('contenteditable="true"') == page.count('role="textbox"') == 9
