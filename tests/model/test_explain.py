"""Every sentence about a policy is true of the graph in force: steps, what is exact, and what is told apart."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import pytest

import blowfishdb as bf
from blowfishdb.accuracy.quote import accuracy_at
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.request import accuracy_target
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.explain import explain, not_protected
from blowfishdb.model.graphs import Presence
from blowfishdb.model.policy import Family, Policy
from blowfishdb.present.graph_picture import view_graph

SIZE = 6
ATTRIBUTES: dict[str, Attribute] = {
    "plain": bf.integers(0, SIZE - 1, null=0),
    "hidden NULL": bf.integers(0, SIZE - 1, null="cell"),
    "public NULL": bf.integers(0, SIZE - 1, null="cell", null_public=True),
}
FAMILIES: dict[str, Family] = {
    "full": bf.full(),
    "public": bf.public(),
    "line": bf.line(),
    "threshold": bf.threshold(2),
    "partition": bf.partition(cuts=[2]),
    "one block": bf.partition([range(SIZE)]),
    "custom": bf.custom([(0, 1), (1, 2), (3, 4)]),
}
CASES = list(itertools.product(ATTRIBUTES, FAMILIES, ("public", "secret", "only")))


def case(attribute: str, family: str, presence: Presence) -> tuple[Domain, Policy]:
    return bf.domain({"a": ATTRIBUTES[attribute]}), Policy({"a": FAMILIES[family]}, presence=presence)


def distances(domain: Domain, policy: Policy) -> list[int | None]:
    return [hidden_distance(domain, policy, "a", one, two) for one, two in itertools.combinations(range(SIZE), 2)]


@pytest.mark.parametrize(("attribute", "family", "presence"), CASES)
@pytest.mark.sampled(3)
def test_what_is_said_of_an_attribute_is_so(attribute: str, family: str, presence: Presence) -> None:
    domain, policy = case(attribute, family, presence)
    words = " ".join(explain(domain, policy))
    unprotected = " ".join(not_protected(domain, policy))
    steps = distances(domain, policy)
    by_cell = quotes_for(compile_query(domain, policy, bf.query("histogram", "a")), accuracy_target(epsilon=1)).best
    if "nothing is hidden; counts by its values may be released exactly" in words:
        assert by_cell.epsilon == 0
    if "not released exactly" in words or presence != "public":
        assert by_cell.epsilon > 0
        assert "may be released exactly" not in words
    if "a: any two values are hidden from each other" in words:
        assert set(steps) == {1}
    for said in re.findall(r"are (\d+) steps apart: an observer", words):
        assert steps[SIZE - 2] == int(said)
    if "e^(2 epsilon)" in words:
        assert all(step is not None and step <= 2 for step in steps)
    if re.search(r"told apart|Everything about|Which block", unprotected):
        assert None in steps or max(step or 0 for step in steps) > 2 or family in ("threshold", "line")
        assert presence == "public"
    if presence == "public" and None in steps:
        assert unprotected.startswith(("Everything", "Which block", "Values", "Whether a is NULL"))
    is_dp = "differential privacy on the whole record" in words
    null = hidden_distance(domain, policy, "a", 0, None)
    assert is_dp == (presence != "only" and set(steps) == {1} and null in (0, 1) and family == "full")


@pytest.mark.parametrize("attribute", ["hidden NULL", "public NULL"])
@pytest.mark.parametrize("presence", ["public", "secret", "only"])
def test_what_is_said_of_null_is_so(attribute: str, presence: Presence) -> None:
    domain, policy = case(attribute, "line", presence)
    words = " ".join(explain(domain, policy))
    is_exact = quotes_for(
        compile_query(domain, policy, bf.query("count", where=bf.col("a").is_null())), accuracy_target(epsilon=1)
    ).best.epsilon
    assert ("NULL is public: how many records have it may be released exactly" in words) == (is_exact == 0)
    assert ("Whether a is NULL." in not_protected(domain, policy)) == (is_exact == 0)
    assert ("NULL is hidden among all values" in words) == (attribute == "hidden NULL" and presence != "only")


@pytest.mark.parametrize(("attribute", "family", "presence"), CASES)
def test_pictures_join_what_the_policy_hides(attribute: str, family: str, presence: Presence) -> None:
    domain, policy = case(attribute, family, presence)
    view = view_graph(domain, policy, "a")
    joined = {tuple(pair) for pair in view.pairs.tolist()}
    pairs = list(itertools.combinations(range(SIZE), 2))
    assert joined == {pair for pair, steps in zip(pairs, distances(domain, policy), strict=True) if steps == 1}
    if any("may be released exactly" in warning for warning in view.warnings()):
        assert None in distances(domain, policy)


def test_attribute_composition_says_what_a_whole_record_costs() -> None:
    domain = bf.domain({name: bf.integers(0, 1, null=0) for name in "abc"})
    for presence, steps in (("public", 3), ("secret", 2)):
        words = " ".join(explain(domain, Policy(composition="attribute", presence=presence)))  # type: ignore[arg-type]
        assert f"over 3 hidden attributes one step in each of them costs up to {steps} times epsilon" in words
    for presence in ("public", "secret", "only"):
        policy = Policy({"a": bf.public(), "b": bf.public()}, "attribute", presence)  # type: ignore[arg-type]
        assert "hidden attributes one step" not in " ".join(explain(domain, policy)), "one attribute is hidden"
        assert "Several attributes" not in " ".join(not_protected(domain, policy))


@pytest.mark.parametrize("presence", ["public", "secret", "only"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_sufficient_budget_states_the_scale_of_the_mechanism(presence: Presence, rows: int) -> None:
    from blowfishdb.analysis.risk import sufficient_budget

    domain = bf.domain({"a": ATTRIBUTES["plain"]})
    policy = Policy({"a": bf.full()}, presence=presence, unit=bf.person("who", at_most=rows, order_by="id"))

    class Declared:
        def __init__(self) -> None:
            self.domain, self.policy = domain, policy

    budget = sufficient_budget(Declared(), 0, 1, attribute="a", odds=3)
    problem = compile_query(domain, policy, bf.query("histogram", "a")).problem
    plan = accuracy_at(problem, budget.each, 0.05, {"identity": MECHANISMS["identity"]}).best.plan
    scales = {Fraction(plan.unit) / int(weight) for weight in plan.weights}
    assert scales == {budget.histogram_scale}
