"""`auto` follows its published rules, never looks at data, and chooses nearly the best of what previews list."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from benchmarks.choice import (
    ALPHAS,
    AUDIT_EPSILONS,
    AUDIT_TRIALS,
    audited,
    choices,
    listed_candidates,
    made_up,
    prices_of,
    problems,
    simulated_error,
    simulated_errors,
)
from blowfishdb.accuracy.quote import expected_rmse
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.program import TREE_ERROR, ProgramRelease, choose, declared_rows
from blowfishdb.engine.request import accuracy_target, make_request
from tests.engine.held import Rows

DOMAIN = bf.domain({"cost": bf.integers(0, 999, null=0), "age": bf.integers(0, 99, null=0), "sex": ["F", "M"]})
TENTH = Fraction(1, 10)
TARGET, TARGET_ANY = accuracy_target(epsilon=TENTH, mechanism="auto"), accuracy_target(epsilon=TENTH)
NEAR = {"cost": bf.line(), "age": bf.line()}


@pytest.mark.parametrize(
    ("kind", "axes", "policy", "expected"),
    [
        ("histogram", ["cost"], bf.Policy(), "gated"),
        ("cdf", ["cost"], bf.Policy(presence="only"), "gated"),
        ("histogram", ["cost"], bf.Policy({"cost": bf.threshold(5)}), "gated"),
        ("cdf", ["cost"], bf.Policy({"cost": bf.threshold(5)}), None),
        ("histogram", ["age"], bf.Policy(), None),
        ("histogram2d", ["cost", "age"], bf.Policy(), "gated"),
        ("histogram2d", ["cost", "age"], bf.Policy(NEAR), "gated"),
        ("histogram2d", ["cost", "age"], bf.Policy(constraints=["rows = 20000000"]), "gated"),
        ("histogram2d", ["age", "sex"], bf.Policy(), None),
        ("histogram", ["cost", "age", "sex"], bf.Policy(), None),
        ("sum", ["cost"], bf.Policy(), None),
        ("histogram", ["cost"], bf.Policy(constraints=["rows = 2000000"]), None),
        ("histogram", ["cost"], bf.Policy(constraints=["rows = 20000"]), "dawa-transform"),
        ("cdf", ["cost"], bf.Policy(constraints=["rows = 20000"]), "dawa"),
    ],
)
def test_the_rules_choose(kind: str, axes: list[str], policy: bf.Policy, expected: str | None) -> None:
    found = choose(compile_query(DOMAIN, policy, bf.query(kind, axes)), TARGET, declared_rows(policy))  # type: ignore[arg-type]
    assert found.mechanism == expected
    assert found.why


def test_boxes_may_go_to_the_tree_only_where_every_other_mechanism_is_expected_to_be_far_off() -> None:
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
    assert (choice(300, full) == "gated") == (best.rmse * TENTH >= 2 * TREE_ERROR)
    assert choice(3, full) is None


def test_the_preview_says_what_was_chosen_and_why() -> None:
    held = DatasetHandle("t", DOMAIN, bf.Policy(), "account", 1, 1, 1, Rows())
    wanted = accuracy_target(epsilon=TENTH, mechanism="auto")
    ready = prepare(held, make_request(held, bf.query("histogram", "cost"), wanted))
    assert isinstance(ready, ProgramRelease)
    shown = ready.preview(held)
    assert shown.mechanism == "gated"
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


@pytest.mark.nightly
@pytest.mark.no_cover
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


def check_audited(audited_problems: list[tuple[str, Compiled]], epsilons: tuple[Fraction, ...], trials: int) -> None:
    """Errors of seeded noise, so the outcome is always the same; both sides of a ratio are known to one allowance."""
    allowance = 1 + 4 * np.sqrt(2) * 1.12 / np.sqrt(trials)
    for name, compiled in audited_problems:
        for epsilon in epsilons:
            errors, default = simulated_errors(compiled, epsilon, trials)
            assert errors[default] <= MOST * allowance * min(errors.values()), (name, epsilon, default, errors)


def test_what_runs_on_the_audits_problems_is_near_the_best_of_the_list() -> None:
    check_audited(list(audited())[:110:16], (Fraction(1),), 500)


def test_simulated_errors_are_the_expected_ones_and_not_those_of_another_epsilon() -> None:
    """With a fixed seed."""
    (compiled,) = [compiled for name, compiled in audited() if name == "ordered, threshold, ranges"]
    for name, candidate in listed_candidates(compiled).items():
        simulated = simulated_error(candidate, Fraction(1), AUDIT_TRIALS)
        assert simulated == pytest.approx(expected_rmse(candidate, Fraction(1)), rel=0.06), name
        assert simulated != pytest.approx(expected_rmse(candidate, Fraction(9, 10)), rel=0.04), name


@pytest.mark.nightly
def test_what_runs_on_every_problem_of_the_audit_is_near_the_best_of_the_list() -> None:
    check_audited(list(audited()), AUDIT_EPSILONS, AUDIT_TRIALS)


@pytest.mark.nightly
@pytest.mark.parametrize("alpha", ALPHAS)
def test_no_mechanism_asks_much_less_for_an_accuracy_than_the_one_that_runs(alpha: int) -> None:
    for name, compiled in audited():
        prices, default = prices_of(compiled, alpha)
        assert prices[default] <= MOST * min(prices.values()), (name, default, prices)


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
