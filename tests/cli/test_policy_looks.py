"""Pictures of policies, the risk meter, and graphs from files, by command."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Run

RISK = ("policy", "risk", "people", "--attribute", "age", "--pair", "20,30")


def test_a_picture_is_written_and_parts_are_warned_of(people: Run, folder: Path) -> None:
    told = people("policy", "draw", "people", "--attribute", "age", "--output", "age.svg")
    assert "24 of" in told.out
    root = ElementTree.parse(folder / "age.svg").getroot()
    assert root.tag.endswith("svg")
    open_to_all = people("policy", "draw", "people", "--attribute", "state", "--json").json
    assert open_to_all["file"] == "state.svg"
    assert open_to_all["moves"] == 0
    assert "parts that no chain" in open_to_all["warnings"][0]
    assert "Mind: state falls into" in people("policy", "draw", "people", "--attribute", "state").out.replace("\n", " ")
    people("policy", "draw", "people", "--attribute", "age", "--around", "20", "--values", "5", "--output", "age.dot")
    text = (folder / "age.dot").read_text()
    assert text.startswith('graph "age" {')
    assert '"20" -- "21";' in text


@pytest.mark.parametrize(
    "wrong", [("--output", "x.png"), ("--around", "none"), ("--values", "1"), ("--output", "no/x.svg")]
)
def test_what_cannot_be_drawn_is_refused(people: Run, wrong: tuple[str, ...]) -> None:
    assert people("policy", "draw", "people", "--attribute", "age", *wrong).code == 3


def test_risk_in_words_numbers_and_a_picture(people: Run, folder: Path) -> None:
    told = people(*RISK, "--epsilon", "0.5", "--epsilon", "0.25", "--prior", "0.1", "--json").json
    assert (told["steps"], told["epsilon"]) == (2, "0.75")
    assert told["odds"] == pytest.approx(math.exp(1.5))
    assert told["posterior"][1] == pytest.approx(0.1 * math.exp(1.5) / (0.9 + 0.1 * math.exp(1.5)))
    assert "2 steps apart" in people(*RISK, "--epsilon", "0.5", "--plot", "risk.png").out
    assert (folder / "risk.png").stat().st_size > 1000
    state = people(
        "policy", "risk", "people", "--attribute", "state", "--pair", "NC,VA", "--epsilon", "1", "--json"
    ).json
    assert (state["steps"], state["odds"], state["posterior"]) == (None, None, [0.0, 1.0])


def test_a_budget_for_a_bound(people: Run) -> None:
    found = people(*RISK, "--odds", "3", "--releases", "10", "--json").json
    assert float(found["each"]) == pytest.approx(math.log(3) / 20, abs=1e-5)
    told = people(*RISK, "--posterior", "0.6", "--releases", "10").out.split()
    assert float(told[1]) <= math.log(1.5) / 2
    assert float(told[told.index("scale") + 1].replace(",", "")) >= 2 / (math.log(1.5) / 20)
    for wrong in (
        (),
        ("--epsilon", "1", "--odds", "3"),
        ("--odds", "0.5"),
        ("--epsilon", "x"),
        ("--epsilon", "1", "--plot", "x.abc"),
    ):
        assert people(*RISK, *wrong).code == 3
    assert people("policy", "risk", "people", "--attribute", "age", "--pair", "20", "--epsilon", "1").code == 3


def test_graphs_from_files(people: Run, folder: Path) -> None:
    (folder / "pairs.csv").write_text("from,to\nNC,VA\n")
    (folder / "far.csv").write_text(",NC,VA,other\nNC,0,200,1600\nVA,200,0,1700\nother,1600,1700,0\n")
    for words in ("edges pairs.csv", "distances far.csv within 500"):
        row = people(
            "policy", "what-if", "people", "--attribute", "state", "--within", "100",
            "--policy", words, "--pair", "NC,VA", "--pair", "NC,other", "--json",
        ).json[0]  # fmt: skip
        assert row["policy"] == "1 listed pairs"
        assert [pair["steps"] for pair in row["pairs"]] == [1, None]
    changed = people("policy", "set", "people", "--policy", "state=edges pairs.csv", "--reason", "tighter", "--dry-run")
    assert changed.code in (0, 5)
    for words in ("edges none.csv", "distances pairs.csv within 5", "distances far.csv"):
        assert (
            people("policy", "what-if", "people", "--attribute", "state", "--within", "9", "--policy", words).code == 3
        )
