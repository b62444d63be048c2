"""Questions in the terminal, interruptions, and faults that say little."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from blowfishdb.cli.output import LOG, CuratorLog, keep_log, log_to_file, print_error
from blowfishdb.errors import InvalidInput
from blowfishdb.incidents import curator_log
from tests.cli.conftest import Ended, Run

ADD = ("dataset", "add", "people", "--source", "people.csv")


class Terminal:
    """Standard input as a terminal has it."""

    def isatty(self) -> bool:
        return True


def test_each_column_is_asked_about(
    blowfish: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    people = ["nobody", "", "many", "5", ""]
    ages = ["?", "0..99 null=0", "?", "around 5", "within 5"]
    states = ["many", "NC, VA, other outside=other", "other", ""]
    rest = ["-", "", "who?", "", "plenty", "2", "0.5", "?", "costs", "cost", "0..400 step 10", "0", "", "age", "-"]
    rest += ["age", "0..99 null=0", "within 5", "budget", "3", "0.5", "presence", "", "people", "", "4", "", "Y"]
    answers = iter(["folk", "census", *people, *ages, *states, *rest])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda *prompt: next(answers))
    added = blowfish(*ADD)
    assert added.code == 0, added.err
    assert "Nothing is inferred from the data" in added.out
    assert "'many' is not a domain" in added.out
    assert "write 0..110" in added.out
    assert "'around 5' is not a policy" in added.out
    assert "did you mean 'cost'" in added.out
    assert "Budget: epsilon 3 in all, 0.5 per analyst" in added.out
    assert "Presence: secret. Nobody learns whether somebody is in the table." in added.out
    assert "Until the first answer columns, people and presence can change; then they are final." in added.out
    assert list(answers) == []
    shown = blowfish("dataset", "show", "people", "--json").json
    assert list(shown["domain"]) == ["age", "state", "cost"]
    assert shown["policy"]["unit"] == {"person": "who", "at_most": 4, "order_by": "row"}
    assert shown["policy"]["presence"] == "secret"
    assert shown["domain"]["state"]["null"] == "other"
    assert list(shown["policy"]["attributes"]) == ["age"]


def test_a_budget_is_raised_after_a_yes(people: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    for answer, limit in (("", "2"), ("y", "3")):
        monkeypatch.setattr("builtins.input", lambda *prompt, word=answer: word)
        done = people("dataset", "budget", "people", "--epsilon", "3", "--reason", "second year")
        said = " ".join(done.out.split())
        assert "could become 100 % where the policy hides least, and 16.9 % where it hides most" in said
        assert "with the budget before it was 100 % and 7.0 %" in said
        assert people("dataset", "show", "people", "--json").json["epsilon"] == limit


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


SECRET = "Jane Doe, 47"


def fail(*arguments: object, **options: object) -> object:
    raise RuntimeError(f"could not convert {SECRET!r}")


def test_a_failing_source_leaves_an_incident_and_a_log(
    people: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blowfishdb.sources.duckdb.DuckDB.fetch_columns", fail)
    ended = people("release", "people", "--count", "--where", "age > 50", "--epsilon", "0.25", "--analyst", "ana")
    assert ended.code == 6
    assert "incident" in ended.err
    assert "Curators: what it said is in blowfish.log" in ended.err
    assert "0.25" in ended.err or "1/4" in ended.err
    assert SECRET not in ended.out + ended.err
    log = folder / "blowfish.log"
    assert SECRET in log.read_text()
    assert stat.S_IMODE(os.stat(log).st_mode) == 0o600
    assert LOG.path is None
    assert LOG not in curator_log.handlers


@pytest.mark.parametrize(("address", "is_shown"), [("postgresql://h/d#t", True), ("people.csv", False)])
def test_only_a_server_that_read_no_row_is_quoted_to_who_adds_a_dataset(
    blowfish: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, address: str, is_shown: bool
) -> None:
    monkeypatch.setattr("blowfishdb.sources.postgres.Postgres._connected", fail)
    monkeypatch.setattr("blowfishdb.sources.duckdb.DuckDB.columns", fail)
    ended = blowfish("dataset", "add", "people", "--source", address, "--domain", "age=0..99")
    assert ended.code == 6
    assert ('it says: "could not convert' in " ".join(ended.err.split())) is is_shown
    assert SECRET in (folder / "blowfish.log").read_text()
    told = blowfish("dataset", "add", "people", "--source", address, "--domain", "age=0..99", "--json")
    assert told.error["code"] == ("engine-error" if is_shown else "source-failed")
    assert (SECRET in told.err) is is_shown


def test_without_a_log_nothing_is_printed_either() -> None:
    code = (
        "from blowfishdb.errors import SourceFailed\nfrom blowfishdb.incidents import redact_errors\n"
        f"def fail():\n    raise RuntimeError({SECRET!r})\n"
        "try:\n    redact_errors(fail, SourceFailed, 'test')\nexcept SourceFailed as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "incident" in done.stdout
    assert done.stderr == ""


def test_a_command_that_runs_others_keeps_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Half a character cannot travel from one test process to another, so it stays out of the captured log.
    monkeypatch.setattr(curator_log, "propagate", False)
    with log_to_file():
        with log_to_file():
            keep_log(tmp_path / "inner.toml")
        keep_log(tmp_path / "blowfish.toml")
        curator_log.error("could not convert %s \ud800", SECRET)
    assert SECRET in (tmp_path / "blowfish.log").read_text()
    assert LOG not in curator_log.handlers


def test_a_rotated_log_goes_on_in_a_new_file(tmp_path: Path) -> None:
    """As `logrotate` does: nobody has to tell the server."""
    log = CuratorLog()
    log.path = tmp_path / "blowfish.log"
    for line, name in (("first", "blowfish.log.1"), ("second", "blowfish.log")):
        log.emit(logging.LogRecord("curator", logging.ERROR, "", 0, line, None, None))
        log.path.rename(tmp_path / name)
    assert [(tmp_path / name).read_text().split()[-1] for name in ("blowfish.log.1", "blowfish.log")] == [
        "first",
        "second",
    ]
    assert log.path.stat().st_mode & 0o077 == 0
