"""The risk meter against exact posteriors of real releases, across components, with presence, and its budgets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.analysis.risk import Risk, beliefs, risk, sufficient_budget, usual_pairs
from blowfishdb.catalog.guidance import Pair, what_if
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import AccuracyError, BlowfishError, InvalidInput, PolicyError
from blowfishdb.model.domain import Domain
from blowfishdb.noise.distribution import variance


@dataclass(frozen=True)
class Declared:
    domain: Domain
    policy: bf.Policy


DOMAIN = bf.domain({"age": bf.integers(0, 9, null=0), "ward": bf.categorical(["a", "b"], null="a", outside="a")})
LINE = Declared(DOMAIN, bf.Policy({"age": bf.line(), "ward": bf.public()}))


def test_odds_grow_with_the_steps_and_with_every_release() -> None:
    near = risk(LINE, "0.5", 3, 4, attribute="age")
    assert (near.steps, near.odds) == (1, pytest.approx(math.exp(0.5)))
    far = risk(LINE, ["0.5", "0.25"], 3, 7, attribute="age")
    assert (far.steps, far.epsilon, far.releases, far.odds) == (4, Fraction(3, 4), 2, pytest.approx(math.exp(3)))
    assert risk(LINE, "0.5", 3, 4, attribute="age", records=3).odds == pytest.approx(math.exp(1.5))
    assert risk(LINE, 1, {"age": 3, "ward": "a"}, {"age": 4, "ward": "a"}).steps == 1


def test_what_the_policy_does_not_hide_is_said_so() -> None:
    open_pair = risk(LINE, "0.001", "a", "b", attribute="ward")
    assert (open_pair.steps, open_pair.odds, open_pair.posterior("0.3")) == (None, math.inf, (0.0, 1.0))
    assert "does not hide a and b" in open_pair.words()[0]
    assert "the same" in risk(LINE, 1, 3, 3, attribute="age").words()[0]
    said = risk(LINE, [1, 1], 3, 4, attribute="age", records=2).words("0.05")
    assert "2 releases" in said[0]
    assert "2 records" in said[0]
    assert "5.0 %" in said[1]
    assert "million" in risk(LINE, 100, 3, 9, attribute="age").words()[0]


@pytest.mark.parametrize(("presence", "steps"), [("public", 6), ("secret", 2), ("only", 2)])
def test_absence_is_a_way_between_values(presence: str, steps: int) -> None:
    declared = Declared(DOMAIN, bf.Policy({"age": bf.line()}, presence=presence))  # type: ignore[arg-type]
    assert risk(declared, 1, 2, 8, attribute="age").steps == steps
    alone = Declared(DOMAIN, bf.Policy(presence=presence))  # type: ignore[arg-type]
    assert risk(alone, 1, 2, 8, attribute="age").steps == (2 if presence == "only" else 1)


def test_what_if_counts_absence_too() -> None:
    pair = Pair("age", 2, 8)
    policies = {"only": bf.Policy(presence="only"), "secret": bf.Policy({"age": bf.line()}, presence="secret")}
    prices = what_if(DOMAIN, policies, bf.query("histogram", "age"), accuracy_target(alpha=100), [pair])
    assert [price.steps for price in prices] == [(2,), (2,)]


def exact_posterior(epsilon: float, one: int, two: int, prior: float) -> tuple[float, float]:
    """The extreme posteriors when the histogram of one unknown record is released at scale 2 / epsilon."""
    ratio = math.exp(-epsilon / 2)
    grid = np.stack(np.meshgrid(np.arange(-40, 41), np.arange(-40, 41), indexing="ij"), axis=-1).reshape(-1, 2)
    first = ratio ** (np.abs(grid[:, 0] - 1) + np.abs(grid[:, 1]))
    second = ratio ** (np.abs(grid[:, 0]) + np.abs(grid[:, 1] - 1))
    after = prior * first / (prior * first + (1 - prior) * second)
    return float(after.min()), float(after.max())


@pytest.mark.parametrize("prior", [0.001, 0.3, 0.5, 0.99])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_bound_is_met_by_a_real_release_and_never_passed(epsilon: float, prior: float) -> None:
    full = Declared(DOMAIN, bf.Policy())
    bound = risk(full, epsilon, 2, 8, attribute="age").posterior(prior)
    found = exact_posterior(epsilon, 2, 8, prior)
    assert bound == pytest.approx(found, rel=1e-9)
    half = risk(full, epsilon / 2, 2, 8, attribute="age").posterior(prior)
    assert not half[0] <= found[0] <= found[1] <= half[1]


def test_beliefs_over_a_whole_prior() -> None:
    prior = {0: "0.5", 1: "0.25", 2: "0.25", 9: 0}
    found = beliefs(LINE, 1, prior, attribute="age")
    e = math.e
    assert found[0] == pytest.approx((0.5, 0.5 / (0.5 + 0.25 * e + 0.25 * e**2), 0.5 / (0.5 + 0.25 / e + 0.25 / e**2)))
    assert found[9] == (0.0, 0.0, 0.0)
    told = beliefs(LINE, 1, {"a": "0.4", "b": "0.6"}, attribute="ward")
    assert told == {"a": (0.4, 0.0, 1.0), "b": (0.6, 0.0, 1.0)}
    for wrong in ({0: 1}, {0: "0.5", 1: "0.6"}):
        with pytest.raises(InvalidInput):
            beliefs(LINE, 1, wrong, attribute="age")


@pytest.mark.parametrize("releases", [1, 4])
def test_a_sufficient_budget_keeps_the_bound_and_hardly_wastes_any(releases: int) -> None:
    """Corollary 31 as printed would allow histograms of scale 1 / each: twice the loss."""
    found = sufficient_budget(LINE, 3, 5, attribute="age", odds=3, releases=releases)
    kept = risk(LINE, [found.each] * releases, 3, 5, attribute="age").odds
    assert 3 - 1e-4 < kept <= 3
    assert found.histogram_scale == 2 / found.each
    assert float(variance(float(found.histogram_scale))) > 3 * float(variance(1 / float(found.each)))
    believed = sufficient_budget(LINE, 3, 5, attribute="age", posterior="0.6", prior="0.2", releases=releases)
    assert risk(LINE, [believed.each] * releases, 3, 5, attribute="age").posterior("0.2")[1] <= 0.6


def test_budgets_that_cannot_be_are_refused() -> None:
    with pytest.raises(PolicyError):
        sufficient_budget(LINE, "a", "b", attribute="ward", odds=3)
    with pytest.raises(PolicyError):
        sufficient_budget(LINE, 3, 3, attribute="age", odds=3)
    wrong: list[dict[str, object]] = [
        {},
        {"odds": 2, "posterior": "0.6"},
        {"odds": 1},
        {"posterior": "0.4"},
        {"posterior": 2},
        {"odds": "1.0000001", "releases": 100},
    ]
    for options in wrong:
        with pytest.raises(AccuracyError):
            sufficient_budget(LINE, 3, 4, attribute="age", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        sufficient_budget(LINE, 3, 4, attribute="age", odds=2, releases=0)


def test_public_constraints_that_tie_records_together_are_refused() -> None:
    tied = Declared(DOMAIN, bf.Policy({"age": bf.line()}, constraints=["count(age < 5)"]))
    with pytest.raises(PolicyError, match="tie records together"):
        risk(tied, 1, 3, 7, attribute="age")
    loose = Declared(DOMAIN, bf.Policy({"age": bf.line(), "ward": bf.public()}, constraints=["marginal(ward)"]))
    assert risk(loose, 1, 3, 7, attribute="age").steps == 4


def test_wrong_questions_are_refused() -> None:
    for epsilon in (-1, [], "x", 10**9):
        with pytest.raises(BlowfishError):
            risk(LINE, epsilon, 3, 4, attribute="age")
    with pytest.raises(InvalidInput):
        risk(LINE, 1, 3, 4)
    with pytest.raises(InvalidInput):
        risk(LINE, 1, 3, 4, attribute="age", records=0)
    with pytest.raises(BlowfishError):
        risk(LINE, 1, 3, 4, attribute="agee")


@pytest.mark.parametrize("found", [risk(LINE, 1, 3, 5, attribute="age"), risk(LINE, 1, "a", "b", attribute="ward")])
def test_the_plot_shows_the_band(found: Risk, tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = found.plot(figure.add_subplot())
    assert found.one in axes.get_xlabel()
    figure.savefig(tmp_path / "risk.png")
    assert (tmp_path / "risk.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("highest", "pairs"), [(0, []), (1, [(0, 1)]), (2, [(0, 1), (0, 2)]), (99, [(20, 22), (20, 80)])]
)
def test_the_usual_pairs_are_near_and_far(highest: int, pairs: list[tuple[int, int]]) -> None:
    assert usual_pairs(bf.integers(0, highest)) == pairs
