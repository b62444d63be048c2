import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blowfishdb.accuracy.candidates import index_at_least, point
from blowfishdb.accuracy.tails import ExactTails
from blowfishdb.mechanisms import identity, ordered
from blowfishdb.model.workload import Identity, Intervals, Prefix
from tests.accuracy.cases import certified, on_threshold


def brute_failure(strategy, plan, alpha: float, together: bool) -> float:
    """By enumerating every noise vector that matters."""
    scales = float(plan.unit) / plan.weights
    support = np.arange(-60, 61)
    within = np.zeros(strategy.problem.workload.shape[0])
    inside = 0.0
    masses = [np.tanh(0.5 / t) * np.exp(-np.abs(support) / t) for t in scales]
    keep = [np.flatnonzero(mass > 1e-7) for mass in masses]
    for places in itertools.product(*keep):
        chance = np.prod([mass[i] for mass, i in zip(masses, places, strict=True)])
        noise = support[list(places)].astype(float)
        ok = np.abs(strategy.decode(noise, np.zeros(plan.exact.shape[0] if plan.exact else 0), scales)) <= alpha
        within += chance * ok
        inside += chance * ok.all()
    return 1.0 - (inside if together else within.min())


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("propose", "workload"), [(identity.propose, Identity(2)), (ordered.propose, Prefix(3))])
def test_equals_enumeration(propose, workload, together):
    candidate = certified(on_threshold(workload, 1), propose)
    tails = ExactTails(candidate, candidate.strategy.direct, together)
    for epsilon in (Fraction(1), Fraction(3)):
        plan, _ = candidate.at(epsilon)
        for alpha in (0.0, 1.0, 2.5):
            expected = brute_failure(candidate.strategy, plan, alpha, together)
            assert tails.failure(epsilon, alpha) == pytest.approx(expected, abs=1e-4)


def test_answers_that_share_a_variable_count_once():
    workload = Intervals(4, np.array([0, 0, 1]), np.array([1, 1, 4]))
    candidate = certified(on_threshold(workload, 1), ordered.propose)
    assert candidate.strategy.direct.tolist() == [0, 0, 0]
    shared = ExactTails(candidate, candidate.strategy.direct, True).failure(Fraction(1), 2.0)
    assert shared == pytest.approx(ExactTails(candidate, np.array([0]), True).failure(Fraction(1), 2.0))


@settings(max_examples=60)
@given(st.integers(0, 300), st.floats(1e-9, 0.9), st.integers(1, 4), st.booleans())
def test_the_least_epsilon_passes_and_the_one_before_does_not(alpha, beta, theta, together):
    candidate = certified(on_threshold(Prefix(30), theta), ordered.propose)
    tails = ExactTails(candidate, candidate.strategy.direct, together)
    epsilon = tails.least_epsilon(alpha, beta)
    assert tails.failure(epsilon, alpha) <= beta < tails.failure(point(index_at_least(epsilon) - 1), alpha)
    assert tails.failure(epsilon * Fraction(9, 10), alpha) > beta
    assert tails.alpha(epsilon, beta) <= alpha
