"""Simulated bounds: the same for the same problem, for few and for many answers."""

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, kstest

from blowfishdb.accuracy import simulation
from blowfishdb.accuracy import simulation as large_simulation
from blowfishdb.accuracy.candidates import certified_strategy
from blowfishdb.accuracy.intervals import Assessment
from blowfishdb.accuracy.kernels import GROUPS, LANES, decode_largest, fill_laplace
from blowfishdb.accuracy.quote import accuracy_at, quote
from blowfishdb.accuracy.simulation import (
    FEWEST_SAMPLES,
    LargeSimulation,
    Simulation,
    allowed_failures,
    largest_errors,
    tree_arrays,
)
from blowfishdb.accuracy.tails import Bound, ExactTails
from blowfishdb.mechanisms import identity, optimized, ordered_hierarchy
from blowfishdb.mechanisms.axis import EstimatingStrategy, read_axis
from blowfishdb.mechanisms.optimized import TreeShape
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix
from blowfishdb.noise import distribution
from blowfishdb.plan.plan import Problem
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
    drawn = Simulation(candidate, False, "law")
    errors = np.concatenate(list(drawn._errors(epsilon, drawn._batches())), axis=1).astype(int).ravel()
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
        (ordered_hierarchy.propose_ordered, Identity(40), 1, 30.0),
        (ordered_hierarchy.propose_ordered, AllRanges(30), 2, 8.0),
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
    candidate = certified(problem, ordered_hierarchy.propose_ordered)
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


@pytest.mark.parametrize(
    ("workload", "theta", "alpha"), [(Prefix(200), 199, 60.0), (Prefix(60), 5, 8.0), (AllRanges(30), 29, 300.0)]
)
def test_samples_that_are_left_out_stay_within_alpha(workload, theta, alpha):
    candidate = certified(on_threshold(workload, theta), optimized.propose)
    quick = Assessment(candidate, "simultaneous")._simulation
    quoted, allowed = quick.least_epsilon(alpha, 0.05), quick._allowed(0.05)
    for epsilon in (quoted, quoted * Fraction(3, 4), quoted / 2):
        (every,) = np.concatenate(list(quick._errors(epsilon, quick._batches())), axis=1)
        looked_at = np.concatenate(list(quick._doubtful(epsilon, alpha, allowed)))
        assert np.unique(looked_at).size == looked_at.size
        assert set(np.flatnonzero(every > alpha)) <= set(looked_at.tolist())
        assert quick.passes(epsilon, alpha, 0.05) == (np.sum(every > alpha) <= allowed)
        if isinstance(workload, Prefix) and candidate.is_steady(epsilon):
            assert looked_at.size < every.size or epsilon < quoted
            careless = replace(quick, reach=-quick.reach)
            less = np.concatenate(list(careless._doubtful(epsilon, alpha, allowed)))
            assert not set(np.flatnonzero(every > alpha)) <= set(less.tolist())


def test_samples_do_not_depend_on_the_demand_and_repeat():
    candidate = certified(on_threshold(Prefix(30), 3), ordered_hierarchy.propose_hierarchy)
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


def simulated(candidate, seed: str = "seed") -> LargeSimulation:
    return LargeSimulation(candidate, candidate.strategy.estimator, seed)


