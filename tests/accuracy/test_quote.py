import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.accuracy.intervals import Assessment, intervals
from blowfishdb.accuracy.quote import ALIKE, accuracy_at, forget, quote
from blowfishdb.accuracy.tails import Bound
from blowfishdb.errors import AccuracyError, Declined
from blowfishdb.mechanisms import identity, optimized, ordered_hierarchy
from blowfishdb.model.graphs import CellGraph, EdgeGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Problem
from tests.accuracy.cases import certified, fresh_errors, on_threshold, significantly_above
from tests.effort import effort

SIMPLE = {"identity": identity.propose, "ordered": ordered_hierarchy.propose_ordered}
NO_UNIVERSAL_VERTEX = np.empty(0, dtype=np.int64)
HIERARCHY = {"hierarchy": ordered_hierarchy.propose_hierarchy}
TREES = {**SIMPLE, **HIERARCHY, "optimized": optimized.propose}
PROBLEMS = [on_threshold(Identity(12), 1), on_threshold(Prefix(12), 3), on_threshold(AllRanges(10), 2)]


@effort(20)
@given(
    st.sampled_from(PROBLEMS),
    st.sampled_from(["simultaneous", "per-query"]),
    st.tuples(st.floats(0.0, 200.0), st.floats(0.0, 200.0)),
    st.tuples(st.floats(1e-6, 0.9), st.floats(1e-6, 0.9)),
)
def test_more_slack_never_costs_more(problem, guarantee, alphas, betas):
    strict = quote(problem, min(alphas), min(betas), SIMPLE, guarantee)
    loose = quote(problem, max(alphas), max(betas), SIMPLE, guarantee)
    assert loose.best.epsilon <= strict.best.epsilon
    for name in SIMPLE:
        one, two = ({o.mechanism: o for o in found.offers}[name] for found in (loose, strict))
        assert one.epsilon <= two.epsilon


def test_a_cached_quote_is_taken_for_the_same_problem_and_accuracy_alone():
    first = quote(on_threshold(Prefix(12), 3), 20.0, 0.05, SIMPLE)
    assert quote(on_threshold(Prefix(12), 3), 20.0, 0.05, SIMPLE) is first
    others = [
        quote(on_threshold(Prefix(12), 2), 20.0, 0.05, SIMPLE),
        quote(on_threshold(Prefix(12), 3), 21.0, 0.05, SIMPLE),
        quote(on_threshold(Prefix(12), 3), 20.0, 0.04, SIMPLE),
        quote(on_threshold(Prefix(12), 3), 20.0, 0.05, SIMPLE, "per-query"),
        quote(on_threshold(Prefix(12), 3), 20.0, 0.05, HIERARCHY),
        accuracy_at(on_threshold(Prefix(12), 3), Fraction(20), 0.05, SIMPLE),
    ]
    assert len({id(one) for one in [first, *others]}) == 7
    forget()
    again = quote(on_threshold(Prefix(12), 3), 20.0, 0.05, SIMPLE)
    assert again is not first
    assert again.best.epsilon == first.best.epsilon


TREE_PROBLEMS = [on_threshold(Prefix(40), 39), on_threshold(Identity(30), 4), on_threshold(Prefix(25_000), 24_999)]


@cache
def assessed(problem: Problem, name: str) -> Assessment:
    return Assessment(certified(problem, TREES[name]), "simultaneous")


@pytest.mark.nightly
@effort(6)
@given(
    st.sampled_from(TREE_PROBLEMS),
    st.sampled_from(["hierarchy", "optimized"]),
    st.tuples(st.floats(5.0, 5000.0), st.floats(5.0, 5000.0)),
    st.tuples(st.floats(1e-6, 0.9), st.floats(1e-6, 0.9)),
)
def test_more_slack_never_costs_more_with_trees(problem, name, alphas, betas):
    """Among them a long axis, where a simulation gives way to the bound as alpha or beta shrink."""
    assessment = assessed(problem, name)
    strict = assessment.least_epsilon(min(alphas), min(betas), simulate=True)[0]
    assert assessment.least_epsilon(max(alphas), max(betas), simulate=True)[0] <= strict


