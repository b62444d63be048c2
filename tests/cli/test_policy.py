"""blowfish policy: words, checks, comparisons and changes."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest

import blowfishdb as bf
from blowfishdb.cli.answers import usual_families
from blowfishdb.cli.policy import changed_policy
from blowfishdb.errors import PolicyError
from blowfishdb.model.calendar import dates
from blowfishdb.model.domain import bins, categorical, integers
from blowfishdb.model.policy import full, line, public, threshold
from tests.cli.conftest import Run

WHAT_IF = ("policy", "what-if", "people", "--attribute", "age", "--within", "100")


def test_show(people: Run) -> None:
    assert "age: values at most 5 apart" in people("policy", "show", "people").out
    content = people("policy", "show", "people", "--json").json
    assert content["version"] == 1
    assert content["policy"]["attributes"]["state"] == {"kind": "public"}


def test_check_points_at_the_line(people: Run, folder: Path) -> None:
    assert "the policy fits" in people("policy", "check").out
    (folder / "wrong.toml").write_text('version = 1\n[domain]\nage = {kind = "integers", low = 9, high = 1}\n')
    ended = people("policy", "check", "wrong.toml")
    assert ended.code == 3
    assert ended.err.startswith("Line 3")
    assert people("policy", "check", "wrong.toml", "--json").error["code"] == "invalid-document"


def test_what_if_compares_prices_and_odds(people: Run) -> None:
    rows = people(
        *WHAT_IF,
        "--policy",
        "full",
        "--theta",
        "5",
        "--policy",
        "line",
        "--policy",
        "public",
        "--pair",
        "20,30",
        "--json",
    ).json
    by_words = {row["policy"]: row for row in rows}
    assert set(by_words) == {"everything secret", "within 5", "neighbours only", "public"}
    steps = {words: row["pairs"][0]["steps"] for words, row in by_words.items()}
    assert steps == {"everything secret": 1, "within 5": 2, "neighbours only": 10, "public": None}
    for row in rows:
        pair = row["pairs"][0]
        if pair["steps"] is not None:
            assert pair["odds"] == pytest.approx(math.exp(float(Fraction(row["epsilon"])) * pair["steps"]))
    prices = [Fraction(row["epsilon"]) for row in rows]
    assert prices == sorted(prices, reverse=True)
    assert by_words["public"]["epsilon"] == "0"
    assert by_words["within 5"]["in_force"]


def test_what_if_on_the_screen(people: Run) -> None:
    shown = people(*WHAT_IF, "--policy", "full", "--policy", "line")
    assert shown.code == 0
    for said in ("everything secret", "within 5 (in force)", "neighbours only", "No data was read"):
        assert said in shown.out
    closing = " ".join(shown.out.split())
    assert "The policy in force protects: age, values at most 5 apart are hidden from each other. " in closing
    assert "Does not protect: Roughly how large age is: values many steps apart can be told apart. How many" in closing
    unordered = people("policy", "what-if", "people", "--attribute", "state", "--within", "100")
    assert "protects: state, nothing is hidden" in " ".join(unordered.out.split())
    secret = people("policy", "what-if", "people", "--attribute", "cost", "--within", "100")
    assert "protects: cost, any two values are hidden from each other. Does" in " ".join(secret.out.split())
    assert "not hidden" in unordered.out


def test_usual_policies_of_each_kind_of_attribute() -> None:
    assert usual_families(integers(0, 4356)) == [full(), threshold(1000), threshold(100), threshold(10), line()]
    assert usual_families(integers(17, 90)) == [full(), threshold(10), threshold(5), line()]
    assert usual_families(bins(0, 50_000, width=100)) == [full(), threshold(10_000), threshold(1000), line()]
    assert usual_families(dates("2024-01-01", "2024-12-31"))[1] == threshold("90 days")
    assert usual_families(categorical(["a", "b"])) == [full(), public()]
    assert usual_families(integers(0, 1)) == [full(), line()]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--pair", "20"),
        ("--pair", "20,300"),
        ("--theta", "x"),
        ("--policy", "near"),
        ("--attribute", "aeg"),
        ("--beta", "2"),
    ],
)
def test_what_if_refuses_mistakes(people: Run, wrong: tuple[str, str]) -> None:
    assert people(*WHAT_IF, *wrong).code == 3


def test_a_new_policy_stretches_past_loss(people: Run) -> None:
    people("release", "people", "--count", "--where", "age > 50", "--epsilon", "0.25", "--analyst", "ana")
    change = ("policy", "set", "people", "--policy", "age=within 10", "--reason", "why not", "--json")
    dry = people(*change, "--dry-run").json
    assert (dry["in_force"], dry["stretch"], dry["spent_after"]) == (False, "2", "0.5")
    assert people("policy", "show", "people", "--json").json["version"] == 1
    assert people(*change).json["in_force"]
    assert people("policy", "show", "people", "--json").json["version"] == 2
    assert people("dataset", "list", "--json").json[0]["spent"] == "0.5"


def test_a_policy_that_hides_what_was_open_is_refused(people: Run) -> None:
    people("release", "people", "--count", "--where", "age > 50", "--epsilon", "0.25", "--analyst", "ana")
    change = ("policy", "set", "people", "--policy", "state=full", "--reason", "why not")
    dry = people(*change, "--dry-run")
    assert "would be refused" in dry.out
    assert dry.code == 5
    assert people(*change).code == 5
    assert people("policy", "set", "people", "--reason", "nothing said").code == 3


def test_an_edit_of_the_file_is_not_shown_as_what_is_in_force(people: Run, folder: Path) -> None:
    config = folder / "blowfish.toml"
    as_it_was = people("policy", "show", "people").out
    config.write_text(
        config.read_text().replace("theta = 5\n", "theta = 7\n").replace('epsilon = "2"', 'epsilon = "3"')
    )
    shown, whole = people("policy", "show", "people").out, people("dataset", "show", "people").out
    assert shown.startswith(as_it_was)
    for said in (shown, whole):
        assert "The configuration says another policy." in said and "at most 5 apart" in said
        assert "blowfish dataset budget people --epsilon 3 --reason TEXT" in " ".join(said.split())


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


def test_public_constraints_are_listed_with_their_factors_and_drawn(people: Run, folder: Path) -> None:
    assert "constraints" not in people("policy", "show", "people", "--json").json
    refused = people("policy", "draw", "people", "--constraints", "--json")
    assert (refused.code, refused.error["code"]) == (3, "invalid-policy")
    declared = folder / "known.toml"
    domain, hidden = '[domain.age]\nkind = "integers"\nlow = 0\nhigh = 99\n', 'kind = "threshold"\ntheta = 5\n'
    known = '[policy]\nconstraints = ["count(age < 18)", "range(age, 70, 99)"]\n'
    declared.write_text(f"version = 1\n{domain}{known}[policy.attributes.age]\n{hidden}")
    assert people("policy", "set", "people", "--document", "known.toml", "--reason", "published").code == 0
    shown = people("policy", "show", "people", "--json").json["constraints"]
    assert shown["records"] == {"count(age < 18)": 2, "range(age, 70, 99)": 2}
    assert (shown["records_together"], shown["tied"]) == (3, [])
    told = " ".join(people("policy", "show", "people").out.split())
    assert "count(age < 18) 2 times none" in told and "longest forced chain has 3 records" in told
    drawn = people("policy", "draw", "people", "--constraints")
    assert "constraints.svg: 2 public constraints, 0 lines among them." in drawn.out
    assert ElementTree.parse(folder / "constraints.svg").getroot().tag.endswith("svg")
    for wrong in ((), ("--constraints", "--attribute", "age"), ("--constraints", "--output", "x.dot")):
        assert people("policy", "draw", "people", *wrong).code == 3


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


def test_several_attributes_are_hidden_together_by_words(folder: Path) -> None:
    domain = {"x": bf.integers(0, 9, null=0), "y": bf.integers(0, 9, null=0), "z": bf.categorical(["a", "b"])}
    xy = bf.grid(["x", "y"], 2)
    (folder / "pairs.csv").write_text("z,x,z,x\na,1,b,2\n")
    (folder / "blocks.csv").write_text("block,z,x\none,a,*\n")
    cases: list[tuple[list[str], bf.Policy]] = [
        (["x + y=within 2"], bf.Policy(joint=[xy])),
        (["x+y = within 2 linf", "z=public"], bf.Policy({"z": bf.public()}, joint=[bf.grid(["x", "y"], 2, "linf")])),
        (["z + x=edges pairs.csv"], bf.Policy(joint=[bf.joint(["z", "x"], bf.custom([(("a", "1"), ("b", "2"))]))])),
    ]
    for words, expected in cases:
        dataset = bf.Dataset("t", source="t.csv", domain=domain, policy=bf.Policy({"x": bf.threshold(1)}))
        changed = changed_policy(dataset, words, None)
        assert changed == expected
    tied = bf.Dataset("t", source="t.csv", domain=domain, policy=bf.Policy(joint=[xy]))
    assert changed_policy(tied, ["x=within 1"], None) == bf.Policy({"x": bf.threshold(1)}), "each on its own again"
    blocks = changed_policy(tied, ["z + x=blocks blocks.csv"], None)
    assert [graph.attributes for graph in blocks.joint] == [("z", "x")]
    for wrong in (
        ["x + y=near"],
        ["x + y=within 2 l9"],
        ["x + no=within 2"],
        ["x + y=within 2", "x=full"],
        ["z + x=edges no"],
    ):
        with pytest.raises(PolicyError):
            changed_policy(tied, wrong, None)
