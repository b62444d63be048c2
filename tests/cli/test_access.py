"""Who may use a dataset, groups and approvals, from the console."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import WaitsForApproval
from blowfishdb.server.state import open_app_state
from tests.cli.conftest import Run


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def people(blowfish: Run, folder: Path) -> Path:
    """A dataset of ages, and two analysts."""
    (folder / "blowfish.toml").write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    with bf.curate(folder / "blowfish.toml", by="cora") as curator:
        curator.add(bf.Dataset("people", source="people.csv", domain={"age": bf.integers(0, 99, null=0)}, epsilon="4"))
    for name in ("ana", "bob"):
        assert blowfish("user", "add", name).code == 0
    return folder


def test_a_dataset_is_granted_and_taken_away(blowfish: Run, people: Path) -> None:
    assert [(one["holder"], one["role"]) for one in blowfish("access", "show", "people", "--json").json["grants"]] == [
        ("@curators", "curator")
    ]
    assert blowfish("access", "grant", "people", "ana").out.strip() == "ana is analyst of people."
    assert blowfish("access", "group", "@ward", "ana", "bob", "--json").json == {"@ward": ["ana", "bob"]}
    granted = blowfish("access", "grant", "people", "@ward", "--epsilon", "0.5")
    assert one_line(granted.out) == "@ward is analyst of people, and may spend epsilon 0.5 each."
    with bf.connect(people / "blowfish.toml", analyst="bob") as session:
        assert session.budget("people").limit == Fraction(1, 2)
    assert "ana, bob" in blowfish("access", "group").out
    assert blowfish("access", "group", "@ward", "--json").json == {"@ward": ["ana", "bob"]}, "a look changes nothing"
    shown = blowfish("access", "show", "people").out
    assert "as usual" in shown
    assert "No question waits for approval." in shown
    assert blowfish("access", "group", "@ward", "--nobody", "--json").json == {"@ward": []}
    assert (
        blowfish("access", "group", "--nobody").code == blowfish("access", "group", "@a", "ana", "--nobody").code == 3
    )
    assert one_line(blowfish("access", "revoke", "people", "ana").out) == "ana is no longer analyst of people."
    for wrong in (("revoke", "people", "ana"), ("grant", "people", "eve"), ("grant", "nothing", "ana"), ("show", "no")):
        assert blowfish("access", *wrong).code == 3
    assert blowfish("dataset", "remove", "people", "--yes").code == 0
    state = open_app_state(people / "blowfish.toml")
    assert [one.at for one in state.grants.of("people")] == [""], "another one of its name inherits nothing"
    actions = [line.action for line in state.audit_log.last()]
    assert actions[-4:] == ["set a group", "granted a role", "set a group", "revoked a role"]
    state.close()


def test_a_question_waits_and_is_decided(blowfish: Run, people: Path) -> None:
    blowfish("access", "grant", "people", "ana")
    first = blowfish("access", "ask-first", "people", "0.1")
    assert "about people above epsilon 0.1 wait for a yes, whoever asks the server. Commands" in one_line(first.out)
    assert "above epsilon 0.1 wait" in blowfish("access", "show", "people").out
    state = open_app_state(people / "blowfish.toml")
    ask = state.session_of(state.logins.begin("ana").identity)["people"]
    for width in (1, 5):
        with pytest.raises(WaitsForApproval):
            ask.histogram(bf.col("age").bins(width)).release(epsilon="0.5")
    listed = blowfish("access", "waiting", "people", "--json").json
    assert [(one["number"], one["analyst"], one["state"]) for one in listed] == [
        (2, "ana", "waiting"),
        (1, "ana", "waiting"),
    ]
    assert "waiting" in blowfish("access", "waiting", "people").out
    yes = one_line(blowfish("access", "decide", "people", "1", "--yes").out)
    assert yes.startswith("ana may release it once, for epsilon 0.5 at most: Histogram of age")
    assert "ana hears no" in blowfish("access", "decide", "people", "2", "--no", "--reason", "too fine").out
    assert blowfish("access", "decide", "people", "2", "--yes").code == 3
    assert blowfish("access", "decide", "people", "2").code == 2, "nobody says yes by leaving it out"
    ask.histogram(bf.col("age").bins(1)).release(epsilon="0.5")
    assert one_line(blowfish("access", "ask-first", "people").out) == one_line(first.out), "a look changes nothing"
    assert blowfish("access", "ask-first", "people", "0.2", "--off").code == 3
    assert one_line(blowfish("access", "ask-first", "people", "--off").out) == "No question about people waits."
    state.close()