@pytest.mark.parametrize("guarantee", ["simultaneous", "per-query"])
@pytest.mark.parametrize(
    ("workload", "mechanisms"), [(Identity(20), SIMPLE), (Prefix(12), TREES), (AllRanges(12), {**SIMPLE, **HIERARCHY})]
)
def test_quotes_are_kept_repeat_and_come_back(workload, mechanisms, guarantee):
    problem = on_threshold(workload, 3)
    found, again = (quote(problem, 25.0, 0.05, mechanisms, guarantee) for _ in range(2))
    assert [(o.mechanism, o.epsilon) for o in found.offers] == [(o.mechanism, o.epsilon) for o in again.offers]
    assert [o.epsilon for o in found.offers] == sorted(o.epsilon for o in found.offers)
    name = found.best.mechanism
    back = accuracy_at(problem, found.best.epsilon, 0.05, {name: mechanisms[name]}, guarantee).best
    assert back.alpha <= 25.0 * (1 + 1e-5)
    for offer in found.offers:
        assert certify(offer.plan, problem.graph) == offer.certificate
        assert offer.certificate.epsilon == offer.epsilon
        errors = np.abs(fresh_errors(problem, offer.strategy, offer.plan, 10_000, seed=7)) > 25.0
        failures = errors.any(axis=0).sum() if guarantee == "simultaneous" else errors.sum(axis=1).max()
        assert not significantly_above(int(failures), 10_000, 0.05)
        squares = fresh_errors(problem, offer.strategy, offer.plan, 10_000, seed=8) ** 2
        assert offer.rmse == pytest.approx(math.sqrt(squares.mean()), rel=0.1)


def test_a_given_epsilon_goes_to_the_least_expected_error_and_then_to_the_closest_promise():
    """At an epsilon per record where all noise is coarse, over every problem of this file."""
    for problem in PROBLEMS:
        offers = accuracy_at(problem, Fraction(1, 4), 0.05, SIMPLE).offers
        errors = [offer.rmse for offer in offers]
        assert errors[0] <= ALIKE * min(errors)
        assert errors[1:] == sorted(errors[1:])
        assert all(offers[0].alpha <= offer.alpha for offer in offers if offer.rmse <= ALIKE * min(errors))


def test_per_query_is_cheaper_than_simultaneous():
    problem = on_threshold(Identity(30), 2)
    together, each = (quote(problem, 20.0, 0.05, SIMPLE, kind).best for kind in ("simultaneous", "per-query"))
    assert each.epsilon < together.epsilon


def test_accuracy_below_one_needs_noise_that_is_zero():
    for alpha in (0.0, 0.5):
        offer = quote(on_threshold(Identity(10), 1), alpha, 0.05, SIMPLE).best
        errors = fresh_errors(on_threshold(Identity(10), 1), offer.strategy, offer.plan, 20_000, seed=1)
        assert 0.02 < np.mean(np.any(errors != 0, axis=0)) < 0.06


def test_very_loose_demands_stop_where_the_sampler_does():
    offer = quote(on_threshold(Prefix(10), 1), 1e12, 0.5, SIMPLE).best
    assert float(offer.plan.unit) <= 1e9


def test_what_no_edge_can_change_is_free():
    public = CellGraph((WindowGraph(np.arange(4), np.array([], dtype=np.int64)),), "record", np.array(False), "public")
    offer = quote(Problem(public, Prefix(4)), 0.0, 0.01, SIMPLE).best
    assert (offer.epsilon, offer.rmse, offer.method) == (0, 0.0, "exact")
    assert accuracy_at(Problem(public, Prefix(4)), Fraction(1), 0.01, SIMPLE).best.alpha == 0.0


def test_who_declines_says_why():
    graph = CellGraph((EdgeGraph(3, np.array([[0, 2]])),), "record", np.array(False), "public")
    found = quote(Problem(graph, Identity(3)), 10.0, 0.1, SIMPLE)
    assert "order" in found.declined["ordered"]
    with pytest.raises(Declined, match="ordered"):
        quote(Problem(graph, Identity(3)), 10.0, 0.1, {"ordered": ordered_hierarchy.propose_ordered}).best  # noqa: B018


@pytest.mark.parametrize("beta", [0.0, 1.0, -1.0, math.nan])
def test_beta_is_a_probability(beta):
    for ask in (
        lambda: quote(PROBLEMS[0], 1.0, beta, SIMPLE),
        lambda: accuracy_at(PROBLEMS[0], Fraction(1), beta, SIMPLE),
    ):
        with pytest.raises(AccuracyError, match="beta"):
            ask()


def test_other_demands_out_of_range():
    for alpha in (-1.0, math.inf, math.nan):
        with pytest.raises(AccuracyError, match="alpha"):
            quote(PROBLEMS[0], alpha, 0.1, SIMPLE)
    for epsilon in (Fraction(0), Fraction(-1), 0.5):
        with pytest.raises(AccuracyError, match="epsilon"):
            accuracy_at(PROBLEMS[0], epsilon, 0.1, SIMPLE)
    with pytest.raises(AccuracyError, match="guarantee"):
        quote(PROBLEMS[0], 1.0, 0.1, SIMPLE, "most")


