"""blowfish synopsis: made once with a charge, asked without ledger and data."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ANA = ("--analyst", "ana")


@pytest.fixture
def made(people: Run, tmp_path: Path) -> Path:
    path = tmp_path / "ages.parquet"
    shown = people(
        "synopsis", "make", "people", "--attributes", "bin(age, 10), state", "--epsilon", "0.25", "-o", str(path), *ANA
    )
    assert shown.code == 0, shown.err
    assert "Ask it as often as you like" in " ".join(shown.out.split())
    return path


def test_a_preview_costs_nothing_and_ends_with_the_command(people: Run) -> None:
    asked = ("synopsis", "preview", "people", "--attributes", "bin(age, 10), state", "--epsilon", "0.25", *ANA)
    shown = people(*asked)
    assert shown.code == 0, shown.err
    for said in ("Number of records", "CDF of age in bins of 10", "usual error", "this leaves 0.25"):
        assert said in shown.out
    [line] = [line for line in shown.out.splitlines() if line.startswith("Run it with: blowfish ")]
    content = people(*asked, "--json").json
    assert [one["answers"] for one in content["errors"]] == [30, 10, 10, 3, 1]
    assert people("dataset", "list", "--json").json[0]["spent"] == "0"
    assert people(*shlex.split(line.removeprefix("Run it with: blowfish "))).code == 0
    aware = ("--attributes", "cost", "--epsilon", "0.1", "--mechanism", "dawa")
    unknown = people("synopsis", "preview", "people", *aware, *ANA)
    assert "is not known before: dawa" in " ".join(unknown.out.split())
    expensive = people(*asked[:6], "0.5", *ANA).out
    assert "this is too expensive" in expensive and "Run it with" not in expensive


def test_it_is_charged_once(people: Run, made: Path) -> None:
    before = people("dataset", "list", "--json").json[0]["spent"]
    again = people(
        "synopsis", "make", "people", "--attributes", "bin(age, 10), state", "--epsilon", "0.25", "-o", str(made), *ANA
    )
    people("synopsis", "ask", str(made), "--histogram", "state")
    assert again.code == 0
    assert people("dataset", "list", "--json").json[0]["spent"] == before == "0.25"


def test_it_answers_and_exports(people: Run, made: Path, tmp_path: Path) -> None:
    shown = people("synopsis", "ask", str(made), "--histogram", "bin(age, 10)", "--save", str(tmp_path / "a.csv"))
    assert shown.code == 0
    assert "no further charge" in shown.out
    with (tmp_path / "a.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == 10
    asked = people("synopsis", "ask", str(made), "--count", "--where", "age < 40", "--json")
    assert json.loads(asked.out)["kind"] == "count"
    described = people("synopsis", "show", str(made), "--json").json
    assert (described["epsilon"], described["dataset"]) == ("1/4", "people")
    assert "Not protected" in people("synopsis", "show", str(made)).out


def test_rows_are_repeatable(people: Run, made: Path, tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        assert people("synopsis", "rows", str(made), "-o", str(tmp_path / name), "--rows", "20").code == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 21


def test_bad_wishes_charge_nothing(people: Run, made: Path, tmp_path: Path) -> None:
    before = people("dataset", "list", "--json").json[0]["spent"]
    wrong = [
        ("synopsis", "make", "people", "--attributes", "age", "--epsilon", "0.1", "-o", "x.csv", *ANA),
        ("synopsis", "make", "people", "--attributes", "age", "--epsilon", "0.1", "-o", "no/where.parquet", *ANA),
        ("synopsis", "make", "people", "--attributes", "agee", "--epsilon", "0.1", *ANA),
        ("synopsis", "ask", str(tmp_path / "nothing.parquet"), "--count"),
        ("synopsis", "ask", str(made)),
        ("synopsis", "rows", str(made), "-o", "rows.txt"),
    ]
    for words in wrong:
        shown = people(*words)
        assert shown.code != 0
        assert "unexpected" not in shown.err
    assert people("dataset", "list", "--json").json[0]["spent"] == before
