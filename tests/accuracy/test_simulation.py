import hashlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from blowfishdb.accuracy import simulation
from blowfishdb.accuracy.simulation import Simulation, allowed_failures
from blowfishdb.accuracy.tails import ExactTails
from blowfishdb.mechanisms import hierarchy, identity, optimized, ordered
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix
from blowfishdb.noise import distribution
from tests.accuracy.cases import certified, fresh_errors, on_threshold, significantly_above


@given(st.integers(1, 3000), st.floats(1e-4, 0.9), st.sampled_from([0.9, 0.999]))
def test_allowed_failures_invert_clopper_pearson(samples, beta, confidence):
    allowed = allowed_failures(samples, beta, confidence)
    assert allowed == -1 or binom.cdf(allowed, samples, beta) <= (1 - confidence) * (1 + 1e-9)
    assert binom.cdf(allowed + 1, samples, beta) > (1 - confidence) * (1 - 1e-9)


def test_a_verdict_needs_enough_samples():
    assert allowed_failures(134, 0.05) == -1
    assert allowed_failures(135, 0.05) == 0


@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(1), Fraction(5)])
def test_simulated_noise_is_discrete_laplace(epsilon):
    candidate = certified(on_threshold(Identity(50), 1), identity.propose)
    errors = np.concatenate(list(Simulation(candidate, False, "law")._errors(epsilon)), axis=1).astype(int).ravel()
    scale = float(candidate.plan.unit / epsilon)
    edges = np.unique(np.linspace(0, distribution.quantile(scale, 0.01), 12).astype(int))
    beyond = np.concatenate([[1.0], distribution.tail(scale, edges)])
    expected = -np.diff(np.append(beyond, 0.0)) * errors.size
    seen = np.histogram(errors, bins=np.concatenate([[-1], edges, [10**9]]) + 0.5)[0]
    assert chisquare(seen, expected).pvalue > 1e-6
    wrong = -np.diff(np.concatenate([[1.0], distribution.tail(scale * 1.02, edges), [0.0]])) * errors.size
    assert epsilon > 1 or chisquare(seen, wrong).pvalue < 1e-6


def test_the_stated_confidence_holds_over_many_seeds(monkeypatch):
    """Where the exact answer is known, a simulation promises too much as rarely as it says, and not never."""
    monkeypatch.setattr(simulation, "CONFIDENCE", 0.9)
    monkeypatch.setattr(simulation, "MOST_SAMPLES", 400)
    candidate = certified(on_threshold(Identity(5), 1), identity.propose)
    exact = ExactTails(candidate, candidate.strategy.direct, True)
    seeds = 400
    wrong = sum(
        exact.failure(Simulation(candidate, True, str(seed)).least_epsilon(200.0, 0.1), 200.0) > 0.1
        for seed in range(seeds)
    )
    assert not significantly_above(wrong, seeds, 0.1)
    assert wrong > 0.02 * seeds
    monkeypatch.setattr(simulation, "allowed_failures", lambda samples, beta, confidence: int(samples * beta))
    careless = sum(
        exact.failure(Simulation(candidate, True, str(seed)).least_epsilon(200.0, 0.1), 200.0) > 0.1
        for seed in range(100)
    )
    assert significantly_above(careless, 100, 0.1)


@pytest.mark.parametrize(
    ("propose", "workload", "theta", "alpha"),
    [
        (ordered.propose, Identity(40), 1, 30.0),
        (ordered.propose, AllRanges(30), 2, 8.0),
        (optimized.propose, Prefix(40), 5, 60.0),
    ],
)
def test_quoted_epsilon_covers_fresh_noise_and_less_does_not(propose, workload, theta, alpha):
    problem = on_threshold(workload, theta)
    candidate = certified(problem, propose)
    epsilon = Simulation(candidate, True, problem.digest()).least_epsilon(alpha, 0.1)
    samples = 40_000

    def failures(at: Fraction) -> int:
        plan, _ = candidate.at(at)
        errors = fresh_errors(problem, candidate.strategy, plan, samples, seed=11)
        return int(np.sum(np.abs(errors).max(axis=0) > alpha))

    assert not significantly_above(failures(epsilon), samples, 0.1)
    assert significantly_above(failures(epsilon * Fraction(9, 10)), samples, 0.1)


def test_all_ranges_are_not_listed_yet_their_largest_error_is_right():
    problem = on_threshold(AllRanges(12), 2)
    candidate = certified(problem, ordered.propose)
    quick = Simulation(candidate, True, "same")
    noise = quick._draws[:, :50]
    listed = np.abs(candidate.strategy.decode(noise, np.zeros((1, 50)), np.ones(11))).max(axis=0)
    np.testing.assert_allclose(quick._decoded(noise, np.ones(11))[0], listed)


@pytest.mark.parametrize("share", [1.0, 0.7, 0.3])
def test_listed_ranges_are_read_off_the_prefixes_where_most_pairs_of_ends_are_asked(share):
    low, high = np.triu_indices(12, k=1)
    kept = np.random.default_rng(4).permutation(low.size)[: int(share * low.size)]
    problem = on_threshold(Intervals(14, low[kept] + 1, high[kept] + 1), 3)
    candidate = certified(problem, optimized.propose)
    quick = Simulation(candidate, True, "same")
    noise, variances = quick._draws[:, :50].astype(float), candidate.coarse_variances
    listed = np.abs(candidate.strategy.decode(noise, np.zeros((candidate.exact_rows, 50)), variances)).max(axis=0)
    found = quick._decoded(noise, variances)[0]
    assert np.all(found >= listed - 1e-9)
    assert np.allclose(found, listed) == (share != 0.7)
    assert (quick._ends is None) == (share == 0.3)


def test_samples_do_not_depend_on_the_demand_and_repeat():
    candidate = certified(on_threshold(Prefix(30), 3), hierarchy.propose)
    first, second = Simulation(candidate, True, "a"), Simulation(candidate, True, "a")
    assert first.least_epsilon(20.0, 0.05) == second.least_epsilon(20.0, 0.05)
    assert np.array_equal(first._draws, second._draws)
    assert not np.array_equal(first._draws, Simulation(candidate, True, "b")._draws)


def test_every_draw_has_the_size_and_the_sign_that_its_seed_says():
    candidate = certified(on_threshold(Identity(7), 1), identity.propose)
    found = Simulation(candidate, True, "a")._draws
    digest = hashlib.sha256(b"a identity").digest()
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))
    size = generator.standard_exponential(found.shape, dtype=np.float32)
    bits = np.unpackbits(np.frombuffer(generator.bytes(size.size // 8 + 1), np.uint8))[: size.size]
    assert np.array_equal(found, np.where(bits.reshape(found.shape) == 1, -size, size))
    assert 0.45 < np.mean(found < 0) < 0.55