def lanes(seed: int, count: int) -> np.ndarray:
    """Draws of so many variables in every lane."""
    found = np.empty((-(-count // GROUPS) * GROUPS, LANES), dtype=np.float32)
    fill_laplace(np.random.default_rng(seed).integers(0, 2**32, (LANES, 3), dtype=np.uint32), found)
    return found[:count]


def draws(seed: int, count: int) -> np.ndarray:
    return lanes(seed, -(-count // LANES)).reshape(-1)[:count]


def blocks(cells: int, starts: list[int], theta: int, presence: str = "public") -> CellGraph:
    ends = np.repeat([*starts[1:], cells], np.diff([*starts, cells]))
    axis = WindowGraph(np.minimum(np.arange(cells) + theta, ends - 1), np.array([], dtype=np.int64))
    return CellGraph((axis,), "record", np.array(False), presence)


def test_draws_follow_the_laplace_law():
    found = draws(5, 1_000_000).astype(float)
    assert kstest(found, "laplace").pvalue > 1e-6
    assert kstest(1.02 * found, "laplace").pvalue < 1e-6
    tail = np.abs(found[np.abs(found) > 7.0]) - 7.0
    assert tail.size > 200 and kstest(tail, "expon").pvalue > 1e-6
    assert np.abs(found).max() < 25.0 and kstest(found[np.abs(found) < 0.01] / 0.01, "uniform", (-1, 2)).pvalue > 1e-6
    for apart in (1, LANES, LANES * GROUPS):
        assert abs(np.corrcoef(found[apart:], found[:-apart])[0, 1]) < 0.005
    assert not np.array_equal(found, draws(6, 1_000_000))


def test_draws_far_out_have_all_their_digits():
    """Words with few digits would put these on a coarse grid."""
    far = np.concatenate([draws(seed, 4_000_000) for seed in range(8)])
    far = np.abs(far[np.abs(far) > 12.5])
    assert far.size > 50 and np.unique(far).size == far.size and kstest(far - 12.5, "expon").pvalue > 1e-6


@pytest.mark.parametrize("workload", [Identity(60), Prefix(60), AllRanges(60)])
@pytest.mark.parametrize(
    "graph",
    [
        blocks(60, [0], 59),
        blocks(60, [0], 7),
        blocks(60, [0, 1, 20, 21], 4),
        blocks(60, [0, 30], 3, "secret"),
        blocks(60, [0], 1),
    ],
)
@pytest.mark.parametrize("shape", [TreeShape((3, 12)), TreeShape((2,), "steps"), TreeShape((), "cells")])
def test_the_kernel_finds_the_largest_error_of_the_decoded_noise(workload, graph, shape):
    axis = read_axis("test", Problem(graph, workload))
    tree = shape.build(axis, np.full(len(shape.sizes) + 2, 0.2))
    weights = np.concatenate([part.weights for part in tree.parts]).astype(float)
    scales = (1.0 + np.arange(weights.size) % 5) * 10.0
    variances = 2.0 * scales**2
    arrays = tree_arrays(tree, workload, scales, variances)
    draw = lanes(3, weights.size)
    exact = np.zeros((0 if tree.exact is None else tree.exact.shape[0], LANES))
    errors = workload.dot(tree.estimate(draw * scales[:, None], exact, variances))
    nodes = int(arrays[2][-1])
    work = tuple(np.empty((nodes, LANES)) for _ in range(3))
    found = decode_largest(draw, *arrays, work)
    np.testing.assert_allclose(found, np.abs(errors).max(axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("propose", "workload", "theta", "alpha"),
    [
        (ordered_hierarchy.propose_hierarchy, Prefix(200), 199, 3000.0),
        (ordered_hierarchy.propose_hierarchy, Prefix(200), 199, 130.0),
        (ordered_hierarchy.propose_ordered_hierarchical, AllRanges(100), 5, 500.0),
        (ordered_hierarchy.propose_ordered_hierarchical, Identity(100), 5, 60.0),
    ],
)
def test_promises_hold_for_whole_number_noise_and_less_does_not(propose, workload, theta, alpha):
    """Among others with scales hardly above the least that the proof serves."""
    problem = on_threshold(workload, theta)
    candidate = certified(problem, propose)
    simulation = simulated(candidate, problem.digest())
    epsilon = simulation.least_epsilon(alpha, 0.1)
    assert simulation.alpha(epsilon, 0.1) <= alpha * (1 + 1e-9)

    def failures(at: Fraction) -> int:
        plan, _ = candidate.at(at)
        return int(np.sum(np.abs(fresh_errors(problem, candidate.strategy, plan, 4000, seed=11)).max(axis=0) > alpha))

    assert not significantly_above(failures(epsilon), 4000, 0.1)
    assert significantly_above(failures(epsilon * Fraction(4, 5)), 4000, 0.1)


def test_too_little_noise_is_not_served():
    simulation = simulated(certified(on_threshold(Prefix(50), 49), ordered_hierarchy.propose_hierarchy))
    assert simulation.least_epsilon(1.0, 0.1) is None
    assert simulation.alpha(Fraction(1000), 0.1) is None


def test_a_short_simulation_goes_on_where_noise_is_too_small(monkeypatch):
    monkeypatch.setattr(large_simulation, "FEWEST_VARIABLES", 50)
    candidate = certified(on_threshold(Prefix(200), 199), ordered_hierarchy.propose_hierarchy)
    highest = simulated(candidate).highest
    found = [Assessment(candidate, "simultaneous").least_epsilon(alpha, 0.1, simulate=True) for alpha in (60.0, 5.0)]
    assert [method for _, method in found] == ["simulated", "simulated"]
    assert found[0][0] < highest <= found[1][0]
    assert found[1][0] < Bound(candidate, True).least_epsilon(5.0, 0.1)
    tight, _ = Assessment(candidate, "simultaneous").alpha(found[1][0], 0.1, simulate=True)
    assert tight <= 5.0


def test_the_stated_confidence_holds_for_many_answers(monkeypatch):
    """Against the quantile of very many samples a simulation promises too much as rarely as it says, not never."""
    monkeypatch.setattr(large_simulation, "CONFIDENCE", 0.9)
    monkeypatch.setattr(large_simulation, "EFFORT", 0)
    monkeypatch.setattr(large_simulation, "FEWEST_SAMPLES", 136)
    monkeypatch.setattr(large_simulation, "ROUNDING", 1.0)
    candidate = certified(on_threshold(Prefix(30), 29), ordered_hierarchy.propose_hierarchy)
    many = simulated(candidate, "truth")
    seeds = np.random.default_rng(1).integers(0, 2**32, (200_000, 3), dtype=np.uint32)
    scales = candidate.scales(Fraction(1))
    arrays = tree_arrays(many.tree, candidate.problem.workload, scales, candidate.coarse_variances)
    truth = float(np.quantile(largest_errors(seeds, scales.size, arrays), 0.9))
    wrong = sum(simulated(candidate, str(seed))._quantile(0.1) < truth for seed in range(1000))
    assert not significantly_above(wrong, 1000, 0.1)
    assert wrong > 20
    monkeypatch.setattr(large_simulation, "allowed_failures", lambda samples, beta, confidence: int(samples * beta))
    careless = sum(simulated(candidate, str(seed))._quantile(0.1) < truth for seed in range(300))
    assert significantly_above(careless, 300, 0.1)


def test_the_least_number_of_samples_serves_the_usual_beta(monkeypatch):
    monkeypatch.setattr(large_simulation, "EFFORT", 0)
    simulation = simulated(certified(on_threshold(Prefix(30), 29), ordered_hierarchy.propose_hierarchy))
    assert simulation.samples == FEWEST_SAMPLES and simulation.can_show(0.05) and not simulation.can_show(0.017)


@pytest.mark.parametrize("theta", [50, 19_999])
@pytest.mark.sampled(2)
def test_long_axes_cost_little_more_than_a_larger_simulation_finds(theta, monkeypatch):
    problem = on_threshold(Prefix(20_000), theta)
    best = quote(problem, 2000.0, 0.05).best
    assert best.method == "simulated" and best.epsilon == quote(problem, 2000.0, 0.05).best.epsilon
    monkeypatch.setattr(large_simulation, "EFFORT", 9_000_000)
    candidate = certified_strategy(problem, best.strategy)
    larger = simulated(candidate, "another").least_epsilon(2000.0, 0.05)
    assert 0.98 <= best.epsilon / larger <= 1.05


def test_small_betas_get_a_proven_bound_on_long_axes():
    problem = on_threshold(Prefix(20_000), 19_999)
    found = accuracy_at(problem, Fraction(1, 2), 1e-5, {"hierarchy": ordered_hierarchy.propose_hierarchy}).best
    assert found.method == "bound"
    usual = accuracy_at(problem, Fraction(1, 2), 0.05, {"hierarchy": ordered_hierarchy.propose_hierarchy}).best
    assert usual.method == "simulated" and usual.alpha < found.alpha


def test_least_squares_keeps_its_weights_where_rounding_hardly_matters():
    candidate = certified(on_threshold(Prefix(300), 299), ordered_hierarchy.propose_hierarchy)
    axis = read_axis("test", candidate.problem)
    strategy = EstimatingStrategy(
        "test", candidate.problem, TreeShape((5, 25)).build(axis, np.array([0.1, 0.3, 0.6, 0]))
    )
    weights = strategy.plan(Fraction(1)).weights
    noise = draws(4, weights.size).astype(float)
    continuous = strategy.decode(noise, np.zeros(1), 1.0 / weights.astype(float) ** 2 * 1e18)
    for least, same in ((3.0, True), (30.0, True), (0.5, False)):
        scales = least * weights.max() / weights
        found = strategy.decode(noise, np.zeros(1), distribution.variance(scales))
        assert np.allclose(found, continuous, rtol=1e-9, atol=1e-12) == same
