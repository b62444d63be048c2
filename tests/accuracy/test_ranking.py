import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.accuracy.candidates import Candidate
from blowfishdb.accuracy.intervals import Assessment, intervals
from blowfishdb.accuracy.quote import ALIKE, accuracy_at, is_behind, quote
from blowfishdb.accuracy.ranking import UNPRICED_EDGES, RoughPrice, shortlist
from blowfishdb.accuracy.tails import least_alpha
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Prefix, Sparse
from blowfishdb.plan.plan import Problem
from tests.accuracy.cases import certified, on_threshold, threshold
from tests.effort import effort

ALL = MECHANISMS


def least_of_all(problem: Problem, alpha: float) -> dict[str, float]:
    """What every mechanism costs, each looked at as closely as can be."""
    found = {}
    for name, propose in MECHANISMS.items():
        try:
            assessment = Assessment(certified(problem, propose), "simultaneous")
        except Declined:
            continue
        found[name] = float(assessment.least_epsilon(alpha, 0.05, simulate=True)[0])
    return found


@pytest.mark.parametrize(
    ("workload", "theta", "presence"),
    [
        (Identity(44), 5, "public"),
        (Identity(44), 43, "secret"),
        (Identity(60), 59, "only"),
        (Prefix(48), 12, "public"),
        (Prefix(30), 29, "secret"),
        (Prefix(30), 29, "only"),
        (Prefix(24), 1, "public"),
        (Identity(40), 1, "public"),
    ],
)
@pytest.mark.sampled(3)
def test_nobody_outside_the_contest_is_notably_cheaper(workload, theta, presence):
    problem = Problem(threshold(workload.shape[1], theta, presence), workload)
    able = shortlist(problem, ALL)
    assert len(able) < len(ALL)
    prices = least_of_all(problem, 100.0)
    assert min(prices[name] for name in able if name in prices) <= 1.021 * min(prices.values())
    assert float(quote(problem, 100.0, 0.05).best.epsilon) <= 1.031 * min(prices.values())


def test_where_another_mechanism_wins_by_far_it_contends():
    """The rules would be wrong here: short windows and short runs of cells are left to everybody."""
    for problem in (on_threshold(Identity(44), 2), on_threshold(Identity(6), 5), on_threshold(Prefix(40), 3)):
        prices = least_of_all(problem, 100.0)
        best = min(prices, key=lambda name: prices[name])
        assert best in shortlist(problem, ALL)
    assert prices["identity"] > 1.5 * prices[best]


