"""`auto` follows its published rules, never looks at data, and chooses nearly the best of what previews list."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from benchmarks.choice import choices, made_up, problems
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle, compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import TREE_ERROR, ProgramRelease, choose, declared_rows
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from tests.engine.held import Rows

DOMAIN = bf.domain({"cost": bf.integers(0, 999, null=0), "age": bf.integers(0, 99, null=0), "sex": ["F", "M"]})
TENTH = Fraction(1, 10)
TARGET, TARGET_ANY = accuracy_target(epsilon=TENTH, mechanism="auto"), accuracy_target(epsilon=TENTH)
NEAR = {"cost": bf.line(), "age": bf.line()}


@pytest.mark.parametrize(
    ("kind", "axes", "policy", "expected"),
    [
        ("histogram", ["cost"], bf.Policy(), "dawa-transform"),
        ("cdf", ["cost"], bf.Policy(presence="only"), "dawa"),
        ("histogram", ["cost"], bf.Policy({"cost": bf.threshold(5)}), "dawa-transform"),
        ("cdf", ["cost"], bf.Policy({"cost": bf.threshold(5)}), None),
        ("histogram", ["age"], bf.Policy(), None),
        ("histogram2d", ["cost", "age"], bf.Policy(), "adaptive-tree"),
        ("histogram2d", ["cost", "age"], bf.Policy(NEAR), "adaptive-tree"),
        ("histogram2d", ["cost", "age"], bf.Policy(constraints=["rows = 20000000"]), None),
        ("histogram2d", ["cost", "age"], bf.Policy(constraints=["rows = 20000"]), "adaptive-tree"),
        ("histogram2d", ["age", "sex"], bf.Policy(), None),
        ("histogram", ["cost", "age", "sex"], bf.Policy(), None),
        ("sum", ["cost"], bf.Policy(), None),
        ("histogram", ["cost"], bf.Policy(constraints=["rows = 2000000"]), None),
        ("histogram", ["cost"], bf.Policy(constraints=["rows = 20000"]), "dawa-transform"),
    ],
)
def test_the_rules_choose(kind: str, axes: list[str], policy: bf.Policy, expected: str | None) -> None:
    found = choose(compile_query(DOMAIN, policy, bf.query(kind, axes)), TARGET, declared_rows(policy))  # type: ignore[arg-type]
    assert found.mechanism == expected
    assert found.why


def test_boxes_go_to_the_tree_only_where_every_other_mechanism_is_expected_to_be_far_off() -> None:
    shape = (128, 128)
    draw = np.random.default_rng(1)
    ends = np.sort(draw.integers(0, 128, (300, 2, 2)), axis=2)
    boxes = [tuple((int(low), int(high) + 1) for low, high in box) for box in ends]
    domain = bf.domain({name: bf.integers(0, size - 1, null=0) for name, size in zip("xy", shape, strict=True)})

    def choice(count: int, policy: bf.Policy) -> str | None:
        asked = compile_query(domain, policy, bf.query("ranges", ["x", "y"], boxes=boxes[:count]))
        return choose(asked, TARGET, None).mechanism

    full = bf.Policy()
    best = quotes_for(compile_query(domain, full, bf.query("ranges", ["x", "y"], boxes=boxes)), TARGET_ANY).best
    assert (choice(300, full) == "adaptive-tree") == (best.rmse * TENTH >= 2 * TREE_ERROR)
    assert choice(3, full) is None


def test_the_preview_says_what_was_chosen_and_why() -> None:
    held = DatasetHandle("t", DOMAIN, bf.Policy(), "account", 1, 1, 1, Rows())
    wanted = accuracy_target(epsilon=TENTH, mechanism="auto")
    ready = prepare(held, make_request(held, bf.query("histogram", "cost"), wanted))
    assert isinstance(ready, ProgramRelease)
    shown = ready.preview(held)
    assert shown.mechanism == "dawa-transform"
    assert "was chosen (1,000 cells" in shown.why
    few = prepare(held, make_request(held, bf.query("histogram", "age"), wanted))
    assert not isinstance(few, ProgramRelease)
    assert few.epsilon == TENTH


def test_an_accuracy_is_promised_by_data_independent_mechanisms_alone() -> None:
    assert accuracy_target(alpha=50, mechanism="auto").mechanism is None
    assert accuracy_target(epsilon=1, mechanism="auto").mechanism == "auto"


MOST = 1.1
EPSILONS = (Fraction(1, 10), Fraction(1))
LOCAL = ("line", "L1 grid 1", "full", "blocks of 4")


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(8)])
def test_the_default_has_the_least_expected_error_of_its_list(epsilon: Fraction) -> None:
    for case, compiled, policy in [*problems((8, 8)), *problems((20,))]:
        if case.startswith(LOCAL):
            both = choices(compiled, policy, epsilon)
            assert both.auto(np.zeros(1, dtype=np.int64)) == both.default, case
            assert both.ratios(np.zeros(0, dtype=np.int64))[0] <= MOST, (case, both)


def test_a_default_by_the_closest_promise_alone_would_be_noticed() -> None:
    """On two lines of 16 cells noise on edges promises closer counts with 1.35 times the error of noise on cells."""
    (compiled,) = [compiled for case, compiled, _ in problems((16, 16)) if case == "line, histogram"]
    edges, cells = (
        quotes_for(compiled, accuracy_target(epsilon=EPSILONS[0], mechanism=name)).best
        for name in ("edge-transform", "identity")
    )
    assert edges.alpha < cells.alpha
    assert edges.rmse > MOST * cells.rmse


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("shape", [(16, 16), (64, 64), (64,), (1024,)])
def test_neither_choice_is_far_from_the_best_of_its_list_on_made_up_tables(
    shape: tuple[int, ...], epsilon: Fraction
) -> None:
    tables = [(name, counts) for name, counts in made_up() if counts.shape == shape]
    ratios = {}
    for case, compiled, policy in problems(shape):
        both = choices(compiled, policy, epsilon)
        ratios |= {(case, name): both.ratios(counts, trials=10)[:2] for name, counts in tables}
    default, auto = np.array(list(ratios.values())).T
    assert default.max() <= MOST
    assert np.quantile(auto, 0.95) <= MOST
