"""Questions in the terminal, interruptions, and faults that say little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from blowfishdb.cli.output import print_error
from blowfishdb.errors import InvalidInput
from tests.cli.conftest import Ended, Run

ADD = ("dataset", "add", "people", "--source", "people.csv")


class Terminal:
    """Standard input as a terminal has it."""

    def isatty(self) -> bool:
        return True


def test_each_column_is_asked_about(
    blowfish: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ages = ["?", "0..99 null=0", "around 5", "within 5"]
    states = ["many", "NC, VA, other outside=other", ""]
    answers = iter([*ages, *states, "", "person 5 by row", "", "plenty", "2", "0.5"])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda *prompt: next(answers))
    added = blowfish(*ADD)
    assert added.code == 0, added.err
    assert "Nothing is inferred from the data" in added.out
    assert "'many' is no domain" in added.out
    assert "write 0..110" in added.out
    assert "'around 5' is no policy" in added.out
    assert "Budget: epsilon 2 in all, 0.5 per analyst" in added.out
    assert list(answers) == []
    shown = blowfish("dataset", "show", "people", "--json").json
    assert list(shown["domain"]) == ["age", "state"]
    assert shown["policy"]["unit"]["at_most"] == 5
    assert list(shown["policy"]["attributes"]) == ["age"]


def test_a_policy_is_edited_by_answers(people: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    edit = ("policy", "edit", "people", "--by", "cora")
    assert people(*edit).code == 3
    monkeypatch.setattr("sys.stdin", Terminal())

    def said(*answers: str) -> Ended:
        waiting = iter(answers)
        monkeypatch.setattr("builtins.input", lambda *prompt: next(waiting))
        ended = people(*edit)
        assert list(waiting) == []
        return ended

    attributes = len(people("dataset", "show", "people", "--json").json["domain"])
    as_it_is = [""] * (attributes - 1)
    assert "Nothing was changed" in said("", *as_it_is).out
    assert "would become" in said("within 9", *as_it_is, "").out
    assert people("policy", "show", "people", "--json").json["version"] == 1
    done = said("?", "within -3", "within 9", *as_it_is, "y", "", "agreed in May")
    assert done.code == 0, done.err
    assert "version 2 is the one in force" in done.out
    assert "age: values at most 9 apart" in people("policy", "show", "people").out


def test_a_second_name_takes_over_the_limits_of_the_data(people: Run) -> None:
    first = people("dataset", "show", "people", "--json").json
    source = people("dataset", "list", "--json").json[0]["source"]
    document = {"version": 1, "domain": first["domain"], "policy": first["policy"]}
    Path("same.json").write_text(json.dumps(document))
    again = people("dataset", "add", "folk", "--source", f"file://{source}", "--document", "same.json", "--json")
    assert again.code == 0, again.err
    before = people("dataset", "list", "--json").json
    assert {(one["epsilon"], one["spent"]) for one in before} == {(before[0]["epsilon"], before[0]["spent"])}
    other = people(
        "dataset", "add", "crowd", "--source", source, "--document", "same.json", "--epsilon", "77", "--json"
    )
    assert other.error["code"] == "account-conflict"


def test_an_unexpected_fault_is_named_by_its_kind_alone(tmp_path: Path) -> None:
    code = (
        "import blowfishdb.cli as cli\n"
        "def fail(arguments):\n    raise KeyError('Jane Doe, 47')\n"
        "cli.run = fail\ncli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "KeyError" in done.stderr
    assert "Jane" not in done.stderr + done.stdout


def test_names_of_datasets_complete(people: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from blowfishdb.cli.options import dataset_names

    assert dataset_names("pe") == ["people"]
    assert dataset_names("x") == []
    monkeypatch.setenv("BLOWFISH_CONFIG", "nothing.toml")
    assert dataset_names("") == []


def test_the_version(blowfish: Run) -> None:
    assert blowfish("--version").out.startswith("blowfish 0.")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("datasets.visits has no key 'x'", "datasets.visits has no key 'x'."),
        ("max_age is no attribute", "max_age is no attribute."),
        ("ward: unknown", "ward: unknown."),
        ("unknown.", "Unknown."),
    ],
)
def test_a_message_begins_with_a_capital_unless_with_a_name(
    message: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_error(InvalidInput(message), as_json=False)
    assert capsys.readouterr().err.strip() == said
