"""`auto` follows its published rules, says what it chose, and never looks at data."""

from __future__ import annotations

from fractions import Fraction

import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle, compile_query
from blowfishdb.engine.release import ProgramRelease, choose
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from tests.engine.held import Rows

DOMAIN = bf.domain({"cost": bf.integers(0, 999, null=0), "age": bf.integers(0, 99, null=0), "sex": ["F", "M"]})
TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    ("kind", "axes", "policy", "expected"),
    [
        ("histogram", ["cost"], bf.Policy(), "dawa"),
        ("cdf", ["cost"], bf.Policy(presence="only"), "dawa"),
        ("histogram", ["cost"], bf.Policy({"cost": bf.threshold(5)}), "dawa-transform"),
        ("cdf", ["cost"], bf.Policy({"cost": bf.threshold(5)}), None),
        ("histogram", ["age"], bf.Policy(), None),
        ("histogram2d", ["cost", "age"], bf.Policy(), "adaptive-tree"),
        ("histogram2d", ["age", "sex"], bf.Policy(), None),
        ("histogram", ["cost", "age", "sex"], bf.Policy(), None),
        ("sum", ["cost"], bf.Policy(), None),
        ("histogram", ["cost"], bf.Policy(constraints=["rows = 2000000"]), None),
        ("histogram", ["cost"], bf.Policy(constraints=["rows = 20000"]), "dawa"),
    ],
)
def test_the_rules_choose(kind: str, axes: list[str], policy: bf.Policy, expected: str | None) -> None:
    found = choose(compile_query(DOMAIN, policy, bf.query(kind, axes)), policy, TENTH)  # type: ignore[arg-type]
    assert found.mechanism == expected
    assert found.why


def test_the_preview_says_what_was_chosen_and_why() -> None:
    held = DatasetHandle("t", DOMAIN, bf.Policy(), "account", 1, 1, 1, Rows())
    wanted = accuracy_target(epsilon=TENTH, mechanism="auto")
    ready = prepare(held, make_request(held, bf.query("histogram", "cost"), wanted))
    assert isinstance(ready, ProgramRelease)
    shown = ready.preview(held)
    assert shown.mechanism == "dawa"
    assert "was chosen (1,000 cells" in shown.why
    few = prepare(held, make_request(held, bf.query("histogram", "age"), wanted))
    assert not isinstance(few, ProgramRelease)
    assert few.epsilon == TENTH


def test_an_accuracy_is_promised_by_data_independent_mechanisms_alone() -> None:
    assert accuracy_target(alpha=50, mechanism="auto").mechanism is None
    assert accuracy_target(epsilon=1, mechanism="auto").mechanism == "auto"