@st.composite
def problems(draw):
    cells = draw(st.integers(2, 60))
    theta = draw(st.integers(1, cells))
    workload = draw(st.sampled_from([Identity, Prefix, AllRanges]))(cells)
    outside = np.full(cells, draw(st.booleans()))
    reach = np.minimum(np.arange(cells) + theta, cells - 1)
    if draw(st.booleans()):
        ends = (np.arange(cells) // max(2, cells // 3) + 1) * max(2, cells // 3) - 1
        reach = np.minimum(reach, np.minimum(ends, cells - 1))
    axis = WindowGraph(reach, np.array([], dtype=np.int64))
    presence = draw(st.sampled_from(["public", "secret", "only"]))
    return Problem(CellGraph((axis,), "record", outside, presence), workload)


@effort(12)
@given(problems(), st.sampled_from([3.0, 40.0, 2000.0]), st.sampled_from([1e-4, 0.05, 0.5]))
def test_a_release_runs_what_a_preview_lists_first(problem, alpha, beta):
    """Whether the price list is read before the best offer or after it, and nobody on it asks for less.

    Where epsilon is given, nobody promises more among those whose expected error is about the least.
    """
    alone = quote(problem, alpha, beta).best
    listed = quote(problem, alpha, beta)
    first = listed.offers[0]
    assert first is listed.best
    assert (first.mechanism, first.certificate) == (alone.mechanism, alone.certificate)
    assert all(first.epsilon <= other.epsilon for other in listed.offers)
    assert {o.mechanism for o in listed.offers} | set(listed.declined) == set(ALL)
    assert not {o.mechanism for o in listed.offers} & set(listed.declined)
    at = accuracy_at(problem, Fraction(1, 3), beta)
    alike = ALIKE * min(offer.rmse for offer in at.offers)
    assert at.best.rmse <= alike
    assert at.best.alpha == min(offer.alpha for offer in at.offers if offer.rmse <= alike)
    assert at.best is at.offers[0]


@effort(30)
@given(problems(), st.sampled_from(sorted(ALL)), st.sampled_from([60.0, 3000.0]), st.sampled_from([1e-5, 0.05, 0.6]))
def test_who_is_called_behind_is_dearer(problem, name, alpha, beta):
    try:
        candidate = certified(problem, MECHANISMS[name])
    except Declined:
        return
    rival = quote(problem, alpha, beta).best
    if is_behind(candidate, rival):
        found, _ = Assessment(candidate, "simultaneous").least_epsilon(alpha, beta, simulate=True)
        assert found > rival.epsilon


def test_some_are_behind_and_their_own_offer_is_not():
    problem = on_threshold(Prefix(100), 99)
    best = quote(problem, 500.0, 0.05).best
    assert is_behind(certified(problem, MECHANISMS["ordered"]), best)
    assert not is_behind(certified(problem, MECHANISMS[best.mechanism]), best)


def test_edges_of_wide_windows_are_listed_on_request_only():
    problem = on_threshold(Prefix(150), 149)
    assert quote(problem, 100.0, 0.05).declined["edge-transform"] == UNPRICED_EDGES
    named = quote(problem, 100.0, 0.05, {"spanning-tree": MECHANISMS["spanning-tree"]})
    assert named.best.mechanism == "spanning-tree"


@pytest.mark.nightly
def test_losing_long_trees_carry_a_proven_price():
    found = quote(on_threshold(Prefix(25_000), 24_999), 2000.0, 0.05)
    prices = {offer.mechanism: offer for offer in found.offers}
    assert found.best.method == "simulated" and prices["hierarchy"].method == "bound"
    assert prices["hierarchy"].epsilon >= found.best.epsilon


@given(st.floats(0.01, 50.0), st.floats(1e-9, 0.9), st.floats(1.0, 1e4), st.sampled_from([0.0, 1.0]))
def test_least_alpha_is_found_from_above(rate, beta, guess, step):
    """For failures that fall smoothly, and for those of whole numbers, which fall in steps."""

    def failure(alpha: float) -> float:
        return 1e3 * math.exp(-rate * (math.floor(alpha) if step else alpha))

    found = least_alpha(failure, beta, guess, 1e-6)
    assert failure(found) <= beta and failure(found * (1 - 2e-6) - 1e-300) > beta


def test_a_promise_that_was_simulated_is_not_simulated_again():
    problem = on_threshold(Prefix(30), 29)
    offer = accuracy_at(problem, Fraction(1, 2), 0.1).best
    assert offer.method == "simulated" and offer.shown == offer.alpha
    candidate = offer.candidate.at_level(offer.plan)
    again, known = (intervals(candidate, 0.1, shown) for shown in (None, offer.shown))
    assert known.simultaneous == pytest.approx(again.simultaneous, rel=1e-6)
    np.testing.assert_allclose(known.per_answer, again.per_answer)


@pytest.mark.parametrize("mechanism", ["identity", "ordered", "hierarchy", "optimized", "edge-transform"])
def test_answers_that_are_always_0_have_no_price(mechanism):
    problem = on_threshold(Sparse(csr_array((2, 24), dtype=np.int64)), 5)
    strategy = MECHANISMS[mechanism](problem)
    assert RoughPrice(Candidate(problem, strategy, strategy.plan(Fraction(1)))).price_per_loss == 0.0
    assert quote(problem, 5.0, 0.05).best.epsilon == 0
