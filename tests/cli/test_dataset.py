"""blowfish dataset: what a curator adds, sees, renews and removes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blowfishdb.cli import run
from examples.patients_and_visits import clinic as clinic_of_three_tables
from tests.cli.conftest import Run

ADD = ("dataset", "add", "people", "--source", "people.csv")


def test_adding_writes_the_configuration_and_an_account(people: Run, folder: Path) -> None:
    written = (folder / "blowfish.toml").read_text()
    assert "[datasets.people.domain.age]" in written
    [listed] = people("dataset", "list", "--json").json
    assert listed["attributes"] == ["age", "state", "cost"]
    assert (listed["epsilon"], listed["spent"], listed["policy_version"]) == ("2", "0", 1)


def test_what_is_added_is_said_in_words(blowfish: Run) -> None:
    added = blowfish(*ADD, "--domain", "age=0..99 null=0", "--epsilon", "2")
    assert added.code == 0
    assert "5 columns, known from the schema alone" in added.out
    assert "Tried: 2 questions, all counted" in added.out
    assert "nothing was released, nothing charged" in " ".join(added.out.split())
    assert "Not used: state, cost, who, row. To use one" in added.out
    assert "Budget: epsilon 2 in all." in added.out
    assert "Presence: public. Everybody may know who is in the table" in added.out
    assert "each row is protected on its own" in added.out


def test_a_threshold_that_hidden_nulls_undo_is_pointed_out(blowfish: Run) -> None:
    added = blowfish(*ADD, "--domain", "age=0..99", "--domain", "cost=0..99 null=0", "--policy", "age=within 5")
    assert "age: NULL or values outside are hidden" in added.out
    assert "cost: NULL" not in added.out


def test_adding_as_json(blowfish: Run) -> None:
    added = blowfish(*ADD, "--domain", "age=0..99", "--json").json
    assert added["attributes"] == ["age"]
    assert added["unused"] == ["state", "cost", "who", "row"]


def test_people_with_several_rows(blowfish: Run) -> None:
    assert blowfish(*ADD, "--domain", "age=0..99", "--person", "who").code == 3
    added = blowfish(*ADD, "--domain", "age=0..99", "--person", "who", "--at-most", "5", "--order-by", "row")
    assert "People: by who; at most 5 rows of each count, first by row." in added.out
    shown = blowfish("dataset", "show", "people", "--json").json
    assert shown["policy"]["unit"] == {"person": "who", "at_most": 5, "order_by": "row"}


def test_a_profile_fills_in_what_the_options_leave_out(blowfish: Run) -> None:
    added = blowfish(*ADD, "--profile", "purchases", "--domain", "state=NC, VA, TX", "--domain", "age=0..99")
    assert added.code == 0, added.err
    assert "Histogram of state" in added.out
    assert "What was spent is never given back." in added.out
    shown = blowfish("dataset", "show", "people", "--json").json
    assert (shown["domain"]["age"]["high"], shown["domain"]["cost"]["high"]) == (99, 50000)
    assert shown["policy"]["unit"] == {"person": "who", "at_most": 10, "order_by": "row"}
    assert shown["policy"]["presence"] == "secret"
    assert (shown["epsilon"], shown["analysts"]) == ("2", [])
    for wrong in (("--profile", "shops"), ("--presence", "hidden")):
        assert blowfish(*ADD, *wrong, "--domain", "age=0..99").code == 3
    raised = blowfish("dataset", "budget", "people", "--epsilon", "3", "--reason", "agreed")
    assert "a suspicion of 1 % could become 16.9 %; with the budget before it was 7.0 %" in raised.out


def test_a_document_instead_of_words(blowfish: Run, folder: Path) -> None:
    (folder / "people.toml").write_text(
        'version = 1\n[domain]\nage = {kind = "integers", low = 0, high = 99}\n'
        '[policy.attributes]\nage = {kind = "threshold", theta = 5}\n'
    )
    assert blowfish(*ADD, "--document", "people.toml", "--domain", "age=0..9").code == 3
    assert blowfish(*ADD, "--document", "people.toml").code == 0
    shown = blowfish("dataset", "show", "people", "--json").json
    assert shown["policy"]["attributes"] == {"age": {"kind": "threshold", "theta": 5}}


def test_what_cannot_work_is_refused_and_nothing_is_written(blowfish: Run, folder: Path) -> None:
    for wrong, said in (
        ((), "no column has a domain"),
        (("--domain", "aeg=0..99"), "did you mean 'age'"),
        (("--domain", "age=many"), "age: 'many' is not a domain"),
        (("--domain", "age=bins(0, 99, width=1)"), "age: 'bins(0, 99, width=1)' is no list of values"),
        (("--domain", "age=0..99, 120"), "age: '0..99, 120' is no list of values"),
        (("--domain", "age=0..99", "--policy", "age=near"), "is not a policy"),
        (("--domain", "age=0..99", "--policy", "cost=full"), "no attribute 'cost'"),
        (("--domain", "age=0..99", "--epsilon", "much"), "epsilon is a number"),
        (("--document", "none.toml"), "cannot be read"),
    ):
        ended = blowfish(*ADD, *wrong)
        assert ended.code == 3
        assert said.lower() in " ".join(ended.err.split()).lower()
    assert not (folder / "blowfish.toml").exists()


def test_a_password_is_refused_and_never_shown(blowfish: Run, folder: Path) -> None:
    address = "postgresql://ana:hunter2@127.0.0.1:1/clinic#visits"
    ended = blowfish("dataset", "add", "visits", "--source", address, "--domain", "age=0..99")
    assert ended.code in (3, 6)
    assert "hunter2" not in ended.out + ended.err
    assert not (folder / "blowfish.toml").exists()


def test_the_same_data_under_another_name_shares_the_budget(blowfish: Run) -> None:
    terms = ("--domain", "age=0..99 null=0", "--epsilon", "2", "--json")
    assert blowfish(*ADD, *terms).json["spent"] == "0"
    assert blowfish("release", "people", "--count", "--where", "age > 50", "--epsilon", "0.25").code == 0
    again = blowfish("dataset", "add", "humans", "--source", "./people.csv", *terms)
    assert again.json["spent"] == "0.25"
    other = blowfish("dataset", "add", "others", "--source", "people.csv", "--domain", "age=0..9")
    assert other.code == 5
    assert "already has an account" in other.err


def test_secrets_come_from_the_environment_alone(blowfish: Run) -> None:
    address = "postgresql://ana:${BLOWFISH_TEST_SECRET}@127.0.0.1:1/clinic#visits"
    ended = blowfish("dataset", "add", "visits", "--source", address, "--domain", "age=0..99")
    assert ended.code == 3
    assert "BLOWFISH_TEST_SECRET is not set" in ended.err


def test_a_dataset_is_added_once(people: Run) -> None:
    again = people(*ADD, "--domain", "age=0..99")
    assert again.code == 3
    assert "already" in again.err


def test_show_tells_who_spent_what(people: Run) -> None:
    people("release", "people", "--count", "--where", "age > 50", "--epsilon", "0.25", "--analyst", "ana")
    shown = people("dataset", "show", "people")
    assert "age: values at most 5 apart are hidden" in shown.out
    assert "ana" in shown.out
    content = people("dataset", "show", "people", "--json").json
    assert content["analysts"] == [{"name": "ana", "spent": "0.25", "limit": "0.5"}]
    assert (content["spent"], content["remaining"]) == ("0.25", "1.75")


def test_budgets_are_renewed_on_record(people: Run) -> None:
    assert people("dataset", "budget", "people", "--reason", "x").code == 3
    renewed = people(
        *("dataset", "budget", "people", "--epsilon", "3", "--analyst", "ana=1", "--per-analyst", "none"),
        *("--reason", "second year", "--json"),
    ).json
    assert (renewed["epsilon"], renewed["per_analyst"]) == ("3", None)
    assert renewed["analysts"] == [{"name": "ana", "spent": "0", "limit": "1"}]
    assert "second year" in people("ledger", "show").out


def test_refreshed_rows_are_a_new_snapshot(people: Run) -> None:
    assert people("dataset", "refreshed", "people", "--description", "May", "--json").json["snapshot"] == 2


def test_refreshed_rows_need_numbers_that_hold(people: Run, folder: Path) -> None:
    known = folder / "known.toml"
    declared = '[domain.age]\nkind = "integers"\nlow = 0\nhigh = 9\n'
    known.write_text(f'version = 1\n{declared}[policy]\nconstraints = ["rows = 9"]\n')
    put = people("policy", "set", "people", "--document", str(known), "--reason", "published")
    assert put.code == 0, put.err
    refused = people("dataset", "refreshed", "people", "--description", "May")
    assert refused.code != 0 and "rows = 9" in refused.err
    told = people("dataset", "refreshed", "people", "--description", "May", "--numbers-hold", "--json")
    assert told.json["snapshot"] == 2


def test_remove_asks_first(people: Run) -> None:
    refused = people("dataset", "remove", "people")
    assert refused.code == 3
    assert "--yes" in refused.err
    assert people("dataset", "remove", "people", "--yes", "--json").json == {"removed": "people", "spent": "0"}
    assert people("dataset", "list", "--json").json == []
    assert "No datasets yet" in people("dataset", "list").out


def test_a_look_makes_no_ledger(blowfish: Run, folder: Path) -> None:
    for look in (("dataset", "list"), ("ledger", "show"), ("ledger", "verify"), ("policy", "show", "people")):
        assert blowfish(*look).code == 3
    assert sorted(path.name for path in folder.iterdir()) == ["people.csv"]


def test_a_wrong_domain_can_be_mended_before_anything_was_released(people: Run) -> None:
    ended = people("dataset", "domain", "people", "--domain", "age=0..120 null=0", "--reason", "a typing error")
    assert ended.code == 0 and "Domain version 2 of people" in ended.out
    shown = people("dataset", "show", "people", "--json").json
    assert shown["domain"]["age"]["high"] == 120
    assert shown["domain"]["cost"]["high"] == 400 and shown["domain_version"] == 2
    typed = people("dataset", "domain", "people", "--domain", "agee=0..9", "--reason", "x")
    assert typed.code == 3 and "did you mean 'age'?" in typed.err


def test_a_column_is_dropped(people: Run) -> None:
    ended = people("dataset", "domain", "people", "--drop", "cost", "--reason", "nobody asks", "--json").json
    assert ended == {"name": "people", "domain_version": 2, "attributes": ["cost"]}
    assert list(people("dataset", "show", "people", "--json").json["domain"]) == ["age", "state"]
    for options in ((), ("--drop", "age", "--domain", "age=0..120")):
        ended = people("dataset", "domain", "people", *options, "--reason", "x")
        assert ended.code == 3 and "--drop" in ended.err
    people("release", "people", "--histogram", "age", "--epsilon", "0.1", "--analyst", "ana")
    refused = people("dataset", "domain", "people", "--drop", "age", "--reason", "x")
    assert refused.code == 5 and "full in force for it first" in " ".join(refused.err.split())


def test_a_domain_that_was_asked_stays(people: Run) -> None:
    assert people("release", "people", "--histogram", "age", "--epsilon", "0.1", "--analyst", "ana").code == 0
    refused = people("dataset", "domain", "people", "--domain", "age=0..120 null=0", "--reason", "x")
    assert refused.code == 5
    assert people("dataset", "show", "people", "--json").json["domain"]["age"]["high"] == 99


def test_data_that_was_removed_comes_back_as_it_was_declared(people: Run, template: Path) -> None:
    before = people("dataset", "show", "people", "--json").json
    assert people("dataset", "remove", "people", "--yes").code == 0
    address = ("--source", str(template / "people.csv"))
    other = people("dataset", "add", "again", *address, "--domain", "age=0..120")
    assert other.code == 5
    assert "blowfish dataset add NAME --source ADDRESS takes it as it was declared" in " ".join(other.err.split())
    assert people("dataset", "add", "again", *address, "--epsilon", "3").code == 5
    assert people("dataset", "add", "again", *address).code == 0
    after = people("dataset", "show", "again", "--json").json
    for field in ("account", "domain", "policy", "epsilon", "policy_version"):
        assert after[field] == before[field]


def test_a_configuration_elsewhere_is_named_in_the_next_command(blowfish: Run, folder: Path) -> None:
    (folder / "clinic").mkdir()
    place = ("--config", "clinic/blowfish.toml")
    said = blowfish("dataset", "add", "people", "--source", "../people.csv", "--domain", "age=0..99", *place)
    assert "Written to clinic/blowfish.toml" in said.out
    assert "Next: blowfish policy show people --config clinic/blowfish.toml" in said.out


def test_numbers_in_text_are_said_to_be_so(blowfish: Run) -> None:
    said = blowfish(
        *("dataset", "add", "people", "--source", "people.csv"), *("--domain", "age=0..99", "--domain", "state=NC, VA")
    )
    assert "Read from text: age. What cannot be read as declared counts as NULL." in said.out


def test_joined_tables_and_caps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    clinic_of_three_tables(tmp_path)
    Path("blowfish.toml").write_text('ledger = "sqlite:///a.ledger"\nmark = "a.mark"\n')
    added = ["dataset", "add", "visits", "--source", "duckdb:///clinic.duckdb#visits", "--domain", "age=0..99 null=0"]
    people = ["--person", "patient", "--at-most", "5", "--order-by", "visit_id"]
    join = ["--join", "patients on patient = id gives age"]
    look = ["dataset", "caps", "stays", "--source", "duckdb:///clinic.duckdb#visits", "--at-most", "2"]
    assert run(look) != 0
    assert run([*look, "--person", "patient", "--order-by", "visit_id"]) == 0
    assert "1,235" in capsys.readouterr().out, "of a table that is not added yet"
    assert run([*added, "--join", "patients by id"]) != 0
    assert "is not a join" in capsys.readouterr().err
    assert run([*added, *join, *people]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Joined: patients on patient = id gives age (protected with the rows of each person)" in shown
    assert run(["dataset", "caps", "visits", "--at-most", "1,5", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["caps"][1] == {"at_most": 5, "counted": 1550, "dropped": 440, "people_over": 176}
    assert run(["dataset", "caps", "visits", "--at-most", "2", "--person", "patient", "--order-by", "visit_id"]) == 0
    assert "1,235" in capsys.readouterr().out
    assert "what caps drop of visits" in Path("blowfish.log").read_text()
    assert run(["dataset", "caps", "visits", "--at-most", "x"]) != 0
    assert run(["dataset", "caps", "visits", "--person", "patient"]) != 0
    # Taken out and added again without a word, it has its joins from the ledger.
    assert run(["dataset", "remove", "visits", "--yes"]) == 0
    assert run(["dataset", "add", "visits", "--source", "duckdb:///clinic.duckdb#visits"]) == 0


def test_the_record_of_processing_is_a_page(people: Run, folder: Path) -> None:
    assert people("dataset", "record", "people", "people.html", "--json").json == {"file": "people.html"}
    assert "Record of processing: people" in (folder / "people.html").read_text()
    assert "No accounts are kept" in (folder / "people.html").read_text()
    assert people("user", "add", "ana").code == people("access", "grant", "people", "ana").code == 0
    assert people("dataset", "record", "people", "people.html").code == 0
    assert ">ana</td>" in (folder / "people.html").read_text()
    assert people("dataset", "record", "people", "nowhere/people.html").code == 3
    assert people("dataset", "record", "people", "people.pdf").code == 3
