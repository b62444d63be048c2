"""blowfish preview, release and sql."""

from __future__ import annotations

import csv
import json
import shlex
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.cli.answers import rounded_down
from blowfishdb.cli.output import shell_line
from tests.cli.conftest import Run

ANA = ("--analyst", "ana")


def spent(run: Run) -> str:
    [listed] = run("dataset", "list", "--json").json
    return str(listed["spent"])


def test_a_preview_costs_nothing(people: Run) -> None:
    shown = people("preview", "people", "--histogram", "bin(age, 10)", "--within", "50", *ANA)
    assert shown.code == 0
    for said in ("<- would run", "Worst pair", "You have 0.5 left", "Not protected"):
        assert said in shown.out
    content = people("preview", "people", "--histogram", "bin(age, 10)", "--within", "50", *ANA, "--json").json
    assert content["answers"] == 10
    assert len(content["offers"]) > 1
    assert spent(people) == "0"


def test_a_release_is_charged_once_and_replayed_free(people: Run) -> None:
    ask = ("release", "people", "--histogram", "bin(age, 10)", "--epsilon", "0.125", *ANA, "--json")
    first, second = people(*ask), people(*ask)
    assert first.code == second.code == 0
    assert first.json == second.json
    assert spent(people) == "0.125"


def test_an_answer_that_comes_again_says_so(people: Run) -> None:
    ask = ("release", "people", "--histogram", "bin(age, 10)", "--epsilon", "0.125", *ANA)
    first, second = people(*ask), people(*ask)
    assert "asked this before" not in first.out
    assert "asked this before" in second.out
    assert "You have epsilon 0.375 left" in second.out


def test_a_preview_that_is_too_dear_names_what_the_budget_buys(people: Run) -> None:
    expensive = people("preview", "people", "--histogram", "age", "--within", "1", *ANA).out
    assert "this is too expensive" in expensive and "Run it with" not in expensive
    assert "What your budget buys: blowfish preview people --histogram age --epsilon 0.5 --analyst ana" in expensive
    people("release", "people", "--count", "--where", "age > 30", "--epsilon", "0.5", *ANA)
    spent_up = people("preview", "people", "--histogram", "age", "--within", "1", *ANA).out
    assert "You have nothing left to spend here" in spent_up and "What your budget buys" not in spent_up


@pytest.mark.parametrize(("amount", "said"), [("1129/1000", "1.12"), ("2/3", "0.666"), ("1/100000", "0.00001")])
def test_what_is_left_is_rounded_down(amount: str, said: str) -> None:
    assert rounded_down(Fraction(amount)) == said
    assert Fraction(said) <= Fraction(amount)


def test_sql_asks_the_same_as_options(people: Run) -> None:
    one = people(
        "release", "people", "--histogram", "bin(age, 10)", "--where", "state = 'NC'", "--within", "200", *ANA, "--json"
    )
    text = "SELECT bin(age, 10), COUNT(*) FROM people WHERE state = 'NC' GROUP BY 1 OPTIONS (alpha = 200)"
    two = people("sql", text, *ANA, "--json")
    assert one.code == two.code == 0
    assert one.json == two.json


def test_explain_is_the_preview(people: Run) -> None:
    shown = people("sql", "EXPLAIN SELECT CDF(cost) FROM people", "--within", "300", *ANA, "--json")
    assert shown.json["title"] == "CDF of cost"
    assert spent(people) == "0"


def command_after(said: str, printed: str) -> list[str]:
    """The arguments of the command that stands after these words, as a shell would read them."""
    [line] = [line for line in printed.splitlines() if line.startswith(said)]
    program, *words = shlex.split(line.removeprefix(said))
    assert program == "blowfish"
    return words


def test_explain_ends_with_the_command_that_answers(people: Run) -> None:
    text = "EXPLAIN SELECT bin(age, 10), COUNT(*) FROM people WHERE state = 'NC' GROUP BY 1"
    shown = people("sql", text, "--within", "200", "--confidence", "0.9", *ANA).out
    words = command_after("Run it with: ", shown)
    assert words[:2] == ["sql", f"{text.removeprefix('EXPLAIN ')} OPTIONS (alpha = 200, beta = 0.1)"]
    assert words[2:] == list(ANA)
    answered = people(*words, "--json")
    assert answered.code == 0
    assert answered.json["beta"] == 0.1


def test_explain_that_is_too_dear_names_what_the_budget_buys(people: Run) -> None:
    expensive = people("sql", "EXPLAIN SELECT age, COUNT(*) FROM people GROUP BY 1 OPTIONS (alpha = 1)", *ANA).out
    assert "Run it with" not in expensive
    cheaper = people(*command_after("What your budget buys: ", expensive)).out
    assert "for epsilon 0.5" in cheaper
    assert people(*command_after("Run it with: ", cheaper)).code == 0


@pytest.mark.parametrize("word", ["a b", "it's", "cost = '$5'", "a \"b\" 'c'", "`x'`", "back\\slash'", "!'", "", "-"])
def test_commands_are_quoted_as_a_shell_reads_them(word: str) -> None:
    assert shlex.split(shell_line(["blowfish", word])) == ["blowfish", word]
    assert ("'\"'\"'" in shell_line(["state = 'NC'"])) is False