@pytest.mark.parametrize(
    ("name", "workload"), [("identity", Identity(15)), ("ordered", Identity(15)), ("optimized", Prefix(15))]
)
def test_intervals_cover_each_answer_and_all_of_them(name, workload):
    problem = on_threshold(workload, 2)
    offer = accuracy_at(problem, Fraction(1, 2), 0.1, {name: TREES[name]}).best
    widths = intervals(offer.candidate.at_level(offer.plan), 0.1)
    errors = np.abs(fresh_errors(problem, offer.strategy, offer.plan, 20_000, seed=2))
    outside = np.sum(errors > widths.per_answer[:, None], axis=1)
    assert not any(significantly_above(int(count), 20_000, 0.1) for count in outside)
    tight = np.sum(errors > 0.85 * widths.per_answer[:, None] - 1.0, axis=1)
    assert any(significantly_above(int(count), 20_000, 0.1) for count in tight)
    assert not significantly_above(int(np.sum(errors.max(axis=0) > widths.simultaneous)), 20_000, 0.1)
    assert widths.simultaneous == pytest.approx(offer.alpha)


def test_large_problems_are_quoted_without_listing_ranges():
    offer = quote(on_threshold(AllRanges(50_000), 1), 50.0, 0.05, SIMPLE).best
    assert offer.mechanism == "ordered" and offer.method == "bound"


@pytest.mark.parametrize("alpha", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("guarantee", ["simultaneous", "per-query"])
def test_small_alpha_is_kept_by_strategies_that_mix_variables(alpha, guarantee):
    problem = on_threshold(Prefix(12), 11)
    found = quote(problem, alpha, 0.05, {**SIMPLE, **HIERARCHY}, guarantee)
    assert {o.mechanism for o in found.offers} == {"identity", "ordered", "hierarchy"}
    for offer in found.offers:
        errors = np.abs(fresh_errors(problem, offer.strategy, offer.plan, 10_000, seed=5)) > alpha
        failures = errors.any(axis=0).sum() if guarantee == "simultaneous" else errors.sum(axis=1).max()
        assert not significantly_above(int(failures), 10_000, 0.05)


def test_bounds_from_variances_alone_hold(monkeypatch):
    monkeypatch.setattr("blowfishdb.accuracy.candidates.WRITTEN_OUT", 0)
    problem = on_threshold(Prefix(30), 29)
    for alpha in (2.0, 40.0):
        candidate = certified(problem, ordered_hierarchy.propose_hierarchy)
        epsilon = Bound(candidate, True).least_epsilon(alpha, 0.05)
        plan, _ = candidate.at(epsilon)
        errors = np.abs(fresh_errors(problem, candidate.strategy, plan, 10_000, seed=5)).max(axis=0)
        assert not significantly_above(int(np.sum(errors > alpha)), 10_000, 0.05)
        assert Bound(candidate, True).alpha(epsilon, 0.05) <= alpha * (1 + 1e-5)


def beside_null(cells: int, reach: int) -> CellGraph:
    """A threshold on so many cells, and one more that every cell may be exchanged for."""
    last = np.minimum(np.arange(cells) + reach, cells - 1)
    window = WindowGraph(np.append(last, cells), np.array([cells]))
    return CellGraph((window,), "record", np.zeros(cells + 1, dtype=np.bool_), "public")


def test_all_ranges_beside_null_cost_about_what_they_cost_without_it():
    low, high = np.triu_indices(301, k=1)
    full = CellGraph(
        (WindowGraph(np.full(301, 300), NO_UNIVERSAL_VERTEX),), "record", np.zeros(301, dtype=np.bool_), "public"
    )
    listed = quote(Problem(full, Intervals(301, low[high < 301], high[high < 301])), 50.0, 0.05).best
    assert listed.method == "simulated"
    assert listed.epsilon <= quote(Problem(full, AllRanges(301)), 50.0, 0.05).best.epsilon * Fraction(11, 10)


def test_a_long_threshold_beside_null_costs_no_more_than_hiding_everything():
    full = CellGraph(
        (WindowGraph(np.full(151, 150), NO_UNIVERSAL_VERTEX),), "record", np.zeros(151, dtype=np.bool_), "public"
    )
    running = Intervals(151, np.where(np.arange(151) < 150, 0, 150), np.arange(151) + 1)
    most = quote(Problem(full, running), 50.0, 0.05).best.epsilon
    for reach in (40, 75, 149):
        least = quote(Problem(beside_null(150, reach), running), 50.0, 0.05).best.epsilon
        assert least <= most * Fraction(103, 100)
