"""The data dictionary says what is declared, and each question that it offers can be asked as it stands."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import blowfishdb as bf
from blowfishdb.catalog.dataset import hidden_words
from blowfishdb.model.domain import Attribute
from blowfishdb.server.pages.dictionary import (
    example_epsilon,
    example_links,
    kind_words,
    special_words,
    tables_of,
)
from blowfishdb.server.pages.explore import runnable_query
from blowfishdb.server.pages.query_draft import read_question
from examples.patients_and_visits import clinic
from tests.session.places import configuration

DOMAINS: dict[str, dict[str, Attribute]] = {
    "mixed": {
        "age": bf.integers(0, 99, null=0),
        "ward": bf.categorical(["A1", "A2", "A3"], null="A1", outside="A1"),
        "rank": bf.categorical([f"r{n}" for n in range(30)], ordered=True),
        "day": bf.dates("2025-01-01", "2025-12-31", null="2025-01-01"),
    },
    "one number": {"cost": bf.bins(0, 500, width=10)},
    "one category": {"ward": bf.categorical(["A1", "A2"])},
    "one value": {"ward": bf.categorical(["A1"])},
    "moments": {"at": bf.timestamps("2025-01-01", "2025-01-03", by="hour", null="2025-01-01")},
}


@pytest.mark.parametrize("name", DOMAINS)
def test_every_example_can_be_asked(tmp_path: Path, name: str) -> None:
    attributes = DOMAINS[name]
    (tmp_path / "rows.csv").write_text(",".join(attributes) + "\n")
    config = configuration(tmp_path)
    with bf.curate(config, by="cora") as keeper:
        keeper.add(bf.Dataset("rows", source="rows.csv", domain=attributes, epsilon="3"))
    with bf.connect(config, analyst="ana") as db:
        table = db["rows"]
        links = example_links(table, db.budget("rows"))
        assert len(links) >= 3
        assert len({words for words, _, _ in links}) == len(links), "no question twice"
        for words, price, link in links:
            (text,) = parse_qs(urlsplit(link).query)["question"]
            question = read_question(text, lambda _: table.domain)
            assert question is not None, words
            preview = runnable_query(db, question, "").preview()
            assert preview.epsilon <= Fraction(price.removeprefix("at most epsilon ")), words


def test_examples_cost_a_small_round_part_of_what_is_left() -> None:
    costs = [example_epsilon(Fraction(left)) for left in ("10", "0.97", "1/3000", "0")]
    assert costs == ["0.5", "0.05", "0.00002", "0.01"]


def test_columns_are_told_in_words() -> None:
    mixed = DOMAINS["mixed"]
    assert [kind_words(one) for one in mixed.values()] == [
        "whole numbers",
        "a category",
        "values in an order",
        "dates, by day",
    ]
    assert kind_words(bf.bins(0, 5, width="0.5")) == "numbers, in bins of 0.5"
    assert kind_words(bf.bins(edges=[0, 1, 5])) == "numbers, in bins"
    assert kind_words(DOMAINS["moments"]["at"]) == "moments, by hour"
    policy = bf.Policy({"age": bf.threshold(5), "ward": bf.public()})
    assert hidden_words("age", policy) == "within 5"
    assert hidden_words("age", bf.Policy(presence="only")) == "as far as whether the record is there"
    joint = bf.Policy(joint=[bf.grid(["x", "y"], 3)])
    assert hidden_words("x", joint) == "jointly with y"
    assert special_words(mixed["age"], "age", policy) == "NULL counts as 0; others moved to the nearest end"
    cell = bf.categorical(["a"])
    assert special_words(cell, "rank", policy) == "NULL counted apart, hidden; others counted apart, hidden"
    assert special_words(cell, "ward", policy) == "NULL counted apart, public; others counted apart, public"
    assert special_words(mixed["ward"], "ward", policy) == "NULL counts as A1; others count as A1"


def test_the_tables_behind_a_dataset_are_told_as_sql_names_them(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    with bf.curate(config, by="cora") as keeper:
        keeper.add(clinic(tmp_path))
    with bf.connect(config, analyst="ana") as db:
        rows = tables_of(db, "visits")
        assert [(name, gives) for name, gives, _, _ in rows] == [
            ("visits", "ward"),
            ("patients", "age, sex"),
            ("postcodes", "region"),
            ("visits.people", "a record for each patient: rows, age, sex, region"),
        ]
        assert ["public" in hidden for _, _, hidden, _ in rows] == [False, False, True, False]
        assert rows[1][3] == "JOIN patients ON patient = patients.id"
        whole, *joins, people = (words for _, _, _, words in rows)
        for source in (whole, f"{whole} {joins[0]}", f"{whole} {' '.join(joins)}", people):
            assert db.sql(f"EXPLAIN SELECT COUNT(*) {source}", epsilon=1).epsilon == 1