@pytest.mark.parametrize(
    "asked",
    [
        ("--cdf", "bin(cost, 100)"),
        ("--histogram", "state, bin(age, 25)"),
        ("--marginals", "state, bin(age, 25)"),
        ("--ranges", "age:20..40,40..70"),
        ("--ranges", "bin(age, 25)"),
        ("--count",),
        ("--sum", "age"),
        ("--mean", "age"),
        ("--quantiles", "age"),
        ("--quantiles", "age:0.1,1/2"),
    ],
)
def test_every_kind_of_question(people: Run, asked: tuple[str, ...]) -> None:
    ended = people("release", "people", *asked, "--where", "age >= 20 AND state <> 'other'", "--epsilon", "0.25", *ANA)
    assert ended.code == 0, ended.err
    assert "You have epsilon" in ended.out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((), "ask for one thing"),
        (("--count", "--sum", "age"), "ask for one thing"),
        (("--histogram", "aeg"), "did you mean 'age'"),
        (("--cdf", "age, cost"), "one attribute"),
        (("--histogram", "age FROM people --"), "cannot be read"),
        (("--ranges", "age:20-40"), "LOW..HIGH"),
        (("--quantiles", "age:half"), "ATTRIBUTE:LEVEL"),
        (("--quantiles", "age:0.25,0.3333333333333333333333333"), "ATTRIBUTE:LEVEL"),
        (("--count", "--confidence", "95"), "confidence is a probability"),
        (("--count", "--where", "age > 1; DROP TABLE people"), "One statement"),
        (("--count", "--where", "age > 1 GROUP BY age"), "grouped"),
        (("--count", "--mechanism", "magic"), "no mechanism"),
        (("--count", "--plot", "x.gif"), ".png"),
        (("--count", "--save", "x.xls"), ".csv"),
        (("--count", "--save", "nowhere/x.csv"), "no folder"),
    ],
)
def test_mistakes_are_refused_before_anything_is_charged(people: Run, asked: tuple[str, ...], said: str) -> None:
    ended = people("release", "people", *asked, "--within", "50", *ANA)
    assert ended.code == 3
    assert said.lower() in " ".join(ended.err.split()).lower()
    assert spent(people) == "0"


def test_no_accuracy_is_refused(people: Run) -> None:
    ended = people("release", "people", "--count", *ANA)
    assert ended.code == 3
    assert people("release", "people", "--count", "--within", "5", "--epsilon", "1", *ANA).code == 3


def test_too_dear_says_what_the_rest_buys(people: Run) -> None:
    ask = ("release", "people", "--histogram", "cost", "--within", "1", *ANA)
    ended = people(*ask)
    assert ended.code == 4
    assert "Not run, nothing charged." in ended.err
    assert "With 0.5 you can have: within" in ended.err
    error = people(*ask, "--json").error
    assert error["code"] == "budget-exceeded"
    assert (error["left_dataset"], error["left_analyst"]) == (None, "0.5")
    assert error["instead"]
    assert spent(people) == "0"


def test_rows_are_never_shown(people: Run) -> None:
    ended = people("sql", "SELECT * FROM people", *ANA)
    assert ended.code == 3
    assert "Rows are never shown. What works: SELECT <attributes>, COUNT(*) FROM people" in " ".join(ended.err.split())


def test_an_answer_is_kept_in_files(people: Run, folder: Path) -> None:
    ask = ("release", "people", "--histogram", "bin(age, 25)", "--epsilon", "0.25", *ANA)
    assert people(*ask, "--save", "ages.csv", "--note").code == 0
    assert people(*ask, "--save", "ages.json").code == 0
    assert people(*ask, "--save", "ages.parquet", "--plot", "ages.png").code == 0
    rows = list(csv.DictReader((folder / "ages.csv").read_text().splitlines()))
    assert len(rows) == 4
    assert json.loads((folder / "ages.json").read_text())["epsilon"] == "1/4"
    assert (folder / "ages.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "ages.parquet").stat().st_size > 0
    assert spent(people) == "0.25"


def test_a_key_that_belongs_to_another_request(people: Run) -> None:
    assert (
        people("release", "people", "--count", "--where", "age > 3", "--epsilon", "0.1", "--key", "k", *ANA).code == 0
    )
    assert (
        people("release", "people", "--count", "--where", "age > 4", "--epsilon", "0.1", "--key", "k", *ANA).code == 5
    )


def test_names_that_would_move_the_cursor_are_spelled_out(people: Run) -> None:
    ended = people("preview", "pe\x1b[2Jople", "--count", "--within", "5", *ANA)
    assert ended.code == 3
    assert "\x1b" not in ended.err


def test_the_analyst_comes_from_the_environment(people: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOWFISH_ANALYST", "erna")
    assert people("release", "people", "--count", "--where", "age > 3", "--epsilon", "0.1").code == 0
    assert [one["name"] for one in people("dataset", "show", "people", "--json").json["analysts"]] == ["erna"]


def test_parameters_of_a_mechanism_are_set_listed_and_refused(people: Run) -> None:
    ask = ("people", "--histogram", "age", "--epsilon", "0.125", "--mechanism", "matching-transform")
    chosen = ("--parameter", "rounds=2", "--parameter", "split=0.3")
    shown = people("preview", *ask, *chosen, *ANA)
    assert "was asked for with rounds=2, split=0.3" in shown.out
    assert "--parameter rounds=2 --parameter split=0.3" in " ".join(shown.out.split())
    answer = people("release", *ask, *chosen, *ANA, "--json").json
    assert answer["parameters"] == {"rounds": "2", "split": "3/10"}
    for wrong, words in (
        ("rounds=11", "from 1 to 10"),
        ("fan_out=2", "is a parameter of hierarchy"),
        ("x", "name=value"),
    ):
        refused = people("release", *ask, "--parameter", wrong, *ANA)
        assert refused.code == 3
        assert words in " ".join(refused.err.split())
    assert spent(people) == "0.125"
    listed = people("mechanisms")
    assert "fan_out" in listed.out and "Without parameters: identity," in listed.out
    assert people("mechanisms", "--json").json["dawa"][0]["name"] == "split"
